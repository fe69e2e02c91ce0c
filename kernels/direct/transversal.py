"""Transversals: an entry in each row and column of a matrix, which is put on its diagonal.

I. S. Duff, J. Koster, On algorithms for permuting large entries to the diagonal of a sparse matrix, SIAM J. Matrix
Anal. Appl. 22, 2001, section 3: shortest augmenting paths, by Dijkstra's method on costs that potentials of rows and
columns reduce. Costs are integers, so that their sums are exact.
"""

from heapq import heappop, heappush
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.direct.scaling import largest_of

I64 = npt.NDArray[np.int64]

STEP: Final = 2.0**-20  # part of the logarithm of two that costs are multiples of
FAR: Final = 2**62  # cost of a path that is not there


def of_largest(rows: Any) -> I64 | None:
    """Row at each place for which the diagonal of a SciPy CSR array has the largest product; None where that is 0.

    Where the largest entries of rows lie in different columns, they are on the diagonal.
    """
    size, sizes = rows.shape[0], abs(rows.data)
    row, there = np.repeat(np.arange(size), np.diff(rows.indptr)), sizes > 0.0
    row, columns, sizes = row[there], rows.indices[there].astype(np.int64), sizes[there]
    costs = np.log2(largest_of(np, sizes, row, size)[row]) - np.log2(sizes)
    start = np.searchsorted(row, np.arange(size + 1))
    order: I64 = _paired(start, columns, np.round(costs / STEP).astype(np.int64))
    return None if len(order) < size else order


@compiled()
def _paired(start: I64, columns: I64, costs: I64) -> I64:
    """The row of each column at the least cost; empty where there is none."""
    size = len(start) - 1
    of_row, of_column = _potentials(start, columns, costs)
    row, column = _at_once(start, columns, costs, of_row, of_column)
    far, before = np.full(size, FAR), np.empty(size, np.int64)  # of each column on the paths from a row
    for i in range(size):
        if column[i] >= 0:
            continue
        end, nearest, seen = _shortest(i, start, columns, costs, of_row, of_column, row, far, before)
        if end < 0:
            return row[:0]
        for j in seen:
            if far[j] < nearest:
                of_row[row[j]] += nearest - far[j]
                of_column[j] -= nearest - far[j]
            far[j] = FAR
        of_row[i] += nearest
        while end >= 0:
            row[end] = before[end]
            column[row[end]], end = end, column[row[end]]
    return row


@compiled()
def _potentials(start: I64, columns: I64, costs: I64) -> tuple[I64, I64]:
    """Potentials of rows and columns, which make all costs at least 0, and one of each row's 0."""
    of_row, of_column = np.full(len(start) - 1, FAR), np.full(len(start) - 1, FAR)
    for k in range(len(columns)):
        of_column[columns[k]] = min(of_column[columns[k]], costs[k])
    for i in range(len(of_row)):
        for k in range(start[i], start[i + 1]):
            of_row[i] = min(of_row[i], costs[k] - of_column[columns[k]])
    return of_row, of_column


@compiled()
def _at_once(start: I64, columns: I64, costs: I64, of_row: I64, of_column: I64) -> tuple[I64, I64]:
    """Rows of columns, and columns of rows, that cost nothing: the first ones that are free, else -1."""
    row, column = np.full(len(of_row), -1), np.full(len(of_row), -1)
    for i in range(len(of_row)):
        for k in range(start[i], start[i + 1]):
            j = columns[k]
            if row[j] < 0 and costs[k] == of_row[i] + of_column[j]:
                row[j], column[i] = i, j
                break
    return row, column


@compiled()
def _shortest(
    i: int, start: I64, columns: I64, costs: I64, of_row: I64, of_column: I64, row: I64, far: I64, before: I64
) -> tuple[int, int, I64]:
    """The free column, or -1, at the end of the shortest path from a row, its cost, and the columns that were seen."""
    heap, seen, end, nearest, done = [(0, -1)], [-1], -1, FAR, 0
    while heap:
        done, j = heappop(heap)
        if done >= nearest:
            break
        if j >= 0:
            if done > far[j]:
                continue
            i = row[j]
        for k in range(start[i], start[i + 1]):
            to = columns[k]
            cost = done + costs[k] - of_row[i] - of_column[to]
            if cost >= min(far[to], nearest):
                continue
            before[to] = i
            if row[to] < 0:
                end, nearest = to, cost
                continue
            if far[to] == FAR:
                seen.append(to)
            far[to] = cost
            heappush(heap, (cost, to))
    return end, nearest, np.array(seen[1:], np.int64)
