"""Matrices in NumPy: rows in lattice order, in ELL form, with their kernels and set-up."""

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.kernels.casts import in_range, lossless, narrowed
from dsolver.kernels.formats.base import Format, FormatBuilder, SeparateBackward, SeparateDot, SeparateSweeps
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.reference.vectors import NumpyVectors, Real, product

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TextbookMatrix(SeparateBackward, SeparateDot, SeparateSweeps, Format):
    """Rows in ELL form (K, rows) off the diagonal, own and halo columns apart; holes have column 0 and value 0."""

    layout: Layout  # the storage order, which is the lattice order
    diagonal: Real  # (rows,), in the value type, as all values
    columns: I64
    values: Real
    members: tuple[I64, ...]  # the rows of each color
    vectors: NumpyVectors

    def scaled(self, factors: F64) -> Self:
        """The matrix with the diagonal multiplied by a block of factors, shape (nx, ny, nz)."""
        return replace(self, diagonal=in_range(self.diagonal * factors.reshape(-1, order="F"), self.vectors.dtype))

    def compacted(self) -> Self:
        """The matrix for `spmv` and `spmv_dot` alone, with values in float32 where that loses nothing."""
        return replace(self, values=lossless(self.values))

    def spmv(self, x: Real, y: Real) -> None:
        y[:] = self.diagonal * x + (self.values * x[self.columns]).sum(axis=0)

    def forward(self, r: Real, x: Real) -> None:
        x[:] = 0.0
        self.sweep(self.members, r, x)

    def upper_residual(self, x: Real, y: Real) -> None:
        y[:] = -self._sum(x, upper=True)

    def lower_residual(self, r: Real, x: Real, w: Real) -> None:
        w[:] = r - self._sum(x, upper=False)

    def backward(self, w: Real, x: Real) -> None:
        x[:] = 0.0
        self.sweep(self.members[::-1], w, x)

    def sweep(self, order: tuple[I64, ...], r: Real, x: Real) -> None:
        """Each group of rows in its turn: x_i = (r_i - the sum over the others) / d_i."""
        for rows in order:
            others = (self.values[:, rows] * x[self.columns[:, rows]]).sum(axis=0)
            x[rows] = (r[rows] - others) / self.diagonal[rows]

    def _sum(self, x: Real, *, upper: bool) -> Real:
        """U x or L x: the entries whose column is of a later, or an earlier, color."""
        later = self.layout.color[self.columns] > self.layout.color[None, :]
        return (np.where(later == upper, self.values, 0.0) * x[self.columns]).sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class TextbookHalo(Format):
    """The rows that read the halo, in ELL form (K, B); holes have column 0 and value 0."""

    boundary: I64  # int64 (B,), their row numbers
    columns: I64
    values: Real

    @property
    def size(self) -> int:
        """Number of boundary rows."""
        return len(self.boundary)

    def scaled_rows(self, x: Real) -> Self:
        """Each row times the item at its place of a vector of the rows."""
        return replace(self, values=self.values * x[self.boundary])

    def scaled_columns(self, h: Real) -> Self:
        """Each column times the item of a halo vector that it multiplies."""
        return replace(self, values=self.values * h[self.columns])

    def spmv_halo(self, h: Real, y: Real) -> None:
        y[self.boundary] += self._times(h)

    def times_halo(self, h: Real, q: Real) -> None:
        q[:] = self._times(h)

    def times_halo_dot(self, h: Real, x: Real, q: Real, dot: F64) -> None:
        q[:] = self._times(h)
        dot[0] = product(x[self.boundary], q)

    def add_halo_dot(self, q: Real, part: F64, y: Real, dot: F64) -> None:
        y[self.boundary] += q
        dot += part

    def subtract_halo(self, h: Real, r: Real) -> None:
        r[self.boundary] -= self._times(h)

    def _times(self, h: Real) -> Real:
        return (self.values * h[self.columns]).sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class TextbookProduct(Format):
    """A rectangular matrix in ELL form (K, rows); holes have column 0 and value 0."""

    columns: I64
    values: Real

    def restrict_full(self, y: Real, rc: Real) -> None:
        rc[:] = (self.values * y[self.columns]).sum(axis=0)

    def prolong_add(self, xc: Real, x: Real) -> None:
        x += (self.values * xc[self.columns]).sum(axis=0)

    def prolong_sum(self, xc: Real, x: Real, y: Real) -> None:
        y[:] = x + (self.values * xc[self.columns]).sum(axis=0)


# -- set-up ------------------------------------------------------------------------------------------------------------


def _entries(rows: CandidateRows, count: int) -> tuple[I64, F64]:
    """Columns (or -1) and values (K, count) of so many rows, which are all."""
    nx, ny, first, line, lines = rows.walk
    index, steps = np.arange(count, dtype=np.int64), rows.steps()
    place = first + index % nx + line * ((index // nx) % ny + lines * (index // (nx * ny)))
    columns = rows.numbering[place[None, :] + steps[:, None]].astype(np.int64)
    return columns, np.where(columns < 0, 0.0, rows.weights.reshape(len(steps), -1))


class NumpySell(FormatBuilder):
    """Set-up of text-book matrices."""

    def __init__(self, vectors: NumpyVectors) -> None:
        self._vectors = vectors
        self._dtype = vectors.dtype

    def matrix(self, layout: Layout, rows: CandidateRows, *, swept: bool = True) -> TextbookMatrix:
        columns, values = _entries(rows, layout.rows)
        index = np.arange(layout.rows, dtype=np.int64)
        own = (columns >= 0) & (columns < layout.rows)
        on_diagonal = own & (columns == index)
        diagonal = np.where(on_diagonal, values, 0.0).sum(axis=0)
        if not diagonal.all():
            raise ZeroDivisionError(f"row {np.flatnonzero(diagonal == 0.0)[0]} of a chunk has no diagonal entry")
        off = own & ~on_diagonal
        return TextbookMatrix(
            layout=layout,
            diagonal=in_range(diagonal, self._dtype),
            columns=np.where(off, columns, 0),
            values=narrowed(np.where(off, values, 0.0), self._dtype),
            members=tuple(np.flatnonzero(layout.color == c) for c in range(layout.colors)),
            vectors=self._vectors,
        )

    def narrowed(self, matrix: TextbookMatrix, *, swept: bool = True) -> TextbookMatrix:
        diagonal, values = in_range(matrix.diagonal, self._dtype), narrowed(matrix.values, self._dtype)
        return replace(matrix, diagonal=diagonal, values=values, vectors=self._vectors)

    def narrowed_halo(self, halo: TextbookHalo) -> TextbookHalo:
        return replace(halo, values=narrowed(halo.values, self._dtype))

    def product(self, rows: Layout, columns: Layout, entries: CandidateRows, *, in_order: bool) -> TextbookProduct:
        found, values = _entries(entries, rows.rows)
        own = (found >= 0) & (found < columns.rows)
        return TextbookProduct(
            columns=np.where(own, found, 0), values=narrowed(np.where(own, values, 0.0), self._dtype)
        )

    def halo_product(self, rows: Layout, columns: Layout, entries: CandidateRows) -> TextbookHalo:
        found, values = _entries(entries, rows.rows)
        halo = found >= columns.rows
        boundary = np.flatnonzero(halo.any(axis=0))
        return TextbookHalo(
            boundary=boundary,
            columns=np.where(halo, found - columns.rows, 0)[:, boundary],
            values=narrowed(np.where(halo, values, 0.0)[:, boundary], self._dtype),
        )


ASSEMBLY: Final = NumpySell
