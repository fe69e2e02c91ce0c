"""Statistics of compressed rows on a GPU: two launches and two copies for each block size, and one copy to the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.block_slices.products import BUILD, WARPS, lengths
from dsolver.kernels.cuda.csr.finish import NOTHING
from dsolver.kernels.cuda.csr.products import ROWS, THREADS
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Array
from dsolver.kernels.formats.statistics import Samples, Statistics, Stored, in_slices, samples_of, stored

PARTS: Final = 264
"""Blocks that look at the rows' lengths: two for each multiprocessor of a large device."""


def statistics(matrix: Csr, columns: int, sizes: Sequence[int] = BLOCKS, dtype: str = "float64") -> Statistics:
    """Statistics by which formats are chosen.

    Args:
        matrix: on the device; its columns ascend in each row.
        columns: of the matrix.
        sizes: of blocks that are of interest.
        dtype: the value type of formats: what slices take depends on it.
    """
    rows, entries = matrix.size, len(matrix.columns)
    samples = {b: samples_of(rows // b) for b in sizes if rows and not (rows % b or columns % b)}
    ends = 4 * sum(of.count for of in samples.values())
    bounds = np.cumsum([4 * PARTS, *(_words(of) for of in samples.values()), ends]).tolist()
    room = cupy.empty(bounds[-1], dtype=np.int32)
    of_rows = room[: 4 * PARTS].view(np.int64)
    kernel(ROWS, "lengths", dtype)((PARTS,), (THREADS,), (matrix.start, np.int32(rows), of_rows))
    for (b, of), first in zip(samples.items(), bounds, strict=False):
        _sample(matrix, columns, b, of, room[first:], dtype)
    _send_ends(matrix, samples, room[bounds[-2] :].view(np.int64))
    told = np.split(read_back(room), bounds[:-1])
    taken = _taken(samples, told.pop().view(np.int64))
    parts = told[0].view(np.int64).reshape(PARTS, 2)
    return Statistics(
        shape=(rows, columns),
        entries=entries,
        longest=int(parts[:, 1].max()),
        variance=_variance(parts, rows, entries),
        stored={b: _stored(b, samples[b], taken[b], words) for b, words in zip(samples, told[1:], strict=True)},
    )


def of_rows(matrix: Csr, columns: int, dtype: str = "float64") -> Statistics:
    """Statistics without blocks and octets, by which a GPU's formats are chosen: two launches, and a copy of 14 kB."""
    rows, entries = matrix.size, len(matrix.columns)
    samples = samples_of(rows)
    count = samples.count * samples.slices
    room = cupy.empty(4 * PARTS + 5 * count, dtype=np.int32)
    sizes, found, blocks = room[4 * PARTS :], room[4 * PARTS + 2 * count :], room[4 * PARTS + 4 * count :]
    squares = room[: 4 * PARTS].view(np.int64)
    kernel(ROWS, "lengths", dtype)((PARTS,), (THREADS,), (matrix.start, np.int32(rows), squares))
    _measure(matrix, columns, 1, samples, sizes, found, blocks, dtype)
    known = read_back(room)
    parts, (sizes, found), blocks = (
        known[: 4 * PARTS].view(np.int64).reshape(PARTS, 2),
        known[4 * PARTS : 4 * PARTS + 4 * count].reshape(2, count, 2),
        known[4 * PARTS + 4 * count :],
    )
    seen = int(blocks.sum())
    return Statistics(
        shape=(rows, columns),
        entries=entries,
        longest=int(parts[:, 1].max()),
        variance=_variance(parts, rows, entries),
        stored={1: in_slices(1, seen, seen, sizes[:, 0], found[:, 0] & 3)},
    )


def _variance(parts: npt.NDArray[np.int64], rows: int, entries: int) -> float:
    return max(0.0, int(parts[:, 0].sum()) / max(1, rows) - (entries / max(1, rows)) ** 2)


def _words(samples: Samples) -> int:
    """Words of 4 bytes that are told of samples, an even number."""
    return 4 * samples.count * samples.slices + 2 * -(-samples.count * samples.stretch // 2)


def _parts(samples: Samples, words: Any) -> tuple[Any, Any, Any]:
    """Sizes and shapes of sampled slices, (slices, 2) each, and lengths of sampled rows of blocks."""
    pairs, rows = 2 * samples.count * samples.slices, samples.count * samples.stretch
    return words[:pairs].reshape(-1, 2), words[pairs : 2 * pairs].reshape(-1, 2), words[2 * pairs :][:rows]


def _sample(matrix: Csr, columns: int, block: int, samples: Samples, room: Array, dtype: str) -> None:
    """Look at sampled rows of blocks."""
    sizes, found, length = _parts(samples, room)
    lengths(matrix, block, samples, length, dtype)
    _measure(matrix, columns, block, samples, sizes, found, NOTHING, dtype)


def _measure(
    matrix: Csr, columns: int, block: int, samples: Samples, sizes: Array, found: Array, blocks: Any, dtype: str
) -> None:
    """Sizes and shapes of sampled slices, int32 (2,) each, and perhaps the number of their blocks, int32."""
    count = samples.count * samples.slices
    tail = (np.int32(count), np.int32(matrix.size // block), np.int32(columns // block))
    where = (np.int32(samples.slices), np.int32(samples.stride // SLICE))
    launch = kernel(BUILD, f"measure_{block}", dtype)
    arguments = (matrix.start, matrix.columns, NOTHING, sizes, found, blocks, *tail, *where, NOTHING)
    launch((max(1, -(-count // WARPS)),), (WARPS * SLICE,), arguments)


def _send_ends(matrix: Csr, samples: Mapping[int, Samples], out: Array) -> None:
    """out = where entries of each stretch of sampled rows begin, then where they end, for one block size after another.

    They lie at equal distances, so two small copies do for a size, and nothing is brought to the device.
    """
    first = 0
    for b, of in samples.items():
        for begin in (0, b * of.stretch):
            out[first : first + of.count] = matrix.start[begin :: max(1, b * of.stride)][: of.count]
            first += of.count


def _taken(samples: Mapping[int, Samples], ends: npt.NDArray[np.int64]) -> dict[int, int]:
    """Entries of the sampled rows for each block size."""
    counts = [of.count for of in samples.values()]
    parts = np.split(ends, np.cumsum([2 * n for n in counts])[:-1]) if counts else []
    return {b: int((p[n:] - p[:n]).sum()) for b, n, p in zip(samples, counts, parts, strict=True)}


def _stored(block: int, samples: Samples, entries: int, words: npt.NDArray[np.int32]) -> Stored:
    sizes, found, length = _parts(samples, words)
    return stored(block, entries, length.reshape(samples.count, -1), sizes[:, 0], found[:, 0] & 3)
