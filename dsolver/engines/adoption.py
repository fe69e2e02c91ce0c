"""Data that a worker has put into its own memory, as futures of a client: what `Client.scatter` does at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import Future


async def adopted(client: Any, where: Mapping[Any, str], sizes: Mapping[Any, int]) -> dict[Any, Future[Any]]:
    """Tell the scheduler of data, and hold it.

    Args:
        client: who holds it from now on.
        where: the worker address of each key.
        sizes: bytes of each key's value.
    """
    holders = {key: [worker] for key, worker in where.items()}
    await client.scheduler.update_data(who_has=holders, nbytes=dict(sizes), client=client.id)
    futures: dict[Any, Future[Any]] = {key: Future(key, client) for key in where}
    for key in where:
        client.futures[key].finish()
    return futures
