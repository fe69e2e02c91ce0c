"""A V-cycle in float32 under conjugate gradients in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import Solver, kernels, problems, solve
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.cluster.runtime import EngineName
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.engines.transport.base import PackedChannel
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.grid.box import Triple
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.krylov.mixed_precision import Lowered
from dsolver.preconditioners import IC0, Algebraic, Auto, Jacobi, Multigrid, Preconditioner
from dsolver.preconditioners.builder import MakeStored
from dsolver.preconditioners.registry import value_type
from dsolver.program import plan
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.session.follower import ATTAINED
from dsolver.session.solving import last_attempts
from dsolver.status import Status
from tests.support.programs import advance, blocks_of, start, true_residual

F64 = npt.NDArray[np.float64]
GRID = (32, 16, 16)
BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


class System:
    """A problem with a right-hand side, and a solve of it with M in some value type."""

    def __init__(
        self, dtype: str, backend: str = "cpu", chunks: Triple = (1, 1, 1), problem: problems.Problem | None = None
    ) -> None:
        self.problem = problem or problems.hpcg(GRID)
        spec = SolveSpec.plan(self.problem, chunks, m=Hpcg(), precond_dtype=dtype)
        self.partition = spec.partition
        self.engine = EagerEngine(self.partition, load(backend))
        self.solve = Solve(self.engine, spec)

    def put(self, name: str, values: F64) -> None:
        put = self.solve.set_b if name == "b" else self.solve.set_x
        put({chunk.number: values[chunk.box.slices] for chunk in self.partition})

    def get(self, name: str) -> F64:
        out = np.full(self.problem.grid, np.nan)
        for number, block in blocks_of(self.solve, name).items():
            out[self.partition[number].box.slices] = self.engine.backend.to_host(block)
        return out

    def apply(self, r: F64) -> F64:
        """M r."""
        self.put("b", r)
        assert self.solve.preconditioner is not None
        self.solve.preconditioner.apply(self.solve.method.b, self.solve.method.x)
        return self.get("x")

    def iterations(self, b: F64, rtol: float) -> int:
        """Down to the tolerance, which the true residual must have reached."""
        self.put("b", b)
        self.put("x", np.zeros(self.problem.grid))
        limit = rtol * float(np.linalg.norm(b.ravel()))
        start(self.solve, limit)
        for count in range(1, 200):
            if advance(self.solve, 1)[0][0] <= limit:
                assert true_residual(self.solve) <= 1.01 * limit
                return count
        raise AssertionError("200 iterations were not enough")


def rough(seed: int = 3, grid: Triple = GRID) -> F64:
    return np.random.default_rng(seed).standard_normal(grid)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("smooth", [False, True])
def test_at_most_one_more_iteration_in_ten(backend: str, chunks: Triple, *, smooth: bool) -> None:
    for problem in (problems.hpcg(GRID), problems.poisson7(GRID)):
        b = np.ones(GRID) if smooth else rough()
        wide, narrow = (
            System(dtype, backend, chunks, problem).iterations(b, 1e-10) for dtype in ("float64", "float32")
        )
        assert narrow <= wide + wide // 10


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 1)])
def test_m_is_that_of_float64_up_to_rounding_and_symmetric(backend: str, chunks: Triple) -> None:
    wide, narrow = System("float64", backend, chunks), System("float32", backend, chunks)
    x, y = rough(1), rough(2)
    mx, my = narrow.apply(x), narrow.apply(y)
    error = np.linalg.norm((mx - wide.apply(x)).ravel()) / np.linalg.norm(mx.ravel())
    assert 0.0 < error < 1e-6, "rounding of float32, and not none"
    assert abs(np.vdot(y, mx) - np.vdot(x, my)) < 1e-6 * abs(np.vdot(x, mx))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("power", [-480, -60, 60, 480])
def test_right_hand_sides_of_any_size_give_the_same_bits(backend: str, power: int) -> None:
    """Without its scale, a residual of 2^-480 would be zero in float32."""
    histories, solutions = [], []
    for scale in (1.0, 2.0**power):
        system = System("float32", backend, (2, 1, 1))
        system.put("b", scale * rough())
        first = start(system.solve, 0.0)
        steps = [norm / scale for norm, _ in advance(system.solve, 8)]
        histories.append([first / scale, *steps])
        solutions.append(system.get("x") / scale)
    assert histories[0] == histories[1]
    assert (solutions[0] == solutions[1]).all()
    assert histories[0][-1] < 1e-2 * histories[0][0]


def test_the_matrix_may_be_of_any_size_that_float32_holds() -> None:
    weights = -np.ones((3, 3, 3))
    weights[1, 1, 1] = 26.0
    systems = (System("float32", problem=problems.stencil(GRID, size * weights)) for size in (1.0, 1e-25, 1e25))
    counts = [system.iterations(rough(), 1e-9) for system in systems]
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
def test_what_is_left_scaled_for_conjugate_gradients_is_what_is_widened(chunks: Triple) -> None:
    """`turn`, which widens nothing, and `apply` make the same iterates to rounding."""
    solutions = []
    for hidden in (False, True):
        system = System("float32", chunks=chunks)
        lowered = system.solve.preconditioner
        assert isinstance(lowered, Lowered)
        if hidden:
            system.solve.method.preconditioner = _Opaque(lowered)
        system.put("b", rough())
        start(system.solve, 0.0)
        advance(system.solve, 5)
        solutions.append(system.get("x"))
    np.testing.assert_allclose(solutions[0], solutions[1], rtol=1e-9, atol=1e-12)


class _Opaque:
    """A preconditioner of which conjugate gradients know nothing but `apply`."""

    def __init__(self, inner: Lowered) -> None:
        self.apply = inner.apply


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_shares_all_but_the_value_type(backend: str) -> None:
    problem, partition = problems.hpcg(GRID), Partition(GRID, (2, 1, 1))
    engine = EagerEngine(partition, kernels.load(backend))
    view = engine.lowered("float32")
    assert (view.partition, view.owned, view.transport) == (engine.partition, engine.owned, engine.transport)
    assert view.backend.dtype == np.float32
    assert engine.backend.dtype == np.float64
    levels = view.per_chunk(MakeStored(problem=problem, partition=partition, order=Order.parse("color8")))
    assert levels.items[0][0].local.diagonal.dtype == np.float32
    halo, field = view.halo(levels.at(0, "halo")), view.field(levels.at(0, "layout"))
    assert isinstance(halo.channel, PackedChannel)
    travels = [*halo.items.values(), *halo.channel.buffers.values(), *field.items.values()]
    assert {values.dtype.name for values in travels} == {"float32"}
    assert view.scalar(1.0).value.dtype == view.partial_sums().own.dtype == np.float64
    assert view.lowered("float64").backend.dtype == np.float64


# -- falling back ------------------------------------------------------------------------------------------------------


def scaled(size: float) -> problems.Problem:
    weights = -np.ones((3, 3, 3))
    weights[1, 1, 1] = 26.0
    return problems.stencil(GRID, size * weights)


@pytest.mark.parametrize("engine", ["reference", "resident"])
@pytest.mark.parametrize("size", [1e-60, 1e60])
@pytest.mark.parametrize("guessed", [False, True])
def test_a_matrix_out_of_range_is_solved_in_float64_after_a_warning(
    engine: EngineName, size: float, *, guessed: bool
) -> None:
    exact = rough()
    b = size * hpcg_product(exact)
    with pytest.warns(RuntimeWarning, match="goes on with 'float64'"):
        found = solve(
            scaled(size),
            b,
            x0=0.5 * exact if guessed else None,
            rtol=1e-10,
            engine=engine,
            device="cpu",
            precond_dtype="float32",
        )
    assert found.converged
    assert len(found.notes) == 1
    assert found.iterations == len(found.residuals) - 1
    np.testing.assert_allclose(found.x, exact, atol=1e-7)


def test_blocks_that_float32_makes_zero_are_made_again_in_float64() -> None:
    """GMRES breaks down where M r = 0: inverses of 1e90 have no value in float32."""
    matrix = sp.diags_array([np.full(9, 1.0 + 1.0j), np.full(8, 0.5)], offsets=[0, 1]) * 1e90
    with pytest.warns(RuntimeWarning, match="goes on with 'float64'"):
        found = solve(matrix, np.ones(9), M="block-jacobi", precond_dtype="float32", device="cpu")
    assert found.converged


def test_without_room_for_float64_the_solve_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(spec: SolveSpec, _: Any, old: SolveSpec | None = None) -> None:
        if old is not None and not spec.lowered:
            raise DeviceMemoryError("9 GiB are needed, 8 are there")

    monkeypatch.setattr(last_attempts, "check_memory", checked)
    with pytest.warns(RuntimeWarning, match="cannot go on with 'float64': 9 GiB are needed"):
        found = solve(scaled(1e60), hpcg_product(rough()), device="cpu", precond_dtype="float32")
    assert not found.converged
    assert len(found.notes) == 1


def test_a_solver_that_fell_back_stays_with_float64() -> None:
    b = 1e60 * hpcg_product(rough())
    with Solver(scaled(1e60), device="cpu", precond_dtype="float32") as solver:
        with pytest.warns(RuntimeWarning, match="float32"):
            first = solver.solve(b)
        second = solver.solve(b)
    assert first.converged
    assert second.converged
    assert not second.notes
    assert second.iterations < first.iterations


@pytest.mark.filterwarnings("error")
def test_what_rounding_of_a_product_keeps_from_a_tolerance_is_no_reason_for_float64() -> None:
    found = solve(problems.hpcg(GRID), rough(), rtol=1e-18, device="cpu", precond_dtype="float32")
    assert found.status is Status.STAGNATED
    assert found.notes == (ATTAINED,)
    assert found.relative_residual < 1e-14


@pytest.mark.parametrize("m", ["mg", "amg"])
def test_a_constant_that_float32_cannot_fix_shows_in_the_first_iteration(m: str) -> None:
    problem = problems.diffusion((16, 15, 14), 1.0, 1e-12, bc="neumann")
    b = np.random.default_rng(0).standard_normal(problem.grid) + 1.0
    with pytest.warns(RuntimeWarning, match="ended as diverged after 1 iteration"):
        found = solve(problem, b, M=m, rtol=1e-3, device="cpu", precond_dtype="float32")
    expected = solve(problem, b, M=m, rtol=1e-3, device="cpu", precond_dtype="float64")
    assert expected.converged
    assert found.iterations == expected.iterations + 1
    np.testing.assert_array_equal(found.x, expected.x)


@pytest.mark.parametrize(
    ("m", "method", "cuda", "taken"),
    [
        (Multigrid(), "cg", True, "float32"),
        (Algebraic(), "fgmres", True, "float32"),
        (Auto(), "minres", True, "float32"),
        (Algebraic(), "bicgstab", True, "float32"),
        (Algebraic(), "gmres", True, "float64"),
        (Multigrid(), "cg", False, "float64"),
        (Hpcg(), "cg", True, "float64"),
        (IC0(), "cg", True, "float64"),
        (Jacobi(), "cg", True, "float64"),
    ],
)
def test_the_usual_value_type_follows_from_the_preconditioner_the_method_and_the_device(
    m: Preconditioner, method: Any, taken: str, *, cuda: bool
) -> None:
    assert value_type("auto", m, method, cuda=cuda) == taken
    assert value_type("float32", m, method, cuda=cuda) == "float32"


@pytest.fixture
def usual_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual value type of GPUs, on CPUs."""
    monkeypatch.setattr(plan, "value_type", lambda *asked, **_: value_type(*asked, cuda=True))


