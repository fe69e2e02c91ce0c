"""Statistics of compressed rows on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.block_slices import loops
from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.statistics import MOST_SAMPLES, Samples, Statistics, Stored, samples_of, stored

SAMPLES_WORTH_A_THREAD = 8


def statistics(
    matrix: Csr, columns: int, blocks: Sequence[int] = BLOCKS, team: Team = ALONE, samples: int = MOST_SAMPLES
) -> Statistics:
    """Statistics by which formats are chosen; blocks: sizes of interest; samples: at most."""
    rows, entries, lengths = matrix.size, len(matrix.columns), np.diff(matrix.start)
    squares = int(np.dot(lengths, lengths))  # NumPy's variance writes what each length differs from the mean by
    return Statistics(
        shape=(rows, columns),
        entries=entries,
        longest=int(lengths.max(initial=0)),
        variance=(rows * squares - entries**2) / max(1, rows) ** 2,
        stored={
            b: _stored(matrix, columns, b, team, samples_of(rows // b, samples))
            for b in blocks
            if rows and not (rows % b or columns % b)
        },
    )


def _stored(matrix: Csr, columns: int, block: int, team: Team, samples: Samples) -> Stored:
    rows = matrix.size // block
    found = np.zeros((-(-rows // SLICE), 3), dtype=np.int64)
    length, order = np.zeros(rows, dtype=np.int64), np.zeros(0, dtype=np.int32)
    lines, entry_bytes = (matrix.start, matrix.columns), block * block * matrix.values.dtype.itemsize

    def take(sample: int, end: int) -> list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        return [taken(sample * samples.stride) for sample in range(sample, end)]

    def taken(first: int) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        last, begin = first + samples.stretch, first // SLICE
        end = begin + samples.slices
        if block == 1:
            length[first:last] = np.diff(matrix.start[first : last + 1])
            loops.measure_rows(begin, end, *lines, rows, columns, order, entry_bytes, found)
        else:
            loops.count_blocks(first, last, *lines, block, length)
            loops.measure(begin, end, *lines, block, rows, columns // block, order, length, entry_bytes, found)
        return int(matrix.start[last * block] - matrix.start[first * block]), found[begin:end], length[first:last]

    every = [sample for part in team.run(take, 0, samples.count, worth=SAMPLES_WORTH_A_THREAD) for sample in part]
    entries, slices, sampled = zip(*every, strict=True)
    width, kind, _ = np.concatenate(slices).T
    return stored(block, sum(entries), np.stack(sampled), width, kind)
