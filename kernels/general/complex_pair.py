"""Both parts of a general matrix in one format that is complex, and its kernels.

Vectors are an even number of columns, first their real parts, then the imaginary ones. y = r - (B + i C) x, with the
bits of two passes::

    y_re = (r_re - B x_re) + C x_im
    y_im = (r_im - B x_im) - C x_re

Two passes read x and the columns of entries twice, and write and read C x in between: 64 bytes a row, and 8 an entry,
that one pass in float64 does without.
"""

from dataclasses import dataclass
from typing import Any, Final

from dsolver.kernels.batched import Columns
from dsolver.kernels.contract import described
from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.general.matrix import OnePassMatrix

COMPLEX_SPMV: Final = described("complex_spmv", reads="A x", writes="y")  # y = A x, with a `ComplexPair` A
COMPLEX_RESIDUAL: Final = described("complex_residual", reads="A r x", writes="y")  # y = r - A x
COMPLEX_FIRST: Final = described("complex_first", reads="A w wi r", writes="x y")
"""x = (w + i wi) r, y = r - A x: a sweep of Jacobi from zero, and what it leaves; w and wi are one column."""
COMPLEX_SWEEP: Final = described("complex_sweep", reads="A w wi r x", writes="z")
"""z = x + (w + i wi) (r - A x): a sweep from x."""


@dataclass(frozen=True, kw_only=True)
class ComplexPair(Format):
    """The local part of a chunk's complex rows: two matrices whose entries lie in the same places."""

    re: OnePassMatrix
    imaginary: Array  # the values of the imaginary part, in the places of those of `re`

    @property
    def nbytes(self) -> int:
        return self.re.nbytes + int(self.imaginary.nbytes)

    def batched(self, width: int) -> Columns:
        return PairColumns(self, width)


class PairColumns(Columns):
    """A `ComplexPair` for several columns."""

    def complex_spmv(self, x: Array, y: Array) -> None:
        self._product.complex_spmv(self.one.imaginary, *self._rows(x, y))

    def complex_residual(self, r: Array, x: Array, y: Array) -> None:
        self._product.complex_residual(self.one.imaginary, *self._rows(r, x, y))

    def complex_first(self, w: Array, wi: Array, r: Array, x: Array, y: Array) -> None:
        self._product.complex_first(self.one.imaginary, *self._rows(w, wi, r, x, y))

    def complex_sweep(self, w: Array, wi: Array, r: Array, x: Array, z: Array) -> None:
        self._product.complex_sweep(self.one.imaginary, *self._rows(w, wi, r, x, z))

    def _rows(self, *vectors: Array) -> list[Array]:
        """Vectors without what lies around the rows."""
        of = self.one.re.rows
        return [vector[..., of] for vector in vectors]

    @property
    def _product(self) -> Any:
        return self.one.re.product.batched(self.width)


def complex_pair(re: Any, im: Any) -> ComplexPair | None:
    """Two local parts as one; None where entries lie in different places, or no kernel reads two of their kind."""
    if not isinstance(re, OnePassMatrix) or not isinstance(im, OnePassMatrix):
        return None
    imaginary = re.product.paired(im.product)
    return None if imaginary is None else ComplexPair(re=re, imaginary=imaginary)
