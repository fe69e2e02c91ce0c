"""Triangular factors of compressed rows on the host: those of Gauss-Seidel sweeps, and incomplete ones.

All are A ≈ (I + L) (D + U) in the order of the rows' colors: L has the entries at earlier colors, U those at later
ones, and each entry stays where it was, so that half sweeps solve with both.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.formats.csr import Csr

F64 = npt.NDArray[np.float64]
Colors = npt.NDArray[np.int32]


LOST = 1e-13
"""A pivot that is less than this part of its diagonal entry is what rounding has left of zero: of a singular matrix."""


class BreakdownError(ArithmeticError):
    """A pivot that a factorization cannot divide by.

    Args:
        row: where.
        pivot: its value.
    """

    def __init__(self, row: int, pivot: float) -> None:
        super().__init__(row, pivot)
        self.row, self.pivot = row, pivot


@final
class Factors(NamedTuple):
    """Both triangular factors.

    Attributes:
        rows: L and U in one pattern, and ones on the diagonal.
        diagonal: D, float64 (rows,).
    """

    rows: Csr
    diagonal: F64


def sweep_factors(a: Csr, color: Colors) -> Factors:
    """The factors (D + L) D⁻¹ (D + U) of a symmetric Gauss-Seidel sweep, A = L + D + U.

    Raises:
        BreakdownError: the diagonal has a zero.
    """
    row = _rows_of(a)
    diagonal = _diagonal(a, row)
    zero = np.flatnonzero(diagonal == 0.0)
    if len(zero):
        raise BreakdownError(int(zero[0]), 0.0)
    lower = color[a.columns] < color[row]
    values = np.where(lower, a.values / diagonal[a.columns], a.values)
    values[row == a.columns] = 1.0
    return Factors(Csr(a.start, a.columns, values), diagonal)


def incomplete_factors(a: Csr, color: Colors, *, shift: float = 0.0, positive: bool = False) -> Factors:
    """Incomplete factors without fill, ILU(0): those of A where A has entries (Saad, Iterative Methods, 10.3.2).

    Of a symmetric matrix they are those of IC(0), (I + L) D (I + Lᵀ).

    Args:
        a: its columns ascend in each row.
        color: of each row; two rows that read each other have different ones.
        shift: that times its diagonal is added to A first (Manteuffel, Math. Comp. 34, 1980).
        positive: whether pivots must be positive.

    Raises:
        BreakdownError: a pivot is zero up to rounding, not finite, or not positive though it must be.
    """
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
    return Factors(Csr(a.start, a.columns, factored), diagonal)


def _rows_of(a: Csr) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(a.size), np.diff(a.start))


def _diagonal(a: Csr, row: npt.NDArray[np.int64]) -> F64:
    out, own = np.zeros(a.size), row == a.columns
    out[row[own]] = a.values[own]
    return out


# -- loops -------------------------------------------------------------------------------------------------------------


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