@pytest.mark.usefixtures("usual_float32")
@pytest.mark.filterwarnings("error")
def test_nobody_is_warned_of_a_value_type_that_nobody_has_asked_for() -> None:
    b = 1e60 * hpcg_product(rough())
    with Solver(scaled(1e60), device="cpu", M="mg") as solver:
        first, second = solver.solve(b), solver.solve(b)
    assert first.converged
    assert "as is usual here" in first.notes[0]
    assert second.converged
    assert not second.notes


@pytest.mark.usefixtures("usual_float32")
def test_the_usual_value_type_is_that_of_the_estimate_and_of_what_is_asked_for() -> None:
    problem, b = problems.poisson7(GRID), rough()
    asked: list[Any] = [{}, {"precond_dtype": "float32"}, {"precond_dtype": "float64"}]
    residuals = [solve(problem, b, M="mg", device="cpu", **more).residuals for more in asked]
    assert residuals[0] == residuals[1] != residuals[2]
    needed = [dsolver.estimate(problem, M="mg", device="cpu", bandwidth=1e10, **more).bytes for more in asked]
    assert needed[0] == needed[1] != needed[2]


@pytest.mark.filterwarnings("error")
def test_nothing_is_warned_of_where_nothing_is_wrong() -> None:
    found = solve(problems.hpcg(GRID), rough(), rtol=1e-12, device="cpu", precond_dtype="float32")
    assert found.converged
    assert not found.notes
    plain = solve(problems.hpcg(GRID), rough(), rtol=1e-8, M=None, device="cpu", precond_dtype="float32")
    assert plain.converged


