"""Calls of many ranks go through a tree of their workers, and so does the reason of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.comm.core import CommClosedError

from dsolver.cost import seconds
from dsolver.engines.base import Engine
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.engines.spmd import relay
from dsolver.engines.spmd.calls import RankCalls
from dsolver.engines.spmd.client import SpmdProgram
from dsolver.engines.spmd.rank_spec import Failure, RankSpec
from dsolver.engines.spmd.relay import Call, branches
from dsolver.engines.transport.connections import Connections, tree
from dsolver.errors import InputError, RankError, WorkerLostError
from dsolver.grid.partition import Partition
from tests.support.waiting import PATIENCE, eventually

RANKS = 7


class Numbers:
    """A program whose ranks know the numbers of their chunks."""

    def __init__(self, engine: Engine, spec: None) -> None:
        assert spec is None
        assert isinstance(engine, ResidentEngine)
        self._engine = engine

    def numbers(self) -> Mapping[int, Any]:
        """An array of each chunk."""
        return {number: np.array([number]) for number in self._engine.owned}

    def load(self, blocks: Mapping[int, Any]) -> None:
        """Blocks of the owned chunks and of no others."""
        assert {number: int(block[0]) for number, block in blocks.items()} == {n: 10 * n for n in self._engine.owned}

    def fail(self, chunk: int) -> None:
        """One rank fails, and the others wait for it."""
        if chunk in self._engine.owned:
            raise InputError(f"chunk {chunk} cannot be")
        self._engine.broadcast(1.0)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=RANKS, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0"
        ) as made,
        Client(made) as client,
    ):
        yield client


@pytest.fixture
def program(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[SpmdProgram[Numbers]]:
    monkeypatch.setattr(relay, "FAN", 2)
    owners = list(client.nthreads())
    running = SpmdProgram(client, Partition((RANKS, 1, 1), (RANKS, 1, 1)), owners, "numpy", Numbers, None)
    yield running
    running.close()


def test_every_rank_is_called_once_and_answers_in_its_place(client: Client, program: SpmdProgram[Numbers]) -> None:
    found = client.gather(dict(program.unload(Numbers.numbers)))
    assert {number: int(block[0]) for number, block in found.items()} == {n: n for n in range(RANKS)}
    program.load("b", {number: np.array([10 * number]) for number in range(RANKS)}, Numbers.load)


@pytest.mark.parametrize("chunk", [0, 3, RANKS - 1])
def test_the_cause_comes_from_anywhere_in_the_tree(program: SpmdProgram[Numbers], chunk: int) -> None:
    with pytest.raises(InputError, match=f"chunk {chunk} cannot be") as caught:
        program.call(Numbers.fail, chunk)
    assert f"raised by rank {chunk} on worker" in "".join(caught.value.__notes__)
    assert program.ended


def test_a_worker_that_cannot_be_called_is_named(program: SpmdProgram[Numbers]) -> None:
    program._calls.workers = (*program._calls.workers[:-1], "tcp://127.0.0.1:1")
    with pytest.raises(WorkerLostError, match=rf"(rank {RANKS - 1} on )?worker tcp://127\.0\.0\.1:1 (was lost|left)"):
        program.call(Numbers.numbers)


def test_gpus_that_another_program_has_are_waited_for_in_rank_order(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RankSpec, "exclusive", True)
    monkeypatch.setattr("dsolver.engines.spmd.worker.tell_gpu_memory", lambda _: None)
    monkeypatch.setattr("dsolver.engines.spmd.calls.POLL", 0.05)
    workers = list(client.nthreads())

    def started(owners: list[str]) -> SpmdProgram[Numbers]:
        partition = Partition((len(owners), 1, 1), (len(owners), 1, 1))
        return SpmdProgram(client, partition, owners, "numpy", Numbers, None)

    first = started(workers[3:5])
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(started, workers)
        eventually(lambda: "waiting for the GPU" in caplog.text)
        assert f"waiting for the GPU of worker {workers[3]}" in caplog.text
        started(workers[5:]).close()  # what comes later in rank order is not held
        assert not second.done()
        first.close()
        second.result().close()


@pytest.mark.parametrize("count", [1, 2, 16, 17, 33, 4096])
def test_nobody_calls_more_than_a_few(count: int) -> None:
    calls = [Call(rank, "", ()) for rank in range(count)]
    parts, depth = branches(calls), 0
    assert [call for part in parts for call in part] == calls
    while parts:
        assert len(parts) <= relay.FAN
        parts, depth = branches(max(parts, key=len)[1:]), depth + 1
    assert depth <= 1 + np.log(count) / np.log(relay.FAN)
    assert seconds.FAN == relay.FAN
    assert seconds.call_seconds(count) <= seconds.CALL + depth * relay.FAN * seconds.RANK_CALL


def test_a_cause_is_told_from_its_effects() -> None:
    cause, effect = Failure(error=RankError("why")), Failure(error=RankError("so"), secondary=True)
    assert relay.failures_of({0: None, 1: effect}) == (False, [effect])
    assert relay.failures_of({0: cause, 1: effect}) == (True, [cause, effect])
    assert relay.failures_of({0: None}) == (False, [])


# -- connections of ranks that exchange nothing by them ----------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13, 64, 100])
def test_a_tree_joins_all_ranks_in_few_steps(size: int) -> None:
    near = [tree(rank, size) for rank in range(size)]
    assert all(rank in near[peer] for rank in range(size) for peer in near[rank])
    assert sum(map(len, near)) == 2 * (size - 1)
    assert max(map(len, near)) <= np.ceil(np.log2(size))
    reached, steps = {0}, 0
    while len(reached) < size:
        reached, steps = reached.union(*(near[rank] for rank in reached)), steps + 1
    assert steps <= np.ceil(np.log2(size))


def test_ranks_in_a_tree_are_connected_with_their_neighbors_alone() -> None:
    made, token = [Connections(rank, "127.0.0.1", PATIENCE) for rank in range(5)], bytes(32)
    addresses = [connections.address for connections in made]
    with ThreadPoolExecutor(len(made)) as threads:
        list(threads.map(lambda one: one.connect(addresses, token, tree(one.rank, len(made))), made))
    assert [connections.peers for connections in made] == [(1, 2, 4), (0,), (0, 3), (2,), (0,)]
    for connections in made:
        connections.close()


def test_gpus_of_many_hosts_are_joined_by_a_tree() -> None:
    def spec(kernels: str, size: int) -> RankSpec:
        partition = Partition((size, 1, 1), (size, 1, 1))
        ranks = tuple(range(size))
        return RankSpec(
            program="p", lease="l", partition=partition, ranks=ranks, kernels=kernels, token=b"", timeout=1.0
        )

    assert spec("cuda", 16).meshed
    assert not spec("cuda", 17).meshed
    assert spec("cpu", 17).meshed, "their halos travel on these connections"


def test_a_loss_that_the_scheduler_knows_only_after_its_effects_is_told() -> None:
    """Ranks whose peer has gone answer at once; a scheduler hears of that later."""

    async def loss(_: Any) -> str:
        return "worker tcp://a left"

    async def told(replies: relay.Replies) -> str | None:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply.set_result(replies)
        program: Any = SimpleNamespace(_loss=loss)
        return await RankCalls._finished(program, [reply], SimpleNamespace(), {})  # type: ignore[arg-type]

    gone = RankError("its peer has gone")
    assert asyncio.run(told({0: Failure(error=gone, secondary=True)})) == "worker tcp://a left"
    assert asyncio.run(told(relay.lost(Call(0, "tcp://a", ()), CommClosedError()))) == "worker tcp://a left"
    assert asyncio.run(told({0: Failure(error=gone)})) is None, "the cause is known"
