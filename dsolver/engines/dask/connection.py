"""Requests to a cluster that end when the connection to its scheduler breaks, and secession of a task that waits."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from dsolver.dask_types import Client
from dsolver.errors import ClusterError

POLL: Final = 0.5  # seconds between looks at the connection
ANSWER: Final = 20.0
"""Seconds in which the scheduler has to answer what needs no computing. With what follows a failure, no wait for a
cluster that answers no more is longer than half a minute."""

T = TypeVar("T")


class Awake:
    """Clock of the seconds in which this process has run.

    After a stop, as by Ctrl-Z or on a host short of CPUs, a process finds late what came in time: the stop must not
    count.

    `step`: most seconds that count between two readings; readings come more often.
    """

    def __init__(self, step: float) -> None:
        self._step = step
        self._read_at = time.monotonic()
        self._seconds = 0.0

    def read(self) -> float:
        """Seconds since it was made."""
        before, self._read_at = self._read_at, time.monotonic()
        self._seconds += min(self._read_at - before, self._step)
        return self._seconds


async def wait_for(client: Client, request: Awaitable[T], seconds: float) -> T:
    """The result of a request to the cluster, in the client's event loop.

    A client whose connection breaks connects anew by itself: for half a minute it tries, and requests wait with it. But
    what it held on the cluster was forgotten the moment that the connection broke.

    Args:
        request: what is waited for; canceled when this raises.
        seconds: the longest wait, in which this process runs; may be infinite.

    Raises:
        ConnectionError: the connection to the scheduler is broken.
        TimeoutError: there is no answer in time.
    """
    waited = Awake(2 * POLL)
    asked = asyncio.ensure_future(request)
    try:
        while not (await asyncio.wait([asked], timeout=POLL))[0]:
            if client.status != "running":
                raise ConnectionError("the connection to the scheduler broke")
            if waited.read() > seconds:
                raise TimeoutError(f"no answer within {seconds:g} s")
        return asked.result()
    finally:
        asked.cancel()  # does nothing to what is done


def begun(client: Client, work: Coroutine[Any, Any, T]) -> Future[T]:
    """Future of work that begins in the client's event loop, while this thread goes on."""
    loop: Any = client.loop
    return asyncio.run_coroutine_threadsafe(work, loop.asyncio_loop)


@contextmanager
def answering() -> Iterator[None]:
    """Context of requests: ClusterError where the connection broke, or no answer came in time."""
    try:
        yield
    except OSError as error:
        raise ClusterError(f"the cluster does not answer any more: {error!r}") from error


def unanswered(error: BaseException) -> bool:
    """Whether an error is of a scheduler that did not answer in time, and is not to be asked again."""
    return type(error) is ClusterError and isinstance(error.__cause__, TimeoutError)


def secede_if_task() -> None:
    """Give back the worker's slot of the task in this thread, if there is one.

    Call it before waiting for other tasks: those that may run on this worker alone would wait for the slot, and the
    wait would never end. Dask's own `Client.get` does the same; `Future.result` does not.
    """
    from distributed import secede

    with suppress(ValueError, AttributeError, KeyError):  # in no task; in a thread of no executor; given back already
        secede()
