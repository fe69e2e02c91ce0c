"""The resident engine on Dask workers: the same bits as everywhere, and an end to whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future as LocalFuture
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, final

import dask.array as da
import dask.config
import numpy as np
import pytest
from distributed import Client, Event, wait
from distributed.protocol import pickle

import dsolver
from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.cluster import devices
from dsolver.cluster.runtime import connect
from dsolver.engines.base import Engine
from dsolver.engines.dask import direct
from dsolver.engines.dask.blocks import register
from dsolver.engines.dask.health import Heartbeat
from dsolver.engines.eager.engine import EagerEngine
from dsolver.engines.running_program import RunningProgram
from dsolver.engines.spmd import calls as rank_calls
from dsolver.engines.spmd import client as gang
from dsolver.engines.spmd import resting_links, worker
from dsolver.engines.spmd.calls import RankCalls
from dsolver.engines.spmd.client import SpmdProgram
from dsolver.engines.spmd.rank_spec import RankSpec
from dsolver.engines.transport.base import TransportLink
from dsolver.engines.transport.connections import Connections
from dsolver.engines.transport.sockets import SocketTransport
from dsolver.errors import ClusterError, InputError, RankError, WorkerLostError
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.clusters import cluster, ended, workers_without_nanny
from tests.support.programs import advance, blocks_of, start, true_residual
from tests.support.waiting import PATIENCE, eventually, gone

Triple = tuple[int, int, int]


# -- programs; workers in processes of their own import them from this module -----------------------------------------


class Fickle:
    """A solve that fails where it is told to: on the rank that owns a chunk."""

    def __init__(self, engine: EagerEngine, spec: tuple[SolveSpec, int | None]) -> None:
        solve, bad = spec
        if bad in engine.owned:
            raise LookupError("nothing can be made here")
        self.iterations = 0
        self._engine = engine
        self._solve = Solve(engine, solve)
        self._solve.fill("b", 1.0)
        start(self._solve)

    def spin(self, steps: int = 10**9) -> None:
        """Iterate until told to stop."""
        for _ in range(steps):  # one by one: a step that is repeated is recorded, and would be counted once
            self._engine.repeat(self._solve.method.step, 1, ())
            self.iterations += 1

    def fail(self, chunk: int, how: str) -> None:
        """Some iterations, then one rank fails while the others exchange."""
        self.spin(3)
        if chunk in self._engine.owned:
            _fail(how)
        self.spin()

    def lock(self) -> Any:
        return threading.Lock()

    def load(self, blocks: Mapping[int, Any]) -> None:
        self._solve.set_b(blocks)

    def unload(self) -> Mapping[int, Any]:
        return blocks_of(self._solve, "b")


class OddError(Exception):
    """Cannot be unpickled: its own arguments are not those of Exception."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"odd {a} {b}")


def _fail(how: str) -> None:
    if how == "odd":
        raise OddError(1, 2)
    if how == "input":
        raise InputError("this cannot be")
    if how == "exit":
        sys.exit(3)
    raise ValueError("bad luck")


class Explosive:
    """Fails where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return _explode, ("it exploded",)


def _explode(message: str) -> None:
    raise LookupError(message)


# -- clusters ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_silence_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure has to reach the client, and its ranks have to end, by what is tested here alone, or never do."""
    monkeypatch.setattr(gang, "TIMEOUT", 1e6)


@pytest.fixture(scope="module")
def two() -> Iterator[Client]:
    with cluster(2) as client:
        yield client


def address_of(client: Client) -> str:
    scheduler: Any = client.scheduler
    return str(scheduler.address)


def remains() -> tuple[int, list[str]]:
    names = [t.name for t in threading.enumerate() if t.name.startswith(("dsolver-rank", "dsolver-send"))]
    return len(worker._RANKS), names


def iterations() -> list[int]:
    """Programs on the ranks of this process."""
    return [getattr(rank._program, "iterations", 0) for rank in list(worker._RANKS.values())]


def wait_for_iterations(client: Client) -> None:
    """Wait until each rank is in the middle of a superstep."""
    eventually(lambda: all(made and min(made) > 2 for made in client.run(iterations).values()))


