"""Inverses of small matrices, stored with their zeros."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.casts import narrowed
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.stencil.rows import StencilRows

Eliminate = Callable[[npt.NDArray[np.float64], float], npt.NDArray[np.bool_]]
Multiply = Callable[..., Any]
RANK_TOLERANCE = 1e-12
"""A pivot below this part of its diagonal entry counts as zero: far below what ill-conditioned coarse matrices leave
(about 1/rows), above what rounding leaves of a zero in a matrix that was not computed. In coarse matrices of a singular
system it leaves more (1e-10 was seen at 96³), which no number tells from a weakly fixed constant: hence
`multigrid.coarse_solve.regularized`."""


@dataclass(frozen=True, kw_only=True)
class DenseInverse(Format):
    """The inverse of a small matrix, or what takes its place where there is none."""

    position: Array  # int32 (rows,), storage positions of the rows, in lattice order
    values: Array
    # float64 (rows,) each, the diagonals of the matrix and of its inverse, which is zero where a pivot was none.
    diagonals: tuple[Array, Array] | None = None

    def skipped(self, to_host: Callable[[Array], Any]) -> int:
        """Number of rows of which it makes nothing though they have a diagonal; 0 where that is not known."""
        a, inverse = map(to_host, self.diagonals or (np.zeros(0), np.zeros(0)))
        with np.errstate(all="ignore"):  # the least that its diagonal may be, zero where that is out of range
            least = np.where(a > 0.0, 1.0 / a, 0.0).astype(inverse.dtype)
        return int(np.count_nonzero((least > 0.0) & (inverse == 0.0)))


class DenseSetup:
    """Set-up of small matrices, on the host.

    `form`: makes an inverse with its kernel. `eliminate`: does the work of `semidefinite_inverse`. `multiply`: does
    that of `product`, with the same bits whatever threads there are.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        form: Callable[..., DenseInverse],
        eliminate: Eliminate | None = None,
        multiply: Multiply = np.matmul,
    ) -> None:
        self._dtype, self._form, self._eliminate, self._multiply = dtype, form, eliminate, multiply

    def matrix(self, rows: StencilRows) -> Array:
        """Rows without halo as a symmetric matrix, float64 (rows, rows) in lattice order, for `inverse`."""
        n, (nx, ny, nz) = rows.rows, rows.shape
        around = rows.numbering.reshape(nz + 2, ny + 2, nx + 2)
        host = np.broadcast_to(rows.weights.reshape(len(rows.offsets), -1), (len(rows.offsets), n))
        wide, every = np.zeros((n, n + 1)), np.arange(n)  # columns -1, outside of the lattice, are the last one
        for (i, j, k), values in zip(rows.offsets, host, strict=True):
            columns = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
            wide[every, columns] += values
        dense = wide[:, :n]
        return (dense + dense.T) / 2

    def of_rows(self, rows: Csr) -> Array:
        """Compressed rows with their zeros, where their arrays are: float64 (rows, rows)."""
        start, columns, values = rows
        dense: Array = np.zeros_like(values, shape=(rows.size, rows.size))
        row = np.searchsorted(start[1:], np.arange(len(columns), like=start), side="right")
        dense[row, columns] = values
        return dense

    def product(self, a: Array, b: Array) -> Array:
        """A B of small matrices, float64 (rows, rows) each."""
        out = np.empty_like(a)
        self._multiply(np.ascontiguousarray(a), np.ascontiguousarray(b), out)
        return out

    def stored(self, layout: Layout, values: Array) -> DenseInverse:
        """An inverse that is known, float64 (rows, rows) in lattice order."""
        return self._form(position=layout.position, values=narrowed(np.ascontiguousarray(values), self._dtype))

    def inverse(self, layout: Layout, matrix: Array, *, symmetric: bool = True) -> DenseInverse:
        """The inverse of a matrix with a positive semidefinite symmetric part, float64 (rows, rows) in lattice order.

        symmetric: whether the matrix is, but for rounding. Rows that depend on the rows before them, as the last one
        where constants are in the null space, get zero (see `semidefinite_inverse`).
        """
        return self.stored(layout, semidefinite_inverse(matrix, self._eliminate, symmetric=symmetric))


def semidefinite_inverse(
    matrix: npt.NDArray[np.float64], eliminate: Eliminate | None = None, *, symmetric: bool = True
) -> npt.NDArray[np.float64]:
    """A G with A G A = A for an A whose symmetric part is positive semidefinite; its inverse if it has one.

    Gauss-Jordan elimination with diagonal pivots (Golub, Van Loan, Matrix Computations, 4th ed., section 4.2: without
    interchanges it is stable for such matrices). A row whose pivot vanishes depends on those before it: its unknown is
    set to zero. Made of additions and products of whole rows alone, so that the bits do not depend on a library's
    threads, as every rank computes this anew.

    `eliminate`: what takes the place of `eliminated`, with its bits. `symmetric`: whether A is; then G is to the bit.
    """
    a = np.array(matrix, dtype=np.float64, order="C")
    kept = (eliminate or eliminated)(a, RANK_TOLERANCE)
    a[~kept] = 0.0
    a[:, ~kept] = 0.0
    return (a + a.T) / 2 if symmetric else a


def eliminated(a: npt.NDArray[np.float64], tolerance: float) -> npt.NDArray[np.bool_]:
    """Eliminate with pivots above so much of their first diagonal entry, in place; whether each row was, bool (n,)."""
    diagonal = a.diagonal().copy()
    kept = np.zeros(len(a), dtype=np.bool_)
    for i in range(len(a)):
        pivot = a[i, i]
        if not pivot > tolerance * diagonal[i]:
            continue
        kept[i] = True
        row, column = a[i] / pivot, a[:, i].copy()
        column[i] = 0.0
        a -= column[:, None] * row
        a[:, i] = -column / pivot
        a[i] = row
        a[i, i] = 1.0 / pivot
    return kept
