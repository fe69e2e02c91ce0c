"""Unknowns of a node, found in the pattern of a matrix: those of one node are coupled to all of another one."""

from typing import Any, Final

import numpy as np

MOST: Final = 6  # unknowns of a node that are looked for: shells have three displacements and three turns
FULL: Final = 0.8
"""Part of the places that couplings of two nodes have entries in, at least. With elastic bodies it is 0.85 to 1, as
assemblies leave zeros out; where each row is a node by itself, couplings to three that follow each other fill 0.75."""
CLOSE: Final = 0.85
"""Part of the fullest size's from which on a larger one is taken: nodes of four unknowns are pairs of two, too."""
FIRST: Final = 1200  # rows that are looked at before all are: a multiple of all numbers up to `MOST`


def unknowns_of_nodes(rows: Any) -> int:
    """Rows, one after the other, that are those of one node all over a matrix, at most `MOST`; 1 where none are.

    Nodes that are coupled to none tell nothing: their values are held.

    `rows`: compressed rows of SciPy or CuPy, with ascending columns, none of them empty.
    """
    start, columns, count = rows.indptr, rows.indices, rows.indptr.shape[0] - 1
    sizes = [size for size in range(MOST, 1, -1) if count % size == 0]
    for first in (FIRST, count):
        if sizes and first <= count:
            end = int(start[first])
            full = {size: _full(start[: first + 1], columns[:end], size) for size in sizes}
            least = max(FULL, CLOSE * max(full.values()))
            sizes = [size for size in sizes if full[size] >= least]
    return sizes[0] if sizes else 1


def _full(start: Any, columns: Any, size: int) -> float:
    """Part of the places that couplings of nodes with so many rows have entries in."""
    node = columns // size
    first = np.ones_like(columns)  # whether an entry is the first one of its row in a node
    first[1:] = node[1:] != node[:-1]
    first[start[:-1]] = 1
    coupled = first.cumsum()[start[1:] - 1]
    coupled[1:] -= coupled[:-1].copy()  # nodes that a row reads
    nodes = coupled.reshape(-1, size).max(axis=1)
    entries = start[size::size] - start[:-size:size]
    several = nodes > 1
    places = size * size * int(nodes[several].sum())
    return int(entries[several].sum()) / max(places, 1)
