"""Block coloring: blocks of consecutive rows are colored, and the rows of a block are swept in their order."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dsolver.kernels.colorings.graph import Graph, of_pairs
from dsolver.kernels.colorings.setup import SweepSetup

BLOCK: Final = 16  # rows of a block: there are at most as many steps for each color of the blocks


def in_blocks(setup: SweepSetup, graph: Graph, first: int, *, color: Callable[[SweepSetup, Graph, int], Any]) -> Any:
    """Block by block of one color, level by level inside a block: what a sweep in row order within blocks does.

    Rows that are at the same level of different blocks of one color do not read each other, so that they have one color
    of the result (Iwashita, Nakashima, Takahashi, IPDPS 2012, with blocks of consecutive rows).

    `color`: how the blocks are colored.
    """
    xp, blocks = setup.xp, -(-graph.size // BLOCK)
    rows, columns = setup.rows_of(graph) // BLOCK, graph.columns // BLOCK
    apart = rows != columns
    pairs = xp.unique(rows[apart] * np.int64(blocks) + columns[apart])
    of_blocks = color(setup, of_pairs(pairs, blocks), first)
    return of_blocks[xp.arange(graph.size) // BLOCK] * np.int32(BLOCK) + setup.levels(graph, BLOCK)
