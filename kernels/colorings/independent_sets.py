"""Independent sets, all rows at once: rounds in which rows with extreme random numbers are chosen.

A row whose random number is the largest, or the smallest, of those of its uncolored neighbors belongs to a set of rows
that do not read each other. Random numbers are a hash of the row's number in the whole matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.cpu.loops.compiled import compiled


def sets(graph: Graph, keys: Any, *, smallest: bool) -> Any:
    """The set of each row, int32 (rows,), some of which no row may have.

    In each round every key makes a set of the rows where it is the largest, and then perhaps one of those where it is
    the smallest. A row that may have several of them takes the first.

    Args:
        graph: of the rows.
        keys: uint64 (H, rows), each time no two alike.
        smallest: whether a key makes two sets a round.
    """
    color = np.full(graph.size, -1, dtype=np.int32)
    _rounds(*graph, keys, smallest, color)
    return color


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


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _rounds(start: Any, columns: Any, keys: Any, smallest: Any, color: Any) -> None:
    free, chosen = np.arange(len(color)), np.empty(len(color), np.int32)
    left, count, made = len(color), 0, len(keys) * (2 if smallest else 1)
    while left > 0:
        for n in range(left):
            chosen[n] = _set_of(free[n], start, columns, keys, smallest, color)
        kept = 0
        for n in range(left):
            if chosen[n] >= 0:
                color[free[n]] = count + chosen[n]
            else:
                free[kept] = free[n]
                kept += 1
        left = kept
        count += made


@compiled()
def _set_of(i: Any, start: Any, columns: Any, keys: Any, smallest: Any, color: Any) -> Any:
    """First of a round's sets that row i belongs to, or -1."""
    for h in range(len(keys)):
        key, least, most = keys[h], smallest, True
        for j in columns[start[i] : start[i + 1]]:
            if color[j] < 0:
                if key[j] > key[i]:
                    most = False
                else:
                    least = False
                if not (least or most):
                    break
        if most:
            return h * (2 if smallest else 1)
        if least:
            return 2 * h + 1
    return -1
