"""Block coloring: blocks of consecutive rows are colored, and the rows of a block are swept in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dsolver.kernels.colorings.graph import Graph, of_pairs
from dsolver.kernels.colorings.independent_sets import numbered
from dsolver.kernels.colorings.row_order import levels_inside

BLOCK: Final = 16
"""Rows of a block: there are at most as many steps for each color of the blocks."""


def in_blocks(graph: Graph, first: int, xp: Any, *, color: Callable[[Graph, int, Any], Any]) -> Any:
    """Block by block of one color, level by level inside a block: what a sweep in row order within blocks does.

    Rows that are at the same level of different blocks of one color do not read each other, so that they have one color
    of the result (Iwashita, Nakashima, Takahashi, IPDPS 2012, with blocks of consecutive rows).

    Args:
        graph: of the rows.
        first: number of the first row in the whole matrix.
        xp: array module of the device.
        color: how the blocks are colored.
    """
    rows, columns, blocks = graph.rows // BLOCK, graph.columns // BLOCK, -(-graph.size // BLOCK)
    apart = rows != columns
    pairs = np.unique(rows[apart] * np.int64(blocks) + columns[apart])
    of_blocks = color(of_pairs(pairs, blocks), first, xp)
    level = np.empty(graph.size, dtype=np.int32)
    levels_inside(*graph, BLOCK, level)
    outer = of_blocks[xp.arange(graph.size) // BLOCK]
    return numbered(outer * np.int32(BLOCK) + xp.asarray(level), xp)
