"""Solves that lose a worker: they go on by themselves, or end with one error. Faults at any moment: test_faults.py."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver.cluster import crew, devices, losses
from dsolver.engines.graph import results, task_graph
from dsolver.engines.graph.results import Results
from dsolver.engines.spmd import calls as rank_calls
from dsolver.engines.spmd import client as gang
from dsolver.engines.spmd import worker
from dsolver.engines.spmd.client import SpmdProgram
from dsolver.errors import ClusterError, InputError, RankError, WorkerLostError
from dsolver.grid.partition import Partition
from dsolver.monitor.state import State
from dsolver.session import recovery
from dsolver.session.checkpoints import checkpoint, saves
from dsolver.session.checkpoints.checkpoint import Checkpoint
from tests.support.clusters import breakable, cluster, workers_without_nanny
from tests.support.waiting import PATIENCE, gone

GRID = (8, 8, 8)
PROBLEM = dsolver.problems.poisson7(GRID, chunks=(2, 1, 2))
B = np.random.default_rng(5).standard_normal(GRID)


@pytest.fixture(scope="module")
def truth() -> Any:
    return dsolver.solve(PROBLEM, B, rtol=1e-11, M=None).x


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers of a busy machine take their time to answer, and nannies to bring others: all of them will."""
    monkeypatch.setattr(crew, "ANSWER", PATIENCE)
    monkeypatch.setattr(crew, "RETURN", PATIENCE)


@pytest.fixture
def client() -> Iterator[Client]:
    """Three workers, each a process, for one test: one that is killed need not be replaced for the next."""
    with breakable(3) as made:
        yield made


def left(client: Client) -> list[Any]:
    """Ranks that remain on the workers."""

    def look() -> Any:
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("dsolver-")]
        return len(worker._RANKS), names

    return [found for found in client.run(look).values() if found != (0, [])]


class Killer:
    """A callback that slows a solve down and sends a signal to one of its workers after so many iterations."""

    def __init__(self, client: Client, after: int, number: int, kind: int = signal.SIGKILL) -> None:
        pids = client.run(os.getpid)
        self.pid = pids[sorted(pids)[number % len(pids)]]
        self.after, self.kind = after, kind
        self.heard: list[float] = []
        """When each iteration was heard of."""

    def __call__(self, _: State) -> None:
        self.heard.append(time.perf_counter())
        if len(self.heard) == self.after:
            os.kill(self.pid, self.kind)

    @property
    def struck(self) -> bool:
        return len(self.heard) >= self.after


def check(solution: dsolver.Solution, truth: Any, within: float = 1e-6) -> None:
    assert solution.converged
    np.testing.assert_allclose(np.asarray(solution.x), truth, rtol=0, atol=within * np.abs(truth).max())


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_a_killed_worker_is_replaced_and_the_solve_goes_on(
    engine: Any, client: Client, truth: Any, tmp_path: Path
) -> None:
    killer = Killer(client, 8, 1)
    store = Checkpoint(tmp_path / "store", every=0.0)
    options: dict[str, Any] = {"client": client, "engine": engine, "M": None, "rtol": 1e-4}
    solution = dsolver.solve(PROBLEM, B, callback=killer, checkpoint=store, **options)
    check(solution, truth, within=1e-3)
    assert len(killer.heard) > 8
    found = store.newest(GRID)
    assert found is not None
    assert gone(lambda: left(client))
    check(dsolver.solve(PROBLEM, da.from_array(B, chunks=4), **options), truth, within=1e-3)


