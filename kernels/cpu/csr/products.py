"""Compressed rows on a CPU and their products: as they are, and in chunks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu.csr import loops
from dsolver.kernels.cpu.loops.team import worth_of
from dsolver.kernels.cpu.vectors import CpuVectors, Real
from dsolver.kernels.formats.base import SeparateDot
from dsolver.kernels.formats.compressed import LONGEST, NO_BASE, Chunks, CompressedRows, TransferRows, count_of
from dsolver.kernels.formats.csr import Csr

ROWS_WORTH_A_THREAD = 8192
CHUNKS_WORTH_A_THREAD = 32
AT_ONCE = 64
"""Chunks that one vector after the other is multiplied with: a megabyte of entries, which comes from memory for the
first one and from a cache for the others. A call of a loop takes 5 us, those of so many chunks 60."""
SHORT = 16.0  # mean entries of a row up to which rows between two levels get holes
ENTRIES_WORTH_A_THREAD = 32768  # entries of rows between two levels: rows of R may be ten times as long as those of P
ROWS_AT_ONCE = 16384  # rows of a transfer that one vector after the other is multiplied with, too


@dataclass(frozen=True, kw_only=True)
class CpuRows(SeparateDot, CompressedRows):
    """Compressed rows with their kernels."""

    vectors: CpuVectors

    def spmv(self, x: Real, y: Real) -> None:
        self.vectors.team.run(loops.spmv_rows, 0, self.shape[0], *self.entries, x, y, worth=ROWS_WORTH_A_THREAD)


@dataclass(frozen=True, kw_only=True)
class CpuTransferRows(TransferRows):
    """Compressed rows between two levels with their kernels."""

    def batched(self, width: int) -> Columns:
        return TransferColumns(self, width)

    def restrict_full(self, y: Real, rc: Real) -> None:
        self._run(y[self.read], 0.0, rc[self.written])

    def prolong_add(self, xc: Real, x: Real) -> None:
        self._run(xc[self.read], 1.0, x[self.written])

    def prolong_sum(self, xc: Real, x: Real, y: Real) -> None:
        self._run(xc[self.read], 1.0, y[self.written], x[self.written])

    def _run(self, x: Real, keep: float, y: Real, plus: Real | None = None) -> None:
        team, rows = self.vectors.team, self.shape[0]
        before = y if plus is None else plus
        team.run(loops.transfer, 0, rows, *self.entries, x, keep, before, y, worth=self.worth)

    @cached_property
    def worth(self) -> int:
        """Rows that are worth a thread."""
        return worth_of(ENTRIES_WORTH_A_THREAD, self.shape[0], len(self.entries.columns))


class TransferColumns(Columns):
    """Compressed rows between two levels for several vectors: entries are read once."""

    def restrict_full(self, y: Real, rc: Real) -> None:
        self._run(y[:, self.one.read], 0.0, rc[:, self.one.written])

    def prolong_add(self, xc: Real, x: Real) -> None:
        self._run(xc[:, self.one.read], 1.0, x[:, self.one.written])

    def prolong_sum(self, xc: Real, x: Real, y: Real) -> None:
        self._run(xc[:, self.one.read], 1.0, y[:, self.one.written], x[:, self.one.written])

    def _run(self, x: Real, keep: float, y: Real, plus: Real | None = None) -> None:
        a, before = self.one, y if plus is None else plus
        columns = [(x[n], keep, before[n], y[n]) for n in range(self.width)]
        sizes = {"at_once": ROWS_AT_ONCE, "worth": a.worth}
        a.vectors.team.run_columns(loops.transfer, a.shape[0], a.entries, columns, **sizes)


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


def evened(rows: Csr, vectors: CpuVectors) -> Csr:
    """Rows with holes behind their entries, column and value 0: a processor then foresees where most of them end.

    Rows of P with 1 to 4 entries all get 4, and are multiplied in 0.4 to 0.6 of the time, with 1.3 times the bytes.
    Those with 1.5 entries in the mean get 2 or 4, rows of R with 3 to 8 a multiple of 4: 0.6 of the time. Rows that are
    longer stay as they are.
    """
    mean = rows.mean
    if not 0 < mean <= SHORT:
        return rows
    step = 2 if mean <= 2 else 4
    if step > 2 and rows.width <= step:
        start = rows.width * np.arange(rows.size + 1)
    else:
        start = np.zeros(rows.size + 1, dtype=np.int64)
        ends = np.subtract(rows.start[1:], rows.start[:-1], out=start[1:])
        ends += step - 1
        ends &= -step  # a power of two
        np.cumsum(ends, out=ends)
    columns, values = np.empty(start[-1], dtype=np.int32), np.empty(start[-1], dtype=rows.values.dtype)
    vectors.team.run(loops.pad, 0, rows.size, *rows, start, columns, values, worth=ROWS_WORTH_A_THREAD)
    return Csr(start, columns, values)


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
