"""Chunks of compressed rows in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dsolver.kernels.formats.compressed import LONGEST, NEAR_REACH, STEP, Chunks, count_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.reference.vectors import Dotted, Real


@final
@dataclass(frozen=True, kw_only=True)
class TextbookChunks(Dotted, Chunks):
    """Compressed rows in chunks with their kernels."""

    def spmv(self, x: Real, y: Real) -> None:
        table = self.chunks.astype(np.int64)
        first = table[:, 0] + (table[:, 1] << 32)
        y[:] = 0
        for b in range(self.count):
            low, high, row, next_row = first[b], first[b + 1], table[b, 2], table[b + 1, 2]
            if table[b, 3] == 0xFFFFFFFF:
                assert self.columns is not None
                columns = self.columns[low:high]
            else:
                near = np.zeros(0, dtype=np.uint16) if self.near is None else self.near[low:high]
                columns = table[b, 3] + near.astype(np.int64)
            lengths = np.diff(self.ends[row:next_row].astype(np.int64), prepend=0, append=high - low)
            own = np.repeat(np.arange(len(lengths)), lengths)
            parts = np.bincount(own, self.values[low:high] * x[columns], len(lengths))
            y[row : min(next_row + 1, len(y))] += parts[: len(y) - row].astype(y.dtype)


def chunks(matrix: Csr, columns: int) -> TextbookChunks:
    """A matrix, whose columns ascend in each row, in chunks."""
    start, rows = matrix.start, matrix.size
    count, whole = count_of(rows, len(matrix.columns)), matrix.width <= LONGEST
    steps = np.arange(count + 1) * STEP
    row = np.searchsorted(start[1:] + np.arange(rows), steps)
    first = start[row] if whole else np.minimum(steps, rows + len(matrix.columns)) - row
    near, base = np.zeros(len(matrix.columns), dtype=np.uint16), np.zeros(count + 1, dtype=np.int64)
    for b in range(count):
        own = matrix.columns[first[b] : first[b + 1]]
        if len(own):
            base[b] = own.min() if int(own.max()) - int(own.min()) <= NEAR_REACH else -1
        if base[b] >= 0:
            near[first[b] : first[b + 1]] = own - base[b]
    filled = np.diff(first) > 0
    return TextbookChunks(
        shape=(rows, columns),
        whole=whole,
        chunks=np.stack([first & 0xFFFFFFFF, first >> 32, row, base & 0xFFFFFFFF], axis=1).astype(np.uint32),
        ends=(start[1:] - np.repeat(first[:-1], np.diff(row))).astype(np.uint16),
        near=near if (filled & (base[:-1] >= 0)).any() else None,
        columns=matrix.columns if (base < 0).any() else None,
        start=None if whole else start,
        values=matrix.values,
    )
