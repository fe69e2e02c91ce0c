"""Health of workers: pings to those that are waited for, and a question to each of many."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

from dsolver.dask_types import Client
from dsolver.engines.dask.connection import ANSWER, POLL, Awake, wait_for
from dsolver.engines.dask.direct import reached, run_on

PING_TIMEOUT: Final = 10.0
"""Seconds without an answer after which a worker counts as hung. Its event loop answers whatever its ranks compute."""
AT_ONCE: Final = 64  # workers that are pinged at a look, in turns: each costs the client and the scheduler 0.7 ms
BETWEEN: Final = 3.0  # seconds between two looks that count as waiting: callers look every two seconds or more often
TIMEOUT: Final = 60.0
"""Seconds that a worker may take to answer a question, by default. For the first one it imports this package, which
takes two seconds of a core, and its event loop stands still meanwhile; six workers on two busy cores took 20 s."""


async def ping() -> None:
    """Runs on a worker as a sign of life."""


class Heartbeat:
    """Pings of workers, `AT_ONCE` of them at each look: one that hangs stays in the cluster's list.

    `timeout`: seconds of this process that an answer may take.
    """

    def __init__(self, client: Client, workers: Sequence[str], timeout: float) -> None:
        self._client = client
        self._workers = tuple(workers)
        self._turns = cycle(self._workers)
        self._timeout = timeout
        self._open: dict[str, tuple[float, asyncio.Future[None]]] = {}
        self._awake = Awake(BETWEEN)

    def silent(self) -> list[str]:
        """Workers whose answer is overdue. Those that have answered are pinged anew."""
        now = self._awake.read()
        for worker in islice(self._turns, min(AT_ONCE, len(self._workers))):
            if worker not in self._open or self._open[worker][1].done():
                self._open[worker] = now, asyncio.ensure_future(self._ping(worker))
        overdue = [worker for worker, (asked, _) in self._open.items() if now - asked > self._timeout]
        return [worker for worker in overdue if not self._open[worker][1].done()]

    def stop(self) -> None:
        """Cancel the pings."""
        for _, question in self._open.values():
            question.cancel()

    async def _ping(self, worker: str) -> None:
        with suppress(Exception):  # a worker that cannot be reached is found missing from the cluster's list
            await self._client.run(ping, workers=[worker])


@dataclass(frozen=True, kw_only=True)
class Heard:
    """Answers of workers by address, those that were silent, and those that left the cluster or were cut off."""

    answers: dict[str, Any]
    silent: list[str]
    lost: list[str]

    @property
    def missing(self) -> list[str]:
        """Workers without an answer."""
        return self.lost + self.silent


def ask_each(client: Client, question: Callable[[], Any], workers: Iterable[str], seconds: float = TIMEOUT) -> Heard:
    """Each worker's answer, in so many seconds of this process. Raises what the question or the connection raised."""
    return client.sync(ask_each_async, client, question, tuple(workers), seconds)


async def ask_each_async(client: Client, asked: Callable[[], Any], workers: tuple[str, ...], seconds: float) -> Heard:
    """`ask_each`, in the client's event loop."""
    scheduler: Any = client.scheduler
    calls = {worker: asyncio.ensure_future(_one(client, asked, worker)) for worker in workers}
    open_calls, waited = dict(calls), Awake(2 * POLL)
    gone: set[str] = set()
    try:
        while open_calls and (left := seconds - waited.read()) > 0.0:
            done, _ = await asyncio.wait(open_calls.values(), timeout=min(POLL, left))
            if not done:  # the scheduler itself would try for half a minute to reach a worker that it has just lost
                there = await wait_for(client, scheduler.ncores(), min(ANSWER, left))
                gone |= open_calls.keys() - there.keys()
            open_calls = {w: call for w, call in open_calls.items() if not call.done() and w not in gone}
    finally:
        for call in calls.values():
            call.cancel()  # does nothing to those that are done
    answers = {worker: call.result() for worker, call in calls.items() if call.done() and not call.cancelled()}
    for answer in answers.values():
        if isinstance(answer, _Raised):
            raise answer.error
    gone |= {worker for worker, answer in answers.items() if isinstance(answer, OSError)}
    return Heard(
        answers={worker: answer for worker, answer in answers.items() if worker not in gone},
        silent=[worker for worker in workers if worker not in answers and worker not in gone],
        lost=[worker for worker in workers if worker in gone],
    )


@dataclass(frozen=True)
class _Raised:
    """An exception as a result. A call that is not waited for any more must not complain when the cluster ends."""

    error: Exception


async def _one(client: Client, question: Callable[[], Any], worker: str) -> Any:
    if reached(client, (worker,)):
        try:
            return await run_on(client, worker, question)
        except OSError as error:  # of the connection to the worker
            return error
        except Exception as error:
            return _Raised(error)
    try:
        answer = (await client.run(question, workers=[worker], on_error="return"))[worker]
    except Exception as error:  # of the connection to the scheduler
        return _Raised(error)
    lost = isinstance(answer, OSError)  # of the scheduler's connection to the worker
    return _Raised(answer) if isinstance(answer, Exception) and not lost else answer
