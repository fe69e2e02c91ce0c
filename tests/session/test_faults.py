"""The fault suite: whatever breaks, a solve goes on or ends with one error, and leaves nothing.

What is measured is silence: the longest time after a fault in which nothing is heard of the solve, no iteration and no
end. It is half a minute at most, and goes into the report of `--junitxml`; a test fails only where it never ends, since
a machine that is busy with other work may stop any process at any time.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import dsolver
from dsolver.cluster import crew, devices
from dsolver.engines.dask import blocks, connection
from dsolver.engines.spmd import blocks as rank_blocks
from dsolver.engines.spmd import calls as rank_calls
from dsolver.engines.spmd import worker as ranks
from dsolver.errors import ClusterError, InputError, WorkerLostError
from dsolver.monitor.state import State
from dsolver.session.checkpoints.checkpoint import Checkpoint
from tests.support.clusters import breakable, cluster, ended, process_of, scheduler_in_a_process
from tests.support.leftovers import nothing_left
from tests.support.waiting import PATIENCE, eventually, gone

GRID = (16, 16, 16)
PROBLEM = dsolver.problems.poisson7(GRID, chunks=(2, 1, 2))
B = np.random.default_rng(5).standard_normal(GRID)
ENGINES = ["resident", "graph"]
GRAPH_IS_SLOW = ["resident", pytest.param("graph", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def leak_check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # is made, if it is not there yet, where temporary files are
    with nothing_left():
        yield


@pytest.fixture(scope="module")
def truth() -> Any:
    return dsolver.solve(PROBLEM, B, rtol=1e-11, M=None).x


@contextmanager
def scheduler_and_workers(folder: Path, count: int) -> Iterator[tuple[Client, list[BaseProcess]]]:
    """A scheduler in a process of its own, the first of those that are returned, and workers without nannies."""
    where = folder / "scheduler.json"
    worker = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(where)]
    with ExitStack() as stack:
        processes = [stack.enter_context(scheduler_in_a_process(where, "--no-dashboard"))]
        processes += [stack.enter_context(process_of("distributed.cli.dask_worker", *worker)) for _ in range(count)]
        client = stack.enter_context(Client(scheduler_file=str(where), timeout=PATIENCE))
        client.wait_for_workers(count, timeout=PATIENCE)
        yield client, processes


def send(process: BaseProcess, kind: int) -> None:
    assert process.pid is not None
    os.kill(process.pid, kind)


class Watch:
    """A callback that hears of each iteration, and calls a fault after so many.

    Args:
        after: so many.
        fault: is called.
        pause: seconds after each iteration.
        last: the iteration after which the solve is held, for a fault that must not come after its end.
    """

    def __init__(
        self,
        after: int | None = None,
        fault: Callable[[], Any] | None = None,
        pause: float = 0.0,
        last: int | None = None,
    ) -> None:
        self._after, self._fault, self._pause, self._last = after, fault, pause, last
        self._heard: list[float] = []
        self.when: float | None = None

    def __call__(self, _: State) -> None:
        self._heard.append(time.monotonic())
        if len(self._heard) == self._after and self._fault is not None:
            self.strike(self._fault)
        time.sleep(PATIENCE if len(self._heard) == self._last else self._pause)

    def strike(self, fault: Callable[[], Any]) -> None:
        """The fault happens, at a time that is taken down."""
        self.when = time.monotonic()
        fault()

    def silence(self) -> float:
        """The longest time after the fault in which nothing was heard, up to now, which is the end."""
        assert self.when is not None, "there was no fault"
        times = [self.when, *[t for t in self._heard if t > self.when], time.monotonic()]
        return max(b - a for a, b in pairwise(times))


def worker_of(client: Client, number: int) -> tuple[str, int]:
    """The address and the process of a worker."""
    pids = client.run(os.getpid)
    address = sorted(pids)[number % len(pids)]
    return address, int(pids[address])


def await_workers(client: Client, count: int, lost: str) -> None:
    """Wait until the scheduler knows of a loss, and has so many workers."""
    eventually(lambda: lost not in client.nthreads())
    client.wait_for_workers(count, timeout=PATIENCE)


def solve(client: Client | None, engine: Any, watch: Watch | None = None, **options: Any) -> dsolver.Solution:
    return dsolver.solve(PROBLEM, B, client=client, engine=engine, M=None, callback=watch, **options)


def check(solution: dsolver.Solution, truth: Any) -> None:
    assert solution.converged
    np.testing.assert_allclose(np.asarray(solution.x), truth, rtol=0, atol=1e-6 * np.abs(truth).max())


def assert_usable(client: Client, engine: Any) -> None:
    """Nothing of the last solve is left on the cluster, and the next one comes out right."""
    assert_nothing_on(client)
    problem, b = dsolver.problems.poisson7((8, 8, 8)), np.ones((8, 8, 8))
    expected = dsolver.solve(problem, b, M=None)
    found = dsolver.solve(problem, b, client=client, engine=engine, M=None)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-6)
    del found
    assert_nothing_on(client)


def assert_nothing_on(client: Client) -> None:
    def of_worker() -> Any:
        names = [t.name for t in threading.enumerate() if t.name.startswith(("dsolver-rank", "dsolver-send"))]
        return len(ranks._RANKS), names

    def of_scheduler(dask_scheduler: Any) -> list[str]:
        return [str(key) for key in dask_scheduler.tasks]

    def look() -> list[Any]:
        gc.collect()  # of an error that was raised: its frames hold futures, and Dask's hold the error
        return [
            *[found for found in client.run(of_worker, on_error="ignore").values() if found != (0, [])],
            *client.run_on_scheduler(of_scheduler),
        ]

    gone(look, pause=0.2)


def told(request: pytest.FixtureRequest, watch: Watch) -> None:
    """Silence after a fault, for the report of `--junitxml`."""
    request.node.user_properties.append(("silence", round(watch.silence(), 2)))


# -- kill -9 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", GRAPH_IS_SLOW)
@pytest.mark.parametrize("seed", [*range(1), *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_kill_9_of_a_worker_at_any_moment(
    engine: Any, seed: int, truth: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """During set-up or at some iteration, with checkpoints or without."""
    choose = random.Random(seed)
    with breakable(choose.choice([2, 3])) as client:
        worker, pid = worker_of(client, choose.randrange(3))
        setup, delay = choose.random() < 0.3, choose.uniform(0.0, 0.1)
        store = Checkpoint(tmp_path / "store", every=choose.choice([0.0, 0.3])) if choose.random() < 0.7 else None
        alarms: list[threading.Timer] = []

        def alarm(seconds: float) -> None:
            alarms.append(threading.Timer(seconds, watch.strike, [lambda: os.kill(pid, signal.SIGKILL)]))
            alarms[0].start()

        watch = Watch(choose.randrange(1, 30), lambda: alarm(delay), pause=0.01)
        if setup:
            watch = Watch(pause=0.01)
            alarm(choose.uniform(0.0, 1.0))
        try:
            with suppress(ClusterError if setup else WorkerLostError):  # nothing to go on with, or not enough workers
                check(solve(client, engine, watch, checkpoint=store), truth)
        finally:
            alarms[0].join()
        told(request, watch)
        await_workers(client, 1, lost=worker)
        assert_usable(client, engine)


# -- SIGSTOP ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", GRAPH_IS_SLOW)
def test_a_worker_that_hangs_is_left_behind(engine: Any, truth: Any, request: pytest.FixtureRequest) -> None:
    with breakable(3) as client:
        _, pid = worker_of(client, 2)
        watch = Watch(5, lambda: os.kill(pid, signal.SIGSTOP))
        try:
            solution = solve(client, engine, watch)
            told(request, watch)
        finally:
            os.kill(pid, signal.SIGCONT)
        check(solution, truth)
        assert "2 workers" in solution.engine
        assert_usable(client, engine)


# -- the scheduler ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("noticed", [False, True])
def test_a_scheduler_that_is_killed_is_one_error_and_the_workers_end(
    noticed: bool, engine: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """While the solve waits for an answer, or before it asks: Dask then tries for half a minute to connect anew."""
    with scheduler_and_workers(tmp_path, 2) as (client, processes):

        def fault() -> None:
            processes[0].kill()
            while noticed and client.status == "running":
                time.sleep(0.01)

        watch = Watch(5, fault)
        with pytest.raises(ClusterError) as info:
            solve(client, engine, watch)
        told(request, watch)
        assert "\n" not in str(info.value)
        for process in processes:
            assert ended(process)


@pytest.mark.parametrize("running", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_scheduler_that_hangs_is_waited_for_once(
    running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a solve of an open Solver, or during it: what ends it does not wait as long again."""
    waits: list[float] = []

    async def counted(client: Client, request: Any, seconds: float) -> Any:
        try:
            return await connection.wait_for(client, request, seconds)
        except TimeoutError:
            waits.append(seconds)
            raise

    for module in (rank_calls, rank_blocks, blocks, devices):
        monkeypatch.setattr(module, "ANSWER", 6.0)
        monkeypatch.setattr(module, "wait_for", counted)
    monkeypatch.setattr(rank_blocks, "WORTH", 0)  # else b travels straight to the ranks
    with scheduler_and_workers(tmp_path, 2) as (client, processes), dsolver.Solver(PROBLEM, client=client) as solver:
        scheduler, *workers = processes
        watch = Watch(3, lambda: send(scheduler, signal.SIGSTOP))
        if not running:
            watch.strike(lambda: send(scheduler, signal.SIGSTOP))
        with pytest.raises(ClusterError, match="does not answer any more"):
            solver.solve(B, callback=watch if running else None)
        assert waits.count(6.0) == 1
        send(scheduler, signal.SIGCONT)
        for worker in workers:
            worker.terminate()
            assert ended(worker)


