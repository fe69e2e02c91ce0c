"""Calls of all ranks of a program at once, by way of each other where they are many; every wait ends."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from distributed import Future

from dsolver.dask_types import Client
from dsolver.engines.dask.connection import ANSWER, answering, begun, wait_for
from dsolver.engines.dask.direct import reached, reaches
from dsolver.engines.dask.health import PING_TIMEOUT, Heartbeat
from dsolver.engines.spmd.rank_spec import Busy, Failure
from dsolver.engines.spmd.relay import Call, Replies, branches, failures_of, lost, packed, relay, straight
from dsolver.errors import ClusterError, DsolverError, RankError, WorkerLostError
from dsolver.kernels.lending.arrays import LentArray

logger = logging.getLogger(__name__)

LOOK: Final = 2.0  # seconds between looks whether every worker is still there
GRACE: Final = 5.0
"""Seconds in which the cause of a failure should be known after its first effect, and in which ranks should end."""
GPU_TIMEOUT: Final = 3600.0  # seconds that a program waits for the GPUs of others
POLL: Final = 0.5  # seconds between looks whether a GPU is free
Held = Future[Any] | LentArray | np.ndarray[Any, Any]
"""A block that ranks find in a worker's memory, or read in this process, or that travels with a call."""
OnRanks = dict[int, tuple[str, Held]]  # blocks by number, each with the worker whose rank takes it
Gather = Callable[[bytes, Sequence[Call]], Awaitable[Any]]
"""Caller of ranks, in the event loop: their replies, or something made of them."""


@dataclass(frozen=True, kw_only=True)
class StepAhead:
    """A function that each rank runs before what it is called for next."""

    function: Callable[..., Any]
    shared: tuple[Any, ...]
    each: Mapping[int, tuple[Any, ...]]  # arguments by rank, behind those that all share
    heard: Callable[[Sequence[Any]], Any] | None  # takes the replies of all ranks
    held: Any  # blocks that have to be there until then


class OccupiedError(Exception):
    """A worker has a rank of another program."""

    def __init__(self, call: Call, program: str) -> None:
        super().__init__(f"worker {call.worker} was busy with {program} for {GPU_TIMEOUT:g} s")
        self.worker, self.program = call.worker, program