def assert_nothing_remains(client: Client) -> None:
    """No rank, no thread of one, on any worker; and no traceback in their logs, except of the users' own tasks.

    Logs are of the process: a worker of a cluster before this one may have been in a heartbeat when it was closed.
    """
    gone(lambda: [left for left in client.run(remains).values() if left != (0, [])])
    logs = [text for lines in client.get_worker_logs().values() for _, text in lines]
    known = ("Compute Failed", "during heartbeat")
    ours = [text for text in logs if not any(words in text for words in known)]
    assert not [text for text in ours if "Traceback" in text or "Run Failed" in text]


# -- jobs -------------------------------------------------------------------------------------------------------------


def spec_of(chunks: Triple = (2, 2, 2), n: int = 16) -> SolveSpec:
    return SolveSpec.plan(problems.hpcg((n, n, n)), chunks, m=Hpcg(levels=2))


def launch(client: Client | None, *, chunks: Triple = (2, 2, 2), bad: int | None = None) -> RunningProgram[Fickle]:
    """A program that was started."""
    spec = spec_of(chunks)
    program: Callable[[Any, tuple[SolveSpec, int | None]], Fickle] = Fickle
    job = connect(client, device="cpu").launch(program, (spec, bad), spec.partition)
    job.settle()
    return job


def history(client: Client | None, spec: SolveSpec, engine: Any = "resident") -> tuple[list[Any], list[Any]]:
    """Samples of some iterations and the blocks of x."""
    partition = spec.partition
    with connect(client, engine=engine, device="cpu").launch(Solve, spec, partition) as job:
        rng = np.random.default_rng(0)
        job.load("b", {chunk.number: rng.standard_normal(chunk.box.shape) for chunk in partition}, Solve.set_b)
        first = job.call(start)
        samples = [first, *job.call(advance, 6), job.call(true_residual)]
        blocks = job.unload(Solve.solution, host=True)
        x = client.gather(dict(blocks)) if client is not None and engine == "resident" else blocks
        return samples, [x[n] for n in range(len(partition))]


def assert_solves(client: Client) -> None:
    """The cluster runs the next solve, and gives the right bits."""
    samples, x = history(client, spec_of())
    expected, reference = history(None, spec_of(), "reference")
    assert samples == expected
    assert all(np.array_equal(a, b) for a, b in zip(x, reference, strict=True))


@contextmanager
def in_background(function: Callable[[], Any]) -> Iterator[LocalFuture[Any]]:
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(function)


def worker_of(client: Client, chunk: int) -> str:
    workers = connect(client, device="cpu").workers
    return workers[chunk * len(workers) // 8]


# -- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_bits_do_not_depend_on_the_workers(workers: int) -> None:
    """3 workers own 3, 3 and 2 of the 8 chunks."""
    with cluster(workers) as client:
        assert_solves(client)


def test_the_bits_do_not_depend_on_processes_and_dask_arrays_stay_where_they_are() -> None:
    with cluster(4, processes=True) as client:
        assert_solves(client)
        problem = problems.poisson7((16, 16, 16))
        b = np.random.default_rng(1).standard_normal(problem.grid)
        expected = dsolver.solve(problems.poisson7((16, 16, 16), chunks=(1, 2, 2)), b)
        found = dsolver.solve(problem, da.from_array(b, chunks=(4, 8, 16)), client=client)
        assert found.residuals == expected.residuals
        np.testing.assert_array_equal(found.x.compute(), expected.x)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_bits_do_not_depend_on_threads(threads: int) -> None:
    with cluster(2, threads=threads) as client:
        samples, x = history(client, spec_of((2, 1, 1), 32))
        expected, reference = history(None, spec_of((2, 1, 1), 32), "reference")
        assert samples == expected
        assert all(np.array_equal(a, b) for a, b in zip(x, reference, strict=True))
        assert history(None, spec_of((2, 1, 1), 32))[0] == expected  # embedded, with all threads of this machine


def test_two_solves_at_the_same_time_on_the_same_workers(two: Client) -> None:
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(history, two, spec_of()) for _ in range(4)]
    expected, _ = history(None, spec_of(), "reference")
    assert all(run.result()[0] == expected for run in runs)
    assert_nothing_remains(two)


