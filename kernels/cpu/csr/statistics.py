"""Statistics of compressed rows on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dsolver.kernels.cpu.block_slices import loops
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.statistics import Statistics, Stored, samples_of, stored


def statistics(matrix: Csr, columns: int, blocks: Sequence[int] = BLOCKS) -> Statistics:
    """Statistics by which formats are chosen.

    Args:
        matrix: its columns ascend in each row.
        columns: of the matrix.
        blocks: sizes that are of interest.
    """
    rows, lengths = matrix.size, np.diff(matrix.start)
    return Statistics(
        shape=(rows, columns),
        entries=len(matrix.columns),
        longest=int(lengths.max(initial=0)),
        variance=float(lengths.var()) if rows else 0.0,
        stored={b: _stored(matrix, columns, b) for b in blocks if rows and not (rows % b or columns % b)},
    )


def _stored(matrix: Csr, columns: int, block: int) -> Stored:
    rows = matrix.size // block
    samples = samples_of(rows)
    found = np.zeros((-(-rows // SLICE), 3), dtype=np.int64)
    length, order = np.zeros(rows, dtype=np.int64), np.zeros(0, dtype=np.int32)
    lines, entry_bytes = (matrix.start, matrix.columns), block * block * matrix.values.dtype.itemsize
    entries, slices, sampled = 0, [], []
    for sample in range(samples.count):
        first = sample * samples.stride
        last, begin = first + samples.stretch, first // SLICE
        end = begin + samples.slices
        if block == 1:
            length[first:last] = np.diff(matrix.start[first : last + 1])
            loops.measure_rows(begin, end, *lines, rows, columns, order, entry_bytes, found)
        else:
            loops.count_blocks(first, last, *lines, block, length)
            loops.measure(begin, end, *lines, block, rows, columns // block, order, length, entry_bytes, found)
        entries += int(matrix.start[last * block] - matrix.start[first * block])
        slices.append(found[begin:end])
        sampled.append(length[first:last])
    width, kind, _ = np.concatenate(slices).T
    return stored(block, entries, np.stack(sampled), width, kind)
