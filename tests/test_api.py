"""`solve` in this process: how it ends, and what it refuses before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest

import dsolver
import dsolver.benchmarks.hpcg  # whose V-cycle is one of the names of M
from dsolver import Status, problems
from dsolver.api import solve
from dsolver.cluster import devices
from dsolver.cluster.runtime import Runtime
from dsolver.engines.running_program import LocalProgram
from dsolver.errors import DeviceError, DsolverError, InputError

F64 = npt.NDArray[np.float64]
GRID = (16, 8, 24)
PROBLEM = problems.poisson7(GRID)


@pytest.fixture(scope="module")
def b() -> F64:
    return np.random.default_rng(0).standard_normal(GRID)


def residual(x: F64, b: F64) -> F64:
    """b - A x of the 7-point Laplacian, by slices."""
    padded = np.pad(x, 1)
    around: F64 = np.sum([np.roll(padded, step, axis) for axis in range(3) for step in (-1, 1)], axis=0)
    return b - 6.0 * x + around[1:-1, 1:-1, 1:-1]


# -- what comes out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", ["mg", "none", None])
@pytest.mark.parametrize("chunks", [None, (1, 1, 1), (2, 1, 3)])
def test_a_solution_solves_the_system(b: F64, m: Any, chunks: Any) -> None:
    problem = problems.poisson7(GRID, chunks=chunks)
    solution = solve(problem, b, M=m, rtol=1e-10)
    assert solution.status is Status.CONVERGED
    norm = float(np.linalg.norm(residual(solution.x, b)))
    assert norm <= 1e-10 * np.linalg.norm(b)
    assert solution.true_residual == pytest.approx(norm, rel=1e-4)
    assert solution.b_norm == pytest.approx(np.linalg.norm(b), rel=1e-14)
    assert solution.relative_residual == solution.true_residual / solution.b_norm
    assert len(solution.residuals) == solution.iterations + 1
    assert solution.residuals[0] == pytest.approx(solution.b_norm, rel=1e-14)


def test_multigrid_saves_iterations(b: F64) -> None:
    assert solve(PROBLEM, b).iterations < solve(PROBLEM, b, M=None).iterations / 2


def test_any_grid_can_be_solved_without_multigrid() -> None:
    b = np.ones((7, 1, 13))
    solution = solve(problems.poisson7((7, 1, 13), chunks=(2, 1, 3)), b, M=None, rtol=1e-12)
    assert np.linalg.norm(residual(solution.x, b)) <= 1e-12 * np.linalg.norm(b)


def test_engines_and_kernels_agree(b: F64) -> None:
    problem = problems.poisson7(GRID, chunks=(2, 1, 3))
    resident = solve(problem, b, device="cpu", engine="resident")
    reference = solve(problem, b, device="cpu", engine="reference")
    numpy = solve(problem, b, engine="reference", kernels="numpy")
    assert resident.residuals == reference.residuals
    assert resident.x.tobytes() == reference.x.tobytes()
    assert numpy.residuals == pytest.approx(reference.residuals, rel=1e-8)
    assert resident.engine == "resident/cpu"
    assert numpy.engine == "reference/numpy"


def test_arguments_are_left_as_they_were(b: F64) -> None:
    mine, guess = b.copy(), np.ones(GRID)
    mine.setflags(write=False)
    guess.setflags(write=False)
    x = solve(PROBLEM, mine, x0=guess).x
    assert (mine == b).all()
    assert (guess == 1.0).all()
    assert x.flags.writeable


def test_a_solution_says_what_happened(b: F64) -> None:
    solution = solve(PROBLEM, b, device="cpu")
    text = repr(solution)
    assert text.startswith(f"<Solution 16x8x24: converged after {solution.iterations} iterations, ‖b - Ax‖/‖b‖ = ")
    assert text.endswith(" s on resident/cpu>")
    assert set(solution.timings) == {"setup", "load", "solve", "total"}
    parts = sum(seconds for name, seconds in solution.timings.items() if name != "total")
    assert 0.0 < parts <= solution.timings["total"]


# -- warm starts and callbacks -----------------------------------------------------------------------------------------


def test_a_warm_start_goes_on_from_the_guess(b: F64) -> None:
    cold = solve(PROBLEM, b)
    rough = solve(PROBLEM, b, rtol=1e-4)
    warm = solve(PROBLEM, b, x0=rough.x)
    assert warm.residuals[0] == pytest.approx(rough.true_residual, rel=1e-10)
    assert 0 < warm.iterations < cold.iterations
    assert warm.converged


def test_a_warm_start_from_the_solution_needs_no_iteration(b: F64) -> None:
    solved = solve(PROBLEM, b)
    again = solve(PROBLEM, b, x0=solved.x)
    assert again.iterations == 0
    assert (again.x == solved.x).all()


def test_a_callback_stops_a_solve_and_gets_the_iterate_that_it_saw(b: F64) -> None:
    seen: list[dsolver.State] = []

    def stop(state: dsolver.State) -> bool:
        seen.append(state)
        return state.iteration == 4

    stopped = solve(PROBLEM, b, callback=stop)
    assert stopped.status is Status.STOPPED
    assert stopped.iterations == 4
    assert [state.iteration for state in seen] == [1, 2, 3, 4]
    assert tuple(state.residual for state in seen) == stopped.residuals[1:]
    assert (stopped.x == solve(PROBLEM, b, maxiter=4).x).all()


# -- every way to end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guess", [None, 1.0])
def test_a_zero_right_hand_side_has_the_zero_solution(guess: float | None) -> None:
    solution = solve(PROBLEM, np.zeros(GRID), x0=None if guess is None else np.full(GRID, guess))
    assert solution.status is Status.CONVERGED
    assert solution.iterations == 0
    assert not solution.x.any()
    assert solution.relative_residual == 0.0
    assert "‖b - Ax‖/‖b‖ = 0.00e+00" in repr(solution)


@pytest.mark.parametrize("maxiter", [0, 3])
def test_running_out_of_iterations_is_a_status(b: F64, maxiter: int) -> None:
    solution = solve(PROBLEM, b, maxiter=maxiter)
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.iterations == maxiter
    assert solution.true_residual == pytest.approx(np.linalg.norm(residual(solution.x, b)), rel=1e-10)


@pytest.mark.parametrize("rtol", [1e-17, 0.0])
def test_a_tolerance_below_rounding_stagnates(b: F64, rtol: float) -> None:
    solution = solve(PROBLEM, b, rtol=rtol)
    assert solution.status is Status.STAGNATED
    assert rtol * solution.b_norm < solution.true_residual
    assert solution.relative_residual < 1e-14
    assert np.linalg.norm(residual(solution.x, b)) < 1e-14 * solution.b_norm


def test_a_residual_that_waits_for_the_far_end_is_no_stagnation() -> None:
    """Conjugate gradients solve a line of n points in n iterations, the residual of a wave falling in the last ones."""
    weights = np.zeros((3, 3, 3))
    weights[1, 1, :] = -1.0, 2.0, -1.0
    grid = (1, 1, 1000)
    b = np.sin(3.1 * np.pi * np.arange(1000) / 1000).reshape(grid)
    solution = solve(problems.stencil(grid, weights), b, M=None, maxiter=1100)
    assert solution.status is Status.CONVERGED
    assert solution.iterations == pytest.approx(1000, abs=5)


def test_a_negative_definite_matrix_is_indefinite() -> None:
    weights = np.zeros((3, 3, 3))
    weights[1, 1, 1] = -6.0
    weights[0, 1, 1] = weights[2, 1, 1] = 1.0
    found = solve(problems.stencil((8, 8, 8), weights), np.ones((8, 8, 8)), method="cg")
    assert found.status is Status.INDEFINITE


def test_a_negative_definite_matrix_is_indefinite_too() -> None:
    """pᵀAp may be positive for a while when M is not definite; rᵀMr is not."""
    weights = -np.ones((3, 3, 3))
    found = solve(problems.stencil((8, 8, 8), weights), np.ones((8, 8, 8)), method="cg")
    assert found.status is Status.INDEFINITE


def test_a_right_hand_side_whose_norm_underflows() -> None:
    b = np.full((8, 8, 8), 1e-200)
    plain = solve(problems.hpcg((8, 8, 8)), 1e200 * b)
    for values in (b, da.from_array(b)):
        found = solve(problems.hpcg((8, 8, 8)), values)
        assert found.converged
        np.testing.assert_allclose(1e200 * np.asarray(found.x), plain.x)


def test_overflow_is_not_finite() -> None:
    solution = solve(problems.hpcg((8, 8, 8)), np.ones((8, 8, 8)), x0=np.full((8, 8, 8), 1e152))
    assert solution.status is Status.NOT_FINITE
    assert solution.iterations == 0


def test_an_absolute_tolerance_is_enough(b: F64) -> None:
    solution = solve(PROBLEM, b, rtol=0.0, atol=1e-3)
    assert solution.converged
    assert 1e-6 < solution.true_residual <= 1e-3


# -- what is refused ---------------------------------------------------------------------------------------------------


def with_value(value: float) -> F64:
    values = np.ones(GRID)
    values[3, 2, 1] = value
    return values


def unknown_length() -> Any:
    values = da.ones(GRID, chunks=8)
    return values[values[:, 0, 0] > 0.0]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "shape of b": ({"b": np.ones((8, 8, 8))}, r"b has shape \(8, 8, 8\), but the grid is \(16, 8, 24\)"),
    "b raveled": ({"b": np.ones(16 * 8 * 24)}, r"b has shape \(3072,\).* pass b.reshape\(\(16, 8, 24\)\)$"),
    "b transposed": ({"b": np.ones((24, 8, 16))}, "they must be equal"),
    "no b": ({"b": None}, r"b must be an array of shape \(16, 8, 24\), not None"),
    "a number for b": ({"b": 1.0}, "b must be an array"),
    "several b, their axis in front": ({"b": np.ones((2, *GRID))}, "last; pass numpy.moveaxis.b, 0, -1"),
    "masked b": ({"b": np.ma.masked_greater(with_value(2.0), 1.0)}, "b is a masked array"),
    "NaN in b": ({"b": with_value(np.nan)}, "b has NaN or infinity in 1 value"),
    "inf in b": ({"b": with_value(-np.inf)}, "b has NaN or infinity in 1 value"),
    "NaN in a complex b": ({"b": with_value(np.nan) * 1j}, "b has NaN or infinity in 1 value"),
    "text b": ({"b": np.full(GRID, "a")}, "real numbers are needed"),
    "bool b": ({"b": np.ones(GRID, dtype=bool)}, "real numbers are needed"),
    "object b": ({"b": np.ones(GRID, dtype=object)}, "real numbers are needed"),
    "ragged b": ({"b": [[1.0], [1.0, 2.0]]}, "b is no array"),
    "shape of a dask b": ({"b": da.ones((8, 8, 8))}, "b has shape"),
    "a dask b of unknown length": ({"b": unknown_length()}, r"does not know, .nan, 8, 24.: call b.compute_chunk_sizes"),
    "NaN in a dask b": ({"b": da.from_array(with_value(np.nan))}, "b has NaN or infinity in 1 value"),
    "shape of x0": ({"x0": np.ones(3)}, r"x0 has shape \(3,\)"),
    "NaN in x0": ({"x0": with_value(np.nan)}, "x0 has NaN or infinity in 1 value"),
    "NaN in a dask x0": ({"x0": da.from_array(with_value(np.nan))}, "x0 has NaN or infinity in 1 value"),
    "huge x0": ({"x0": with_value(1e200)}, "x0 has values .* so large that its norm is"),
    "rtol": ({"rtol": -1.0}, "rtol must be a finite number >= 0"),
    "atol": ({"atol": np.nan}, "atol must be a finite number >= 0"),
    "an rtol beyond all floats": ({"rtol": 10**400}, "rtol must be a finite number >= 0, not an object of type int"),
    "an atol too long to be printed": ({"atol": 10**5000}, "atol must be a finite number >= 0, not an object of type"),
    "maxiter": ({"maxiter": 1.5}, "maxiter must be an integer"),
    "M": (
        {"M": "ilut"},
        "unknown preconditioner M='ilut': is 'ilu0' meant. use .auto., .mg., .amg., .*, .none., .hpcg.",
    ),
    "engine": ({"engine": "spark"}, "unknown engine 'spark': choose one of auto, reference, graph, resident"),
    "device": ({"device": "tpu"}, "unknown device 'tpu': choose one of auto, cpu, cuda"),
    "kernels": ({"kernels": "fortran"}, "unknown kernels 'fortran': choose one of auto, numpy"),
    "order": ({"order": "red-black"}, "unknown order 'red-black': use natural"),
    "callback": ({"callback": 3}, "callback must be a function"),
    "a class for progress": ({"progress": dsolver.Live}, r"progress is the class Live: pass an object of it, Live\(\)"),
    "problem": ({"problem": "hpcg"}, "or come from dsolver.problems"),
    "an array for the problem": ({"problem": np.ones(GRID)}, "as dsolver.problems.hpcg.* does, not a ndarray$"),
    "an address for a client": ({"client": "tcp://127.0.0.1:1"}, r"Client\(address_or_cluster\)"),
    "graph without a cluster": ({"engine": "graph"}, r"pass client=Client\(...\)"),
    "numpy kernels on a GPU": ({"kernels": "numpy", "device": "cuda"}, "NumPy kernels run on a CPU"),
    "an indivisible grid": (
        {"problem": problems.hpcg((12, 8, 8)), "b": np.ones((12, 8, 8)), "M": "hpcg"},
        "choose sizes that are multiples of 8",
    ),
    "indivisible chunks": (
        {"problem": problems.hpcg(GRID, chunks=(2, 2, 1)), "b": np.ones(GRID), "M": "hpcg"},
        "chunks of 4 points along y that are not divisible by 8",
    ),
    "chunks that do not divide": (
        {"problem": problems.hpcg(GRID, chunks=(1, 1, 2)), "b": np.ones(GRID), "M": "hpcg"},
        "chunks of 12 points along z that are not divisible by 8",
    ),
}
AFTER_LAUNCH = {"huge x0", "NaN in a dask b", "NaN in a dask x0"}
"""Faults that only the data tell, which are looked at where they will be used."""


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The jobs that a test launches; in the end all of them must have been closed."""
    launched: list[Any] = []
    closed: list[Any] = []
    launch: Callable[..., Any] = Runtime.launch
    close: Callable[..., None] = LocalProgram.close

    def watched_launch(*args: Any) -> Any:
        launched.append(launch(*args))
        return launched[-1]

    def watched_close(job: LocalProgram[Any]) -> None:
        closed.append(job)
        close(job)

    monkeypatch.setattr(Runtime, "launch", watched_launch)
    monkeypatch.setattr(LocalProgram, "close", watched_close)
    yield launched
    assert closed == launched, "a job was left open"


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_nothing_is_left(case: str, launches: list[Any]) -> None:
    arguments, message = BAD[case]
    given: dict[str, Any] = {"problem": PROBLEM, "b": np.ones(GRID)} | arguments
    with pytest.raises(InputError, match=message):
        solve(**given)
    assert bool(launches) == (case in AFTER_LAUNCH)


