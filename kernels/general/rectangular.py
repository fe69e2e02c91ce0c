"""Rows of a rectangular matrix in one chunk, and a diagonal alone, with their products."""

from dataclasses import dataclass
from typing import Any

from dsolver.kernels.batched import Columns
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.layout import Array


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