def broken(client: Any) -> None:
    """The connection breaks, in the thread that it belongs to."""
    client.loop.add_callback(client.scheduler_comm.comm.abort)


@pytest.mark.parametrize("engine", GRAPH_IS_SLOW)
def test_a_connection_to_the_scheduler_that_breaks(engine: Any, truth: Any, request: pytest.FixtureRequest) -> None:
    """The client connects anew by itself, but what it held is lost by then."""
    with breakable(2) as client:
        watch = Watch(5, lambda: broken(client))
        try:
            check(solve(client, engine, watch), truth)
        except ClusterError as error:
            assert "\n" not in str(error)  # noqa: PT017  to go on would be right, too
        told(request, watch)
        with Client(client.cluster, set_as_default=False) as other:
            assert_usable(other, engine)


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", GRAPH_IS_SLOW)
def test_ctrl_c_ends_a_solve_and_the_cluster_stays(engine: Any, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in processes of the background
    try:
        with breakable(2) as client:
            alarm = threading.Timer(0.5, lambda: watch.strike(lambda: os.kill(os.getpid(), signal.SIGINT)))
            watch = Watch(3, alarm.start, pause=0.1, last=20)
            with pytest.raises(KeyboardInterrupt):
                solve(client, engine, watch)
            told(request, watch)
            assert_usable(client, engine)
    finally:
        signal.signal(signal.SIGINT, before)


# -- checkpoints ------------------------------------------------------------------------------------------------------


FULL = """
    import json, shutil, sys, warnings
    from contextlib import nullcontext
    import numpy as np
    import dsolver
    from dsolver.session.checkpoints.checkpoint import Checkpoint
    from tests.support.clusters import breakable
    from tests.session.test_faults import B, PROBLEM

    if __name__ == "__main__":
        store, seen = Checkpoint(sys.argv[1] + "/store", every=0.0), []

        def look(state):
            found = store.newest(PROBLEM.grid)
            seen.append([state.iteration, shutil.disk_usage(sys.argv[1]).free, found[0].iteration if found else None])

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with breakable(2) if sys.argv[2] == "cluster" else nullcontext() as client:
                x = dsolver.solve(PROBLEM, B, client=client, M=None, checkpoint=store, callback=look).x
        np.save(sys.argv[3], x)
        print(json.dumps([seen, [str(w.message) for w in caught if "checkpoint" in str(w.message)]]))
"""


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_disk_that_is_full_is_a_warning_and_the_solve_goes_on(where: str, truth: Any, tmp_path: Path) -> None:
    """A real file system, with room for one save and a half."""
    disk, script, result = tmp_path / "disk", tmp_path / "full.py", tmp_path / "x.npy"
    disk.mkdir()
    script.write_text(textwrap.dedent(FULL))
    size = 3 * B.nbytes // 2 + (48 << 10)
    mount = f"mount -t tmpfs -o size={size} none {disk} && exec {sys.executable} {script} {disk} {where} {result}"
    shell = ["/usr/bin/unshare", "-Urm", "sh", "-c"]
    probe = subprocess.run([*shell, "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"no file system can be mounted here: {probe.stderr.decode().strip()}")
    done = subprocess.run([*shell, mount], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen, told = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(np.load(result), truth, rtol=0, atol=1e-6 * np.abs(truth).max())
    assert len(told) == 1
    assert "could not be written" in told[0]
    assert "No space left on device" in told[0]
    assert seen[-1][2] == 1, "the save before the disk was full is still the newest"
    assert len({free for _, free, _ in seen[2:]}) == 1, "a save that fails leaves no part of it"


def damage(store: Checkpoint, name: str) -> None:
    """Turn over one byte of each of its chunks, as a failing disk does."""
    for file in (store.path / name / "c").rglob("*"):
        if file.is_file():
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 0x10
            file.write_bytes(content)


@pytest.mark.parametrize("engine", GRAPH_IS_SLOW)
@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_checkpoint_that_is_damaged_when_a_worker_is_killed(
    engine: Any,
    all_of_them: bool,
    truth: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A solve goes on from the save before, or begins anew where there is none to go on from, and says so."""
    monkeypatch.setattr(crew, "RETURN", 0.0)
    monkeypatch.setattr(crew, "ANSWER", PATIENCE)
    store = Checkpoint(tmp_path / "store", every=0.0)
    with breakable(2) as client:
        worker, pid = worker_of(client, 0)

        def fault() -> None:
            saves = sorted(path.name for path in store.path.iterdir() if path.name.startswith("x-"))
            assert len(saves) == 2
            for name in saves if all_of_them else [max(saves, key=lambda name: int(name[2:]))]:
                damage(store, name)
            os.kill(pid, signal.SIGKILL)
            store.every = 1e6  # or the next save would mend it

        watch = Watch(8, fault)
        if all_of_them:
            with pytest.warns(RuntimeWarning, match=r"the solve begins anew: .*is damaged"):
                check(solve(client, engine, watch, checkpoint=store), truth)
        else:
            check(solve(client, engine, watch, checkpoint=store), truth)
        told(request, watch)
        await_workers(client, 2, lost=worker)
        assert_usable(client, engine)


@pytest.mark.parametrize("engine", GRAPH_IS_SLOW)
def test_to_resume_from_a_damaged_checkpoint_is_refused(engine: Any, tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "store", every=0.0)
    solve(None, "resident", maxiter=5, checkpoint=store)
    for path in store.path.iterdir():
        if path.is_dir():
            damage(store, path.name)
    with cluster(2) as client:
        with pytest.raises(InputError, match=r"is damaged: .*Begin without it"):
            solve(client, engine, resume=store)
        assert_usable(client, engine)
