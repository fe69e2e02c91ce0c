"""Statistics of compressed rows on a GPU: a launch for all rows, one for each block size, and one copy to the host."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.block_slices.products import BUILD, WARPS
from dsolver.kernels.cuda.csr.products import ROWS
from dsolver.kernels.cuda.launch.loader import THREADS, kernel
from dsolver.kernels.cuda.launch.readback import Sent
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Array
from dsolver.kernels.formats.octets import LANES
from dsolver.kernels.formats.statistics import Statistics, Stored, in_slices, samples_of

PARTS: Final = 264  # blocks that look at the rows' lengths: two for each multiprocessor of a large device
LENGTH_WORDS: Final = 2 * PARTS  # words of 8 bytes that `measure_lengths` tells
OF_SLICE: Final = 2  # words of 8 bytes that are told of a sampled slice: see `sample` of build.cu


def statistics(matrix: Csr, columns: int, sizes: Sequence[int] = BLOCKS, dtype: str = "float64") -> Statistics:
    """Statistics by which formats are chosen; arguments as of `asked`. It waits."""
    return asked(matrix, columns, sizes, dtype)()


def asked(matrix: Csr, columns: int, sizes: Sequence[int] = BLOCKS, dtype: str = "float64") -> Callable[[], Statistics]:
    """Statistics by which formats are chosen, of blocks of some sizes, on their way, to be called for."""
    rows, entries = matrix.size, len(matrix.columns)
    samples = {b: samples_of(rows // b) for b in sizes if rows and not (rows % b or columns % b)}
    bounds = [LENGTH_WORDS]
    for of in samples.values():
        bounds.append(bounds[-1] + OF_SLICE * of.count * of.slices)
    room = cupy.empty(bounds[-1], dtype=np.int64)
    measure_lengths(matrix, room, dtype)
    for (b, of), first in zip(samples.items(), bounds, strict=False):
        count = of.count * of.slices
        places = map(np.int32, (count, rows // b, columns // b, of.slices, of.stride // SLICE))
        arguments = (matrix.start, matrix.columns, room[first:], *places)
        kernel(BUILD, f"sample_{b}", dtype)((-(-count // WARPS),), (WARPS * SLICE,), arguments)
    sent = Sent(room)

    def found() -> Statistics:
        told = sent()
        squares, longest = told[: bounds[0]].reshape(PARTS, 2).T
        of = zip(samples, pairwise(bounds), strict=True)
        return Statistics(
            shape=(rows, columns),
            entries=entries,
            longest=int(longest.max()),
            variance=max(0.0, int(squares.sum()) / max(1, rows) - (entries / max(1, rows)) ** 2),
            stored={b: _stored(b, told[i:j].view(np.int32)) for b, (i, j) in of},
        )

    return found


def measure_lengths(matrix: Csr, out: Array, dtype: str) -> None:
    """Put the squares' sum of rows' lengths and the longest, of each of `PARTS` blocks, in int64 (`LENGTH_WORDS`,)."""
    kernel(ROWS, "lengths", dtype)((PARTS,), (THREADS,), (matrix.start, np.int32(matrix.size), out))


def _stored(block: int, words: npt.NDArray[np.int32]) -> Stored:
    """Storage of the sampled slices, from what is told of them."""
    shape, *counts = words.reshape(-1, 4).T
    entries, blocks, columns = (int(count.sum()) for count in counts)
    octets = columns * LANES * block * block / max(1, entries)
    return in_slices(block, entries, blocks, shape >> 2, shape & 3, octets)
