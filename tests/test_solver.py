"""`Solver`: one set-up, many solves; and `cg`, which takes and returns what SciPy's does."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg
from distributed import Client, LocalCluster

import dsolver
from dsolver import Solver, Status, problems
from dsolver.engines.eager.recorded_calls import CallRecorder
from dsolver.engines.spmd.calls import RankCalls
from dsolver.engines.spmd.client import SpmdProgram
from dsolver.errors import ClusterError, InputError, RankError
from dsolver.problems import Problem
from dsolver.session import recovery
from tests.support.clusters import cluster
from tests.support.waiting import PATIENCE, eventually, gone

F64 = npt.NDArray[np.float64]
GRID = (16, 8, 24)
PROBLEM = problems.poisson7(GRID)
SHIFTED_WEIGHTS = np.zeros((3, 3, 3))
for offset in problems.STAR_OFFSETS:
    SHIFTED_WEIGHTS[offset[0] + 1, offset[1] + 1, offset[2] + 1] = -1.0
SHIFTED_WEIGHTS[1, 1, 1] = 9.0
SHIFTED = problems.stencil(GRID, SHIFTED_WEIGHTS)
SHIFTED_IN_TWO = problems.stencil(GRID, SHIFTED_WEIGHTS, chunks=(2, 1, 1))


@pytest.fixture(scope="module")
def b() -> F64:
    return np.random.default_rng(0).standard_normal(GRID)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def matrix(grid: tuple[int, int, int]) -> Any:
    """The 7-point Laplacian for vectors in the order of b.ravel()."""
    x, y, z = (scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) for n in grid)
    return scipy.sparse.csr_array(scipy.sparse.kronsum(z, scipy.sparse.kronsum(y, x)))


def same(found: dsolver.Solution, expected: dsolver.Solution) -> bool:
    return found.residuals == expected.residuals and found.x.tobytes() == expected.x.tobytes()


# -- one set-up, many solves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", ["mg", "chebyshev", None, lambda r: r / 6.0])
def test_every_solve_is_like_a_first_one(m: Any, b: F64) -> None:
    with Solver(PROBLEM, M=m) as solver:
        for right in (b, 2.0 * b[::-1], b):
            assert same(solver.solve(right), dsolver.solve(PROBLEM, right, M=m))
        guess = np.ones(GRID)
        assert same(solver.solve(b, x0=guess), dsolver.solve(PROBLEM, b, x0=guess, M=m))
        assert same(solver.solve(b, rtol=1e-3), dsolver.solve(PROBLEM, b, rtol=1e-3, M=m))


def test_set_up_is_paid_once(b: F64) -> None:
    with Solver(PROBLEM) as solver:
        first, second = solver.solve(b), solver.solve(b)
    assert first.timings["setup"] > 0.0
    assert second.timings["setup"] == 0.0
    for solution in (first, second):
        assert (
            sum(seconds for name, seconds in solution.timings.items() if name != "total") <= solution.timings["total"]
        )


def test_several_right_hand_sides(b: F64) -> None:
    many = np.stack([b, np.zeros(GRID), 3.0 * b], axis=-1)
    with Solver(PROBLEM) as solver:
        of_array: Any = solver.solve(many)
        of_list = solver.solve([b, np.zeros(GRID), 3.0 * b])
        warm: Any = solver.solve(many, x0=of_array.x)
    assert isinstance(of_array, dsolver.Solutions)
    assert isinstance(of_list.x, list)
    assert of_array.x.shape == many.shape
    assert of_array.converged
    assert (of_array[0].x == of_array.x[..., 0]).all()
    assert (of_array.x == np.stack(of_list.x, axis=-1)).all()
    assert [solution.iterations for solution in warm] == [0, 0, 0]
    assert of_array.status == (Status.CONVERGED,) * 3
    assert of_array.iterations == tuple(one.iterations for one in of_array)
    assert of_array.solved_by == (of_array[0].solved_by,) * 3
    assert repr(of_array) == f"<Solutions: 3 of 3 converged, {of_array[0].iterations * 2} iterations>"
    assert of_array.advice == ""
    short: Any = dsolver.solve(PROBLEM, many, M=None, maxiter=1)
    assert short.advice == short[0].advice != ""
    assert set(short.notes) == {note for each in short for note in each.notes}


def test_one_of_several_may_not_converge(b: F64) -> None:
    with Solver(PROBLEM) as solver:
        solutions = solver.solve([b, np.zeros(GRID)], maxiter=2)
    assert [solution.converged for solution in solutions] == [False, True]
    assert not solutions.converged


def test_several_are_all_looked_at_before_the_first_is_solved(b: F64) -> None:
    bad = b.copy()
    bad[0, 0, 0] = np.nan
    told: list[Any] = []
    with Solver(PROBLEM) as solver:
        with pytest.raises(InputError, match="b has NaN or infinity in 1 value"):
            solver.solve([b, bad], callback=told.append)
        with pytest.raises(InputError, match="x0 must be 2 guesses like b"):
            solver.solve([b, b], x0=b)
    assert told == []


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_neither_copied_nor_pickled_and_goes_on(copied: Callable[[Any], Any], b: F64) -> None:
    with Solver(PROBLEM) as solver:
        expected = solver.solve(b)
        with pytest.raises(InputError, match=r"neither copied nor pickled.*: make one of its problem"):
            copied(solver)
        gc.collect()  # of a copy that was begun
        assert solver.solve(b).residuals == expected.residuals
    assert pickle.dumps(expected), "a Solution may be kept"


def test_the_axis_that_counts_right_hand_sides_is_the_last(b: F64) -> None:
    first = np.stack([b, b])
    last = r"has shape \(2, 16, 8, 24\), .* that counts them is the last; pass numpy.moveaxis"
    with Solver(PROBLEM, device="cpu") as solver:
        for wrong in ({"b": first}, {"b": [b, b], "x0": first}):
            with pytest.raises(InputError, match=last):
                solver.solve(**wrong)
        with pytest.raises(InputError, match=last):
            solver @ first
        with pytest.raises(InputError, match="b has no right-hand side: its last axis has length 0"):
            solver.solve(np.empty((*GRID, 0)))


def test_update_takes_another_matrix(b: F64) -> None:
    with Solver(PROBLEM) as solver:
        solver.solve(b)
        solver.update(SHIFTED, reuse=None)
        assert solver.problem is SHIFTED
        updated = solver.solve(b)
        assert updated.timings["setup"] > 0.0
        solver.update(PROBLEM, reuse=None)
        back = solver.solve(b)
    assert same(updated, dsolver.solve(SHIFTED, b))
    assert same(back, dsolver.solve(PROBLEM, b))


def test_auto_chooses_anew_for_a_matrix_of_another_kind() -> None:
    """The choice for a symmetric matrix, that an update to an unsymmetric one refused as if it had been asked for."""
    rng = np.random.default_rng(0)
    rough = scipy.sparse.random_array((3000, 3000), density=1 / 600, rng=rng)
    one = scipy.sparse.eye_array(3000)
    kinds = [rough @ rough.T + 0.1 * one, rough + 3.0 * one, rough + rough.T]  # definite, unsymmetric, zeros: diagonal
    b = rng.standard_normal(3000)
    with Solver(kinds[0], device="cpu") as solver:
        for a in (kinds[1], kinds[2], kinds[0], kinds[2], kinds[1]):
            solver.update(a)
            found, fresh = solver.solve(b), dsolver.solve(a, b, device="cpu")
            assert same(found, fresh)
            assert (found.solved_by, found.notes) == (fresh.solved_by, fresh.notes)


@pytest.mark.parametrize("parts", [None, np.arange(512) % 3])
def test_update_takes_a_matrix_whose_chunks_would_be_others(parts: Any) -> None:
    """Chunks of as many entries each, which an update to rows of other lengths refused though none were asked for."""
    smooth = matrix((8, 8, 8))
    long_rows = scipy.sparse.random_array((40, 512), density=0.2, rng=np.random.default_rng(1))
    uneven = smooth + scipy.sparse.vstack([long_rows, scipy.sparse.csr_array((472, 512))])
    where: Any = {"chunks": 3} if parts is None else {"partition": parts}
    x = np.linspace(-1.0, 1.0, 512)
    with Solver(dsolver.matrix(smooth, **where), device="cpu", client=False) as solver:
        cut = solver.problem.chunks
        for a in (uneven, smooth):
            solver.update(a)
            assert solver.problem.chunks == cut
            np.testing.assert_allclose(solver.solve(a @ x, rtol=1e-11).x, x, atol=1e-8)
            np.testing.assert_allclose(solver @ x, a @ x, atol=1e-12)


def test_update_fixes_other_cells_in_the_chunks_of_a_flow() -> None:
    """Rows of other lengths, for which chunks that were asked for would be others."""
    one, grid = np.ones((12, 10)), (12, 10)
    flow: Any = {"velocity": (1.0, -0.5), "chunks": (2, 1)}
    held = np.zeros(grid, dtype=bool)
    with Solver(problems.diffusion(grid, fixed=(held, 2.0), **flow), device="cpu", client=False) as solver:
        held = np.arange(120).reshape(grid) < 35
        solver.update(fixed=(held, 2.0))
        expected = dsolver.solve(problems.diffusion(grid, fixed=(held, 2.0), **flow), one, device="cpu", client=False)
        np.testing.assert_allclose(solver.solve(one).x, expected.x, rtol=1e-7)


@pytest.mark.parametrize("kernels", ["auto", "numpy"])
@pytest.mark.parametrize("formats", [None, "rows", "chunks", "slices"])
def test_entries_that_change_in_place_count_from_an_update_on(kernels: Any, formats: Any, b: F64) -> None:
    """Entries that the text-book kernels read where their user had changed them."""
    a, right = scipy.sparse.csr_array(matrix((8, 8, 8))), b.ravel()[:512]
    a.sort_indices()
    problem = dsolver.matrix(a, formats=formats)
    with Solver(problem, M="jacobi", device="cpu", kernels=kernels, client=False) as solver:
        before, product = solver.solve(right), solver @ right
        a.data *= 2.0
        assert same(solver.solve(right), before)
        assert (solver @ right == product).all()
        solver.update(dsolver.matrix(a, formats=formats))
        np.testing.assert_allclose(solver @ right, 2.0 * product)


def fails(*_: Any) -> Any:
    raise ZeroDivisionError


def failing() -> Any:
    """A Dask array whose blocks cannot be computed."""
    return da.map_blocks(fails, da.ones(GRID, chunks=(8, 8, 24)), dtype=float, meta=np.empty((0, 0, 0)))


FAILED = r"the function for kappa raised ZeroDivisionError\(\) at .*test_solver.py, line \d+"


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("kappa", "error"),
    [
        (da.full(GRID, np.nan), InputError),
        (np.full(GRID, -1.0), InputError),
        (fails, InputError),
        (failing(), ZeroDivisionError),
    ],
)
def test_an_update_that_is_refused_leaves_the_old_matrix(constant: bool, kappa: Any, error: Any, b: F64) -> None:
    problem = problems.diffusion(GRID, 2.0 if constant else np.linspace(1.0, 2.0, b.size).reshape(GRID))
    with Solver(problem, device="cpu") as solver:
        before = solver.solve(b)
        with pytest.raises(error):
            solver.update(kappa=kappa)
        assert same(solver.solve(b), before)


@pytest.mark.parametrize("change", [{"kappa": 2.0}, {"problem": problems.diffusion(GRID, np.full(GRID, 2.0))}])
def test_an_update_that_is_interrupted_leaves_the_old_matrix(
    change: dict[str, Any], b: F64, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Solver(problems.diffusion(GRID), device="cpu") as solver:
        before = solver.solve(b)
        with monkeypatch.context() as patch:
            patch.setattr("dsolver.discretize.system.System.prepare", interrupts)
            with pytest.raises(KeyboardInterrupt):
                solver.update(**change)
        assert same(solver.solve(b), before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("chunks", [2, 3])
def test_a_step_that_is_broken_off_leaves_nothing_to_the_next_solve(
    error: type[BaseException], chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a sum over chunks was there, which the next solve took for its own: 27 iterations in place of 11."""
    n = 24
    a = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
    b = np.random.default_rng(0).standard_normal(n)
    call, left = CallRecorder.call, [0]

    def breaks(recorder: CallRecorder, function: Any, *operands: Any) -> None:
        call(recorder, function, *operands)
        left[0] -= 1
        if left[0] == 0:
            raise error

    with Solver(dsolver.matrix(a, chunks=chunks), M="block-jacobi", device="cpu", client=False) as solver:
        before = solver.solve(b)
        for calls in range(1, 80, 3):
            with monkeypatch.context() as patch:
                patch.setattr(CallRecorder, "call", breaks)
                left[0] = calls
                with pytest.raises(error):
                    solver.solve(b)
            assert same(solver.solve(b), before), calls


