"""Rows of a matrix that is distributed by rows: a chunk's own, columns as places in the window of what they read.

Places ascend as global numbers do, so loops add up in one order however the rows are cut. Columns are 4 bytes an entry
and are named anew in one pass where a window changes; global numbers, of 8 bytes, are those of rows on their way to
another chunk.

Arrays are of the chunk's device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, final

import numpy as np

from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.rows import SplitRows, whole
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, Window, owners_in, owners_of, window_of


@final
@dataclass(frozen=True, kw_only=True)
class DistributedRows:
    """Rows of a chunk, with columns that are places in the window."""

    window: Window
    matrix: Csr

    @classmethod
    def of(cls, amg: AmgKernels, bounds: Bounds, number: int, rows: Csr) -> Self:
        """Rows with global columns, as a chunk sees them; bounds: of the columns."""
        window = window_of(amg, bounds, number, rows.columns)
        return cls(window=window, matrix=window.placed(amg, rows))

    def rows(self, amg: AmgKernels, wanted: I64 | None = None) -> Csr:
        """Some of the rows, or all, with global columns; of some a device is waited for."""
        return self.window.numbered(amg, self.matrix if wanted is None else amg.selected(self.matrix, wanted))

    def everywhere(self, amg: AmgKernels) -> Csr:
        """The rows as one sees them who sees all: columns are numbers, and take 4 bytes."""
        window, matrix = self.window, self.matrix
        names = window.ghosts.astype(np.int32)
        columns = amg.relabeled(matrix.columns, window.rows, window.below, window.first, names)
        return matrix._replace(columns=columns)

    def tight(self, amg: AmgKernels) -> Self:
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
        return self.split(amg)().local

    def split(self, amg: AmgKernels, sizes: Any = None) -> Deferred[SplitRows]:
        """The rows by their entries in own columns, which are numbered from 0, and in ghosts', numbered as these are.

        A device is waited for when it is called. sizes: as of `AmgKernels.part_sizes`, where they were asked for.
        """
        window = self.window
        if not len(window.ghosts):
            return Deferred(partial(whole, self.matrix))
        return amg.parted(self.matrix, window.below, window.below + window.rows, sizes)

    def tight_and_split(self, amg: AmgKernels) -> tuple[Self, SplitRows]:
        """The `tight` rows and their `split`. A device is waited for once."""
        old = self.window
        sizes = amg.part_sizes(self.matrix, old.below, old.below + old.rows) if len(old.ghosts) else None
        made = self.tight(amg)
        return made, made.split(amg, sizes)()

    def by_owners(self, amg: AmgKernels, bounds: Bounds, parts: SplitRows) -> list[tuple[int, I64, Csr]]:
        """The chunks that own ghosts, ascending, the rows with entries in columns of theirs, and of them these entries.

        `bounds`: of the columns. `parts`: of `split`.
        """
        owners = owners_in(bounds, self.window)
        if len(owners) == 1:
            return [(owners[0], parts.boundary, parts.ghost)]
        ends = self.window.ghosts_before(bounds)
        begun = [amg.begun_selection(parts.ghost, None, (ends[other], ends[other + 1])) for other in owners]
        taken = [part() for part in begun]  # a device is waited for once, and for their rows again
        kept = [amg.begun_nonempty(part.start) for part in taken]
        rows = [found() for found in kept]
        return [
            (other, parts.boundary[places], part._replace(start=start))
            for other, part, (places, start) in zip(owners, taken, rows, strict=True)
        ]

    def elsewhere(self, amg: AmgKernels, bounds: Bounds) -> dict[int, I64]:
        """The entries in columns of each chunk that owns ghosts, int64, ascending; bounds: of the columns."""
        window, columns, named = self.window, self.matrix.columns, owners_in(bounds, self.window)
        if not named:
            return {}
        entries = amg.outside(columns, window.below, window.below + window.rows)
        if len(named) < 2:
            return dict.fromkeys(named, entries)
        owners = owners_of(bounds, window.numbers_at(amg, columns[entries]))
        return {other: entries[owners == other] for other in named}

    def read_by(self, amg: AmgKernels, inside: Mapping[int, I64]) -> dict[int, I64]:
        """The own rows that each other chunk reads, ascending, where places are mirrored; inside: of `elsewhere`."""
        asked = {to: amg.named(self.rows_at(of), 0, self.window.rows) for to, of in inside.items()}
        return {to: rows() for to, rows in asked.items()}

    def rows_at(self, entries: I64) -> I64:
        """int64, the rows of a few entries."""
        return np.searchsorted(self.matrix.start[1:], entries, side="right")

    def among(self, amg: AmgKernels, before: Sequence[Csr], after: Sequence[Csr], *, tight: bool = False) -> Self:
        """The rows between those that have come from other chunks; tight: as of `Window.joined_with`."""
        if not before and not after:
            return self
        window = self.window.joined_with(amg, [part.columns for part in (*before, *after)], tight=tight)
        return DistributedRows(window=window, matrix=amg.stacked(before, self.matrix, after, self.window, window))
