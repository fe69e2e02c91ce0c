"""General matrices in NumPy: compressed rows for all formats, and their set-up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsolver.kernels.cpu.csr.look import look
from dsolver.kernels.cpu.csr.statistics import statistics
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.choice import Choice
from dsolver.kernels.formats.compressed import CompressedRows
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.look import Look
from dsolver.kernels.general.matrix import GhostRows
from dsolver.kernels.general.operations import Between
from dsolver.kernels.general.setup import GeneralSetup
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
class TextbookTransferRows(CompressedRows):
    """Compressed rows between two levels with their kernels, and where these lie in vectors with guards around them."""

    written: slice
    read: slice

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


class TextbookGeneral(GeneralSetup):
    """General matrices as the text-book has them: compressed rows, whatever format is chosen."""

    def statistics(self, rows: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
        return statistics(rows, columns, blocks)

    def look(self, rows: Csr, allowed: float) -> Look:
        return look(rows, allowed, Team())

    def product(self, rows: Csr, columns: int, choice: Choice, measured: Any = None) -> Any:
        own = rows._replace(values=rows.values.copy())  # the user's may change
        return TextbookRows(shape=(rows.size, columns), entries=own)

    def diagonal(self, rows: Csr) -> Array:
        return TextbookRows(shape=(rows.size, rows.size), entries=rows).diagonal()

    def ghost(self, boundary: Array, rows: Csr, slots: int, longest: int | None = None) -> GhostRows:
        return GhostRows(**self._ghost_fields(boundary, rows, slots), room=None)

    def between(self, levels: Between) -> TextbookTransferRows:
        return TextbookTransferRows(shape=levels.shape, entries=levels.rows, written=levels.written, read=levels.read)

    def wait(self) -> None:
        """Kernels have run when they return."""