def test_an_interrupt_before_a_solve_leaves_the_solver_free(b: F64, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that Ctrl-C had left acquired made it refuse all solves, as if one went on."""
    with Solver(problems.diffusion(GRID), device="cpu", client=False) as solver:
        before = solver.solve(b)
        with monkeypatch.context() as patch:
            patch.setattr("dsolver.session.session.threading", SimpleNamespace(get_ident=interrupts))
            with pytest.raises(KeyboardInterrupt):
                solver.solve(b)
        assert same(solver.solve(b), before)


def interrupts(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_a_solver_whose_old_matrix_is_gone_is_closed(b: F64) -> None:
    kappa = np.ones(GRID)
    with Solver(problems.diffusion(GRID, kappa), device="cpu") as solver:
        kappa[...] = -1.0
        with pytest.raises(InputError, match="kappa must be positive"):
            solver.update()
        with pytest.raises(InputError, match="this Solver is closed"):
            solver.solve(b)
        with pytest.raises(InputError, match="this Solver is closed"):
            assert solver.closed_regions


@pytest.mark.parametrize(
    ("problem", "what"),
    [
        (problems.poisson7((8, 8, 8)), "the one that is set up has"),
        (problems.poisson7(GRID, chunks=(2, 1, 1)), "chunks"),
        (problems.hpcg(GRID), "offsets"),
        ("poisson", "or come from dsolver.problems"),
    ],
)
def test_update_refuses_another_structure(problem: Any, what: str, b: F64) -> None:
    with Solver(PROBLEM) as solver:
        with pytest.raises(InputError, match=what):
            solver.update(problem)
        assert solver.solve(b).converged


def test_a_closed_solver_says_so(b: F64) -> None:
    solver = Solver(PROBLEM, device="cpu")
    assert repr(solver) == "<Solver poisson7 16x8x24, on resident/cpu>"
    x = solver.solve(b).x
    solver.close()
    solver.close()
    assert repr(solver).endswith("closed>")
    assert x.shape == GRID
    for use in (lambda: solver.solve(b), lambda: solver.update(SHIFTED)):
        with pytest.raises(InputError, match="this Solver is closed"):
            use()


def test_a_solver_that_solves_cannot_be_used_meanwhile(b: F64) -> None:
    def again(_: dsolver.State) -> None:
        solver.solve(b)

    with Solver(PROBLEM) as solver:
        with pytest.raises(InputError, match="is solving already"):
            solver.solve(b, callback=again)
        assert solver.solve(b).converged, "a callback that fails breaks nothing"


@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "fgmres", "bicgstab"])
def test_a_solve_that_was_left_in_the_middle_leaves_nothing(method: Any, b: F64) -> None:
    """The basis of GMRES, that the next solve added to its own x, so that it stagnated far off."""

    def leave(state: dsolver.State) -> None:
        if state.iteration == 3:
            raise ZeroDivisionError

    guess = 1e-3 * b[::-1]
    with Solver(PROBLEM, M="jacobi", method=method) as solver:
        expected = solver.solve(b), solver.solve(b, x0=guess)
        for x0, before in zip((None, guess), expected, strict=True):
            with pytest.raises(ZeroDivisionError):
                solver.solve(1e6 * b[:, ::-1], callback=leave)
            assert np.linalg.norm(before.residual) == pytest.approx(before.true_residual)
            with pytest.raises(ZeroDivisionError):
                solver.solve(1e6 * b[:, ::-1], callback=leave)
            assert same(solver.solve(b, x0=x0), before)


@pytest.mark.parametrize("method", ["cg", "fcg", "minres", "gmres", "fgmres", "bicgstab"])
@pytest.mark.parametrize("broken", [np.nan, np.inf, 1e300])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_solve_that_broke_down_leaves_nothing(method: Any, broken: float) -> None:
    """NaN in vectors of MINRES, that zeros did not take away: no later solve of its Solver converged."""
    gains = [1.0]
    right = np.random.default_rng(1).standard_normal((2, 64))
    with Solver(matrix((4, 4, 4)), M=lambda r: gains[0] * r, method=method, device="cpu", client=False) as solver:
        expected = solver.solve(right[0]), solver.solve(right[0], x0=right[1])
        gains[0] = broken
        assert not solver.solve(right[0], x0=right[1], maxiter=50).converged
        gains[0] = 1.0
        assert same(solver.solve(right[0], x0=right[1]), expected[1])
        assert same(solver.solve(right[0]), expected[0])


@pytest.mark.filterwarnings("ignore::dsolver.InconsistentWarning", "ignore:overflow:RuntimeWarning")
def test_a_b_that_was_refused_leaves_nothing() -> None:
    """NaN in the padding of b, by which each later b was refused."""
    chain = scipy.sparse.csgraph.laplacian(scipy.sparse.diags_array(np.ones(24), offsets=1, shape=(25, 25)).tocsr())
    right = np.random.default_rng(1).standard_normal(25)
    singular = scipy.sparse.csr_array(chain + chain.T)
    singular.setdiag(singular.diagonal() - singular.sum(axis=1))
    with Solver(singular, dtype="float32", M="jacobi", device="cpu", client=False) as solver:
        before = solver.solve(right)
        with pytest.raises(InputError):
            solver.solve(1e160 * right)
        assert same(solver.solve(right), before)


def test_a_callback_may_look_at_the_iterate(b: F64) -> None:
    seen: list[F64] = []

    def look(state: dsolver.State) -> bool:
        seen.append(solver.iterate())
        return state.iteration == 3

    with Solver(PROBLEM) as solver:
        stopped = solver.solve(b, callback=look)
        with pytest.raises(InputError, match="no solve is running"):
            solver.iterate()
    assert stopped.status is Status.STOPPED
    assert len(seen) == 3
    assert (seen[2] == stopped.x).all()
    assert (seen[0] == dsolver.solve(PROBLEM, b, maxiter=1).x).all()


def test_a_callback_may_close_it(b: F64) -> None:
    solver = Solver(PROBLEM)
    solution = solver.solve(b, callback=lambda _: solver.close())
    assert solution.converged
    assert same(solution, dsolver.solve(PROBLEM, b))
    with pytest.raises(InputError, match="this Solver is closed"):
        solver.solve(b)


def test_another_thread_may_close_it_while_it_solves(b: F64) -> None:
    """A close in a solve that came back with "RankError: this program has ended", and the Solver open again."""
    solver = Solver(PROBLEM, device="cpu")

    def close_it(_: dsolver.State) -> None:
        thread = threading.Thread(target=solver.close)
        thread.start()
        thread.join()

    with pytest.raises(InputError, match="this Solver was closed while it was in use, by another thread"):
        solver.solve(b, callback=close_it)
    assert repr(solver).endswith("closed>")
    with pytest.raises(InputError, match="this Solver is closed"):
        solver.solve(b)


# -- on a cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_a_client_that_a_callback_closes_is_told(engine: Any, client: Client, b: F64) -> None:
    mine = Client(client.scheduler_info()["address"])
    with pytest.raises(ClusterError, match="the client was closed while it was in use"):
        dsolver.solve(
            problems.poisson7(GRID),
            b,
            client=mine,
            engine=engine,
            M=None,
            device="cpu",
            callback=lambda _: mine.close(),
        )


def test_a_client_that_was_closed_is_told(client: Client, b: F64) -> None:
    with Client(client.cluster) as other:
        solver = Solver(problems.poisson7(GRID), client=other, device="cpu")
    for use in (lambda: solver.solve(b), solver.update, lambda: solver.closed_regions):
        with pytest.raises(ClusterError, match="the client of this Solver is closed"):
            use()
    solver.close()


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_on_a_live_cluster_data_stay_there(engine: Any, client: Client, b: F64) -> None:
    problem = problems.poisson7(GRID, chunks=(2, 1, 1))
    expected = dsolver.solve(problem, b, device="cpu", rtol=1e-3)
    right = da.from_array(b, chunks=(8, 8, 24))
    with Solver(problem, client=client, engine=engine, device="cpu") as solver:
        for factor in (1.0, 4.0):
            solution = solver.solve(factor * right, rtol=1e-3)
            assert isinstance(solution.x, da.Array)
            assert solution.x.chunks == ((8, 8), (8,), (24,))
            assert (solution.x.compute() == factor * expected.x).all(), "a power of two changes no bit"
        several = solver.solve(da.stack([right, 2.0 * right], axis=-1), rtol=1e-3)
        assert several.x.chunks == ((8, 8), (8,), (24,), (2,))
        assert (several.x.compute() == np.stack([expected.x, 2.0 * expected.x], axis=-1)).all()
        assert solver.solve(right, x0=solution.x / 4.0, rtol=1e-3).iterations == 0


def test_a_short_solve_is_one_message_to_each_rank(client: Client, b: F64, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    each = RankCalls.each

    def counted(calls: RankCalls, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        sent.append(function.__name__)
        return each(calls, function, *args, **named)

    problem = problems.poisson7(GRID, chunks=(2, 1, 1))
    expected = dsolver.solve(problem, b, device="cpu")
    monkeypatch.setattr(SpmdProgram, "stride", 1e6)  # however slow the machine is, it is a short solve
    monkeypatch.setattr(recovery, "EVERY", 1e6)
    with Solver(problem, client=client, device="cpu") as solver:
        monkeypatch.setattr(RankCalls, "each", counted)
        assert same(solver.solve(b), expected)
        assert sent == ["exchange_rank"]
        sent.clear()
        x = solver.solve(client.persist(da.from_array(b, chunks=(8, 8, 24)))).x
        assert (x.compute() == expected.x).all()
        monkeypatch.setattr(Client, "persist", None)  # an x has its futures in its graph: nothing is asked
        solver.solve(x, maxiter=0)
        assert sent == ["exchange_rank"] * 2
        sent.clear()
        assert all(same(found, expected) for found in solver.solve([b, b]))
        assert sent == ["load_rank", "exchange_rank"] + ["unload_rank"] * 2, "the first makes room for both"
        sent.clear()
        solver.solve(b, callback=lambda state: state.iteration == 3)
        assert sent == ["exchange_rank", *["call_rank"] * 3, "unload_rank"], "a callback may stop after any iteration"


def blocks_of(client: Client) -> set[str]:
    """The blocks of ranks that the scheduler knows."""

    def known(dask_scheduler: Any) -> set[str]:
        return {str(key) for key in dask_scheduler.tasks if str(key).startswith("dsolver-block")}

    found: set[str] = client.run_on_scheduler(known)
    return found


def test_the_scheduler_forgets_an_x_that_no_rank_has_made(client: Client, b: F64) -> None:
    right = da.from_array(b, chunks=(8, 8, 24))
    with Solver(problems.poisson7(GRID, chunks=(2, 1, 1)), client=client, device="cpu") as solver:
        before = blocks_of(client)
        # The first call brings no x, for the callback is asked after each iteration; its keys were known by then.
        x = solver.solve(right, callback=lambda state: state.iteration == 3).x
        assert eventually(lambda: len(blocks_of(client) - before) == 2), "the blocks of x are there, and no others"
        assert np.isfinite(x.compute()).all()
        del x
        assert gone(lambda: blocks_of(client) - before)


def test_the_scheduler_forgets_an_x_whose_ranks_have_failed(
    client: Client, b: F64, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = client.persist(da.from_array(b, chunks=(8, 8, 24)))
    with Solver(problems.poisson7(GRID, chunks=(2, 1, 1)), client=client, device="cpu") as solver:
        solver.solve(right, rtol=0.5)
        before = blocks_of(client)

        async def lost(*_: Any) -> Any:
            await asyncio.sleep(0.1)  # the scheduler knows of x by then
            raise RankError("it was lost")

        with monkeypatch.context() as patch:
            patch.setattr(RankCalls, "gather", lost)
            program: Any = solver._session.program
            with pytest.raises(RankError, match="it was lost"):
                program.exchange("b", {}, False, max)
        assert gone(lambda: blocks_of(client) - before)


def test_keys_of_a_worker_that_nobody_knows_are_forgotten(client: Client) -> None:
    from dsolver.engines.dask.blocks import register

    there = next(iter(client.nthreads()))
    where = {"dsolver-block-of-a-worker": there, "dsolver-block-of-none": "tcp://127.0.0.1:9"}
    with pytest.raises(KeyError):
        client.sync(register, client, where, dict.fromkeys(where, 1 << 30))
    assert gone(lambda: blocks_of(client) & where.keys())


REFUSED: list[tuple[Any, Any, str]] = [
    (da.full(GRID, -1.0), InputError, "kappa must be positive"),
    (fails, InputError, FAILED),
    (lambda *_: None, InputError, "the function for kappa returned dtype object"),
    (failing(), ZeroDivisionError, "^$"),
]


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_an_update_that_workers_refuse_leaves_the_old_matrix(engine: Any, client: Client, b: F64) -> None:
    """Errors of ranks, most of which end the program, which is started again."""
    kappa = np.linspace(1.0, 2.0, b.size).reshape(GRID)
    problem = problems.diffusion(GRID, kappa, chunks=(2, 1, 1))
    expected = dsolver.solve(problem, b, device="cpu", maxiter=2)
    with Solver(problem, client=client, engine=engine, device="cpu") as solver:
        for wrong, error, message in REFUSED:
            with pytest.raises(error, match=message):
                solver.update(kappa=wrong)
            assert same(solver.solve(b, maxiter=2), expected)
        solver.update(kappa=2.0 * kappa)
        assert np.allclose(2.0 * solver.solve(b, maxiter=2).x, expected.x, rtol=1e-6)


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_right_hand_sides_that_cannot_be_computed_end_no_solver(engine: Any, client: Client, b: F64) -> None:
    problem = problems.poisson7(GRID, chunks=(2, 1, 1))
    with Solver(problem, client=client, engine=engine, device="cpu") as solver:
        with pytest.raises(ZeroDivisionError):
            solver.solve(failing(), x0=b)
        before = solver.solve(b, maxiter=2)
        assert before.residuals[0] == before.b_norm  # the guess that has come is not left to it
        for wrong in ({"b": failing()}, {"b": b, "x0": failing()}, {"b": [b, failing()]}):
            with pytest.raises(ZeroDivisionError):
                solver.solve(**wrong)
            assert same(solver.solve(b, maxiter=2), before)


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_blocks_that_are_complex_whatever_their_array_says_are_refused(engine: Any, client: Client, b: F64) -> None:
    right = da.from_array(b, chunks=(8, 24, 24))
    false = right.map_blocks(lambda block: block + 1j, dtype=float, meta=np.empty((0, 0, 0)))
    with Solver(problems.poisson7(GRID, chunks=(2, 1, 1)), client=client, engine=engine, device="cpu") as solver:
        with pytest.raises(InputError, match="a block of an array has dtype complex128"):
            solver.solve(false)
        assert solver.solve(right, maxiter=2).iterations == 2


@pytest.mark.parametrize("engine", ["resident", "graph", None])
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda block: np.ma.masked_array(block, block > 0.0), "a block of an array is masked"),
        (lambda block: block.astype(np.float32), "a block of b has dtype float32, where the Dask array says float64"),
        (lambda block: block.T, r"a block of b has shape .*, where the Dask array says \(8, 8, 24\)"),
    ],
)
def test_blocks_that_are_not_what_their_array_says_are_refused(
    engine: Any, client: Client, b: F64, changed: Any, reason: str
) -> None:
    right = da.from_array(b, chunks=(8, 24, 24))
    false = right.map_blocks(changed, dtype=float, meta=np.empty((0, 0, 0)))
    where = {} if engine is None else {"client": client, "engine": engine}
    with Solver(problems.poisson7(GRID, chunks=(2, 1, 1)), device="cpu", **where) as solver:
        with pytest.raises(InputError, match=reason):
            solver.solve(false)
        if engine is not None and "masked" in reason:
            with pytest.raises(InputError, match=reason):
                solver.solve(client.persist(false.rechunk((12, 24, 24))))


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_a_solver_goes_on_when_workers_are_back(engine: Any, b: F64, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.cluster.crew.RETURN", 0.1)
    problem = problems.poisson7(GRID, chunks=(2, 1, 1))
    with cluster(2) as client, Solver(problem, client=client, engine=engine, M=None, device="cpu") as solver:
        before = solver.solve(b, maxiter=3)
        made: Any = client.cluster
        made.scale(0)
        assert gone(client.nthreads)
        for _ in range(2):
            with pytest.raises(ClusterError, match="left the cluster"):
                solver.solve(b, maxiter=3)
        made.scale(2)
        client.wait_for_workers(2, timeout=PATIENCE)
        assert same(solver.solve(b, maxiter=3), before)


def test_after_an_interrupt_the_program_is_started_again(
    client: Client, b: F64, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks that were interrupted have ended: they cannot be told where the others are."""
    with Solver(problems.poisson7(GRID, chunks=(2, 1, 1)), client=client, device="cpu") as solver:
        before = solver.solve(b)
        for use in (lambda: solver.solve(b), lambda: solver.update(SHIFTED_IN_TWO)):
            with monkeypatch.context() as patch:
                patch.setattr("dsolver.engines.spmd.calls.RankCalls.each", interrupts)
                with pytest.raises(KeyboardInterrupt):
                    use()
            after = solver.solve(b)
            assert same(after, before)
            assert after.timings["setup"] > 0.0, "which that solve has paid for"


def test_it_works_inside_a_running_loop(b: F64) -> None:
    """As in a notebook, whose cells run inside a loop."""

    async def cell() -> tuple[dsolver.Solution, list[F64]]:
        seen: list[F64] = []
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
            Client(cluster) as client,
            Solver(problems.poisson7(GRID, chunks=(2, 1, 1)), client=client, device="cpu") as solver,
        ):
            solution = solver.solve(b, callback=lambda _: seen.append(solver.iterate()))
        return solution, seen

    solution, seen = asyncio.run(cell())
    assert solution.converged
    assert (seen[-1] == solution.x).all()


