"""Compressed rows on a CPU and their products: as they are, and in chunks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu.csr import loops
from dsolver.kernels.cpu.vectors import CpuVectors, Real
from dsolver.kernels.formats.base import SeparateDot
from dsolver.kernels.formats.compressed import LONGEST, NO_BASE, Chunks, CompressedRows, count_of
from dsolver.kernels.formats.csr import Csr

ROWS_WORTH_A_THREAD = 8192
CHUNKS_WORTH_A_THREAD = 32
AT_ONCE = 64
"""Chunks that one vector after the other is multiplied with: a megabyte of entries, which comes from memory for the
first one and from a cache for the others. A call of a loop takes 5 us, those of so many chunks 60."""


@dataclass(frozen=True, kw_only=True)
class CpuRows(SeparateDot, CompressedRows):
    """Compressed rows with their kernels."""

    vectors: CpuVectors

    def spmv(self, x: Real, y: Real) -> None:
        self.vectors.team.run(loops.spmv_rows, 0, self.shape[0], *self.entries, x, y, worth=ROWS_WORTH_A_THREAD)


@dataclass(frozen=True, kw_only=True)
class CpuChunks(SeparateDot, Chunks):
    """Compressed rows in chunks with their kernels."""

    vectors: CpuVectors

    def batched(self, width: int) -> Columns:
        return ChunksColumns(self, width)

    def spmv(self, x: Real, y: Real) -> None:
        carry = np.empty(self.count)
        self.vectors.team.run(loops.spmv, 0, self.count, *self.head, x, y, carry, worth=CHUNKS_WORTH_A_THREAD)
        if not self.whole:
            loops.add_carries(self.chunks, carry, y)

    @cached_property
    def head(self) -> tuple[Any, ...]:
        """The arrays as loops take them."""
        near = np.zeros(0, dtype=np.uint16) if self.near is None else self.near
        columns = np.zeros(0, dtype=np.int32) if self.columns is None else self.columns
        return self.chunks, self.ends, near, columns, self.values


class ChunksColumns(SeparateDot, Columns):
    """Chunks for several vectors: entries are read once."""

    def spmv(self, x: Real, y: Real) -> None:
        a, carry = self.one, np.empty((self.width, self.one.count))
        columns = zip(x, y, carry, strict=True)
        sizes = {"at_once": AT_ONCE, "worth": CHUNKS_WORTH_A_THREAD}
        a.vectors.team.run_columns(loops.spmv, a.count, a.head, columns, **sizes)
        for n in range(0 if a.whole else self.width):
            loops.add_carries(a.chunks, carry[n], y[n])


def chunks(matrix: Csr, columns: int, vectors: CpuVectors) -> CpuChunks:
    """A matrix, whose columns ascend in each row, in chunks."""
    start, of, values = matrix
    rows, whole = matrix.size, matrix.width <= LONGEST
    count = count_of(rows, len(of))
    table = np.empty((count + 1, 4), dtype=np.uint32)
    loops.find_chunks(start, whole, table)
    ends, near = np.empty(rows, dtype=np.uint16), np.empty(len(of), dtype=np.uint16)
    vectors.team.run(loops.fill_chunks, 0, count, start, of, table, ends, near, worth=CHUNKS_WORTH_A_THREAD)
    filled = np.diff(table[:, 0]) > 0
    wide = table[:-1, 3] == NO_BASE
    return CpuChunks(
        shape=(rows, columns),
        whole=whole,
        chunks=table,
        ends=ends,
        near=near if (filled & ~wide).any() else None,
        columns=of if wide.any() else None,
        start=None if whole else start,
        values=values,
        vectors=vectors,
    )
