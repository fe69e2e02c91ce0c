"""Conjugate gradients against SciPy's, and what a step promises."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg

import dsolver
from dsolver import kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.base import Engine
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.preconditioners import Identity
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.programs import advance, blocks_of, norms, start, true_residual

F64 = npt.NDArray[np.float64]
BACKENDS = ("numpy", "cpu")
GRID = (16, 8, 24)


class System:
    """A right-hand side and a solve of it on some partition."""

    def __init__(
        self,
        chunks: Triple = (1, 1, 1),
        *,
        problem: problems.Problem | None = None,
        backend: str = "cpu",
        order: str = "color8",
        preconditioned: bool = True,
        engine: Callable[[Partition], Engine] | None = None,
    ) -> None:
        self.problem = problem or problems.hpcg(GRID)
        spec = SolveSpec.plan(self.problem, chunks, order, Hpcg() if preconditioned else Identity())
        self.partition = spec.partition
        made = engine(self.partition) if engine else EagerEngine(self.partition, kernels.load(backend))
        self.solve = Solve(made, spec)
        self.b = np.random.default_rng(11).standard_normal(self.problem.grid)
        self.put("b", self.b)

    def put(self, name: str, values: F64) -> None:
        put = self.solve.set_b if name == "b" else self.solve.set_x
        put({chunk.number: values[chunk.box.slices] for chunk in self.partition})

    def get(self, name: str = "x") -> F64:
        out = np.full(self.problem.grid, np.nan)
        for number, block in blocks_of(self.solve, name).items():
            out[self.partition[number].box.slices] = block
        return out

    def apply(self, r: F64) -> F64:
        """M r, with vectors of its own."""
        other = System(self.partition.counts, problem=self.problem)
        other.put("b", r)
        assert other.solve.preconditioner is not None
        other.solve.preconditioner.apply(other.solve.method.b, other.solve.method.x)
        return other.get()

    def history(self, steps: int, limit: float = 0.0) -> list[float]:
        first = start(self.solve, limit)
        return [first, *(norm for norm, _ in advance(self.solve, steps))]


def hpcg_matrix(grid: Triple) -> Any:
    """27 I - T x T x T with T tridiagonal of ones; rows are numbered x fastest."""
    x, y, z = (scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) for n in grid)
    return scipy.sparse.csr_array(
        27.0 * scipy.sparse.eye_array(int(np.prod(grid))) - scipy.sparse.kron(z, scipy.sparse.kron(y, x))
    )


def close(found: F64, expected: F64, tolerance: float) -> bool:
    return bool(np.abs(found - expected).max() <= tolerance * np.abs(expected).max())


# -- against SciPy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 3, 5)])
@pytest.mark.parametrize("steps", [1, 2, 15])
def test_iterates_are_those_of_scipys_cg(backend: str, chunks: Triple, steps: int) -> None:
    system = System(chunks, backend=backend, preconditioned=False)
    system.history(steps)
    a, b = hpcg_matrix(GRID), system.b.ravel(order="F")
    expected, _ = scipy.sparse.linalg.cg(a, b, rtol=0.0, maxiter=steps)
    assert close(system.get().ravel(order="F"), expected, 1e-12)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 3)])
@pytest.mark.parametrize("steps", [1, 2, 8])
def test_iterates_are_those_of_scipys_cg_with_the_v_cycle(chunks: Triple, steps: int) -> None:
    system = System(chunks)
    system.history(steps)
    a, b = hpcg_matrix(GRID), system.b.ravel(order="F")
    m = scipy.sparse.linalg.LinearOperator(
        a.shape,
        matvec=lambda r: system.apply(r.reshape(GRID, order="F")).ravel(order="F"),
        dtype=np.float64,
    )
    expected, _ = scipy.sparse.linalg.cg(a, b, rtol=0.0, maxiter=steps, M=m)
    assert close(system.get().ravel(order="F"), expected, 1e-12)


@pytest.mark.parametrize("preconditioned", [True, False])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 3)])
def test_the_solution_is_that_of_a_direct_solver(chunks: Triple, preconditioned: bool) -> None:
    system = System(chunks, preconditioned=preconditioned)
    system.history(60)
    a = hpcg_matrix(GRID)
    expected = scipy.sparse.linalg.spsolve(a.tocsc(), system.b.ravel(order="F"))
    assert close(system.get().ravel(order="F"), expected, 1e-12)


# -- residuals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_residual_of_a_guess_is_the_true_one(backend: str) -> None:
    system = System((2, 1, 3), backend=backend)
    guess = np.random.default_rng(5).standard_normal(GRID)
    system.put("x", guess)
    r = system.b.ravel(order="F") - hpcg_matrix(GRID) @ guess.ravel(order="F")
    assert start(system.solve) == pytest.approx(np.linalg.norm(r), rel=1e-14)
    assert true_residual(system.solve) == pytest.approx(np.linalg.norm(r), rel=1e-14)
    assert norms(system.solve) == pytest.approx((np.linalg.norm(system.b), np.linalg.norm(guess)), rel=1e-14)


def test_the_recursion_tells_the_true_residual_until_rounding_parts_them() -> None:
    system = System((2, 1, 3))
    history = system.history(6)
    assert true_residual(system.solve) == pytest.approx(history[-1], rel=1e-10)


@pytest.mark.parametrize("order", ["natural", "color8"])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 3)])
def test_histories_of_numpy_and_cpu_agree(chunks: Triple, order: str) -> None:
    numpy, cpu = (System(chunks, backend=backend, order=order).history(10) for backend in BACKENDS)
    assert cpu == pytest.approx(numpy, rel=1e-10)


def test_without_a_preconditioner_the_cut_changes_nothing_but_rounding() -> None:
    """The V-cycle couples chunks as block Jacobi does, so with it the history belongs to a partition."""
    whole = System(preconditioned=False).history(10)
    for chunks in ((2, 1, 1), (3, 2, 5), (16, 1, 1), (1, 8, 2)):
        assert System(chunks, preconditioned=False).history(10) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 3)])
def test_one_process_gives_the_same_bits_from_every_engine(chunks: Triple) -> None:
    engines: list[Callable[[Partition], Engine]] = [
        lambda partition: EagerEngine(partition, load("cpu")),
        lambda partition: ResidentEngine(partition, "cpu", threads=1),
        lambda partition: ResidentEngine(partition, "cpu", threads=3),
    ]
    systems = [System(chunks, engine=engine) for engine in engines]
    histories = [system.history(12) for system in systems]
    assert histories[1] == histories[0]
    assert histories[2] == histories[0]
    solutions = [system.get().tobytes() for system in systems]
    assert solutions[1] == solutions[0]
    assert solutions[2] == solutions[0]


def test_each_preconditioner_spares_iterations() -> None:
    def iterations(levels: int, order: str = "color8", *, preconditioned: bool = True) -> int:
        m = Hpcg(levels=levels) if preconditioned else Identity()
        spec = SolveSpec.plan(problems.hpcg((32, 32, 32)), (1, 1, 1), order, m)
        solve = Solve(EagerEngine(spec.partition, kernels.load("cpu")), spec)
        solve.fill("b", 1.0)
        limit = 1e-8 * start(solve)
        return sum(norm > limit for norm, _ in advance(solve, 60)) + 1

    plain, symgs, multigrid = iterations(1, preconditioned=False), iterations(1), iterations(4)
    assert plain > 1.3 * symgs > 1.3 * 1.3 * multigrid
    assert multigrid < iterations(4, "0 1 2 3 4 5 6 7"), "coarse points swept first correct less"


# -- freezing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 3)])
def test_steps_past_the_limit_change_no_bit(backend: str, chunks: Triple) -> None:
    system = System(chunks, backend=backend)
    limit = 1e-6 * float(np.linalg.norm(system.b))
    history = system.history(20, limit)
    reached = next(k for k, norm in enumerate(history) if norm <= limit)
    assert 2 < reached < 15
    x = system.get().tobytes()
    later = [norm for norm, _ in advance(system.solve, 7)]
    assert set(later) == set(history[reached:]) == {history[reached]}
    assert system.get().tobytes() == x

    exact = System(chunks, backend=backend)
    assert exact.history(reached, limit) == history[: reached + 1]
    assert exact.get().tobytes() == x


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_past_a_residual_of_exactly_zero_change_no_bit(backend: str) -> None:
    """Steps in which rz / rz_old is 0 / 0."""
    weights = np.zeros((3, 3, 3))
    weights[1, 1, 1] = 4.0
    system = System(problem=problems.stencil((8, 8, 8), weights), backend=backend)
    assert system.history(1)[-1] == 0.0
    x = system.get()
    assert (x == system.b / 4.0).all()
    assert [norm for norm, _ in advance(system.solve, 5)] == [0.0] * 5
    assert (system.get() == x).all()


def test_a_solve_may_start_again() -> None:
    system = System((2, 1, 3))
    first = system.history(8)
    system.solve.fill("x", 0.0)
    assert system.history(8) == first
    assert (system.get("b") == system.b).all()


def test_no_superstep_compares_its_preconditioner_with_protocols() -> None:
    """A comparison takes Python 40 us, more than a launch."""
    problem, b = problems.poisson7((16, 16, 16)), np.random.default_rng(0).standard_normal((16, 16, 16))
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_globals.get("__name__") == "typing":
            found.append(frame.f_code.co_qualname)

    with dsolver.Solver(problem, M="mg", device="cpu") as solver:
        solver.solve(b)
        sys.setprofile(note)
        try:
            solver.solve(b)
        finally:
            sys.setprofile(None)
    assert not found
