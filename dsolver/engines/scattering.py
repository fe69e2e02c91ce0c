"""Brings data into the memory of workers. Dask itself waits half a minute for a worker that has left."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dsolver.engines.contact import LOOK, answer
from dsolver.errors import ClusterError, WorkerLostError

if TYPE_CHECKING:
    from distributed import Client

ANSWER: Final = 30.0
"""Seconds in which the scheduler has to answer, and a worker that takes no data for now may take some again."""


async def scattered(client: Client, data: Any, workers: Sequence[str], direct: bool | None = None) -> Any:
    """Futures of data in the memory of one of the workers, in the client's event loop.

    Args:
        client: who holds them.
        data: as `Client.scatter` takes them, without hashing.
        workers: their addresses.
        direct: whether they travel straight from this process; None for what the client does by itself.

    Raises:
        WorkerLostError: every one of the workers has left the cluster.
        ClusterError: they are there, and take no data.
        OSError: the scheduler does not answer, or the connection to it broke.
    """
    await _ready(client, list(workers))
    sending = client.scatter(data, workers=list(workers), direct=direct, hash=False, timeout=ANSWER, asynchronous=True)
    return await answer(client, sending, math.inf)  # gigabytes, over any network


async def _ready(client: Client, workers: list[str]) -> None:
    """Wait until one of the workers takes data."""
    scheduler: Any = client.scheduler
    until = time.monotonic() + ANSWER
    while not await answer(client, scheduler.ncores_running(workers=workers), ANSWER):
        named = f"worker {', '.join(workers)}"
        if not await answer(client, scheduler.ncores(workers=workers), ANSWER):
            raise WorkerLostError(f"{named} left the cluster before it got its data")
        if time.monotonic() > until:
            raise ClusterError(
                f"{named} has taken no data for {ANSWER:g} s: its memory is nearly full, or it is closing"
            )
        await asyncio.sleep(LOOK)
