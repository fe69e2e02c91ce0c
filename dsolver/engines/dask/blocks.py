"""Blocks of data between this process and the workers' memory. Waits end with an error where a worker is lost.

Dask itself would wait: half a minute to scatter to a worker that has left, and for ever for a task that may run on its
chunk's owner alone once that owner is gone.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dsolver.engines.dask.attended import attended
from dsolver.engines.dask.connection import ANSWER, POLL, answering, secede_if_task, wait_for
from dsolver.engines.dask.health import PING_TIMEOUT, ask_each_async, ping
from dsolver.errors import ClusterError, WorkerLostError

if TYPE_CHECKING:
    from distributed import Client, Future

LOOK: Final = 2.0  # seconds between looks, while blocks are gathered, whether the workers still answer


async def scatter(client: Client, data: Any, workers: Sequence[str], direct: bool | None = None) -> Any:
    """Futures of data in the memory of one of the workers, in the client's event loop.

    Args:
        data: as `Client.scatter` takes it, without hashing.
        direct: whether data travels straight from this process; None for what the client does by itself.

    Raises:
        WorkerLostError: every one of the workers has left the cluster.
        ClusterError: they are there, and take no data.
        OSError: the scheduler does not answer, or the connection to it broke.
    """
    await _ready(client, list(workers), 1)
    return await _scattered(client, data, workers, direct)


async def scatter_to_owners(
    client: Client, by_owner: Mapping[str, dict[str, Any]], direct: bool
) -> dict[str, Future[Any]]:
    """Futures by key of data in their owners' memory, which all get theirs at once. Raises as `scatter` does."""
    await _ready(client, list(by_owner), len(by_owner))
    each = [_scattered(client, data, [owner], direct) for owner, data in by_owner.items()]
    return {key: future for sent in await asyncio.gather(*each) for key, future in sent.items()}


async def _scattered(client: Client, data: Any, workers: Sequence[str], direct: bool | None) -> Any:
    sending = client.scatter(data, workers=list(workers), direct=direct, hash=False, timeout=ANSWER, asynchronous=True)
    return await wait_for(client, sending, math.inf)  # gigabytes, over any network


async def _ready(client: Client, workers: list[str], enough: int) -> None:
    """Wait until so many of the workers take data."""
    scheduler: Any = client.scheduler
    until = time.monotonic() + ANSWER
    while len(ready := await wait_for(client, scheduler.ncores_running(workers=workers), ANSWER)) < enough:
        there = await wait_for(client, scheduler.ncores(workers=workers), ANSWER)
        if len(there) < enough:
            lost = ", ".join(worker for worker in workers if worker not in there)
            raise WorkerLostError(f"worker {lost} left the cluster before it got its data")
        if time.monotonic() > until:
            full = ", ".join(worker for worker in workers if worker not in ready)
            raise ClusterError(f"worker {full} took no data for {ANSWER:g} s: its memory is full, or it is closing")
        await asyncio.sleep(POLL)


async def register(client: Any, where: Mapping[Any, str], sizes: Mapping[Any, int]) -> dict[Any, Future[Any]]:
    """Futures of data in workers' memory, given by key its worker and bytes; KeyError where a worker is unknown."""
    from distributed import Future

    holders = {key: [worker] for key, worker in where.items()}
    try:
        await client.scheduler.update_data(who_has=holders, nbytes=dict(sizes), client=client.id)
    except KeyError:
        # Keys before that worker's are known by now, and no client's: they are forgotten when a client lets them go.
        for op in ("client-desires-keys", "client-releases-keys"):
            client._send_to_scheduler({"op": op, "keys": list(where), "client": client.id})
        raise
    futures: dict[Any, Future[Any]] = {key: Future(key, client) for key in where}
    for key in where:
        client.futures[key].finish()
    return futures


def wait_for_blocks(client: Client, name: str, blocks: Mapping[int, Any]) -> dict[int, Future[Any]]:
    """The futures among blocks that a user gives, once all of them are computed; arrays are left out.

    They are waited for before a program gets them, so that bad ones do not end it.

    Args:
        name: of the field, for messages.

    Raises:
        ClusterError: one was canceled or lost, or the connection to the scheduler broke.
        Exception: what the user's computation of one has raised.
    """
    from distributed import Future
    from distributed.client import _wait

    futures: dict[int, Future[Any]] = {n: block for n, block in blocks.items() if isinstance(block, Future)}

    async def wait() -> None:
        # Not the public `wait`: it takes the default client, which need not be this one.
        await attended(client, _wait(list(futures.values())))

    if not all(future.done() for future in futures.values()):
        secede_if_task()
        with suppress(CancelledError), answering():  # a cancellation is raised below, with its number
            client.sync(wait)
    for number, future in futures.items():
        if future.status != "finished":
            raise future.exception() or ClusterError(
                f"block {number} of {name} was {future.status}: make it anew, with the client that is to solve"
            )
    return futures


def gather_blocks(client: Client | None, blocks: Mapping[int, Any], workers: Sequence[str]) -> Mapping[int, Any]:
    """Blocks (arrays, or futures that these workers may have) as arrays here; WorkerLostError where one is lost."""
    if client is None or not any(hasattr(block, "key") for block in blocks.values()):
        return blocks
    try:
        found: Mapping[int, Any] = client.sync(_gathered, client, dict(blocks), tuple(workers))
    except (CancelledError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise WorkerLostError(f"blocks were lost on the way from workers: {type(error).__name__}: {why}") from error
    return found


async def _gathered(client: Client, blocks: dict[int, Any], workers: tuple[str, ...]) -> Mapping[int, Any]:
    gathering = asyncio.ensure_future(client.gather(blocks, asynchronous=True))
    try:
        while not (await asyncio.wait([gathering], timeout=LOOK))[0]:
            heard = await ask_each_async(client, ping, workers, PING_TIMEOUT)
            if heard.missing and not gathering.done():
                raise WorkerLostError(f"worker {', '.join(heard.missing)} was lost while blocks were fetched from it")
        found: Mapping[int, Any] = gathering.result()
    finally:
        gathering.cancel()
    return found


class LazyBlocks(Mapping[int, Any]):
    """Blocks by chunk number as arrays in this process, each gathered when it is asked for; see `gather_blocks`."""

    def __init__(self, client: Client | None, blocks: Mapping[int, Any], workers: Sequence[str]) -> None:
        self._client, self._blocks, self._workers = client, blocks, workers

    def __getitem__(self, number: int) -> Any:
        return gather_blocks(self._client, {number: self._blocks[number]}, self._workers)[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)
