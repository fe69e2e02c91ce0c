"""General matrices in one chunk: local part, ghost part, rectangular rows and a diagonal alone, with their products.

Formats multiply vectors that hold the rows and nothing else. Vectors of engines have guards around them, so a format
gets views; nothing is copied.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.formats.base import Format, SeparateSweeps, SweepColumns, stored_bytes
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.layout import Array, Layout


@dataclass(frozen=True, kw_only=True)
class GeneralMatrix(SeparateSweeps, Format):
    """The local part of a chunk's rows.

    A product with its dot product is one pass in every format that has a kernel for it: alone, the dot product reads x
    and y once more, 16 bytes a row of the 12 k + 16 that a product of k entries a row moves. A step of
    Chebyshev is a vector operation after the product.
    """

    layout: Layout  # the storage order, in which rows keep theirs
    diagonal: Array  # (layout.size,) of the backend's value type, 1 on padding and guards
    # all entries, those of the diagonal too, in their format: (rows, rows); None where only steps with the diagonal are
    # wanted.
    product: Any
    choice: Choice
    rows: slice
    vectors: Any
    weights: Any = None  # where only steps with the diagonal are wanted, its reciprocals; else None

    @property
    def nbytes(self) -> int:
        return int(self.diagonal.nbytes) + (0 if self.product is None else int(self.product.nbytes))

    def batched(self, width: int) -> Columns:
        return MatrixColumns(self, width)

    def scaled(self, factors: Array) -> Self:
        """Steps of Jacobi and Chebyshev alone, with the diagonal times a block of factors, shape (nx, ny, nz)."""
        diagonal, weights = self.vectors.scaled(self.layout, self.diagonal, factors.reshape(-1, order="F"))
        return replace(self, diagonal=diagonal, weights=weights, product=None)

    def spmv(self, x: Array, y: Array) -> None:
        self.product.spmv(x[self.rows], y[self.rows])

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        self.product.spmv_dot(x[self.rows], y[self.rows], dot)


class MatrixColumns(SweepColumns):
    """A `GeneralMatrix` for several columns: its format may multiply them together."""

    def spmv(self, x: Array, y: Array) -> None:
        self.product.spmv(x[:, self.rows], y[:, self.rows])

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        self.product.spmv_dot(x[:, self.rows], y[:, self.rows], dot)

    @property
    def rows(self) -> Any:
        """The part of a vector in which the rows lie."""
        return self.one.rows

    @property
    def product(self) -> Any:
        """The format for as many columns."""
        return self.one.product.batched(self.width)


class OnePassSweeps:
    """Residuals and sweeps of Jacobi in the pass of the product, for one vector and for several."""

    rows: Any
    product: Any

    def residual(self, r: Array, x: Array, y: Array) -> None:
        of = self.rows
        self.product.residual(r[..., of], x[..., of], y[..., of])

    def jacobi_first(self, scaled: GeneralMatrix, r: Array, x: Array, y: Array) -> None:
        of = self.rows
        self.product.jacobi_first(scaled.weights[of], r[..., of], x[..., of], y[..., of])

    def jacobi_sweep(self, scaled: GeneralMatrix, r: Array, x: Array, z: Array) -> None:
        of = self.rows
        self.product.jacobi_sweep(scaled.weights[of], r[..., of], x[..., of], z[..., of])

    def jacobi_sweep_dot(self, scaled: GeneralMatrix, r: Array, x: Array, z: Array, dot: Array) -> None:
        of = self.rows
        self.product.jacobi_sweep_dot(scaled.weights[of], r[..., of], x[..., of], z[..., of], dot)


class OnePassMatrix(OnePassSweeps, GeneralMatrix):
    """A matrix in a format that `finishes`: alone, a residual and a sweep of Jacobi move 24 and 40 bytes a row more."""

    def batched(self, width: int) -> Columns:
        return OnePassColumns(self, width)


class OnePassColumns(OnePassSweeps, MatrixColumns):
    """An `OnePassMatrix` for several columns."""


@dataclass(frozen=True, kw_only=True)
class GhostRows(Format):
    """The ghost part of a chunk's rows: those rows that read a halo, compressed."""

    boundary: Array  # int32 (B,), storage positions of these rows, ascending
    product: Any  # their entries in columns that are halo slots: (B, slots)
    slots: slice  # where these lie in the halo vector
    room: Array | None  # (B,), where a device keeps products between two launches; None where each call makes its own
    vectors: Any

    @property
    def size(self) -> int:
        """Length of a vector with one item for each boundary row."""
        return len(self.boundary)

    @property
    def nbytes(self) -> int:
        return stored_bytes(self)

    def scaled_rows(self, x: Array) -> Self:
        """Each row times the item at its place of a vector of the rows."""
        return self._times(x[self.boundary][self.product.rows()]) if self.size else self

    def scaled_columns(self, h: Array) -> Self:
        """Each column times the item of a halo vector that it multiplies."""
        return self._times(h[self.slots][self.product.columns_of_entries()]) if self.size else self

    def _times(self, factors: Array) -> Self:
        """Each entry times a factor of its own."""
        return replace(self, product=self.product.times(factors))

    def spmv_halo(self, h: Array, y: Array) -> None:
        self._add(1.0, h, y)

    def subtract_halo(self, h: Array, r: Array) -> None:
        self._add(-1.0, h, r)

    def times_halo(self, h: Array, q: Array) -> None:
        self.product.spmv(self._side_by_side(h[self.slots]), q)

    def times_halo_dot(self, h: Array, x: Array, q: Array, dot: Array) -> None:
        self.times_halo(h, q)
        self.vectors.gathered_dot(self.boundary, x, q, dot)

    def add_halo_dot(self, q: Array, part: Array, y: Array, dot: Array) -> None:
        self.vectors.scatter_add(self.boundary, 1.0, q, y)
        dot += part

    def _side_by_side(self, h: Array) -> Array:
        """The slots one after the other: those of several columns come with the columns side by side."""
        return np.ascontiguousarray(h)

    def _add(self, sign: float, h: Array, y: Array) -> None:
        q = np.empty(self.size, dtype=y.dtype) if self.room is None else self.room
        self.times_halo(h, q)
        self.vectors.scatter_add(self.boundary, sign, q, y)


@dataclass(frozen=True, kw_only=True)
class RectangularPart(Format):
    """The local part of rectangular rows, and where rows (written) and columns (read) lie in vectors with guards."""

    product: Any
    choice: Choice
    written: slice
    read: slice
    vectors: Any

    @property
    def nbytes(self) -> int:
        return int(self.product.nbytes)

    def batched(self, width: int) -> Columns:
        return _RectangularColumns(self, width)

    def spmv(self, x: Array, y: Array) -> None:
        self.product.spmv(x[self.read], y[self.written])


class _RectangularColumns(Columns):
    """A `RectangularPart` for several columns: its format may multiply them together."""

    def spmv(self, x: Array, y: Array) -> None:
        self.one.product.batched(self.width).spmv(x[:, self.one.read], y[:, self.one.written])


@dataclass(frozen=True, kw_only=True)
class Diagonal(Format):
    """A diagonal matrix of the backend's value type and the size of a vector, 1 on padding and guards."""

    diagonal: Array
    vectors: Any

    def jacobi(self, r: Array, scale: float, z: Array) -> None:
        self.vectors.jacobi(self.diagonal, r, scale, z)
