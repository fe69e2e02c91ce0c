"""Colorings that look at one row after the other: first fit, and level scheduling."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.cpu.loops.compiled import compiled


def first_fit(graph: Graph) -> Any:
    """Greedy coloring, int32 (rows,): each row gets the first color that no neighbor before it has.

    At most one color more than the longest row has couplings; on a lattice in its own order the parity classes.
    """
    color = np.full(graph.size, -1, dtype=np.int32)
    _first_fit(*graph, color)
    return color


def levels_inside(graph: Graph, block: int) -> Any:
    """Levels within each block of so many consecutive rows, int32 (rows,) from 0.

    Each row comes right after the last of the neighbors before it in its block.
    """
    level = np.empty(graph.size, dtype=np.int32)
    _levels(*graph, block, level)
    return level


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _first_fit(start: Any, columns: Any, color: Any) -> None:
    taken = np.full(len(start) + 1, -1, np.int64)  # the last row beside which a color was seen
    for i in range(len(color)):
        for j in columns[start[i] : start[i + 1]]:
            if color[j] >= 0:
                taken[color[j]] = i
        c = 0
        while taken[c] == i:
            c += 1
        color[i] = c


@compiled()
def _levels(start: Any, columns: Any, size: Any, level: Any) -> None:
    for i in range(len(level)):
        first = i // size * size
        last = -1
        for j in columns[start[i] : start[i + 1]]:
            if first <= j < i and level[j] > last:
                last = level[j]
        level[i] = last + 1
