"""Colorings of the rows of any sparse matrix: rows of one color do not read each other.

Sweeps and triangular solves visit the colors one after the other, and the rows of a color all at once. Colors follow
from the rows of one chunk and their numbers in the whole matrix alone, so they are the same for any number of workers
and on every device.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.kernels.colorings.blocks import in_blocks
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.colorings.random_keys import keys_of
from dsolver.kernels.colorings.setup import SweepSetup

HASHES: Final = 4  # random numbers of a row in `cohen_castonguay`

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
