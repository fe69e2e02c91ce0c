"""Values of a window's own points: as an exchange takes them, and among those of all its points.

Arrays are of the chunk's device.
"""

from typing import Any

from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.rows.window import Window


def for_exchange(backend: Backend, window: Window, values: Any) -> Any:
    """Values of own points on the device, float64, with a zero behind them: no kernel runs on nothing.

    Where there is one chunk nothing is exchanged, and they are what they were.
    """
    if window.whole:
        return values
    return backend.asarray(backend.amg.padded(values))


def own_of(window: Window, values: Any) -> Any:
    """The part of values of a window that belongs to own points."""
    return values[window.below : window.below + window.rows]
