"""What the cluster answers, for as long as the connection to its scheduler holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from distributed import Client

LOOK: Final = 0.5
"""Seconds between looks at the connection."""

T = TypeVar("T")


async def answer(client: Client, question: Awaitable[T], seconds: float) -> T:
    """What a question to the cluster comes to, in the client's event loop.

    A client whose connection breaks connects anew by itself: for half a minute it tries, and what is asked meanwhile
    waits with it; but what it held on the cluster was forgotten the moment that the connection broke.

    Args:
        client: who asks.
        question: that is asked.
        seconds: that it may take.

    Raises:
        ConnectionError: the connection to the scheduler is broken.
        TimeoutError: there is no answer in time.
    """
    until = time.monotonic() + seconds
    asked = asyncio.ensure_future(question)
    try:
        while not (await asyncio.wait([asked], timeout=LOOK))[0]:
            if client.status != "running":
                raise ConnectionError("the connection to the scheduler broke")
            if time.monotonic() > until:
                raise TimeoutError(f"no answer within {seconds:g} s")
        return asked.result()
    finally:
        asked.cancel()  # does nothing to what is done
