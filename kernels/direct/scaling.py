"""Rows and columns of a matrix scaled by powers of two, to entries of at most about 1."""

from __future__ import annotations

from typing import Any, Final

from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.reductions import some

PASSES: Final = 2
"""Passes of scaling rows and columns to largest entries of about 1 (Ruiz, RAL-TR-2001-034, 2001)."""


def scaled(xp: Any, a: Csr, row: Any, *, symmetric: bool) -> tuple[Any, Any, Any]:
    """Diagonals R and C of powers of two, float64 (rows,), and the entries of R A C, which are at most about 1.

    Nothing is rounded. Those of a symmetric matrix are equal.

    Args:
        xp: the array module.
        a: A.
        row: of each entry.
        symmetric: whether A is.
    """
    values = a.values
    left, right = xp.ones(a.size), xp.ones(a.size)
    for _ in range(PASSES):
        sizes = xp.abs(values)
        of_rows = _root(xp, largest_of(xp, sizes, row, a.size))
        of_columns = of_rows if symmetric else _root(xp, largest_of(xp, sizes, a.columns, a.size))
        if not some((of_rows != 1.0) | (of_columns != 1.0)):
            break
        values = values * (of_rows[row] * of_columns[a.columns])
        left, right = left * of_rows, right * of_columns
    return left, right, values


def largest_of(xp: Any, values: Any, place: Any, size: int) -> Any:
    """The largest of the values of each place, which are not negative; 0 where there are none."""
    found = xp.zeros(size)
    xp.maximum.at(found, place, values)
    return found


def _root(xp: Any, largest: Any) -> Any:
    """The power of two next to 1 / √largest; 1 where that is zero."""
    _, exponent = xp.frexp(xp.where(largest > 0.0, largest, 1.0))
    return xp.ldexp(xp.ones(len(largest)), -(exponent // 2))
