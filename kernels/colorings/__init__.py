"""Colorings of the rows of any sparse matrix: rows of one color do not read each other.

Sweeps and triangular solves visit the colors one after the other, and the rows of a color all at once. Colors follow
from the rows of one chunk and their numbers in the whole matrix alone, so they are the same for any number of workers
and on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from dsolver.kernels.colorings.blocks import in_blocks
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.colorings.independent_sets import cohen_castonguay, jones_plassmann_luby
from dsolver.kernels.colorings.row_order import first_fit, levels

Coloring = Callable[[Graph, int, Any], Any]
"""Makes the color of each row, int32 (rows,), from 0 on with none left out: of the graph of the rows, the number of the
first one in the whole matrix, and the array module of the device."""

_OF_ROWS: Final[dict[str, Coloring]] = {
    "greedy": first_fit,
    "jpl": jones_plassmann_luby,
    "cc": cohen_castonguay,
}
COLORINGS: Final[dict[str, Coloring]] = {
    **_OF_ROWS,
    **{f"block-{name}": partial(in_blocks, color=color) for name, color in _OF_ROWS.items()},
    "levels": levels,
}
"""Colorings by name."""
