"""Leftovers of a Solver, closed or dropped: no array waits for the collector, which sees no memory of a GPU."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.engines.eager import resident
from dsolver.engines.spmd.rank import Rank
from dsolver.engines.spmd.rank_spec import Failure, RankSpec
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.kernels import Backend
from dsolver.kernels.cpu.backend import CpuBackend
from dsolver.kernels.cpu.layout_setup import CpuLayoutSetup
from dsolver.kernels.cpu.sell.setup import CpuSell
from tests.support.clusters import cluster
from tests.support.waiting import gone


def systems(n: int) -> dict[str, tuple[problems.Problem, dict[str, Any]]]:
    """Problems of about n³ points, n a multiple of 16, and how they are solved."""
    cube, grid = (n, n, n), (n, n - 4, n)
    rough = np.exp(np.random.default_rng(1).standard_normal(grid))
    return {
        "mg": (problems.hpcg(grid), {"M": "mg"}),
        "hpcg": (problems.hpcg(cube), {"M": "hpcg"}),
        "hpcg in float32": (problems.hpcg(cube), {"M": "hpcg", "precond_dtype": "float32"}),
        "jacobi": (problems.poisson7(grid), {"M": "jacobi"}),
        "gmres": (problems.poisson7(grid), {"M": "jacobi", "method": "gmres", "restart": 4}),
        "chebyshev": (problems.poisson7(grid), {"M": "chebyshev"}),
        "star": (problems.poisson7(grid), {"M": "mg"}),
        "star in float32": (problems.poisson7(grid), {"M": "mg", "precond_dtype": "float32"}),
        "diffusion": (problems.diffusion(grid, rough), {"M": "mg"}),
        "diffusion in float32": (problems.diffusion(grid, rough), {"M": "mg", "precond_dtype": "float32"}),
    }


SYSTEMS = systems(16)


class Recording:
    """As a GPU's recorder keeps its steps; they run as they are."""

    def __init__(self, _: Any) -> None:
        self.graphs: dict[Callable[[], None], object] = {}

    def turn(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def repeat(
        self, step: Callable[[], None], times: int, watch: Sequence[Any], _: object = None
    ) -> list[tuple[float, ...]]:
        samples = []
        for _ in range(times):
            step()
            self.graphs[step] = object()
            samples.append(self.read(watch))
        return samples

    def read(self, scalars: Sequence[Any]) -> tuple[float, ...]:
        return tuple(float(scalar[0]) for scalar in scalars)

    def forget(self) -> None:
        self.graphs.clear()

    close = forget

    def instrument(self, *_: Any) -> None:
        """Nothing is measured."""

    def spans(self, _: Any) -> list[Any]:
        return []

    def wait(self) -> None:
        """All is done."""

    synchronize = wait


@pytest.fixture(params=["as on a CPU", "recorded as on a GPU"])
def recorded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resident engine with and without a recorder."""
    if request.param != "recorded as on a GPU":
        return
    make = resident.ResidentEngine.__init__

    def with_recorder(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._recorder = Recording(self.transport)

    monkeypatch.setattr(resident.ResidentEngine, "__init__", with_recorder)


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Python's collector does not come."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def arrays_of(solver: dsolver.Solver) -> list[weakref.ref[Any]]:
    """The arrays that its program leads to, but those of the user's problem and of kernels that are kept."""
    running: Any = solver._session.program
    known, found, look = set[int](), [], [running._program]
    while look:
        thing = look.pop()
        if id(thing) in known or isinstance(thing, type | ModuleType | Backend | problems.Problem):
            continue
        known.add(id(thing))
        if isinstance(thing, np.ndarray):
            found.append(weakref.ref(thing))
        look += thing.__closure__ or () if isinstance(thing, FunctionType) else gc.get_referents(thing)
    return found


def alive(arrays: list[weakref.ref[Any]]) -> int:
    return sum(array() is not None for array in arrays)


def assert_nothing_left(use: Callable[[str, Any], list[weakref.ref[Any]]], name: str, cut: Any = (1, 1, 1)) -> None:
    """None of the arrays that a use of a system has seen is alive after it.

    Where it compiles loops for the first time, numba's own errors keep the frames of those who called, until they are
    collected. So it may do better once more.
    """
    if alive(use(name, cut)):
        gc.collect()
        assert alive(use(name, cut)) == 0


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("cut", [(1, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_closed_solver_leaves_no_array(name: str, cut: Any) -> None:
    assert_nothing_left(closed, name, cut)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_solver_that_is_dropped_leaves_no_array(name: str) -> None:
    """Without `close`, as notebooks and functions leave theirs."""
    assert_nothing_left(dropped, name)


def closed(name: str, cut: Any) -> list[weakref.ref[Any]]:
    """The arrays of a solver, before and after an update."""
    problem, options = SYSTEMS[name]
    with dsolver.Solver(replace(problem, chunks=cut), device="cpu", **options) as solver:
        b = np.ones(problem.grid)
        solver.solve(b, maxiter=3, spans=lambda _: None)
        first = arrays_of(solver)
        assert alive(first) > 10
        solver.update(solver.problem if not problem.coefficients else None)
        solver.solve(b, maxiter=3)
        with pytest.raises(InputError, match="NaN or infinit"):
            solver.solve(np.full(problem.grid, np.nan))
        second = arrays_of(solver)
        assert alive(second) > 10
    return first + second


def dropped(name: str, cut: Any) -> list[weakref.ref[Any]]:
    """The arrays of a solver that has solved for one and for several right-hand sides, and is not closed."""
    problem, options = SYSTEMS[name]
    solver = dsolver.Solver(replace(problem, chunks=cut), device="cpu", **options)
    solver.solve(np.ones(problem.grid), maxiter=3, spans=lambda _: None)
    with pytest.raises(InputError, match="NaN or infinit"):
        solver.solve(np.full(problem.grid, np.nan))
    solver.solve([np.ones(problem.grid)] * 2, maxiter=3)
    arrays = arrays_of(solver)
    assert alive(arrays) > 10
    return arrays


class Bad:
    """A program that refuses what it is given."""

    def __init__(self) -> None:
        self.vector = np.zeros(8)

    def load(self, block: Any) -> None:
        """Fail with two errors, whose frames have arrays."""
        seen = block + self.vector
        try:
            seen.item(9)
        except IndexError as error:
            raise InputError("it is bad") from error


def test_what_a_rank_refuses_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rank, "abort", lambda *_: None)
    rank = Rank.__new__(Rank)
    spec: Any = RankSpec.__new__(RankSpec)
    object.__setattr__(spec, "program", "some")
    rank.spec, rank.number, rank._worker, rank._reason = spec, 0, "tcp://a:1", None
    program, block = Bad(), np.ones(8)
    kept = [weakref.ref(program.vector), weakref.ref(block)]
    failure = rank._attempt(program.load, (block,))
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, InputError)
    del program, block, failure
    assert alive(kept) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_solver_leaves_nothing_in_the_pool_of_a_gpu(name: str, closed: bool) -> None:
    import cupy

    problem, options = systems(64)[name]
    pool = cupy.get_default_memory_pool()

    def solve() -> int:
        solver = dsolver.Solver(problem, device="cuda", **options)
        solution = solver.solve(np.ones(problem.grid), maxiter=5, spans=lambda _: None)
        solver.update(problem)
        solution = solver.solve(np.ones(problem.grid), maxiter=5)
        with pytest.raises(InputError, match="NaN or infinit"):
            solver.solve(np.full(problem.grid, np.nan))
        del solution
        held = int(pool.used_bytes())
        if closed:
            solver.close()
        del solver
        return held - int(pool.used_bytes())

    solve()  # compiles, and makes what kernels keep
    before = pool.used_bytes()
    assert solve() > 6 * 8 * 64 * 60 * 64, "the vectors of conjugate gradients were held"
    slab = 64 * (2048 * 8 + 4) + 1024  # of partial sums, which are kept: a new stream may need another one
    assert pool.used_bytes() - before <= slab


def out_of_memory() -> Exception:
    """As CuPy says that a GPU's memory has run out."""
    kind: type[Exception] = type("OutOfMemoryError", (MemoryError,), {"__module__": "cupy.cuda.memory"})
    return kind("Out of memory allocating 1 byte.")


@pytest.mark.parametrize("nth", [1, 3, 5])
def test_memory_that_runs_out_leaves_no_array(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory given back in the end must be free by then, although the error that tells of it is on its way."""
    seen: list[weakref.ref[Any]] = []
    left: list[int] = []
    zeros, lattice = CpuBackend.zeros, CpuLayoutSetup.colored

    def short(self: Any, *arguments: Any) -> Any:
        if len(seen) >= nth:
            raise out_of_memory()
        made = zeros(self, *arguments)
        seen.append(weakref.ref(made))
        return made

    def layout(self: Any, *arguments: Any) -> Any:
        made = lattice(self, *arguments)
        seen.extend(map(weakref.ref, (made.position, made.row)))
        return made

    monkeypatch.setattr(CpuBackend, "zeros", short)
    monkeypatch.setattr(CpuLayoutSetup, "colored", layout)
    monkeypatch.setattr("dsolver.engines.running_program.free_unused", lambda: left.append(alive(seen)))
    with pytest.raises(DeviceMemoryError, match="the memory of the GPU has run out"):
        dsolver.solve(problems.poisson7((16, 16, 16)), np.ones((16, 16, 16)), M=None, device="cpu")
    assert len(seen) >= nth
    assert left == [0]


def test_an_update_for_which_memory_runs_out_leaves_the_old_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = (16, 16, 16)
    b, short, plain = np.ones(grid), [False], CpuSell.matrix

    def matrix(self: Any, *arguments: Any, **named: Any) -> Any:
        if short.pop():
            raise out_of_memory()
        short.append(False)
        return plain(self, *arguments, **named)

    monkeypatch.setattr(CpuSell, "matrix", matrix)
    with dsolver.Solver(problems.diffusion(grid, np.linspace(1.0, 2.0, b.size).reshape(grid)), device="cpu") as solver:
        before = solver.solve(b)
        short[:] = [False, True]
        with pytest.raises(DeviceMemoryError, match="the memory of the GPU has run out"):
            solver.update(kappa=np.full(grid, 3.0))
        assert short == [False]
        assert np.array_equal(solver.solve(b).x, before.x)


def kept() -> int:
    """The number of objects of dsolver's types in a process; they hold its arrays."""
    gc.collect()
    return sum(str(type(item).__module__).startswith("dsolver") for item in gc.get_objects())


def test_solves_of_changing_problems_leave_nothing_on_a_worker() -> None:
    """Dask's log alone grows on a worker: ten records a solve, until there are 10,000.

    A solve may let go of its last objects a moment after its answer, on a busy machine.
    """
    rng = np.random.default_rng(0)
    with cluster(1, processes=True) as client:
        (worker,) = client.nthreads()
        held = []
        for _ in range(3):
            for grid in ((12, 8, 8), (9, 10, 7)):
                for problem, b in (
                    (problems.poisson7(grid), rng.standard_normal(grid)),
                    (problems.diffusion(grid, rng.lognormal(size=grid)), rng.standard_normal(grid)),
                    (dsolver.matrix(sp.diags_array(np.arange(1.0, 41.0))), rng.standard_normal(40)),
                ):
                    assert dsolver.solve(problem, b, client=client, device="cpu").converged
            held.append(client.run(kept)[worker])
        assert gone(lambda: max(0, client.run(kept)[worker] - held[1]), pause=0.5)
