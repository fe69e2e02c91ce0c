"""Statistics of compressed rows on a CPU."""

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
            b: _stored(matrix, lengths, columns, b, team, samples_of(rows // b, samples))
            for b in blocks
            if rows and not (rows % b or columns % b)
        },
    )


def _stored(
    matrix: Csr, lengths: npt.NDArray[np.int64], columns: int, block: int, team: Team, samples: Samples
) -> Stored:
    """Storage of sampled rows of blocks; lengths: of all rows."""
    rows, slices = matrix.size // block, samples.count * samples.slices
    length = lengths if block == 1 else np.zeros(rows, dtype=np.int64)
    firsts = samples.stride * np.arange(samples.count)
    lines, entry_bytes = (matrix.start, matrix.columns), block * block * matrix.values.dtype.itemsize
    shapes = np.zeros((slices, 3), dtype=np.int64)
    if block == 1:
        each = samples.slices, samples.stride // SLICE
        given = (*each, *lines, rows, columns, entry_bytes, shapes)
        team.run(loops.measure_rows, 0, slices, *given, worth=SAMPLES_WORTH_A_THREAD * samples.slices)
    else:
        found = np.zeros((-(-rows // SLICE), 3), dtype=np.int64)

        def take(sample: int, end: int) -> None:
            for first in firsts[sample:end].tolist():
                of = first // SLICE, first // SLICE + samples.slices
                loops.count_blocks(first, first + samples.stretch, *lines, block, length)
                loops.measure(*of, *lines, block, rows, columns // block, length, entry_bytes, found)

        team.run(take, 0, samples.count, worth=SAMPLES_WORTH_A_THREAD)
        shapes = found[firsts[:, None] // SLICE + np.arange(samples.slices)].reshape(-1, 3)
    entries = matrix.start[block * (firsts + samples.stretch)] - matrix.start[block * firsts]
    width, kind, _ = shapes.T
    return stored(block, int(entries.sum()), length[firsts[:, None] + np.arange(samples.stretch)], width, kind)
