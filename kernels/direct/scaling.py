"""Scaling of rows and columns of a matrix by powers of two, before it is factorized. Nothing is rounded."""

from typing import Any, Final

import numpy as np

from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.reductions import some

PASSES: Final = 2  # passes of scaling rows and columns to largest entries of about 1 (Ruiz, RAL-TR-2001-034, 2001)
WEAK: Final = 1 / 16
"""Part of the largest entry of its row below which a diagonal entry is weak: elimination makes some of these so small
that they are no pivots."""
SHARE: Final = 0.01
"""Part of the rows, from which on so many weak entries make ten times the fill of an order that counts on pivots on the
diagonal."""
ROUNDS: Final = 50  # rounds in which scales spread along couplings; few where they do not differ by hundreds of decades
ROUNDED: Final = 2  # exponent of two by which entries of a definite matrix may seem larger than its diagonal


def scaled(xp: Any, a: Csr, row: Any, *, symmetric: bool) -> tuple[Any, Any, Any]:
    """Diagonals R and C of powers of two, float64 (rows,), and the entries of R A C, which are at most about 1.

    Nothing is rounded. Those of a symmetric matrix are equal.
    """
    values = a.values
    left, right = xp.ones(a.size), xp.ones(a.size)
    for _ in range(PASSES):
        sizes = xp.abs(values)
        of_rows = _root(xp, largest_of(xp, sizes, row, a.size))
        of_columns = of_rows if symmetric else _root(xp, largest_of(xp, sizes, a.columns, a.size))
        if not some((of_rows != 1.0) | (of_columns != 1.0)):
            break
        values = values * of_rows[row] * of_columns[a.columns]  # both together may be beyond all numbers
        left, right = left * of_rows, right * of_columns
    return left, right, values


def is_weak(diagonal: Any, row: Any, values: Any) -> bool:
    """Whether a positive diagonal has many entries small beside others of their rows, by NumPy; values: of `scaled`."""
    most = SHARE * len(diagonal)
    if np.count_nonzero(diagonal < 2.0 * WEAK) <= most or (diagonal <= 0.0).any():
        return False
    return bool(np.count_nonzero(diagonal < WEAK * largest_of(np, np.abs(values), row, len(diagonal))) > most)


def with_strong_diagonal(a: Csr, row: Any, *, symmetric: bool) -> tuple[Any, Any, Any] | None:
    """As `scaled`, so that each diagonal entry is about 1 and no entry much larger, by NumPy; None where none does so.

    A matrix D M E with a dominant M is scaled so, whatever D and E are: u + v + log|A| <= 0, with equality on the
    diagonal, is a system of potentials, which Bellman and Ford's method solves. It is the scaling of Duff and Koster
    (SIAM J. Matrix Anal. Appl. 22, 2001, section 2), with rows paired with columns as they stand.

    `symmetric`: whether A is: if it is definite, too, its diagonal tells the scales.
    """
    exponents = np.frexp(np.abs(a.values))[1].astype(np.int64)
    on, there = row == a.columns, a.values != 0.0
    of_diagonal = np.zeros(a.size, np.int64)
    of_diagonal[row[on]] = exponents[on]
    own, other, most = row[there], a.columns[there], ROUNDED * symmetric - exponents[there]
    left = -(of_diagonal // 2)
    right = left if symmetric else -left - of_diagonal
    for _ in range(1 if symmetric else ROUNDS):
        before = left.copy()
        np.minimum.at(left, own, most - right[other])
        if (left == before).all():
            both = np.ldexp(1.0, np.minimum(left[row] + right[a.columns], 1000))  # of denormal numbers it is more
            return np.ldexp(1.0, left), np.ldexp(1.0, right), a.values * both
        right = -left - of_diagonal
    return None


def largest_of(xp: Any, values: Any, place: Any, size: int) -> Any:
    """The largest of the values of each place, which are not negative; 0 where there are none."""
    found = xp.zeros(size)
    xp.maximum.at(found, place, values)
    return found


def _root(xp: Any, largest: Any) -> Any:
    """The power of two next to 1 / √largest; 1 where that is zero."""
    _, exponent = xp.frexp(xp.where(largest > 0.0, largest, 1.0))
    return xp.ldexp(xp.ones(len(largest)), -(exponent // 2))