class RankCalls:
    """Calls of functions on a program's ranks; directly: whether this process reaches all workers that it calls.

    A message costs a millisecond, whatever runs for it. So what a rank does without a choice of the client's in between
    is put `ahead` of the next call, and travels with that.
    """

    def __init__(self, client: Client, workers: Sequence[str], name: str) -> None:
        self._client, self.workers, self._name = client, tuple(workers), name
        called = [part[0] for part in branches(self.workers)]
        self._near = reached(client, called)
        self.directly = begun(client, reaches(client, called))
        self._ahead: list[StepAhead] = []
        self._before: list[tuple[Any, ...]] = []
        self._warned = False  # that another program has a worker

    @property
    def waiting(self) -> bool:
        """Whether something is put ahead of the next call."""
        return bool(self._ahead)

    def ahead(
        self,
        function: Callable[..., Any],
        *shared: Any,
        each: Mapping[int, tuple[Any, ...]] | None = None,
        heard: Callable[[Sequence[Any]], Any] | None = None,
        held: Any = None,
    ) -> None:
        """Have every rank run function(*shared, *its own) before what is called next; arguments as of `StepAhead`."""
        own = each or dict.fromkeys(range(len(self.workers)), ())
        self._ahead.append(StepAhead(function=function, shared=shared, each=own, heard=heard, held=held))

    def forget(self, function: Callable[..., Any]) -> None:
        """Take back a function that was put ahead."""
        self._ahead = [step for step in self._ahead if step.function is not function]

    def all(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """function(name of the program, *args) on every rank at once."""
        return self.each(function, dict.fromkeys(range(len(self.workers)), ()), self._name, *args)

    def with_blocks(self, function: Callable[..., Any], held: OnRanks, *args: Any, gather: Gather | None = None) -> Any:
        """function(name of the program, *args, its blocks) on every rank at once."""
        return self.each(function, self.own(held), self._name, *args, gather=gather)

    def own(self, held: OnRanks) -> dict[int, tuple[Any, ...]]:
        """Keys and arrays of its own blocks, by rank."""
        keys: dict[str, dict[int, Any]] = {worker: {} for worker in self.workers}
        for number, (worker, block) in held.items():
            keys[worker][number] = block.key if isinstance(block, Future) else block
        return {rank: (keys[worker],) for rank, worker in enumerate(self.workers)}

    def each(
        self, call: Callable[..., Any], each: Mapping[int, tuple[Any, ...]], *shared: Any, gather: Gather | None = None
    ) -> Any:
        """function(*shared, *its own) on the ranks given, at once; what they return, or their failure raised.

        A single rank whose worker has one of another program is waited for; of several it is an `OccupiedError`.

        gather: makes something else of the calls than `gather`.
        """
        if self._client.status == "closed":
            raise ClusterError("the client was closed while it was in use: open a new one")
        ahead, self._ahead = self._ahead, []
        own = [*(step.each for step in ahead), each]
        what = packed(*((step.function, step.shared) for step in ahead), (call, shared))
        calls = [Call(rank, self.workers[rank], tuple(step[rank] for step in own)) for rank in each]
        found = self._in_its_turn(partial(self._client.sync, gather or self.gather, what, calls), len(calls) == 1)
        for step, replies in zip(ahead, self._before, strict=True):
            if step.heard is not None:
                step.heard(replies)
        return found

    def _in_its_turn(self, call: Callable[[], Any], alone: bool) -> Any:
        """Result of a call, asked for again while another program has the worker of a rank that is called alone."""
        until = time.monotonic() + GPU_TIMEOUT
        while True:
            try:
                return call()
            except OccupiedError as error:
                if not alone:
                    raise
                if time.monotonic() > until:
                    raise RankError(str(error)) from None
                if not self._warned:
                    logger.warning(
                        "waiting for the GPU of worker %s, which runs %s: programs on GPUs run one after the other",
                        error.worker,
                        error.program,
                    )
                self._warned = True
            time.sleep(POLL)

    async def gather(self, what: bytes, calls: Sequence[Call]) -> list[Any]:
        """Replies to calls, or the failure of one raised; those of what ran before are kept for `each`."""
        asked = [asyncio.ensure_future(self._branch(what, part)) for part in branches(calls)]
        heartbeat = Heartbeat(self._client, [call.worker for call in calls], PING_TIMEOUT)
        replies: Replies = {}
        try:
            loss = await self._finished(asked, heartbeat, replies)
        finally:
            heartbeat.stop()
            for part in asked:
                part.cancel()
        _, failed = failures_of(replies)
        if failed or loss:
            raise _cause(failed, loss)
        for call in calls:
            if isinstance(reply := replies[call.rank], Busy):
                raise OccupiedError(call, reply.program)
        *self._before, last = zip(*(replies[call.rank] for call in calls), strict=True)
        return list(last)

    async def _branch(self, what: bytes, calls: Sequence[Call]) -> Replies:
        worker = calls[0].worker
        if self._near or (self.directly.done() and self.directly.result()):
            return await straight(self._client, what, calls)
        try:
            replies: Replies = (await self._client.run(relay, what, calls, workers=[worker]))[worker]
        except Exception as error:  # of the connection; what fails in the function is returned
            return lost(calls[0], error)
        return replies

    async def _finished(
        self, asked: Sequence[asyncio.Future[Replies]], heartbeat: Heartbeat, replies: Replies
    ) -> str | None:
        """Wait for all replies or the known cause of a failure. Returns how workers were lost, or None."""
        pending: set[asyncio.Future[Replies]] = set(asked)
        loss: str | None = None
        until = float("inf")
        while pending and time.monotonic() < until:
            done, pending = await asyncio.wait(pending, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                replies.update(part.result())
            cause, failed = failures_of(replies)
            if cause:
                break
            loss = await self._loss(heartbeat) if not done else loss
            if failed or loss:
                until = min(until, time.monotonic() + GRACE)
            if loss:
                break
        cause, failed = failures_of(replies)
        if failed and not cause and loss is None:  # the scheduler may know by now whom the others have lost
            loss = await self._loss(heartbeat)
        return loss

    async def _loss(self, heartbeat: Heartbeat) -> str | None:
        """The loss of workers of this program, in words; None where all are there."""
        present = await self.present()
        lost = [worker for worker in self.workers if worker not in present]
        if lost:
            named = f"worker {', '.join(lost)}"
            return (
                f"{named} left the cluster while a rank of this program was on it (Dask's log says if by memory_limit)"
            )
        if silent := heartbeat.silent():
            named = f"worker {', '.join(silent)}"
            return f"{named} has not answered for {PING_TIMEOUT:g} s: it hangs, or its host is cut off"
        return None

    async def present(self, seconds: float = math.inf) -> Mapping[str, int]:
        """The workers of this program that the scheduler knows."""
        scheduler: Any = self._client.scheduler
        with answered():
            present: Mapping[str, int] = await wait_for(
                self._client, scheduler.ncores(workers=list(self.workers)), min(seconds, ANSWER)
            )
        return present


@contextmanager
def answered() -> Iterator[None]:
    """`answering`, and WorkerLostError for the scheduler's KeyError of a worker that it knows no more."""
    try:
        with answering():
            yield
    except KeyError as error:
        raise WorkerLostError(f"worker {error.args[0]} left the cluster before it got its data") from error


def _cause(failures: Sequence[Failure], loss: str | None) -> DsolverError:
    """The error to raise: a rank's own failure before lost peers; without a lost worker, a lost connection."""
    first = next((failure for failure in failures if not failure.secondary), None)
    return first.error if first is not None else WorkerLostError(loss or str(failures[0].error))
