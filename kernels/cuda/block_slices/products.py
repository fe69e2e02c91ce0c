"""Slices of rows of blocks on a GPU, and their products."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.loader import NOTHING, THREADS, for_each, kernel, type_of
from dsolver.kernels.cuda.launch.readback import Sent
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.sparse.finish import Finished, Launch, TogetherColumns
from dsolver.kernels.cuda.sparse.starts import running_sums
from dsolver.kernels.cuda.vectors.vectors import vectors
from dsolver.kernels.formats.block_slices import BlockSlices, require
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Array

WARPS: Final = 4  # warps of a block, one slice each, as in multiply.cuh and build.cu
ROUND: Final = 8  # mean entry columns of slices above which kernels for wide ones are faster
SHORT: Final = 4  # mean entry columns up to which a warp adds `PAIR` slices at once, as in spmv.cu
PAIR: Final = 2
BUILD, PRODUCT, BATCHED = "block_slices/build.cu", "block_slices/spmv.cu", "block_slices/batched.cu"
OF_BLOCKS: Final = "block_slices/spmv_blocks.cu"


@dataclass(frozen=True, kw_only=True)
class CudaBlockSlices(Finished, BlockSlices):
    """A matrix in slices of rows of blocks with its kernels, a warp a slice."""

    def batched(self, width: int) -> Columns:
        return TogetherColumns(self, width, self._together) if self.block == 1 else super().batched(width)

    def add(self, x: Array, r: Array, y: Array) -> None:
        """y = r + A x; y may be r."""
        if self.block == 1 and self.row is None and len(self.values) <= SHORT * len(self.slices):
            function = kernel(PRODUCT, "sum_1_short", type_of(self.values))
            grid, arguments = (-(-self._grid[0] // PAIR),), (*self._head, x, r, NOTHING, y, NOTHING, *self._tail)
            launch_early(function, grid, (WARPS * SLICE,), arguments)
        else:
            self._finish("sum", (x, r, NOTHING, y, NOTHING))

    def _finish(self, name: str, given: tuple[Any, ...], dot: Array | None = None) -> None:
        partials = () if dot is None else (self._partials,)
        launch_early(self._kernel(name), self._grid, (WARPS * SLICE,), (*self._head, *given, *partials, *self._tail))
        if dot is not None:
            vectors(type_of(self.values)).sum(self._partials, len(self._partials), dot)

    def _kernel(self, name: str) -> Any:
        file = PRODUCT if self.block == 1 else OF_BLOCKS
        return kernel(file, f"{name}_{self.block}{self._variant}", type_of(self.values))

    @cached_property
    def _variant(self) -> str:
        """End of the names of kernels: "_wide" where single entries fill more than a round of them."""
        return "_wide" if self.block == 1 and len(self.values) > ROUND * len(self.slices) else ""

    @cached_property
    def _grid(self) -> tuple[int]:
        return _grid(len(self.slices))

    @cached_property
    def _head(self) -> tuple[Any, ...]:
        return self.slices, self.indices, self.values, NOTHING if self.row is None else self.row

    @cached_property
    def _tail(self) -> tuple[np.int32, np.int32]:
        return np.int32(len(self.slices)), np.int32(self.shape[0] // self.block)

    def prepare_dots(self) -> None:
        _ = self._partials

    @property
    def _stored(self) -> tuple[tuple[Array | None, ...], Array] | None:
        return ((self.slices, self.indices, self.row), self.values) if self.block == 1 else None

    @cached_property
    def _partials(self) -> Array:
        return cupy.empty(len(self.slices)) if len(self.slices) else cupy.zeros(1)

    @cached_property
    def _together(self) -> Launch:
        return Launch(
            file=BATCHED,
            end="",
            dtype=type_of(self.values),
            grid=self._grid,
            threads=WARPS * SLICE,
            head=self._head,
            tail=self._tail,
            parts=len(self._partials),
        )


class Measured(NamedTuple):
    """Slices of a matrix, without their entries."""

    block: int  # B
    dtype: str
    row: Any
    slices: Array
    full: Any  # uint8, whether all rows of a slice are of full blocks; not of single entries
    totals: Sent  # int64 (2,), entry columns and units of columns of all slices, on their way


def measured(matrix: Csr, columns: int, dtype: str = "float64", *, block: int = 1, window: int = 1) -> Measured:
    """The slices of a matrix, and how much memory they take, without a wait.

    Args:
        block: B.
        window: σ in rows of blocks; 1 keeps their order.

    Raises:
        ValueError: see `require`.
    """
    require((matrix.size, columns), block, window)
    rows = matrix.size // block
    order = None if window == 1 else _sorted(matrix, dtype, block, window)
    count = -(-rows // SLICE) if order is None else len(order) // SLICE
    sizes, found = cupy.empty((count, 2), dtype=np.int32), cupy.empty((count, 2), dtype=np.int32)
    full = NOTHING if block == 1 else cupy.empty(count, dtype=np.uint8)
    slices = cupy.empty((count, 4), dtype=np.uint32)
    arguments = (matrix.start, matrix.columns, NOTHING if order is None else order, sizes, found, full)
    numbers = map(np.int32, (count, rows, columns // block))
    kernel(BUILD, f"measure_{block}", dtype)(_grid(count), (WARPS * SLICE,), (*arguments, *numbers))
    ends, totals = running_sums(sizes)
    for_each(BUILD, "describe", count, ends, sizes, found, slices, np.int32(count), dtype=dtype)
    return Measured(block=block, dtype=dtype, row=order, slices=slices, full=full, totals=Sent(totals))


def made(matrix: Csr, columns: int, dtype: str = "float64", *, block: int = 1, window: int = 1) -> CudaBlockSlices:
    """A matrix in slices: see `filled`, and for the arguments `measured`."""
    return filled(matrix, columns, measured(matrix, columns, dtype, block=block, window=window))


def filled(matrix: Csr, columns: int, of: Measured) -> CudaBlockSlices:
    """A matrix in slices, made on the device. It waits for how much memory they take.

    Products read a matrix before they wait for earlier launches: who multiplies waits before.

    `of`: its slices. Values are rounded to their type as they are stored.
    """
    slices, arguments = _empty(matrix, columns, of)
    for fill in ("fill",) if of.block == 1 else ("fill", "fill_full"):
        launch = kernel(BUILD, f"{fill}_{of.block}", of.dtype)
        launch(_grid(len(of.slices)), (WARPS * SLICE,), (*arguments, of.full))
    return slices


def filled_twice(matrix: Csr, columns: int, of: Measured, others: Array) -> tuple[CudaBlockSlices, CudaBlockSlices]:
    """`filled`, and the same with other values, float64, rounded to float32: of single entries, in one pass."""
    assert (of.block, of.dtype) == (1, "float64")
    slices, arguments = _empty(matrix, columns, of)
    rounded = cupy.empty(slices.values.shape, dtype=np.float32)
    kernel(BUILD, "fill_twice_1", of.dtype)(_grid(len(of.slices)), (WARPS * SLICE,), (*arguments, others, rounded))
    return slices, replace(slices, values=rounded)


def _empty(matrix: Csr, columns: int, of: Measured) -> tuple[CudaBlockSlices, tuple[Any, ...]]:
    """Slices that are to be filled, and what kernels are given for that."""
    assert matrix.values.itemsize == 8  # kernels read doubles, whatever they store
    width, units = map(int, of.totals())
    slices = CudaBlockSlices(
        shape=(matrix.size, columns),
        block=of.block,
        slices=of.slices,
        indices=cupy.zeros(units * SLICE, dtype=np.uint16),
        values=cupy.empty((width, of.block * of.block, SLICE), dtype=of.dtype),
        row=of.row,
    )
    row = NOTHING if of.row is None else of.row
    numbers = np.int32(len(of.slices)), np.int32(matrix.size // of.block)
    return slices, (*matrix, row, of.slices, slices.indices, slices.values, *numbers)


def _grid(slices: int) -> tuple[int]:
    """Blocks of kernels that have a warp for each of so many slices."""
    return (max(1, -(-slices // WARPS)),)


def lengths(matrix: Csr, block: int, dtype: str = "float64") -> Array:
    """Blocks of each row of blocks: int32 on the device. The kernel is that of a value type which is loaded anyway."""
    rows, out = matrix.size // block, cupy.empty(matrix.size // block, dtype=np.int32)
    for_each(BUILD, f"count_blocks_{block}", rows, *matrix[:2], out, np.int32(rows), dtype=dtype)
    return out


def _sorted(matrix: Csr, dtype: str, block: int, window: int) -> Any:
    """Rows of blocks in the order of their lengths within windows: int32, -1 for none."""
    size = lengths(matrix, block, dtype=dtype)
    windows = -(-len(size) // window)
    order = cupy.empty(windows * window, dtype=np.int32)
    threads = min(THREADS, max(SLICE, window // 2))
    arguments = (size, order, np.int32(len(size)), np.int32(window))
    kernel(BUILD, "sort_windows", dtype)((max(1, windows),), (threads,), arguments)
    return order
