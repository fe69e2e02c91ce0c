"""Warnings that point at the user's own line."""

from __future__ import annotations

import inspect
import warnings
from types import FrameType


def warn(message: str, category: type[Warning]) -> None:
    """Warn as of the line that called dsolver, however deep in it the reason was found."""
    level, frame = 2, inspect.currentframe()
    while frame is not None and _ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level - 1)


def _ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "dsolver"
