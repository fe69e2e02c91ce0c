"""Colors of the rows of a matrix on the host, by first fit, levels, and independent sets: see `SweepSetup`."""

from typing import Any

import numpy as np

from dsolver.kernels.colorings.graph import Graph, of_pairs
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.formats.csr import Csr


def graph_of(a: Csr) -> Graph:
    graph = Graph(a.start, a.columns)
    if _is_symmetric(*graph):
        return graph
    rows, columns = rows_of(graph).astype(np.int64), graph.columns.astype(np.int64)
    return of_pairs(np.union1d(rows * a.size + columns, columns * a.size + rows), a.size)


def rows_of(graph: Graph) -> Any:
    """Row of each coupling: int32."""
    return np.repeat(np.arange(graph.size, dtype=np.int32), np.diff(graph.start))


def first_fit(graph: Graph) -> Any:
    color = np.full(graph.size, -1, dtype=np.int32)
    _first_fit(*graph, color)
    return color


def levels_inside(graph: Graph, block: int) -> Any:
    level = np.empty(graph.size, dtype=np.int32)
    _levels(*graph, block, level)
    return level


def sets(graph: Graph, keys: Any, *, smallest: bool) -> Any:
    color = np.full(graph.size, -1, dtype=np.int32)
    _rounds(*graph, keys, smallest, color)
    return color


@compiled()
def _is_symmetric(start: Any, columns: Any) -> Any:
    """Whether each entry has its mirror image: read row by row, these stand in ascending order in their rows."""
    following = start.copy()
    for i in range(len(start) - 1):
        for j in columns[start[i] : start[i + 1]]:
            k = following[j]
            if k == start[j + 1] or columns[k] != i:
                return False
            following[j] = k + 1
    return True


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
            if j != i and color[j] < 0:
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