# -- a rank that fails ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [0, 7])
@pytest.mark.parametrize("how", ["value", "odd", "exit"])
def test_a_rank_that_raises_between_exchanges(two: Client, chunk: int, how: str) -> None:
    cause = {"value": r"ValueError\('bad luck'\)", "odd": "odd 1 2", "exit": r"SystemExit\(3\)"}[how]
    with (
        launch(two) as job,
        pytest.raises(RankError, match=rf"rank {chunk // 4} on worker .* failed: .*{cause}") as info,
    ):
        job.call(Fickle.fail, chunk, how)
    assert worker_of(two, chunk) in str(info.value)
    assert "in _fail" in "".join(info.value.__notes__)  # the worker's traceback
    with pytest.raises(RankError, match="this program has ended"):
        job.call(Fickle.spin, 1)
    assert_nothing_remains(two)
    assert_solves(two)


def test_an_error_of_this_package_is_raised_as_it_is(two: Client) -> None:
    with launch(two) as job, pytest.raises(InputError, match="this cannot be") as info:
        job.call(Fickle.fail, 7, "input")
    assert worker_of(two, 7) in info.value.__notes__[0]
    assert_nothing_remains(two)


def test_a_rank_that_raises_in_a_process_of_its_own_and_workers_that_come_and_go() -> None:
    with cluster(3, processes=True) as client:
        with launch(client) as job, pytest.raises(RankError, match=r"rank 2 on worker .*bad luck"):
            job.call(Fickle.fail, 7, "value")
        assert_nothing_remains(client)
        kill_during_a_superstep(client, chunk=3)
        assert_solves(client)


def test_a_worker_without_nanny_that_is_killed() -> None:
    with workers_without_nanny(3) as (client, processes):
        kill_during_a_superstep(client, chunk=0)
        assert_solves(client)
        assert len(client.nthreads()) == 2
        for process in processes:
            process.terminate()  # a worker that ends on its own must not hang in a rank's thread
            assert ended(process)


def kill_during_a_superstep(client: Client, chunk: int) -> None:
    address = worker_of(client, chunk)
    pid = client.run(os.getpid)[address]
    with launch(client) as job, in_background(lambda: job.call(Fickle.spin)) as call:
        wait_for_iterations(client)
        assert not call.done()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RankError, match=address):
            call.result(PATIENCE)
    assert_nothing_remains(client)


