"""Whether workers that are waited for still answer: one that hangs stays in the cluster's list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

DEAF: Final = 10.0
"""Seconds without an answer after which a worker counts as hung. Its event loop answers whatever its ranks compute."""


async def pulse() -> None:
    """What a worker runs as a sign of life."""


@final
class Pulses:
    """Asks each worker for a sign of life, again and again, one question at a time.

    Args:
        ask: a coroutine that ends when the worker has answered, or raises.
        workers: their addresses.
        patience: seconds that an answer may take.
    """

    def __init__(self, ask: Callable[[str], Awaitable[object]], workers: Sequence[str], patience: float) -> None:
        self._ask = ask
        self._workers = tuple(workers)
        self._patience = patience
        self._open: dict[str, tuple[float, asyncio.Future[object]]] = {}

    def silent(self) -> list[str]:
        """Those whose answer is overdue. Whoever has answered is asked anew."""
        now = time.monotonic()
        for worker in self._workers:
            if worker not in self._open or self._open[worker][1].done():
                self._open[worker] = now, asyncio.ensure_future(self._quietly(worker))
        return [worker for worker, (asked, _) in self._open.items() if now - asked > self._patience]

    def stop(self) -> None:
        """Ask no more."""
        for _, question in self._open.values():
            question.cancel()

    async def _quietly(self, worker: str) -> object:
        try:
            return await self._ask(worker)
        except Exception:  # a worker that cannot be reached is found missing from the cluster's list
            return None
