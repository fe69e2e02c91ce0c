"""Waits of tests, which end when what is waited for has come, and after that long only where it never will.

Nothing here says that something is fast. Machines stop processes for seconds, as those do that many share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE: Final = 240.0
"""Seconds after which what has not come counts as never coming. Shorter than pytest's own limit, so it can be told."""

T = TypeVar("T")


def eventually(look: Callable[[], T | None], pause: float = 0.05) -> T:
    """The first true value that a function returns, which is called every so many seconds."""
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < until, "it never came"
        time.sleep(pause)
    return found


def gone(look: Callable[[], object], pause: float = 0.05) -> bool:
    """True, once a function returns nothing any more, which is called every so many seconds."""
    until = time.monotonic() + PATIENCE
    while left := look():
        assert time.monotonic() < until, f"it stayed: {left}"
        time.sleep(pause)
    return True
