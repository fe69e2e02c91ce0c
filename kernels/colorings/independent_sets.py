"""Colorings by independent sets, all rows at once: array operations on a GPU that owns the rows, loops on a CPU.

A row whose random number is the largest, or the smallest, of those of its uncolored neighbors belongs to a set of rows
that do not read each other. Random numbers are a hash of the row's number in the whole matrix.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.cpu.loops.compiled import compiled

HASHES: Final = 4
"""Random numbers of a row in `cohen_castonguay`."""


def jones_plassmann_luby(graph: Graph, first: int, xp: Any) -> Any:
    """A color a round, for the rows with the largest random number among uncolored neighbors (JPL).

    Naumov, Castonguay, Cohen, Parallel graph coloring with applications to the incomplete-LU factorization on the GPU,
    2015.
    """
    return _colored(graph, keys_of(first, graph.size, 1, xp), xp, smallest=False)


def cohen_castonguay(graph: Graph, first: int, xp: Any) -> Any:
    """Two colors a round for each of `HASHES` random numbers: rows with the largest and with the smallest one (CC).

    A row that may have several of them takes the first. Fewer rounds than by JPL, with somewhat fewer colors (the same
    report).
    """
    return _colored(graph, keys_of(first, graph.size, HASHES, xp), xp, smallest=True)


def _colored(graph: Graph, keys: Any, xp: Any, *, smallest: bool) -> Any:
    if xp is np:
        return numbered(by_loops(graph, keys, smallest=smallest), np)
    return numbered(by_arrays(graph, keys, xp, smallest=smallest), xp)


def by_arrays(graph: Graph, keys: Any, xp: Any, *, smallest: bool) -> Any:
    """Colors by rounds, int32 (rows,), some of which no row may have.

    Args:
        graph: of the rows.
        keys: uint64 (H, rows).
        xp: array module of the keys.
        smallest: whether a key makes two colors a round.
    """
    once = graph.columns < graph.rows
    i, j = xp.asarray(graph.rows[once]), xp.asarray(graph.columns[once])
    color, count = xp.full(graph.size, -1, dtype=np.int32), 0
    while bool((color < 0).any()):
        free = color < 0
        for key in keys:
            larger = key[i] > key[j]
            for worse in (xp.where(larger, j, i), xp.where(larger, i, j)) if smallest else (xp.where(larger, j, i),):
                chosen = free.copy()
                chosen[worse] = False
                color[chosen & (color < 0)] = count
                count += 1
        left = (color[i] < 0) & (color[j] < 0)
        i, j = i[left], j[left]
    return color


def by_loops(graph: Graph, keys: Any, *, smallest: bool) -> Any:
    """`by_arrays` by compiled loops on the host, with the same result."""
    color = np.full(graph.size, -1, dtype=np.int32)
    _rounds(*graph, keys, smallest, color)
    return color


def numbered(color: Any, xp: Any) -> Any:
    """Colors without those that no row has."""
    return xp.searchsorted(xp.unique(color), color).astype(np.int32)


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
    left, count, sets = len(color), 0, len(keys) * (2 if smallest else 1)
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
        count += sets


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