def test_a_worker_that_hangs_ends_the_job_and_is_named_until_it_answers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may be slow to answer on busy cores. Only what does not answer at all is to be named: only it is asked."""
    ask, stopped = Heartbeat._ping, threading.Event()

    async def answered(heartbeat: Heartbeat, worker: str) -> None:
        if worker == address and stopped.is_set():
            await ask(heartbeat, worker)

    monkeypatch.setattr(Heartbeat, "_ping", answered)
    monkeypatch.setattr(rank_calls, "PING_TIMEOUT", 1.0)
    with workers_without_nanny(3) as (client, _):
        address = worker_of(client, 7)
        pid = client.run(os.getpid)[address]
        with launch(client) as job, in_background(lambda: job.call(Fickle.spin)) as call:
            wait_for_iterations(client)
            os.kill(pid, signal.SIGSTOP)
            stopped.set()
            try:
                with pytest.raises(WorkerLostError, match=f"{address} has not answered"):
                    call.result(PATIENCE)
                monkeypatch.setattr(devices, "TIMEOUT", 1.0)
                with pytest.raises(ClusterError, match=rf"worker .*{address}.* does not answer"):
                    connect(client, device="cpu")
            finally:
                monkeypatch.setattr(devices, "TIMEOUT", PATIENCE)
                os.kill(pid, signal.SIGCONT)
        assert_nothing_remains(client)
        assert_solves(client)


def test_a_worker_that_is_closed_during_a_superstep() -> None:
    with cluster(3) as client:
        address = worker_of(client, 7)
        with launch(client) as job, in_background(lambda: job.call(Fickle.spin)) as call:
            wait_for_iterations(client)
            client.retire_workers([address])
            with pytest.raises(RankError, match=address):
                call.result(PATIENCE)
        assert_nothing_remains(client)
        assert_solves(client)


def test_data_for_a_worker_that_has_left_do_not_wait_for_it() -> None:
    """Dask would, for half a minute, and then say that there are no valid workers."""
    blocks: dict[int, Any] = {n: np.zeros((32, 32, 32)) for n in range(8)}  # too many bytes for a call
    with cluster(3) as client:
        address = worker_of(client, 7)
        with launch(client) as job:
            client.retire_workers([address])
            with pytest.raises(WorkerLostError, match=f"{address} left the cluster before it got its data"):
                job.load("b", blocks, Fickle.load)
        assert_solves(client)
        # A thread here, whose worker cannot be asked.
        assert gone(lambda: [program for program, place in list(worker._RANKS) if place == address])


def test_a_program_that_cannot_be_made_on_one_rank(two: Client) -> None:
    with pytest.raises(RankError, match=r"rank 1 on worker .*nothing can be made here"):
        launch(two, bad=7)
    assert_nothing_remains(two)
    assert_solves(two)


def raw_program(client: Client, program: Callable[[Engine, Any], Any], spec: Any) -> RunningProgram[Any]:
    return connect(client, device="cpu").launch(program, spec, spec_of().partition)


def test_what_cannot_be_pickled_is_refused_before_anything_starts(two: Client) -> None:
    assert_nothing_remains(two)
    with pytest.raises(InputError, match=r"the program cannot be sent to the workers: .*lock.*client=False"):
        raw_program(two, Solve, threading.Lock())
    assert two.run(remains) == dict.fromkeys(two.run(remains), (0, []))
    lock: Any = threading.Lock()
    with launch(two) as job:
        with pytest.raises(InputError, match="the arguments of spin cannot be sent"):
            job.call(Fickle.spin, lock)
        job.call(Fickle.spin, 1)  # nothing was harmed
    assert_nothing_remains(two)


def test_what_fails_to_be_unpickled_on_a_worker_or_to_be_sent_back(two: Client) -> None:
    with pytest.raises(RankError, match=r"rank . on worker .*it exploded"):
        raw_program(two, Solve, Explosive()).settle()
    with launch(two) as job, pytest.raises(RankError, match=r"rank 0 on worker .*lock"):
        job.call(Fickle.lock)
    assert_nothing_remains(two)


# -- other tasks on the cluster ---------------------------------------------------------------------------------------


def test_busy_workers_hold_up_nothing(two: Client) -> None:
    """Every slot is taken by a user's task from before the solve until after its end."""
    problem = problems.poisson7((16, 16, 16))
    b = np.random.default_rng(2).standard_normal(problem.grid)
    expected = dsolver.solve(problem, b, client=two)
    persisted = two.persist(da.from_array(b, chunks=(16, 16, 8)))
    wait(persisted)
    finish = Event("finish", client=two)
    busy = [two.submit(hold, i, workers=[w], pure=False) for w in worker_addresses(two) for i in range(2)]
    found, dask_found = (dsolver.solve(problem, b_, client=two) for b_ in (b, persisted))
    assert not any(future.done() for future in busy)
    finish.set()
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(dask_found.x.compute(), expected.x)
    two.gather(busy)
    assert_nothing_remains(two)


def hold(number: int) -> int:
    assert Event("finish").wait(PATIENCE)
    return number


def worker_addresses(client: Client) -> list[str]:
    return list(client.nthreads())


def test_blocks_may_lie_anywhere_and_stay_no_longer_than_wanted(two: Client) -> None:
    spec = spec_of()
    blocks = {chunk.number: np.full(chunk.box.shape, float(chunk.number)) for chunk in spec.partition}
    one = worker_addresses(two)[0]
    with launch(two) as job:
        job.load("b", two.scatter(blocks, workers=[one], hash=False), Fickle.load)
        futures = job.unload(Fickle.unload)
    found = two.gather(dict(futures))
    assert all(np.array_equal(found[n], blocks[n]) for n in blocks)
    del futures
    assert gone(lambda: [keys for keys in two.has_what().values() if keys])


def test_blocks_that_fail_or_are_gone(two: Client) -> None:
    blocks: dict[int, Any] = {n: np.zeros((8, 8, 8)) for n in range(8)}
    with launch(two) as job, pytest.raises(LookupError, match="the user's own"):
        job.load("b", {**blocks, 3: two.submit(_explode, "the user's own")}, Fickle.load)
    gone = two.scatter(blocks[3])
    gone.cancel()
    with launch(two) as job, pytest.raises(ClusterError, match="block 3 of b was cancelled"):
        job.load("b", {**blocks, 3: gone}, Fickle.load)
    assert_nothing_remains(two)


