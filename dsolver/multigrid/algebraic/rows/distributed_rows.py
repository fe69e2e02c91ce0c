"""Rows of a matrix that is distributed by rows: a chunk's own, columns as places in the window of what they read.

Places ascend as global numbers do, so loops add up in one order however the rows are cut. Columns are 4 bytes an entry
and are named anew in one pass where a window changes; global numbers, of 8 bytes, are those of rows on their way to
another chunk.

Arrays are of the chunk's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, Window, owners_of, received, window_of


@final
@dataclass(frozen=True, kw_only=True)
class DistributedRows:
    """Rows of a chunk, with columns that are places in the window."""

    window: Window
    matrix: Csr

    @classmethod
    def of(cls, amg: AmgKernels, bounds: Bounds, number: int, rows: Rows) -> DistributedRows:
        """Rows with global columns, as a chunk sees them; bounds: of the columns."""
        window = window_of(amg, bounds, number, rows.columns)
        return cls(window=window, matrix=rows.within(amg, window))

    def rows(self, amg: AmgKernels, wanted: I64 | None = None) -> Rows:
        """Some of the rows, or all, with global columns; of some a device is waited for."""
        return Rows.at(amg, self.matrix if wanted is None else amg.selected(self.matrix, wanted), self.window)

    def tight(self, amg: AmgKernels) -> DistributedRows:
        """The rows with a window that has nothing but their columns beside the own numbers."""
        old = self.window
        if old.whole or not len(old.ghosts):
            return self
        numbers, lower, names = amg.used(self.matrix.columns, old.rows, old.below, old.ghosts)
        if len(numbers) == len(old.ghosts):
            return self
        window = replace(old, ghosts=numbers, lower=lower)
        columns = amg.relabeled(self.matrix.columns, old.rows, old.below, lower, names)
        return DistributedRows(window=window, matrix=self.matrix._replace(columns=columns))

    def own_columns(self, amg: AmgKernels) -> Csr:
        """The entries in own columns, which are numbered from 0."""
        window = self.window
        if not len(window.ghosts):
            return self.matrix
        own, _, _ = amg.parted(self.matrix, window.below, window.below + window.rows)()
        return own

    def parted(self, amg: AmgKernels, bounds: Bounds) -> Deferred[tuple[Csr, list[tuple[int, I64, Csr]]]]:
        """The entries in own columns, which are numbered from 0, and those in others'; bounds: of the columns.

        The latter by the chunks that own these columns, ascending: the rows that have some, and of them these entries.
        """
        window, owners = self.window, received(bounds, self.window)
        if not owners:
            return Deferred(lambda: (self.matrix, []))
        both = amg.parted(self.matrix, window.below, window.below + window.rows)
        return Deferred(lambda: self._by_owners(amg, bounds, [owner for owner, _ in owners], *both()))

    def _by_owners(
        self, amg: AmgKernels, bounds: Bounds, owners: Sequence[int], own: Csr, rows: I64, others: Csr
    ) -> tuple[Csr, list[tuple[int, I64, Csr]]]:
        """`parted`, of rows in two parts."""
        if len(owners) == 1:
            return own, [(owners[0], rows, others)]
        ends, parts = self.window.before(bounds), []
        for other in owners:
            part = amg.selected(others, None, (ends[other], ends[other + 1]))
            places, start = amg.nonempty(part.start)
            parts.append((other, rows[places], part._replace(start=start)))
        return own, parts

    def elsewhere(self, amg: AmgKernels, bounds: Bounds) -> tuple[I64, I64]:
        """The entries in ghosts' columns, int64, ascending, and the chunks that own these; bounds: of the columns."""
        window, columns = self.window, self.matrix.columns
        entries = amg.outside(columns, window.below, window.below + window.rows)
        return entries, owners_of(bounds, window.numbers_at(amg, columns[entries]))

    def rows_at(self, entries: I64) -> I64:
        """int64, the rows of a few entries."""
        return np.searchsorted(self.matrix.start[1:], entries, side="right")

    def among(self, amg: AmgKernels, before: Sequence[Rows], after: Sequence[Rows]) -> DistributedRows:
        """The rows between those that have come from other chunks."""
        if not before and not after:
            return self
        window = self.window.joined_with(amg, [part.columns for part in (*before, *after)])
        matrix = amg.stacked(
            [part.csr for part in before], self.matrix, [part.csr for part in after], self.window, window
        )
        return DistributedRows(window=window, matrix=matrix)
