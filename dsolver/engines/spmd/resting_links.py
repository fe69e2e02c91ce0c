"""Links between the ranks of a program that has ended, for the next one on the same workers.

Ranks on GPUs take tens of milliseconds to connect, most of it for memory that they open to each other. What connects
them therefore rests on their workers for a while. The next program takes it where all of its ranks have what the same
program has left.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from dsolver.dask_types import Worker
from dsolver.engines.transport.base import TransportLink

REST: Final = 60.0  # seconds after which a link is closed that no program has taken: memory of a GPU belongs to it


@dataclass(frozen=True, kw_only=True)
class RestingLink:
    """A rank's link to the others, which a program has left."""

    program: str
    number: int
    owners: tuple[int, ...]
    timeout: float
    link: TransportLink

    def suits(self, number: int, owners: tuple[int, ...], timeout: float) -> bool:
        """Whether a rank of another program can take it; arguments as the attributes."""
        return (self.number, self.owners, self.timeout) == (number, owners, timeout)


_RESTING: Final[dict[str, tuple[RestingLink, asyncio.Task[None]]]] = {}
"""The links of this process by worker address, each with the task that closes it."""


async def rest(worker: Worker, left: RestingLink) -> None:
    """Keep a link for the next program; one that rests there is closed."""
    if (before := take(worker.address)) is not None:
        await asyncio.to_thread(before.link.close)
    _RESTING[worker.address] = left, asyncio.create_task(_close_unused(worker, left))


def take(address: str) -> RestingLink | None:
    """The link that rests on a worker, for the caller to close; None where there is none."""
    found = _RESTING.pop(address, None)
    if found is None:
        return None
    left, closing = found
    closing.cancel()
    return left


async def _close_unused(worker: Worker, left: RestingLink) -> None:
    """Close a link after a while, or when its worker is going."""
    closed = asyncio.ensure_future(worker.finished())
    try:
        await asyncio.wait([closed], timeout=REST)
    finally:
        closed.cancel()
    del _RESTING[worker.address]
    await asyncio.to_thread(left.link.close)
