"""Values of a window's points: own ones for an exchange, and with them those of ghosts that came of it.

Arrays are of the chunk's device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Window


def for_exchange(backend: Backend, window: Window, values: Any) -> Any:
    """Values of own points on the device, float64, with a zero behind them: no kernel runs on nothing.

    Where there is one chunk nothing is exchanged, and they are what they were.
    """
    if window.whole:
        return values
    made = backend.xp.zeros(len(values) + 1)
    made[:-1] = backend.asarray(values)
    return made


def in_window(backend: Backend, rows: Any, own: Any, ghosts: Any) -> Any:
    """Values of every point of a window, where its rows' arrays lie.

    Args:
        backend: of the chunk.
        rows: an object with `window` and `origin`.
        own: values of own points, as of `for_exchange` or without what stands behind them.
        ghosts: what came of the exchange; None where there is one chunk.
    """
    if ghosts is None:
        return own
    amg = backend.amg
    return rows.window.joined(amg.asarray(own)[: rows.window.rows], amg.asarray(ghosts))


def numbers_in_window(backend: Backend, _: int, rows: LevelRows, own: Any, ghosts: Any) -> I64:
    """Numbers of own points and of ghosts, int64, for every point of a window."""
    found: I64 = in_window(backend, rows, own, ghosts).astype(np.int64, copy=False)
    return found


def own_of(window: Window, values: Any) -> Any:
    """The part of values of a window that belongs to own points."""
    return values[window.below : window.below + window.rows]
