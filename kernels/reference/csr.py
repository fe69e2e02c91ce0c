"""Compressed rows in NumPy, for all formats of any matrix."""

from dataclasses import dataclass

import numpy as np

from dsolver.kernels.formats.compressed import CompressedRows, TransferRows
from dsolver.kernels.reference.vectors import Dotted, Real


@dataclass(frozen=True, kw_only=True)
class TextbookRows(Dotted, CompressedRows):
    """Compressed rows with their kernels."""

    def spmv(self, x: Real, y: Real) -> None:
        row = np.repeat(np.arange(self.shape[0]), np.diff(self.entries.start))
        y[:] = np.bincount(row, self.entries.values * x[self.entries.columns], self.shape[0])

    def diagonal(self) -> Real:
        row = np.repeat(np.arange(self.shape[0]), np.diff(self.entries.start))
        out, own = np.zeros(self.shape[0], dtype=self.entries.values.dtype), row == self.entries.columns
        out[row[own]] = self.entries.values[own]
        return out


@dataclass(frozen=True, kw_only=True)
class TextbookTransferRows(TransferRows):
    """Compressed rows between two levels with their kernels."""

    def restrict_full(self, y: Real, rc: Real) -> None:
        rc[self.written] = self._times(y)

    def prolong_add(self, xc: Real, x: Real) -> None:
        x[self.written] += self._times(xc)

    def prolong_sum(self, xc: Real, x: Real, y: Real) -> None:
        y[self.written] = x[self.written] + self._times(xc)

    def _times(self, x: Real) -> Real:
        row = np.repeat(np.arange(self.shape[0]), np.diff(self.entries.start))
        products = self.entries.values * x[self.read][self.entries.columns]
        return np.bincount(row, products, self.shape[0]).astype(x.dtype)
