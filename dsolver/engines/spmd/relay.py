"""Calls of many ranks through a tree of their workers, so that none calls more than a few.

The client calls at most `FAN` workers. Each of them runs the function for its own rank and passes the call on to at
most `FAN` others, with a part of the rest each. So a call of P ranks takes log P steps, where the client and the
scheduler would need 0.7 ms for each rank (`bench/many_ranks.py`). Up to `FAN` ranks are called directly.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from distributed.protocol import pickle

from dsolver.dask_types import Client, Worker
from dsolver.engines.dask.direct import run_on
from dsolver.engines.spmd.rank_spec import Busy, Failure
from dsolver.errors import WorkerLostError

FAN: Final = 16  # workers that one process calls at a time, at most
GRACE: Final = 2.0  # seconds in which the cause of a failure should be known after its first effect

T = TypeVar("T")
Step = tuple[Callable[..., Awaitable[Any]], tuple[Any, ...]]  # a function, and the arguments that all ranks share
Replies = dict[int, Any]
"""By rank the results of all functions, a `Failure` or `Busy`. Ranks are missing where others have failed before."""


@dataclass(frozen=True)
class Call:
    """A call of one rank."""

    rank: int  # its number
    worker: str  # the address of its worker
    own: tuple[tuple[Any, ...], ...]  # of each function, arguments for it alone, behind those that all ranks share


def packed(*steps: Step) -> bytes:
    """Functions that run one after the other, and the arguments that all ranks share, pickled once for all of them."""
    return pickle.dumps(steps)


def branches(calls: Sequence[T]) -> list[Sequence[T]]:
    """The calls, or their workers, in at most `FAN` parts, each for its first rank's worker to pass on."""
    size = max(1, math.ceil(len(calls) / FAN))
    return [calls[first : first + size] for first in range(0, len(calls), size)]


async def relay(what: bytes, calls: Sequence[Call], *, dask_worker: Worker) -> Replies:
    """Run what `packed` made for the first rank, this worker's; pass it on. All replies, or some and a `Failure`."""
    own, rest = calls[0], calls[1:]
    here = asyncio.ensure_future(_in_turn(pickle.loads(what), own.own, dask_worker))
    away = {asyncio.ensure_future(straight(dask_worker, what, part)) for part in branches(rest)}
    replies: Replies = {}
    pending: set[asyncio.Future[Any]] = {here, *away}
    until = math.inf
    while pending and time.monotonic() < until:
        left = None if until == math.inf else max(0.0, until - time.monotonic())
        done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            replies.update({own.rank: task.result()} if task is here else task.result())
        cause, failed = failures_of(replies)
        if cause:
            break
        until = min(until, time.monotonic() + GRACE) if failed else until
    for task in pending & away:  # what runs here is told to end by the client
        task.cancel()
    return replies


async def _in_turn(steps: Sequence[Step], own: Sequence[tuple[Any, ...]], worker: Worker) -> Any:
    """The results of functions that run one after the other, or the first one that says that no other can run."""
    replies = []
    for (function, shared), mine in zip(steps, own, strict=True):
        reply = await function(*shared, *mine, dask_worker=worker)
        if isinstance(reply, Busy | Failure):
            return reply
        replies.append(reply)
    return replies


def failures_of(replies: Mapping[int, Any]) -> tuple[bool, list[Failure]]:
    """Whether a failure's cause is among some replies, and their failures."""
    failed = [reply for reply in replies.values() if isinstance(reply, Failure)]
    return not all(failure.secondary for failure in failed), failed


def lost(call: Call, error: Exception) -> Replies:
    """The reply for a rank whose worker could not be called, an effect of its loss; those behind it do not answer."""
    made = WorkerLostError(f"rank {call.rank} on worker {call.worker} was lost or could not be called: {error!r}")
    made.__cause__ = error
    return {call.rank: Failure(error=made, secondary=True)}


async def straight(caller: Client | Worker, what: bytes, calls: Sequence[Call]) -> Replies:
    """The replies of some ranks, whose first one's worker is called straight from this process."""
    try:
        replies: Replies = await run_on(caller, calls[0].worker, relay, what, calls)
    except Exception as error:  # of the connection; what fails in the function is returned
        return lost(calls[0], error)
    return replies
