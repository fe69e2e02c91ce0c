"""Blocks that a user gives as futures: waited for before a program is told of them, so that bad ones do not end it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from distributed import Future
from distributed.client import _wait

from dsolver.engines.contact import answer
from dsolver.engines.slot import vacate
from dsolver.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client


def arrived(client: Client, name: str, blocks: Mapping[int, Any]) -> dict[int, Future[Any]]:
    """The futures among the blocks, once all of them are computed; arrays are left out.

    Args:
        client: whose futures they are.
        name: of what they are blocks of, for messages.
        blocks: by chunk number.

    Raises:
        ClusterError: one was cancelled or lost, or the connection to the scheduler broke.
        Exception: what the user's computation of one has raised.
    """
    futures: dict[int, Future[Any]] = {n: block for n, block in blocks.items() if isinstance(block, Future)}

    async def wait() -> None:
        # Not the public `wait`: it takes the default client, which need not be this one.
        await answer(client, _wait(list(futures.values())), math.inf)  # a user's computation, of any length

    if not all(future.done() for future in futures.values()):
        vacate()
        with suppress(CancelledError):  # told below, by its number
            try:
                client.sync(wait)
            except OSError as error:
                raise ClusterError(f"the cluster does not answer any more: {error!r}") from error
    for number, future in futures.items():
        if future.status != "finished":
            raise future.exception() or ClusterError(f"block {number} of {name} was {future.status}")
    return futures