def test_gpus_that_this_thread_holds_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs cannot share a GPU: a second Solver would wait for one that its own thread has left open."""
    launched: list[Solver] = []

    class Program:
        link = "nccl"

        def settle(self) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr("dsolver.session.session.connect", lambda *_, **__: on_gpus("tcp://a:1", "tcp://b:1"))
    monkeypatch.setattr("dsolver.cluster.devices.free_memory_of", lambda *_, **__: (1 << 37, 1 << 37))
    monkeypatch.setattr("dsolver.cluster.runtime.Runtime.launch", lambda *_: Program())
    monkeypatch.setattr("dsolver.session.feed.Feed.begin_set_up", lambda _: None)  # there is no cluster
    first = Solver(PROBLEM)
    with pytest.raises(ClusterError, match=r"<Solver poisson7 .*> holds the GPUs of this cluster .* close it first"):
        Solver(PROBLEM)
    thread = threading.Thread(target=lambda: launched.append(Solver(PROBLEM)))
    thread.start()
    thread.join()
    assert len(launched) == 1, "another thread may wait its turn"
    first.close()
    Solver(PROBLEM).close()
    launched[0].close()


def on_gpus(*workers: str) -> dsolver.cluster.runtime.Runtime:
    client: Any = object()
    return dsolver.cluster.runtime.Runtime(
        engine="resident", device="cuda", kernels="cuda", client=client, workers=workers
    )


# -- cg ----------------------------------------------------------------------------------------------------------------


def test_cg_is_scipys() -> None:
    problem = problems.poisson7((12, 7, 9))
    right = np.random.default_rng(1).standard_normal(problem.grid)
    seen: list[F64] = []
    theirs_seen: list[F64] = []
    x, info = dsolver.cg(problem, right, callback=seen.append)
    theirs, their_info = scipy.sparse.linalg.cg(
        matrix(problem.grid), right.ravel(), callback=lambda xk: theirs_seen.append(xk.copy())
    )
    assert info == their_info == 0
    assert len(seen) == len(theirs_seen)
    assert x.ravel() == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    assert seen[4].ravel() == pytest.approx(theirs_seen[4], rel=1e-9, abs=1e-12)
    assert (seen[-1] == x).all()


@pytest.mark.parametrize("told", ["pr_norm", "legacy"])
def test_callbacks_of_gmres_get_what_scipys_get(told: str) -> None:
    problem = problems.poisson7((5, 4, 3))
    right, mine, theirs = np.random.default_rng(1).standard_normal(60), list[float](), list[float]()
    bases = {"pr_norm": 2, "legacy": 12}[told]
    x, info = dsolver.gmres(
        problem, right, M=None, restart=6, maxiter=bases, rtol=1e-9, callback=mine.append, callback_type=told
    )
    expected, _ = scipy.sparse.linalg.gmres(
        matrix(problem.grid), right, restart=6, maxiter=bases, rtol=1e-9, callback=theirs.append, callback_type=told
    )
    assert len(mine) == info == 12
    assert mine == pytest.approx(theirs[:12], rel=1e-9)
    assert x == pytest.approx(expected, rel=1e-6)
    with pytest.raises(InputError, match="callback_type must be one of"):
        dsolver.gmres(problem, right, callback=mine.append, callback_type="y")


def test_an_update_asks_which_argument_was_meant() -> None:
    arguments: dict[str, Any] = {"kapa": 2.0}
    with (
        dsolver.Solver(problems.diffusion((4, 4, 4)), device="cpu") as solver,
        pytest.raises(
            TypeError,
            match=r"update\(\) got .*'kapa': is kappa meant\? it takes problem, kappa, sigma, bc, fixed, .*reuse",
        ),
    ):
        solver.update(**arguments)


def test_a_solution_tells_what_solved_it() -> None:
    right = np.ones((6, 6, 6))
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "cg with Multigrid()"),
        ({"M": None, "method": "minres"}, "minres with Identity()"),
    ]
    for chosen, told in cases:
        solution = dsolver.solve(problems.poisson7(right.shape), right, device="cpu", **chosen)
        assert solution.solved_by == told
        assert told in solution._repr_html_()


@pytest.mark.parametrize("m", [None, "mg", "jacobi"])
def test_cg_takes_raveled_vectors(m: Any, b: F64) -> None:
    x, info = dsolver.cg(PROBLEM, b, M=m, rtol=1e-9)
    shapes: list[Any] = []
    flat, flat_info = dsolver.cg(PROBLEM, b.ravel(), M=m, rtol=1e-9, callback=lambda xk: shapes.append(xk.shape))
    assert info == flat_info == 0
    assert (flat == x.ravel()).all()
    assert set(shapes) == {(b.size,)}
    again, info = dsolver.cg(PROBLEM, b.ravel(), flat, M=m, rtol=1e-9)
    assert info == 0
    assert (again == flat).all()


def negative(problem: Problem) -> Problem:
    weights = -SHIFTED_WEIGHTS
    return problems.stencil(problem.grid, weights)


@pytest.mark.parametrize(
    ("arguments", "info"),
    [
        ({"maxiter": 3}, 3),
        ({"maxiter": 0}, 1),
        ({"A": negative(PROBLEM)}, -1),
        ({"M": lambda r: -r}, -1),
        ({"M": lambda r: np.full_like(r, np.nan)}, -3),
    ],
)
def test_info_tells_what_scipys_does(arguments: dict[str, Any], info: int, b: F64) -> None:
    given: dict[str, Any] = {"A": PROBLEM, "b": b} | arguments
    assert dsolver.cg(**given)[1] == info


def test_a_tolerance_out_of_reach_is_no_breakdown(b: F64) -> None:
    x, info = dsolver.cg(PROBLEM, b, rtol=0.0)
    assert info > 0
    assert np.linalg.norm(b.ravel() - matrix(GRID) @ x.ravel()) < 1e-13 * np.linalg.norm(b)


@pytest.mark.parametrize("a", [np.eye(8), "poisson7", None])
def test_what_is_no_problem_is_refused(a: Any) -> None:
    with pytest.raises(InputError, match="A must be a sparse matrix of SciPy or CuPy, or a problem"):
        dsolver.cg(a, np.ones(8))


def test_cg_refuses_a_callback_that_is_none(b: F64) -> None:
    bad: Any = 3
    with pytest.raises(InputError, match="callback must be a function of an iterate"):
        dsolver.cg(PROBLEM, b, callback=bad)


# -- what the status promises ------------------------------------------------------------------------------------------


def test_a_wild_guess_costs_no_second_start() -> None:
    """Rounding of a huge x0 spoils the recursion, which takes the true residual on the way."""
    problem = problems.poisson7((32, 32, 32))
    rng = np.random.default_rng(0)
    b, x0 = rng.standard_normal(problem.grid), 1e12 * rng.standard_normal(problem.grid)
    solution = dsolver.solve(problem, b, x0=x0, M=None, rtol=1e-9, device="cpu")
    plain = dsolver.solve(problem, b, M=None, rtol=1e-9, device="cpu")
    assert solution.converged
    assert plain.iterations < solution.iterations < 2.3 * plain.iterations, "335 of 133 where it begins anew"


@pytest.mark.parametrize("m", [None, "hpcg", "jacobi"])
def test_x_is_the_iterate_that_the_smallest_residual_tells_of(m: Any) -> None:
    """After a breakdown in the middle of a superstep too: A is indefinite, with few negative eigenvalues."""
    weights = SHIFTED_WEIGHTS.copy()
    weights[1, 1, 1] = 5.9
    problem = problems.stencil((32, 32, 32), weights)
    right = np.random.default_rng(5).standard_normal(problem.grid)
    solution = dsolver.solve(problem, right, M=m, rtol=1e-12, device="cpu")
    assert solution.status is Status.INDEFINITE
    assert solution.iterations > 3, "found in the middle of something"
    assert min(solution.residuals) == pytest.approx(solution.true_residual, rel=1e-8)
    at = int(np.argmin(solution.residuals))
    assert solution.notes[-1].startswith(f"x is that of iteration {at} of {solution.iterations}:")
    assert solution.residuals[-1] == solution.residuals[-2], "the iteration that broke down changed nothing"


# -- coefficients and systems that leave a constant open --------------------------------------------------------------


@pytest.mark.parametrize("m", ["mg", "chebyshev"])
def test_update_takes_other_coefficients(m: Any) -> None:
    rng = np.random.default_rng(3)
    grid = (12, 10, 9)
    one, two, sigma = rng.uniform(1.0, 5.0, grid), rng.uniform(0.1, 1.0, grid), rng.uniform(0.0, 1.0, grid)
    bc: Any = {"x": "periodic", "y": "dirichlet", "z-": problems.Dirichlet(2.0), "z+": "dirichlet"}
    mask = rng.random(grid) < 0.1

    def problem(kappa: Any, absorbed: Any) -> Problem:
        return problems.diffusion(grid, kappa, absorbed, spacing=(1.0, 0.5, 2.0), bc=bc, mask=mask)

    f = rng.standard_normal(grid)
    with Solver(problem(one, 0.0), M=m, device="cpu") as solver:
        solver.solve(f)
        for arguments, expected in (
            ({"kappa": two}, problem(two, 0.0)),
            ({"sigma": sigma}, problem(two, sigma)),
            ({"kappa": (one, 1.0, two), "sigma": 0.5}, problem((one, 1.0, two), 0.5)),
            ({"sigma": sigma}, problem((one, 1.0, two), sigma)),
            ({"kappa": bowl}, problem(bowl, sigma)),
        ):
            solver.update(**arguments)
            assert same(solver.solve(f), dsolver.solve(expected, f, M=m, device="cpu"))
        assert same(solver.solve(f), dsolver.solve(solver.problem, f, M=m, device="cpu"))  # it has its arrays
        with pytest.raises(InputError, match="kappa has shape"):
            solver.update(kappa=np.ones((2, 2, 2)))
    with Solver(PROBLEM, device="cpu") as solver, pytest.raises(InputError, match="poisson7 has no kappa and sigma"):
        solver.update(kappa=2.0)


def bowl(x: Any, y: Any, z: Any) -> Any:
    return 1.0 + 0.01 * (x * x + y * y + z * z)


@pytest.mark.parametrize(
    ("shift", "rtol", "atol", "status"),
    [
        (0.0, 1e-8, 0.0, Status.CONVERGED),
        (1e-6, 1e-8, 0.0, Status.INCOMPATIBLE_RHS),
        (1e-6, 1e-5, 0.0, Status.CONVERGED),
        (1e-6, 1e-8, 1e-3, Status.CONVERGED),
        (1.0, 1e-8, 0.0, Status.INCOMPATIBLE_RHS),
        (1e30, 1e-8, 0.0, Status.INCOMPATIBLE_RHS),
    ],
)
@pytest.mark.filterwarnings("ignore::dsolver.InconsistentWarning")
def test_what_no_x_can_reach_is_told(shift: float, rtol: float, atol: float, status: Status) -> None:
    """The true residual of the b that was given decides; x solves the rest all the same."""
    f = np.random.default_rng(4).standard_normal((8, 8, 8))
    f -= f.mean()
    problem = problems.diffusion((8, 8, 8), bc="neumann")
    solution = dsolver.solve(problem, f + shift, rtol=rtol, atol=atol, device="cpu")
    assert solution.status is status
    assert solution.converged == (status is Status.CONVERGED)
    if shift < 1e30:
        expected = dsolver.solve(problem, f, rtol=rtol, atol=atol, device="cpu").x
        assert solution.x == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert dsolver.cg(problem, f + shift, rtol=rtol, atol=atol)[1] >= (0 if status is Status.CONVERGED else 1)