def test_blocks_travel_through_the_scheduler_where_workers_are_out_of_reach() -> None:
    with cluster(2) as client, Client(client.cluster, direct_to_workers=False, set_as_default=False) as far:
        assert_solves(far)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(direct, "TIMEOUT", 0.0)
            with launch(client) as job:
                job.load("b", {n: np.ones((8, 8, 8)) for n in range(8)}, Fickle.load)
                assert isinstance(job, SpmdProgram)
                assert not job._calls.directly.result()


def test_a_worker_whose_connection_breaks_is_called_by_the_scheduler_next() -> None:
    class Far:
        """A client that reaches nothing any more."""

        direct_to_workers = None

        def rpc(self, _: str) -> Any:
            return self

        async def identity(self) -> None: ...

        async def run(self, **_: Any) -> Any:
            raise OSError("no route")

    far: Any = Far()
    assert asyncio.run(direct.reaches(far, ["tcp://a"]))
    assert direct.reached(far, ["tcp://a"])
    with pytest.raises(OSError, match="no route"):
        asyncio.run(direct.run_on(far, "tcp://a", os.getpid))
    assert not direct.reached(far, ["tcp://a"])


def test_workers_that_were_reached_are_called_straight(two: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of calls: by way of the scheduler each took a new one to each worker."""
    with launch(two) as job:
        assert isinstance(job, SpmdProgram)
        assert job._calls.directly.result()
        job.call(Fickle.spin, 3)
    monkeypatch.setattr(Client, "run", None)
    asked: list[Any] = []
    ask_all = devices.ask_all

    def counted(*args: Any) -> Any:
        asked.append(args)
        return ask_all(*args)

    monkeypatch.setattr(devices, "ask_all", counted)
    with launch(two) as job:
        job.call(Fickle.spin, 3)
    assert len(asked) == 1, "about all that has to be known of a worker"
    monkeypatch.undo()
    assert_nothing_remains(two)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """The functions that run for each message to ranks."""
    sent: list[list[object]] = []
    gather = RankCalls.gather

    async def counted(calls: RankCalls, what: bytes, each: Any) -> Any:
        sent.append([function for function, _ in pickle.loads(what)])
        return await gather(calls, what, each)

    monkeypatch.setattr(RankCalls, "gather", counted)
    return sent


def test_a_rank_alone_is_made_with_its_program_and_called_in_one_message(messages: list[list[object]]) -> None:
    partition, b = spec_of().partition, np.ones((8, 8, 8))
    with cluster(1) as client:
        with connect(client, device="cpu").launch(Solve, spec_of(), partition) as job:
            job.bring("x0", dict.fromkeys(range(8), b), Solve.set_x)
            job.load("b", dict.fromkeys(range(8), b), Solve.set_b)
            assert job.link == ""
            found = client.gather(dict(job.unload(Solve.solution, host=True)))
        assert np.array_equal(found[7], b), "it was brought"
        with pytest.raises(RankError, match="nothing can be made here"):
            launch(client, bad=3)
        assert_nothing_remains(client)
    first, *_, last = messages
    assert first == [worker.open_rank, worker.load_rank, worker.load_rank]
    assert last == [worker.open_rank, worker.stay]


def test_ranks_join_each_other_with_the_first_call(two: Client, messages: list[list[object]]) -> None:
    with connect(two, device="cpu").launch(Solve, spec_of(), spec_of().partition) as job:
        job.bring("x0", dict.fromkeys(range(8), np.ones((8, 8, 8))), Solve.set_x)
        job.call(start)
        assert job.link == "sockets"
    assert messages == [[worker.open_rank], [worker.join_rank, worker.load_rank, worker.call_rank]]
    made: Callable[[Any, Any], Fickle] = Fickle
    with raw_program(two, made, (spec_of(), 7)) as job:
        job.bring("b", dict.fromkeys(range(8), np.ones((8, 8, 8))), Fickle.load)
        with pytest.raises(RankError, match=r"rank 1 on worker .*nothing can be made here"):
            job.call(Fickle.spin)
    assert_nothing_remains(two)


def test_blocks_that_were_brought_for_a_call_that_lacks_others_stay_here(
    two: Client, messages: list[list[object]]
) -> None:
    ones, lost = dict.fromkeys(range(8), np.ones((8, 8, 8))), two.submit(Solve, None, pure=False)
    with connect(two, device="cpu").launch(Solve, spec_of(), spec_of().partition) as job:
        job.bring("x0", ones, Solve.set_x)
        with pytest.raises(TypeError):
            job.load("b", {**ones, 7: lost}, Solve.set_b)
        job.call(start)
    assert messages == [[worker.open_rank], [worker.join_rank, worker.call_rank]]


# -- GPUs run one job at a time ---------------------------------------------------------------------------------------


def test_jobs_on_gpus_take_turns(
    two: Client,
    messages: list[list[object]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(RankSpec, "exclusive", True)
    monkeypatch.setattr(rank_calls, "POLL", 0.05)
    with caplog.at_level(logging.WARNING, "dsolver"), ExitStack() as stack:
        first = launch(two)
        second = stack.enter_context(in_background(lambda: launch(two)))
        eventually(lambda: messages.count([worker.open_rank]) > 5)
        assert not second.done()
        first.call(Fickle.spin, 2)
        first.close()
        with second.result(PATIENCE) as job:
            job.call(Fickle.spin, 2)
    told = [record.message for record in caplog.records if "waiting for the GPU" in record.message]
    assert len(told) == 1
    assert isinstance(first, SpmdProgram)
    assert first._name in told[0]
    assert_nothing_remains(two)


def test_a_turn_that_never_comes_is_given_up(two: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RankSpec, "exclusive", True)
    monkeypatch.setattr(rank_calls, "GPU_TIMEOUT", 0.2)
    with launch(two) as job:
        with pytest.raises(RankError, match="was busy with dsolver-"):
            launch(two)
        job.call(Fickle.spin, 1)
    assert_nothing_remains(two)


@final
class SocketLink(TransportLink):
    """Sockets that another program takes."""

    def __init__(self, connections: Connections, owners: Sequence[int]) -> None:
        self.connections, self._owners = connections, owners

    def transport(self) -> SocketTransport:
        return SocketTransport(self.connections, self._owners)

    def close(self) -> None:
        self.connections.close()


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ranks that have connected with others; what connects them rests between programs, as between GPUs."""

    def detached(transport: SocketTransport) -> SocketLink:
        return SocketLink(transport._connections, transport._owners)

    connected: list[int] = []
    connect_ranks = Connections.connect

    def counted(connections: Connections, *args: Any) -> None:
        connected.append(connections.rank)
        connect_ranks(connections, *args)

    monkeypatch.setattr(RankSpec, "exclusive", True)
    monkeypatch.setattr(SocketTransport, "detached", detached)
    monkeypatch.setattr(Connections, "connect", counted)
    monkeypatch.setattr(resting_links, "REST", PATIENCE)
    return connected


def test_programs_after_each_other_are_connected_once(
    two: Client, linked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        with launch(two) as job:
            job.call(Fickle.spin, 3)
    assert sorted(linked) == [0, 1]
    with launch(two) as job, pytest.raises(RankError, match="bad luck"):
        job.call(Fickle.fail, 7, "value")
    for _ in range(2):
        with launch(two) as job:  # by new connections: those of ranks that failed are of no use
            job.call(Fickle.spin, 3)
    assert sorted(linked) == [0, 0, 1, 1]
    left = resting_links.take(next(iter(resting_links._RESTING)))
    assert left is not None
    left.link.close()
    monkeypatch.setattr(resting_links, "REST", 0.1)
    with launch(two) as job:  # one rank alone has a link
        job.call(Fickle.spin, 3)
    assert sorted(linked) == [0, 0, 0, 1, 1, 1]
    assert gone(lambda: list(resting_links._RESTING))
    assert_nothing_remains(two)


def test_links_that_rest_go_with_their_workers(linked: list[int]) -> None:
    with cluster(2) as client:
        with launch(client) as job:
            job.call(Fickle.spin, 3)
        assert len(resting_links._RESTING) == 2
    assert gone(lambda: list(resting_links._RESTING))
    assert sorted(linked) == [0, 1]


# -- the client -------------------------------------------------------------------------------------------------------


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises here, also in a process that was started in the background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("chunks", [(2, 2, 2), (1, 1, 1)])
def test_an_interrupt_ends_the_superstep(two: Client, chunks: Triple) -> None:
    """(1, 1, 1): a rank alone, which no closing connection can wake."""

    def press() -> None:
        wait_for_iterations(two)
        os.kill(os.getpid(), signal.SIGINT)

    with launch(two, chunks=chunks) as job, in_background(press), pytest.raises(KeyboardInterrupt):
        job.call(Fickle.spin)
    assert_nothing_remains(two)
    assert_solves(two)


def test_an_asynchronous_client_is_refused(two: Client) -> None:
    async def solve() -> None:
        async with Client(address_of(two), asynchronous=True, set_as_default=False) as client:
            dsolver.solve(problems.poisson7((8, 8, 8)), np.ones((8, 8, 8)), client=client)

    with pytest.raises(InputError, match="asynchronous: pass one that is not"):
        asyncio.run(solve())


@pytest.fixture(scope="module")
def apart() -> Iterator[Client]:
    """Workers in processes of their own."""
    with cluster(2, processes=True) as client:
        yield client


CLIENT = """
    import sys, time
    from distributed import Client
    from tests.engines.test_spmd import Fickle, launch

    if __name__ == "__main__":
        job = launch(Client(sys.argv[1]))
        print("ready", flush=True)
        job.call(Fickle.spin) if sys.argv[2] == "spin" else time.sleep(600)
"""


@pytest.mark.parametrize("doing", ["spin", "nothing"])
def test_ranks_outlive_their_client_by_seconds_only(apart: Client, tmp_path: Any, doing: str) -> None:
    script = tmp_path / "client.py"
    script.write_text(textwrap.dedent(CLIENT))
    command = [sys.executable, str(script), address_of(apart), doing]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            if doing == "spin":
                wait_for_iterations(apart)
            assert all(count == 1 for count, _ in apart.run(remains).values())
        finally:
            process.kill()
    assert_nothing_remains(apart)
    assert_solves(apart)


def test_a_job_that_is_forgotten_ends_too(two: Client) -> None:
    job = launch(two)
    assert sum(count for count, _ in two.run(remains).values()) > 0
    del job
    assert_nothing_remains(two)


def test_a_lease_may_be_told_late(two: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler hears of it while ranks are opened, which look for it."""
    monkeypatch.setattr(worker, "LOOK", 0.02)

    async def late(*args: Any) -> Any:
        await asyncio.sleep(0.3)
        return await register(*args)

    monkeypatch.setattr(gang, "register", late)
    with launch(two) as job:
        assert job.call(Fickle.spin, 3) is None
    assert_nothing_remains(two)


def test_a_job_is_closed_quietly_after_its_client() -> None:
    with cluster(2) as client:
        with Client(address_of(client), set_as_default=False) as other:
            job = launch(other)
        job.close()
        assert_nothing_remains(client)


def leases(dask_scheduler: Any) -> list[str]:
    return [key for key in dask_scheduler.tasks if str(key).startswith("lease-")]


def test_a_client_that_was_stopped_for_good_keeps_neither_ranks_nor_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that stays: the scheduler kept the lease for ever, and workers the ranks and their memory."""
    monkeypatch.setattr(worker, "ABSENT_LOOK", 0.2)
    monkeypatch.setattr("distributed.scheduler.heartbeat_interval", lambda _: 0.02)  # of clients ten times as much
    problem = problems.poisson7((16, 16, 16), chunks=(2, 2, 2))
    b = np.ones(problem.grid)
    with (
        cluster(2) as client,
        dask.config.set({"distributed.client.heartbeat": "100ms"}),
        Client(address_of(client), set_as_default=False) as other,
        dsolver.Solver(problem, client=other) as solver,
    ):
        expected = solver.solve(b).x  # it may be compiled, which holds up the client that is in this process
        monkeypatch.setattr(worker, "ABSENT", 2.0)
        time.sleep(3.0)
        assert sum(count for count, _ in client.run(remains).values()) > 0, "a client that only waits is there"
        other.loop.add_callback(other._periodic_callbacks["heartbeat"].stop)
        assert gone(lambda: client.run_on_scheduler(leases))
        assert_nothing_remains(client)
        monkeypatch.setattr(worker, "ABSENT", PATIENCE)
        other.loop.add_callback(other._periodic_callbacks["heartbeat"].start)  # as of a computer that has slept
        np.testing.assert_array_equal(solver.solve(b).x, expected)
