"""Triangular factors of compressed rows on the host, of Gauss-Seidel sweeps and incomplete ones: see `SweepSetup`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.colorings.factors import LOST, BreakdownError, TriangularFactors
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.formats.csr import Csr

F64 = npt.NDArray[np.float64]
Colors = npt.NDArray[np.int32]


def sweep_factors(a: Csr, color: Colors) -> TriangularFactors:
    row = _rows_of(a)
    diagonal = _diagonal(a, row)
    zero = np.flatnonzero(diagonal == 0.0)
    if len(zero):
        raise BreakdownError(int(zero[0]), 0.0)
    lower = color[a.columns] < color[row]
    values = np.where(lower, a.values / diagonal[a.columns], a.values)
    values[row == a.columns] = 1.0
    return TriangularFactors(Csr(a.start, a.columns, values), diagonal)


def incomplete_factors(a: Csr, color: Colors, *, shift: float = 0.0, positive: bool = False) -> TriangularFactors:
    order = np.argsort(color, kind="stable")
    place = np.empty(a.size, dtype=np.int64)
    place[order] = np.arange(a.size)
    start = np.concatenate([[0], np.cumsum(np.diff(a.start)[order])])
    source, columns = np.empty(len(a.columns), dtype=np.int64), np.empty(len(a.columns), dtype=np.int32)
    _sorted_rows(*a[:2], order, place, start, source, columns)
    values, pivots = a.values[source], np.empty(a.size)
    on_diagonal = columns == np.repeat(np.arange(a.size), np.diff(start))
    values[on_diagonal] *= 1.0 + shift
    bad = _factor(start, columns, values, pivots, positive, LOST)
    if bad >= 0:
        raise BreakdownError(int(order[bad]), float(pivots[bad]))
    values[on_diagonal] = 1.0
    factored, diagonal = np.empty_like(values), np.empty(a.size)
    factored[source], diagonal[order] = values, pivots
    return TriangularFactors(Csr(a.start, a.columns, factored), diagonal)


def _rows_of(a: Csr) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(a.size), np.diff(a.start))


def _diagonal(a: Csr, row: npt.NDArray[np.int64]) -> F64:
    out, own = np.zeros(a.size), row == a.columns
    out[row[own]] = a.values[own]
    return out


@compiled()
def _sorted_rows(start: Any, columns: Any, order: Any, place: Any, to: Any, source: Any, out: Any) -> None:
    """The rows in another order, their columns as places in it, ascending; source: where each entry was."""
    for i in range(len(order)):
        begin, end = start[order[i]], start[order[i] + 1]
        there = place[columns[begin:end]]
        ascending = np.argsort(there)
        for k in range(end - begin):
            source[to[i] + k] = begin + ascending[k]
            out[to[i] + k] = there[ascending[k]]


@compiled()
def _factor(start: Any, columns: Any, values: Any, pivots: Any, positive: Any, lost: Any) -> Any:
    """ILU(0) in place, row after row (IKJ); the first row whose pivot is no good, or -1."""
    rows = len(start) - 1
    found, diagonal = np.full(rows, -1, np.int64), np.empty(rows, np.int64)
    for i in range(rows):
        diagonal[i] = -1
        for p in range(start[i], start[i + 1]):
            found[columns[p]] = p
            if columns[p] == i:
                diagonal[i] = p
        least = 0.0 if diagonal[i] < 0 else lost * abs(values[diagonal[i]])
        for p in range(start[i], start[i + 1]):
            k = columns[p]
            if k >= i:
                break
            values[p] /= pivots[k]
            for q in range(diagonal[k] + 1, start[k + 1]):
                at = found[columns[q]]
                if at >= 0:
                    values[at] -= values[p] * values[q]
        for p in range(start[i], start[i + 1]):
            found[columns[p]] = -1
        pivots[i] = 0.0 if diagonal[i] < 0 else values[diagonal[i]]
        if not np.isfinite(pivots[i]) or abs(pivots[i]) <= least or (positive and pivots[i] < 0.0):
            return i
    return -1
