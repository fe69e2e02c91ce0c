"""Compressed rows as formats: row after row, or cut into chunks.

Chunks have about equally many rows and entries, with 16-bit columns where they lie close together.
The path through row ends and entries (merge path: Merrill, Garland, SC 2016) is cut every `STEP` steps: row r ends at
step start[r + 1] + r. Where no row is longer than `LONGEST`, chunks are cut at row ends, so each has whole rows; else
they are cut anywhere, and a row may go on in later chunks. Values stay where the compressed rows have them: 10 bytes an
entry (12 where the columns of its chunk span more than 65,536), 2 a row.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.kernels.formats.layout import Array

STEP: Final = 1536  # rows and entries of a chunk, as csr/chunks.cu says too
LONGEST: Final = 512  # entries of the longest row where chunks have whole rows
NEAR_REACH: Final = 65535
NO_BASE: Final = 0xFFFFFFFF  # base of a chunk whose columns have 32 bits


@dataclass(frozen=True, kw_only=True)
class CompressedRows(Format):
    """A matrix in compressed rows, no column twice in a row, ascending: 12 bytes an entry, 8 a row."""

    shape: tuple[int, int]
    entries: Csr

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for part in self.entries)

    def rows(self) -> Array:
        """The row of each entry."""
        return of_entries(self.entries.start, len(self.entries.values))

    def columns_of_entries(self) -> Array:
        """The column of each entry."""
        return self.entries.columns

    def times(self, factors: Array) -> Self:
        """Each entry times a factor of its own."""
        return replace(self, entries=self.entries._replace(values=self.entries.values * factors))


@dataclass(frozen=True, kw_only=True)
class Chunks(Format):
    """A matrix in chunks; C is their number."""

    shape: tuple[int, int]
    whole: bool  # whether every row is in one chunk
    # uint32 (C + 1, 4): first entry (low and high half), first row that ends in it, and what 16-bit columns are added
    # to, or 2^32 - 1 where they have 32 bits. The last one is past the end.
    chunks: Array
    ends: Array  # uint16 (rows,), where each row ends, counted from the first entry of its chunk
    near: Array | None  # uint16 of each entry, its column from the chunk's base; None if no chunk has them
    columns: Array | None  # int32 of each entry; None if all chunks have 16-bit ones
    start: Array | None  # int64 (rows + 1,), where rows begin; None with whole rows
    values: Array

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.chunks) - 1

    def rows(self) -> Array:
        """The row of each entry."""
        if self.start is not None:
            return of_entries(self.start, len(self.values))
        row, first = np.arange(self.shape[0], like=self.chunks), self._first()
        ends = first[np.searchsorted(self.chunks[1:, 2].astype(np.int64), row, side="right")] + self.ends
        return of_entries(np.append(first[:1], ends), len(self.values))

    def columns_of_entries(self) -> Array:
        """The column of each entry."""
        base = self.chunks[of_entries(self._first(), len(self.values)), 3].astype(np.int64)
        near = base if self.near is None else base + self.near
        return near if self.columns is None else np.where(base == NO_BASE, self.columns, near)

    def _first(self) -> Array:
        """The first entry of each chunk, and the end of the last: int64 (C + 1,)."""
        table = self.chunks[:, :2].astype(np.int64)
        return table[:, 0] + (table[:, 1] << 32)

    def times(self, factors: Array) -> Self:
        """Each entry times a factor of its own."""
        return replace(self, values=self.values * factors)

    @property
    def nbytes(self) -> int:
        arrays = (self.chunks, self.ends, self.near, self.columns, self.start, self.values)
        return sum(int(array.nbytes) for array in arrays if array is not None)


def count_of(rows: int, entries: int) -> int:
    """Chunks of so many rows and entries."""
    return -(-(rows + entries) // STEP)
