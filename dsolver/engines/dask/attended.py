"""Waits for tasks that end with an error where the cluster no longer answers.

Dask itself waits for ever where the scheduler is cut off, where no worker is left, and where one hangs. A task that was
to run on a worker which is lost, with leave to run on others, stays where it is if no other was there at that moment.
"""

import asyncio
import math
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final, TypeVar

from dsolver.dask_types import Client
from dsolver.engines.dask.connection import ANSWER, Awake, wait_for
from dsolver.engines.dask.health import Heartbeat
from dsolver.errors import ClusterError, WorkerLostError

LOOK: Final = 2.0  # seconds between two looks at the cluster
WITHOUT_WORKERS: Final = 25.0  # seconds in which a cluster that has lost all workers must get another one
SILENCE: Final = 25.0
"""Seconds after which a worker that computes a task of ours counts as hung: tasks keep Python's lock for a while."""

T = TypeVar("T")


async def attended(client: Client, request: Awaitable[T], *, silence: float = math.inf) -> T:
    """The result of a request that waits for tasks, in the client's event loop.

    Args:
        request: what is waited for; canceled when this raises.
        silence: seconds after which a worker that does not answer counts as hung; infinite for tasks of users, which
            may keep Python's lock as long as they like.

    Raises:
        WorkerLostError: a worker hangs.
        ClusterError: the scheduler does not answer, or there are no workers any more.
    """
    scheduler: Any = client.scheduler
    asked = asyncio.ensure_future(request)
    heartbeat: Heartbeat | None = None
    empty: Awake | None = None
    try:
        while not (await asyncio.wait([asked], timeout=LOOK))[0]:
            there = await wait_for(client, scheduler.ncores(), ANSWER)
            heartbeat = heartbeat or Heartbeat(client, list(there), silence)
            empty = None if there else empty or Awake(2 * LOOK)
            if empty is not None and empty.read() > WITHOUT_WORKERS:
                raise ClusterError(f"the cluster has had no workers for {WITHOUT_WORKERS:g} s")
            hung = [] if silence == math.inf else [worker for worker in heartbeat.silent() if worker in there]
            if hung:
                raise WorkerLostError(
                    f"worker {', '.join(hung)} has not answered for {silence:g} s: it hangs, or its host is cut off"
                )
            with suppress(Exception):  # of a scheduler that runs no functions, or has not got this package
                await wait_for(client, client.run_on_scheduler(let_run), ANSWER)
        return asked.result()
    except OSError as error:
        if asked.done() and not asked.cancelled() and asked.exception() is error:  # of the request itself
            raise
        raise ClusterError(f"the cluster does not answer any more: {error!r}") from error
    finally:
        asked.cancel()  # does nothing to what is done
        if heartbeat is not None:
            heartbeat.stop()


def let_run(dask_scheduler: Any) -> None:
    """Runs on the scheduler: tasks that wait for a worker which is gone may run on others, where they have leave to."""
    waiting = [task.key for task in dask_scheduler.unrunnable if task.loose_restrictions]
    if waiting and dask_scheduler.running:
        dask_scheduler.transitions(dict.fromkeys(waiting, "processing"), "dsolver-let-run")