@pytest.mark.parametrize(("m", "dtype"), [("mg", "float16"), ("mg", np.int32), ("jacobi", "float32")])
def test_value_types_that_cannot_be_are_refused_at_once(m: str, dtype: Any) -> None:
    with pytest.raises(InputError, match="precond_dtype"):
        solve(problems.hpcg(GRID), rough(), M=m, precond_dtype=dtype)


def hpcg_product(x: F64) -> F64:
    """A x for the weights 26 and -1."""
    padded = np.pad(x, 1)
    views = sum(
        padded[i : i + x.shape[0], j : j + x.shape[1], k : k + x.shape[2]]
        for i in range(3)
        for j in range(3)
        for k in range(3)
    )
    out: F64 = 27.0 * x - views
    return out


@pytest.mark.parametrize("engine", ["reference", "resident"])
@pytest.mark.parametrize("size", [1.0, 1e60])
def test_coefficients_make_the_levels_of_either_type(engine: EngineName, size: float) -> None:
    kappa = size * np.exp(rough(5))
    problem = problems.diffusion(GRID, kappa)
    expected = solve(problem, rough(), rtol=1e-10, device="cpu", engine=engine)
    if size == 1.0:
        found = solve(problem, rough(), rtol=1e-10, device="cpu", engine=engine, precond_dtype="float32")
        assert found.iterations <= expected.iterations * 1.1
    else:
        with pytest.warns(RuntimeWarning, match="goes on with 'float64'"):
            found = solve(problem, rough(), rtol=1e-10, device="cpu", engine=engine, precond_dtype="float32")
    assert found.converged
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-5, atol=1e-7 * float(np.abs(expected.x).max()))


