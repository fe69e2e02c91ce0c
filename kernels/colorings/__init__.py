"""Colorings of the rows of any sparse matrix: rows of one color do not read each other.

Sweeps and triangular solves visit the colors one after the other, and the rows of a color all at once. Colors follow
from the rows of one chunk and their numbers in the whole matrix alone, so they are the same for any number of workers
and on every device.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.kernels.colorings.graph import Graph, of_pairs
from dsolver.kernels.colorings.setup import SweepSetup

HASHES: Final = 4  # random numbers of a row in `cohen_castonguay`
BLOCK: Final = 16  # rows of a block of `in_blocks`: there are at most as many steps for each color of the blocks

Coloring = Callable[[SweepSetup, Graph, int], Any]
"""Makes the color of each row, int32 (rows,), some of which no row may have: of the set-up where the graph lies, the
graph of the rows, and the number of the first one in the whole matrix."""


def greedy(setup: SweepSetup, graph: Graph, _: int) -> Any:
    """Colors by first fit, in the order of the rows."""
    return setup.first_fit(graph)


def jones_plassmann_luby(setup: SweepSetup, graph: Graph, first: int) -> Any:
    """A color a round, for the rows with the largest random number among uncolored neighbors (JPL).

    Naumov, Castonguay, Cohen, Parallel graph coloring with applications to the incomplete-LU factorization on the GPU,
    2015.
    """
    return setup.sets(graph, keys_of(first, graph.size, 1, setup.xp), smallest=False)


def cohen_castonguay(setup: SweepSetup, graph: Graph, first: int) -> Any:
    """Two colors a round for each of `HASHES` random numbers: rows with the largest and with the smallest one (CC).

    Fewer rounds than by JPL, with somewhat fewer colors (the same report).
    """
    return setup.sets(graph, keys_of(first, graph.size, HASHES, setup.xp), smallest=True)


def levels(setup: SweepSetup, graph: Graph, _: int) -> Any:
    """Level scheduling: each row comes right after the last of the neighbors before it in row order.

    Colors in ascending order are then a sweep in row order, to the last bit of its convergence (Saad, Iterative Methods
    for Sparse Linear Systems, 11.6.3). There are as many as the longest chain of couplings has rows: for a band matrix
    as many as rows.
    """
    return setup.levels(graph, max(1, graph.size))


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


def keys_of(first: int, rows: int, count: int, xp: Any) -> Any:
    """Random numbers of each row: uint64 (count, rows), each time no two alike.

    The upper half of the hash SplitMix64 of the row's number in the whole matrix (Steele, Lea, Flood, OOPSLA 2014), and
    below it the number in the chunk.
    """
    place, seed = xp.arange(rows, dtype=np.uint64), xp.arange(count, dtype=np.uint64)
    z = (place[None, :] + np.uint64(first + 1)) * np.uint64(0x9E3779B97F4A7C15) + (seed[:, None] << np.uint64(40))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(32) << np.uint64(32)) | place


_OF_ROWS: Final[dict[str, Coloring]] = {"greedy": greedy, "jpl": jones_plassmann_luby, "cc": cohen_castonguay}
COLORINGS: Final[dict[str, Coloring]] = {
    **_OF_ROWS,
    **{f"block-{name}": partial(in_blocks, color=color) for name, color in _OF_ROWS.items()},
    "levels": levels,
}
"""Colorings by name."""


def colored(setup: SweepSetup, graph: Graph, name: str, first: int) -> Any:
    """The color of each row by the coloring of a name: int32 (rows,), from 0 on with none left out."""
    xp, color = setup.xp, COLORINGS[name](setup, graph, first)
    there = xp.zeros(int(color.max()) + 1 if graph.size else 0, dtype=bool)
    there[color] = True
    return (xp.cumsum(there) - 1).astype(np.int32)[color]
