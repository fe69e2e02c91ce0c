"""A solve as a feed of events tells it."""

from __future__ import annotations

from typing import Any, Final

from dsolver.monitor.events import SolveEvents

START: Final[dict[str, Any]] = {
    "what": "solve",
    "problem": "7-point",
    "grid": (8, 8, 8),
    "chunks": (1, 1, 1),
    "engine": "resident",
    "device": "cpu",
    "kernels": "cpu",
}


def begun(feed: SolveEvents, **more: Any) -> SolveEvents:
    """The feed, which has told that a small solve starts; more: other or further things that it tells of it."""
    feed.start(**START | more)
    return feed