def rough_kappa(x: F64, y: F64, z: F64) -> F64:
    """From 1 on."""
    return 1.0 + x + 0.0 * y * z


@pytest.mark.parametrize("method", ["update", "precondition"])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1)])
def test_what_is_built_anew_is_given_back_first(
    method: Any, chunks: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU may not hold two of a system's matrices."""
    spec = SolveSpec.plan(problems.diffusion((16, 16, 16), rough_kappa), chunks, precond_dtype="float32")
    program = Solve(ResidentEngine(spec.partition, "cpu"), spec)
    program.fill("b", 1.0)
    start(program)
    advance(program, 2)
    a: Any = program.operator
    m: Any = program.preconditioner
    watched = [ref(item.diagonal) for item in a.local.items.values()]
    watched += [ref(item.local.values) for item in m.inner._levels[0].matrix.local.items.values()]
    if len(spec.partition) > 1:
        watched += [ref(vector) for vector in a.ghost.halo.channel.vectors.values()]
    del a, m
    begin = Solve._begin

    def checked(self: Solve, spec: SolveSpec) -> None:
        assert [found() is None for found in watched] == [True] * (2 if len(spec.partition) == 1 else 6)
        begin(self, spec)

    monkeypatch.setattr(Solve, "_begin", checked)
    getattr(program, method)(replace(spec, precond_dtype="float64"))
    assert len(advance(program, 1)) == 1