def test_timings_and_words_of_a_solve_that_lost_a_worker(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Timings were of the last attempt alone, and it went on "with 3 workers, where it had 3"."""
    killer = Killer(client, 8, 1)
    began = time.perf_counter()
    solution = dsolver.solve(PROBLEM, B, client=client, M=None, callback=killer)
    took = time.perf_counter() - began
    times = solution.timings
    first, struck, went_on, last = (killer.heard[number] for number in (0, 7, 8, -1))
    assert "the cluster has lost a worker on the way: the solve began again" in solution.notes[-1]
    assert times["setup"] > 0.0
    assert times["lost"] > struck - first
    assert times["lost"] + times["load"] + times["solve"] > last - first, "the last attempt loads once more"
    assert times["lost"] <= went_on - began
    assert sum(times[part] for part in ("setup", "load", "solve", "lost")) <= times["total"] <= took
    assert "lost" not in dsolver.solve(PROBLEM, B, client=client, M=None).timings
    (told,) = (record.getMessage() for record in caplog.records if "goes on" in record.getMessage())
    assert "where it had" not in told
    words = (
        "others have taken the place of what was lost: the solve goes on with 3 workers",
        "goes on with 2 of 3 workers",
    )
    assert told.endswith(words)


@pytest.mark.parametrize(
    ("left", "before", "words"),
    [
        (2, 3, "the solve goes on with 2 of 3 workers"),
        (3, 3, "others have taken the place of what was lost: the solve goes on with 3 workers"),
        (1, 1, "others have taken the place of what was lost: the solve goes on with 1 worker"),
    ],
)
def test_a_loss_is_told_with_the_workers_that_are_left(left: int, before: int, words: str) -> None:
    assert losses.left_of(left, before) == words


@pytest.mark.parametrize("method", ["cg", "gmres"])
def test_without_a_checkpoint_it_goes_on_from_memory(
    method: Any, client: Client, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery.Keeper, "_due", True)
    starts: list[float] = []
    killer = Killer(client, 20, 0)

    def callback(state: State) -> None:
        if state.iteration == 1:
            starts.append(state.residual)
        killer(state)

    solution = dsolver.solve(PROBLEM, B, client=client, M=None, method=method, callback=callback)
    check(solution, truth)
    assert len(starts) == 2
    assert starts[1] < 0.2 * starts[0]  # it did not begin at zero


def test_several_right_hand_sides_go_on_together(client: Client, truth: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.Keeper, "_due", True)
    monkeypatch.setattr(SpmdProgram, "stride", 0.0)
    killer, save = Killer(client, 2, 1), recovery.Keeper._save

    def saved(keeper: recovery.Keeper, system: Any, b_norm: float, state: State) -> None:
        save(keeper, system, b_norm, state)
        killer(state)

    monkeypatch.setattr(recovery.Keeper, "_save", saved)
    with dsolver.Solver(PROBLEM, client=client, M=None) as solver:
        first, second = solver.solve([B, -2.0 * B])
    assert killer.struck
    check(first, truth)
    check(second, -2.0 * truth)
    for solution in (first, second):
        assert solution.residuals[0] < 0.9 * solution.b_norm, "from the iterates that were kept, not from zero"


def test_coefficients_are_brought_to_the_new_owners(client: Client) -> None:
    kappa = np.random.default_rng(0).random((16, 16, 16)) + 1.0
    problem, b = dsolver.problems.diffusion((16, 16, 16), kappa), np.ones((16, 16, 16))
    expected = dsolver.solve(problem, b, M=None, rtol=1e-11).x
    solution = dsolver.solve(problem, b, client=client, M=None, callback=Killer(client, 5, 0))
    check(solution, expected)


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_a_worker_that_pauses_is_gone_back_to(
    engine: Any, client: Client, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that answers again when workers are asked with whom to go on: all were there, and the solve ended."""
    for module in (rank_calls, results):
        monkeypatch.setattr(module, "PING_TIMEOUT", 0.5)
        monkeypatch.setattr(module, "GRACE", 0.5)
    monkeypatch.setattr(gang, "GRACE", 0.5)
    monkeypatch.setattr(rank_calls, "LOOK", 0.2)
    killer, answering = Killer(client, 8, 1, signal.SIGSTOP), crew.answering

    def awaken(*args: Any) -> Any:
        os.kill(killer.pid, signal.SIGCONT)
        return answering(*args)

    monkeypatch.setattr(crew, "answering", awaken)
    try:
        solution = dsolver.solve(PROBLEM, B, client=client, engine=engine, M=None, callback=killer, rtol=1e-4)
    finally:
        os.kill(killer.pid, signal.SIGCONT)
    check(solution, truth, within=1e-3)
    assert solution.timings["lost"] > 0.0
    assert "3 workers" in solution.engine


def test_a_worker_that_pauses_while_results_are_renamed(
    client: Client, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker because of which "the cluster does not answer" was told."""
    monkeypatch.setattr(results, "PING_TIMEOUT", 0.5)
    killer, rename, answering = Killer(client, 0, 1), Results.rename, crew.answering

    def paused(held: Results, sources: Any) -> None:
        if not killer.heard:
            killer.heard.append(time.perf_counter())
            os.kill(killer.pid, signal.SIGSTOP)
        rename(held, sources)

    def awaken(*args: Any) -> Any:
        os.kill(killer.pid, signal.SIGCONT)
        return answering(*args)

    monkeypatch.setattr(task_graph, "FORGET_AFTER", 0)
    monkeypatch.setattr(Results, "rename", paused)
    monkeypatch.setattr(crew, "answering", awaken)
    try:
        solution = dsolver.solve(PROBLEM, B, client=client, engine="graph", M=None, rtol=1e-4)
    finally:
        os.kill(killer.pid, signal.SIGCONT)
    check(solution, truth, within=1e-3)
    assert killer.struck
    assert solution.timings["lost"] > 0.0


def cut() -> None:
    """Reset the connections of this worker's rank."""
    for rank in worker._RANKS.values():
        for link in rank.connections._connections.values():
            link.cut()


def test_ranks_that_lose_a_connection_begin_anew(truth: Any) -> None:
    """Ranks whose workers are well."""
    with cluster(2, processes=True) as two:
        address = sorted(two.nthreads())[0]
        heard: list[State] = []

        def callback(state: State) -> None:
            heard.append(state)
            if len(heard) == 5:
                two.run(cut, workers=[address])

        solution = dsolver.solve(PROBLEM, B, client=two, M=None, callback=callback)
        check(solution, truth)
        assert solution.timings["lost"] > 0.0


def told_unless(told: Callable[[], Any], pid: int) -> Any:
    """Facts of a worker, but the end of one process."""
    if os.getpid() == pid:
        os.kill(pid, signal.SIGKILL)
    return told()


def test_a_worker_that_is_killed_when_it_is_asked_first(
    client: Client, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solve that said "does not answer within 60 s" at once, though others were there."""
    found = partial(told_unless, devices.facts_with_gpu, Killer(client, 1, 1).pid)
    monkeypatch.setattr(devices, "facts_with_gpu", found)
    check(dsolver.solve(PROBLEM, B, client=client, M=None), truth)


def kill_one(client: Client) -> None:
    os.kill(Killer(client, 1, 1).pid, signal.SIGKILL)


@pytest.mark.parametrize("engine", ["resident", pytest.param("graph", marks=pytest.mark.slow)])
def test_a_kill_between_solves_is_borne(engine: Any, client: Client) -> None:
    """By whatever comes next: an update, the preconditioner, a look at the levels."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(20, 20))
    once, twice = (dsolver.matrix(sp.csr_array(k * sp.kronsum(line, line)), chunks=3) for k in (1.0, 2.0))
    b = np.arange(1.0, 401.0)
    with dsolver.Solver(once, M="amg") as solver:
        applied, levels = solver.aspreconditioner() @ b, solver.hierarchy
    expected = dsolver.solve(twice, b, M="amg").x
    with dsolver.Solver(once, client=client, engine=engine, M="amg") as solver:
        kill_one(client)
        assert str(solver.hierarchy) == str(levels)
        kill_one(client)
        np.testing.assert_allclose(solver.aspreconditioner() @ b, applied, rtol=1e-9)
        kill_one(client)
        solver.update(twice)
        np.testing.assert_allclose(solver.solve(b).x, expected, rtol=1e-6)


def test_no_worker_left_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "RETURN", 0.0)
    with workers_without_nanny(1) as (client, _):
        killer = Killer(client, 3, 0)
        with pytest.raises(WorkerLostError):
            dsolver.solve(PROBLEM, B, client=client, M=None, callback=killer)
        assert killer.struck


def test_a_scheduler_that_is_gone_is_one_error() -> None:
    with breakable(2) as client:
        made = client.cluster
        assert made is not None

        def end(state: State) -> None:
            if state.iteration == 3:
                made.close()

        with pytest.raises(ClusterError):
            dsolver.solve(PROBLEM, B, client=client, M=None, callback=end)


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_a_client_that_a_callback_shuts_down_is_one_error(engine: Any) -> None:
    with cluster(2) as client:

        def end(state: State) -> None:
            if state.iteration == 3:
                client.shutdown()

        with pytest.raises(ClusterError):
            dsolver.solve(PROBLEM, B, client=client, engine=engine, M=None, callback=end)


def test_faults_of_the_program_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(2) as client:
        calls: list[int] = []

        def fail(*_: Any) -> Any:
            calls.append(1)
            raise ValueError("bad luck")

        monkeypatch.setattr("dsolver.program.batches.batch.Batch.start", fail)
        with pytest.raises(RankError, match="bad luck"):
            dsolver.solve(PROBLEM, B, client=client, M=None)
        assert len(calls) <= 2


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_solve_resumes_on_another_number_of_workers(truth: Any, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    first = dsolver.solve(PROBLEM, B, M=None, maxiter=20, checkpoint=Checkpoint(folder, every=0.0))
    assert first.status is dsolver.Status.MAX_ITERATIONS
    with cluster(2) as client:
        other = dsolver.problems.poisson7(GRID, chunks=(1, 2, 1))
        second = dsolver.solve(other, B, client=client, M=None, resume=folder)
    check(second, truth)
    assert second.residuals[0] < 0.9 * np.linalg.norm(B)


@pytest.mark.parametrize("M", [None, "mg"])
def test_saving_an_iterate_changes_no_bit_where_the_constant_is_open(M: Any, tmp_path: Path) -> None:
    """A save is of mean zero, and the iterate that goes on is not: when a save happens depends on the clock."""
    problem = dsolver.problems.diffusion(GRID, 1.0 + B**2, bc="neumann", chunks=(2, 1, 1))
    source = B - B.mean()
    plain = dsolver.solve(problem, source, M=M, rtol=1e-9, maxiter=12)
    saved = dsolver.solve(problem, source, M=M, rtol=1e-9, maxiter=12, checkpoint=Checkpoint(tmp_path / "a", every=0.0))
    assert saved.residuals == plain.residuals
    assert np.array_equal(saved.x, plain.x)
    kept = Checkpoint(tmp_path / "a").newest(GRID)
    assert kept is not None
    assert abs(np.asarray(kept[1]).mean()) < 1e-12


def test_resuming_from_nothing_begins_at_x0(tmp_path: Path) -> None:
    plain = dsolver.solve(PROBLEM, B, x0=B, M=None, maxiter=3)
    resumed = dsolver.solve(PROBLEM, B, x0=B, M=None, maxiter=3, resume=tmp_path / "none")
    assert resumed.residuals == plain.residuals
    assert not plain.notes
    assert resumed.notes == (f"nothing was saved in {tmp_path / 'none'}: the solve began without",)


def test_a_full_disk_is_a_warning_once_and_the_solve_goes_on(
    truth: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saves, "write", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = dsolver.solve(
            PROBLEM, B, M=None, checkpoint=Checkpoint(tmp_path / "a", every=0.0), callback=lambda _: None
        )
    check(solution, truth)
    assert [str(w.message) for w in caught if "could not be written: [Errno 28]" in str(w.message)]
    assert len([w for w in caught if "could not be written" in str(w.message)]) == 1


def test_a_checkpoint_of_another_grid_is_refused(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "store")
    part = Partition((8, 8, 4))
    store.save(part, {0: np.zeros((8, 8, 4))}, iteration=1, residual=1.0, b_norm=1.0)
    with pytest.raises(InputError, match="was saved for the grid"):
        dsolver.solve(PROBLEM, B, M=None, resume=store)


@pytest.mark.parametrize("value", [3, object()])
def test_what_is_no_checkpoint_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="a checkpoint is a folder"):
        dsolver.solve(PROBLEM, B, M=None, checkpoint=value)
    assert checkpoint.checkpoint_of(None) is None
