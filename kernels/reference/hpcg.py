"""HPCG's levels in NumPy: whole sweeps, as the books have them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.hpcg import HpcgBuilder, Injection, SeparateSmoothers
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.reference.sell import NumpySell, TextbookHalo, TextbookMatrix
from dsolver.kernels.reference.vectors import NumpyVectors, Real


@dataclass(frozen=True, kw_only=True)
class TextbookHpcgMatrix(SeparateSmoothers, TextbookMatrix):
    """A text-book matrix with HPCG's smoothers."""

    def symgs(self, r: Real, x: Real) -> None:
        x[:] = 0.0
        self._symmetric_sweep(r, x)

    def presmooth(self, r: Real, x: Real, e: Real) -> None:
        self.symgs(r, x)
        e[:] = 0.0  # only the half sweeps of the other backends need it

    def restrict(self, t: Injection, r: Real, x: Real, e: Real, rc: Real) -> None:
        ax = np.empty_like(x)
        self.spmv(x, ax)
        rc[:] = (r - ax)[t.fine_of]

    def postsmooth(self, r: Real, c: Real, e: Real, x: Real, w: Real) -> None:
        x += c
        self._symmetric_sweep(r, x)

    def _symmetric_sweep(self, r: Real, x: Real) -> None:
        """One Gauss-Seidel sweep over the colors in order, one in reverse (Saad, Iterative Methods, 4.1)."""
        self.sweep((*self.members, *reversed(self.members)), r, x)


@dataclass(frozen=True, kw_only=True)
class TextbookHpcgHalo(TextbookHalo):
    """The rows that read the halo, with what HPCG does at the boundary."""

    def residual_halo(self, t: Injection, q: Real, r: Real, rc: Real, kept: Real) -> None:
        kept[:] = r[self.boundary]
        r[self.boundary] -= q
        products = np.zeros_like(r)
        products[self.boundary] = q
        rc -= products[t.fine_of]

    def restore(self, kept: Real, r: Real) -> None:
        r[self.boundary] = kept


@dataclass(frozen=True, kw_only=True)
class NumpyInjection(Injection):
    """Injection between two levels in lattice order."""

    def prolong(self, xc: Real, c: Real) -> None:
        c[self.fine_of] = xc


class NumpyHpcg(HpcgBuilder):
    """Set-up of text-book levels."""

    def __init__(self, vectors: NumpyVectors) -> None:
        self._sell = NumpySell(vectors)

    def matrix(self, layout: Layout, rows: CandidateRows, coarse: npt.NDArray[np.bool_]) -> TextbookHpcgMatrix:
        return TextbookHpcgMatrix(**vars(self._sell.matrix(layout, rows)))

    def halo_matrix(self, layout: Layout, rows: CandidateRows) -> TextbookHpcgHalo:
        return TextbookHpcgHalo(**vars(self._sell.halo_matrix(layout, rows)))

    def injection(self, fine: Layout, coarse: Layout, fine_row: npt.NDArray[np.int32]) -> NumpyInjection:
        coarse_of = np.full(fine.rows, -1, dtype=np.int32)
        coarse_of[fine_row] = np.arange(coarse.rows)
        return NumpyInjection(coarse_of=coarse_of, fine_of=fine_row, slices=(0, 0))


ASSEMBLY: Final = NumpyHpcg
