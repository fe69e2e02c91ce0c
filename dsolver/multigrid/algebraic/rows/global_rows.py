"""Rows of a matrix with columns by global number, as chunks send them to each other, and their messages.

Arrays are of the chunk's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from dsolver.kernels.amg import EVERY
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.formats.csr import Csr, joined, of_entries
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, Window, own_bounds, owners_of

ROWS: Final = ("int64", "int64", "float64")  # value types of a message with rows


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some rows of a matrix with columns by global number, as chunks send them to each other."""

    start: I64  # int64 (rows + 1,), row i has the entries start[i] .. start[i + 1].
    columns: I64  # int64 or int32, ascending in each row unless told otherwise
    values: F64  # float64

    @classmethod
    def of(cls, matrix: Csr, numbers: I64) -> Rows:
        """The rows of a matrix whose column c has the global number numbers[c]."""
        return cls(start=matrix.start, columns=numbers[matrix.columns], values=matrix.values)

    @classmethod
    def at(cls, amg: AmgKernels, matrix: Csr, window: Window) -> Rows:
        """The rows of a matrix whose columns are places in a window."""
        columns = matrix.columns if window.whole else window.numbers_at(amg, matrix.columns)
        return cls(start=matrix.start, columns=columns, values=matrix.values)

    @classmethod
    def of_message(cls, message: Sequence[Any]) -> Rows:
        """The rows that a message begins with: arrays of `ROWS`."""
        return cls(start=message[0], columns=message[1], values=message[2])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Rows after rows, of at least one part."""
        found = joined([part.csr for part in parts])
        return cls(start=found.start, columns=found.columns, values=found.values)

    @property
    def csr(self) -> Csr:
        """The rows, columns by global number."""
        return Csr(self.start, self.columns, self.values)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def of_entries(self) -> I64:
        """int64, the row of each entry."""
        return of_entries(self.start, len(self.columns))

    def rows_at(self, entries: I64) -> I64:
        """int64, the rows of a few entries."""
        return np.searchsorted(self.start[1:], entries, side="right")

    @property
    def message(self) -> tuple[Any, Any, Any]:
        """The rows as a message: arrays of `ROWS`."""
        return self.start, self.columns, self.values

    def selected(self, amg: AmgKernels, rows: I64 | None = None, columns: tuple[int, int] = EVERY) -> Rows:
        """Some of the rows, or all, with their entries in columns columns[0] .. columns[1]."""
        found = amg.selected(self.csr, rows, columns)
        return Rows(start=found.start, columns=found.columns, values=found.values)

    @property
    def ascending(self) -> Rows:
        """Rows with ascending columns."""
        order = np.lexsort(np.stack((self.columns, self.of_entries)))
        return replace(self, columns=self.columns[order], values=self.values[order])

    def within(self, amg: AmgKernels, window: Window) -> Csr:
        """The rows with columns as places in a window that has them all."""
        return Csr(self.start, window.places(amg, self.columns), self.values)


def elsewhere(amg: AmgKernels, bounds: Bounds, number: int, columns: I64) -> tuple[I64, I64]:
    """Places of the columns of other chunks among those of some rows, int64, and the chunks that own them."""
    first, last = own_bounds(bounds, number)
    entries = amg.outside(columns, first, last)
    return entries, owners_of(bounds, columns[entries])


def starts(lengths: Any) -> I64:
    """Begins of rows of these lengths, and the end of the last one: int64 (rows + 1,)."""
    out = np.zeros_like(lengths, dtype=np.int64, shape=len(lengths) + 1)
    np.cumsum(lengths, out=out[1:])
    return out
