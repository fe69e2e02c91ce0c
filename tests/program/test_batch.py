"""Several right-hand sides at once: the histories and the bits that each would have alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from distributed import Client, LocalCluster

import dsolver
from dsolver import problems
from dsolver.grid import coarse_grid
from dsolver.grid.box import Triple
from dsolver.grid.partition import Cut
from dsolver.kernels.batched import Columns
from dsolver.krylov.control.supersteps import Pace
from dsolver.preconditioners import Multigrid
from dsolver.problems import Problem
from dsolver.program.batches.batch import Batch
from dsolver.program.spec import SolveSpec
from dsolver.session.solving import batching, loading
from dsolver.status import Status

F64 = npt.NDArray[np.float64]
GRID = (21, 16, 15)
CUTS: tuple[Triple, ...] = ((1, 1, 1), (2, 1, 1), (2, 2, 2))


def rough(x: Any, y: Any, z: Any) -> Any:
    """κ between 0.1 and 10."""
    return 10.0 ** (((x * 7 + y * 11 + z * 13) % 17 - 8.0) / 8.0)


PROBLEMS: dict[str, Problem] = {
    "27 points": problems.poisson27(GRID),
    "constant": problems.poisson7(GRID),
    "variable": problems.diffusion(GRID, rough, bc={"x": "periodic", "z": "dirichlet"}),
    "singular": problems.diffusion(GRID, rough, bc="neumann"),
}


def right_hand_sides(count: int) -> list[F64]:
    """Right-hand sides of different sizes and smoothness, for different numbers of iterations; one is zero."""
    rng = np.random.default_rng(5)
    x = np.linspace(0.0, 1.0, GRID[0])[:, None, None]
    made = [rng.standard_normal(GRID), 1e-9 * np.sin(7.0 * x) * np.ones(GRID), np.zeros(GRID), 1e6 * rng.random(GRID)]
    made += [rng.standard_normal(GRID) * (x > i / 9.0) for i in range(count)]
    return [b - b.mean() for b in made[:count]]


def assert_same(together: Any, alone: Any) -> None:
    """To the last bit."""
    assert together.status is alone.status
    assert together.residuals == alone.residuals
    assert together.true_residual == alone.true_residual
    assert together.b_norm == alone.b_norm
    assert np.array_equal(np.asarray(together.x), np.asarray(alone.x))


def compare(solver: dsolver.Solver, count: int, **options: Any) -> None:
    """Several at once against each alone."""
    bs = right_hand_sides(count)
    together = solver.solve(bs, **options)
    alone = [solver.solve(b, **options) for b in bs]
    assert not any(solution.notes for solution in together)
    for found, single in zip(together, alone, strict=True):
        assert_same(found, single)


@pytest.mark.parametrize(("kernels", "chunks"), [*(("cpu", cut) for cut in CUTS), ("numpy", (2, 1, 1))])
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_has_the_bits_that_it_has_alone(name: str, chunks: Triple, kernels: str) -> None:
    problem = replace(PROBLEMS[name], chunks=chunks)
    kind: Any = "numpy" if kernels == "numpy" else "auto"
    with dsolver.Solver(problem, device="cpu", kernels=kind) as solver:
        compare(solver, 3 if kernels == "numpy" else 5, rtol=1e-3 if kernels == "numpy" else 1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", CUTS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_has_its_bits_on_a_gpu(name: str, chunks: Triple) -> None:
    with dsolver.Solver(replace(PROBLEMS[name], chunks=chunks), device="cuda") as solver:
        compare(solver, 5)
        compare(solver, 2)


OTHERS: tuple[Any, ...] = (None, "jacobi", "chebyshev", Multigrid(sweeps=2, visits=2))


@pytest.mark.gpu
@pytest.mark.parametrize("m", OTHERS)
def test_other_preconditioners_on_a_gpu(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse_grid, "SMALL_GRID", 0)
    with dsolver.Solver(replace(PROBLEMS["variable"], chunks=(2, 2, 1)), device="cuda", M=m) as solver:
        compare(solver, 4)


@pytest.mark.parametrize("m", OTHERS)
def test_with_other_preconditioners_too(m: Any) -> None:
    problem = replace(PROBLEMS["variable"], chunks=(2, 2, 1))
    with dsolver.Solver(problem, device="cpu", M=m, engine="reference") as solver:
        compare(solver, 4)


def compare_on(problem: Problem, count: int, **setup: Any) -> None:
    """Several at once against each alone, for right-hand sides of another grid than `GRID`."""
    rng = np.random.default_rng(7)
    bs = [rng.standard_normal(problem.grid) * 10.0 ** (3 * n) for n in range(count)]
    with dsolver.Solver(problem, **setup) as solver:
        together: Any = solver.solve(bs)
        assert not any(solution.notes for solution in together)
        for found, b in zip(together, bs, strict=True):
            assert_same(found, solver.solve(b))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_with_the_cycle_of_hpcg(device: str, chunks: Triple, dtype: str) -> None:
    problem = problems.hpcg((32, 16, 16), chunks=chunks)
    compare_on(problem, 3, device=device, M="hpcg", precond_dtype=dtype)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 2, 1)])
@pytest.mark.parametrize("name", ["constant", "variable"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_with_multigrid_in_float32(device: str, name: str, chunks: Triple) -> None:
    compare_on(replace(PROBLEMS[name], chunks=chunks), 3, device=device, precond_dtype="float32")


@pytest.mark.parametrize("engine", ["reference", "resident"])
def test_a_matrix_out_of_float32_goes_on_in_float64(engine: Any) -> None:
    weights = 1e60 * np.where(np.arange(27) == 13, 26.0, -1.0).reshape(3, 3, 3)
    problem = problems.stencil((16, 16, 8), weights, chunks=(2, 1, 1))
    rng = np.random.default_rng(3)
    bs = [1e60 * rng.standard_normal(problem.grid) for _ in range(2)]
    bs.insert(1, np.zeros(problem.grid))  # which needs nothing of the preconditioner
    setup: Any = {"device": "cpu", "engine": engine, "precond_dtype": "float32"}
    guesses = [0.1 * rng.standard_normal(problem.grid) for _ in bs]
    with dsolver.Solver(problem, **setup) as solver:
        with pytest.warns(RuntimeWarning, match="goes on with 'float64'"):
            together: Any = solver.solve(bs, x0=guesses)
        after: Any = solver.solve(bs, x0=guesses)
    assert [len(solution.notes) for solution in together] == [1, 0, 1]
    assert not any(solution.notes for solution in after)
    for found, b, guess in zip(together, bs, guesses, strict=True):
        with dsolver.Solver(problem, **setup) as solver, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            single = solver.solve(b, x0=guess)
        assert_same(found, single)
        assert found.notes == single.notes
        assert found.converged


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("name", "chunks"), [("variable", (2, 2, 2)), ("constant", ((10, 11), (8, 8), (8, 7)))])
def test_levels_that_stay_distributed(name: str, chunks: Cut, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse_grid, "SMALL_GRID", 0)
    with dsolver.Solver(replace(PROBLEMS[name], chunks=chunks), device=device) as solver:
        compare(solver, 2)


@pytest.mark.parametrize(
    ("name", "chunks", "dtype"),
    [("singular", (2, 1, 1), "float64"), ("singular", (1, 1, 1), "float32"), ("constant", (1, 1, 1), "float64")],
)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_with_algebraic_multigrid(device: Any, name: str, chunks: Triple, dtype: Any) -> None:
    """Below the finest level rows have any format, and sweeps end in other results than a product."""
    problem = replace(PROBLEMS[name], chunks=chunks)
    with dsolver.Solver(problem, device=device, M="amg", engine="reference", precond_dtype=dtype) as solver:
        compare(solver, 2, rtol=1e-3)


@pytest.mark.parametrize("workers", [1, 2])
def test_on_a_cluster(workers: int) -> None:
    problem = replace(PROBLEMS["variable"], chunks=(2, 2, 2))
    bs = right_hand_sides(3)
    with dsolver.Solver(problem, device="cpu") as solver:
        alone = [solver.solve(b) for b in bs]
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None, memory_limit=None
        ) as cluster,
        Client(cluster) as client,
        dsolver.Solver(problem, client=client, device="cpu") as solver,
    ):
        for together, single in zip(solver.solve(bs), alone, strict=True):
            assert_same(together, single)


def test_ends_of_every_kind_beside_each_other() -> None:
    """Also long solves whose recursion is corrected on the way, and first guesses."""
    problem = PROBLEMS["variable"]
    bs = right_hand_sides(4)
    with dsolver.Solver(problem, device="cpu", M=None) as solver:
        guesses = [None, bs[0], None, None]
        for options in ({"maxiter": 7}, {"rtol": 1e-15}, {"rtol": 1e-13}, {"maxiter": 0}):
            first = [np.zeros(GRID) if guess is None else guess for guess in guesses]
            together: Any = solver.solve(np.stack(bs, axis=-1), x0=np.stack(first, axis=-1), **options)
            alone = [solver.solve(b, x0=guess, **options) for b, guess in zip(bs, first, strict=True)]
            for found, single in zip(together, alone, strict=True):
                assert_same(found, single)
    assert {solution.status for solution in together} >= {Status.MAX_ITERATIONS, Status.CONVERGED}


def test_a_right_hand_side_without_a_finite_solution_leaves_the_others_alone() -> None:
    problem = problems.stencil(GRID, {(0, 0, 0): np.full(GRID, -1.0)})
    good = PROBLEMS["27 points"]
    bs = right_hand_sides(2)
    with dsolver.Solver(problem, device="cpu", M=None) as solver:
        assert [solution.status for solution in solver.solve(bs)] == [Status.INDEFINITE] * 2
    with dsolver.Solver(good, device="cpu") as solver:
        bs[1] *= 1e150  # its r . r overflows
        together = solver.solve(bs)
        assert_same(together[0], solver.solve(bs[0]))


def test_widths_may_change_and_the_matrix_too() -> None:
    with dsolver.Solver(PROBLEMS["variable"], device="cpu") as solver:
        compare(solver, 2)
        compare(solver, 5)
        solver.update(kappa=2.0, reuse=None)
        compare(solver, 5)
        compare(solver, 11)  # in two parts


def test_what_cannot_be_batched_is_solved_one_after_the_other_and_says_why() -> None:
    problem = PROBLEMS["27 points"]
    bs = right_hand_sides(2)
    for arguments, options, reason in (
        ({"M": lambda r: 0.1 * r}, {}, "Function"),
        ({}, {"callback": lambda _: False}, "callback="),
    ):
        kinds: Any = arguments
        asked: Any = options
        with dsolver.Solver(problem, device="cpu", **kinds) as solver:
            for together, b in zip(solver.solve(bs, **asked), bs, strict=True):
                assert "one after the other" in together.notes[0]
                assert reason in together.notes[0]
                assert_same(together, solver.solve(b))


def test_the_matrix_is_read_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    plain = Columns.one_by_one

    def noted(self: Columns, kernel: Any) -> Any:
        seen.append(kernel.__name__)
        return plain(self, kernel)

    monkeypatch.setattr(Columns, "one_by_one", noted)
    with dsolver.Solver(PROBLEMS["variable"], device="cpu") as solver:
        solver.solve(right_hand_sides(2))
    assert {"dot", "update_x_r"} <= set(seen)
    assert not {"spmv", "spmv_dot", "forward", "backward", "upper_residual", "lower_residual"} & set(seen)
    assert not {"restrict_full", "prolong_add", "dense_solve"} & set(seen)


class Crowded:
    """Session as `room` asks it, on a GPU with so many bytes left."""

    def __init__(self, problem: Problem, free: int) -> None:
        self.problem, self.spec = problem, SolveSpec.plan(problem, (1, 1, 1))
        self.partition, self.free = self.spec.partition, free
        self.system = SimpleNamespace(columns=0)
        self.runtime = SimpleNamespace(device="cuda", client=None, workers=())


def test_there_are_as_many_together_as_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Crowded(problems.poisson7((64, 64, 64)), 0)
    monkeypatch.setattr("dsolver.cluster.devices.free_memory_of", lambda *_, **__: (session.free,))
    sizes = [max(batching.bytes_of(session, count)) for count in range(9)]
    assert sizes[0] < sizes[2] < sizes[8]
    for count in (2, 5, 8):
        session.free = int(sizes[count] / batching.SPARE) + 1
        assert batching.room(session, 8) == count
    session.free = sizes[1]
    assert batching.room(session, 8) < 2
    session.system.columns = 3
    assert batching.room(session, 3) == 3, "for so many there is room already"
    assert batching.room(session, 8) == 3, "and that stays where there is none for more"


@pytest.mark.parametrize(("count", "expected"), [(8, [8]), (9, [8, 1]), (10, [5, 5]), (11, [8, 3]), (17, [8, 8, 1])])
def test_groups_are_of_as_few_widths_as_can_be(
    count: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []
    plain = loading.start

    def noted(session: Any, given: Any, *rest: Any) -> Any:
        widths.append(len(given))
        return plain(session, given, *rest)

    monkeypatch.setattr("dsolver.session.solving.attempt.start", noted)
    bs = right_hand_sides(count)
    with dsolver.Solver(PROBLEMS["constant"], device="cpu") as solver:
        found = solver.solve(bs)
        assert widths == expected
        assert_same(found[-1], solver.solve(bs[-1]))


def test_why_there_is_no_room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cluster.devices.free_memory_of", lambda *_, **__: (0,))
    session: Any = Crowded(problems.poisson7((64, 64, 64)), 0)
    assert "memory is short" in batching.lack_of_memory(session)
    session = Crowded(problems.poisson7((1024, 1024, 1024)), 0)
    assert batching.room(session, 2) < 2
    assert "numbered" in batching.lack_of_memory(session)


def test_an_estimate_has_room_for_several() -> None:
    problem = problems.poisson7((64, 64, 64))
    one, eight = (dsolver.estimate(problem, device="cpu", together=n, bandwidth=1e10) for n in (1, 8))
    assert eight.bytes > one.bytes + 8 * 6 * 8 * 64**3
    for many in (9, 100):
        assert dsolver.estimate(problem, device="cpu", together=many, bandwidth=1e10).bytes == eight.bytes
    function: Any = {"M": lambda r: r}
    alone = dsolver.estimate(problem, device="cpu", bandwidth=1e10, **function)
    assert dsolver.estimate(problem, device="cpu", together=8, bandwidth=1e10, **function).bytes == alone.bytes
    large = problems.poisson7((1024, 1024, 1024))  # the rows of two could not be numbered
    alone = dsolver.estimate(large, device="cpu", bandwidth=1e10)
    assert dsolver.estimate(large, device="cpu", together=8, bandwidth=1e10).bytes == alone.bytes
    with pytest.raises(dsolver.InputError, match="together"):
        dsolver.estimate(problem, device="cpu", together=0)


def test_seconds_of_short_supersteps_are_those_of_the_pace_that_is_known() -> None:
    asked: list[float] = []

    def broadcast(seconds: float) -> float:
        asked.append(seconds)
        return seconds

    columns: Any = SimpleNamespace(pace=Pace(), _unasked=0, _engine=SimpleNamespace(broadcast=broadcast))
    assert Batch.agreed_seconds(columns, 0.05, 1) == 0.05, "nothing is known yet"
    assert Batch.agreed_seconds(columns, 0.016, 8) == 0.016, "0.4 s by the first one's pace"
    assert Batch.agreed_seconds(columns, 7.0, 4) == 4 * 0.002
    assert asked == [0.05, 0.016]
    assert Batch.agreed_seconds(columns, 0.3, 50) == 0.3
    assert Batch.agreed_seconds(columns, 0.01, 20) == 0.01, "they have become slower"
    assert asked == [0.05, 0.016, 0.3, 0.01]
    for _ in range(200 // 8):
        assert Batch.agreed_seconds(columns, 1.0, 8) == 8 * 0.0005, "trusted for some time"
    assert Batch.agreed_seconds(columns, 1.0, 8) == 1.0


def test_another_matrix_has_room_for_one_again() -> None:
    with dsolver.Solver(PROBLEMS["variable"], device="cpu") as solver:
        solver.solve(right_hand_sides(2))
        assert solver._session.system.columns == 2
        solver.update(PROBLEMS["variable"])
        assert solver._session.system.columns == 0