@pytest.mark.parametrize(
    "case", ["shape of b", "NaN in b", "NaN in a complex b", "shape of x0", "rtol", "M", "order", "callback"]
)
def test_what_the_arguments_show_is_refused_before_a_cluster_is_asked(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("devices were looked for")

    monkeypatch.setattr("dsolver.session.session.connect", asked)
    arguments, message = BAD[case]
    given: dict[str, Any] = {"problem": PROBLEM, "b": np.ones(GRID)} | arguments
    with pytest.raises(InputError, match=message):
        solve(**given)


def test_no_gpu_is_a_device_error(launches: list[Any], b: F64, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "find_gpu", lambda: "the driver shows no GPU")
    with pytest.raises(DeviceError, match="'cuda' was asked for, but the driver shows no GPU"):
        solve(PROBLEM, b, device="cuda")
    assert not launches
    assert solve(PROBLEM, b, device="auto").engine == "resident/cpu"


def test_a_job_is_closed_when_a_callback_fails(launches: list[Any], b: F64) -> None:
    def fail(_: dsolver.State) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        solve(PROBLEM, b, callback=fail)
    assert len(launches) == 1


def test_errors_are_of_one_tree_and_of_pythons_kinds() -> None:
    for error, kind in {
        dsolver.InputError: ValueError,
        dsolver.DeviceError: RuntimeError,
        dsolver.ClusterError: RuntimeError,
        dsolver.RankError: dsolver.ClusterError,
        dsolver.OutputExistsError: FileExistsError,
    }.items():
        assert issubclass(error, DsolverError)
        assert issubclass(error, kind)
