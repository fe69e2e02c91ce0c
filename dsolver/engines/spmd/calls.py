"""Calls of all ranks of a program at once, by way of each other where they are many; every wait ends."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

from distributed import Future

from dsolver.engines.dask.connection import ANSWER, answering, wait_for
from dsolver.engines.dask.direct import reached, reaches
from dsolver.engines.dask.health import PING_TIMEOUT, Heartbeat
from dsolver.engines.spmd.rank_spec import Failure
from dsolver.engines.spmd.relay import Call, Replies, branches, failures_of, lost, packed, relay, straight
from dsolver.errors import ClusterError, DsolverError, WorkerLostError
from dsolver.kernels.lending.arrays import LentArray

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

LOOK: Final = 2.0  # seconds between looks whether every worker is still there
GRACE: Final = 5.0
"""Seconds in which the cause of a failure should be known after its first effect, and in which ranks should end."""
Held = Future[Any] | LentArray  # a block that ranks find in a worker's memory, or read in this process
OnRanks = dict[int, tuple[str, Held]]  # blocks by number, each with the worker whose rank takes it
Gather = Callable[[bytes, Sequence[Call]], Awaitable[Any]]
"""Caller of ranks, in the event loop: their replies, or something made of them."""


@final
class RankCalls:
    """Calls of functions on a program's ranks; directly: whether this process reaches all workers that it calls."""

    def __init__(self, client: Client, workers: Sequence[str], name: str) -> None:
        self._client, self.workers, self._name = client, tuple(workers), name
        loop: Any = client.loop
        called = [part[0] for part in branches(self.workers)]
        self._near = reached(client, called)
        self.directly = asyncio.run_coroutine_threadsafe(reaches(client, called), loop.asyncio_loop)

    def all(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """function(name of the program, *args) on every rank at once."""
        return self.each(function, dict.fromkeys(range(len(self.workers)), ()), self._name, *args)

    def with_blocks(self, function: Callable[..., Any], held: OnRanks, *args: Any, gather: Gather | None = None) -> Any:
        """function(name of the program, *args, its blocks) on every rank at once."""
        keys: dict[str, dict[int, Any]] = {worker: {} for worker in self.workers}
        for number, (worker, block) in held.items():
            keys[worker][number] = block if isinstance(block, LentArray) else block.key
        each = {rank: (keys[worker],) for rank, worker in enumerate(self.workers)}
        return self.each(function, each, self._name, *args, gather=gather)

    def each(
        self,
        function: Callable[..., Any],
        each: Mapping[int, tuple[Any, ...]],
        *shared: Any,
        gather: Gather | None = None,
    ) -> Any:
        """function(*shared, *its own) on the ranks given, at once; what they return, or their failure raised.

        gather: makes something else of the calls than `gather`.
        """
        if self._client.status == "closed":
            raise ClusterError("the client was closed while it was in use: open a new one")
        calls = [Call(rank, self.workers[rank], own) for rank, own in each.items()]
        return self._client.sync(gather or self.gather, packed(function, shared), calls)

    async def gather(self, what: bytes, calls: Sequence[Call]) -> list[Any]:
        """Replies to calls, or the failure of one raised."""
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
        return [replies[call.rank] for call in calls]

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
            return f"worker {', '.join(lost)} left the cluster while a rank of this program was on it"
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
