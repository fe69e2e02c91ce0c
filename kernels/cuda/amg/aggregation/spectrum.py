"""Steps of the power method on a GPU: the bits of `dsolver.kernels.cpu.amg.aggregation.spectrum`."""

from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.cuda.csr.products import BlockPlaces, blocks_of_rows
from dsolver.kernels.cuda.launch.loader import NOTHING, THREADS, device_property, for_each, kernel
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/aggregation/spectrum.cu", "float64"
LANES: Final = 8  # lanes of a row, as in spectrum.cu
BLOCKS: Final = 4  # blocks of a sum for each multiprocessor


SIZE: Final = 3  # rows and columns of blocks that have a kernel of their own


class SoughtRows(NamedTuple):
    """Rows that are multiplied many times, and the blocks in which they come; None where they do not."""

    a: Csr
    blocks: BlockPlaces | None

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.a.size


def sought(a: Csr, columns: int, size: int) -> SoughtRows:
    """See `dsolver.kernels.cpu.amg.aggregation.setup.AggregationSetup.sought`. It may wait."""
    return SoughtRows(a, blocks_of_rows(a, columns, (SIZE, SIZE)) if size % SIZE == 0 else None)


def scaled_product(a: SoughtRows, diagonal: Array, x: Array) -> Array:
    out = cupy.empty(a.size)
    _multiply(a, 0, diagonal, x, (out, NOTHING, NOTHING))
    return out


def terms(a: SoughtRows, below: int, diagonal: Array, x: Array) -> tuple[Array, tuple[float, float]]:
    """See `dsolver.kernels.cpu.amg.aggregation.spectrum.terms`. It waits."""
    made, largest = cupy.empty((2, a.size)), counters(2)
    _multiply(a, below, diagonal, x, (NOTHING, made, largest))
    first, second = read_back(largest).view(np.float64).tolist()
    return made, (first, second)


def scaled_sums(made: Array, shifts: tuple[int, int]) -> tuple[float, float]:
    """See `dsolver.kernels.cpu.amg.aggregation.spectrum.scaled_sums`. It waits."""
    sums, rows = counters(2), made.shape[1]
    if rows:
        blocks = min(-(-rows // THREADS), BLOCKS * device_property("multiProcessorCount"))
        arguments = (made, np.int64(rows), *map(np.int32, shifts), sums)
        kernel(FILE, "sum_scaled", DTYPE)((blocks, 2), (THREADS,), arguments)
    first, second = map(float, read_back(sums))
    return first, second


def _multiply(a: SoughtRows, below: int, diagonal: Array, x: Array, results: tuple[Any, Any, Any]) -> None:
    arguments = (np.int32(a.size), np.int32(below), diagonal, x, *results)
    if a.blocks is None:
        for_each(FILE, "multiply", a.size, *a.a, *arguments, lanes=LANES)
    else:
        rows = a.blocks.start, a.blocks.columns, a.a.values
        for_each(FILE, "multiply_blocks", -(-a.size // SIZE), *rows, *arguments, lanes=LANES)
