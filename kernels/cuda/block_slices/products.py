"""Slices of rows of blocks on a GPU, and their products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.csr.finish import NOTHING, Finished, Launch, TogetherColumns
from dsolver.kernels.cuda.csr.starts import running_sums
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.vectors import vectors
from dsolver.kernels.formats.block_slices import BlockSlices, require
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Array
from dsolver.kernels.formats.statistics import Samples

WARPS: Final = 4
"""Warps of a block, one slice each, as spmv.cu and build.cu say too."""
THREADS: Final = 256
ROUND: Final = 8
"""Mean entry columns of slices above which kernels for wide ones are faster."""
SHORT: Final = 4
"""Mean entry columns up to which a warp adds `PAIR` slices at once, as in spmv.cu."""
PAIR: Final = 2
BUILD, PRODUCT, BATCHED = "block_slices/build.cu", "block_slices/spmv.cu", "block_slices/batched.cu"


@final
@dataclass(frozen=True, kw_only=True)
class CudaBlockSlices(Finished, BlockSlices):
    """A matrix in slices of rows of blocks with its kernels, a warp a slice."""

    def batched(self, width: int) -> Columns:
        return TogetherColumns(self, width, self._together) if self.block == 1 else super().batched(width)

    def spmv(self, x: Array, y: Array) -> None:
        launch_early(self._kernel("spmv"), self._grid, (WARPS * SLICE,), (*self._head, x, y, *self._tail))

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        arguments = (*self._head, x, y, self._partials, *self._tail)
        launch_early(self._kernel("spmv_dot"), self._grid, (WARPS * SLICE,), arguments)
        vectors(type_of(self.values)).sum(self._partials, len(self._partials), dot)

    def jacobi_sweep_dot(self, w: Array, r: Array, x: Array, z: Array, dot: Array) -> None:
        self._finish("sweep_dot", (x, r, w, z, NOTHING, self._partials))
        vectors(type_of(self.values)).sum(self._partials, len(self._partials), dot)

    def add(self, x: Array, r: Array, y: Array) -> None:
        """y = r + A x; y may be r."""
        if self.block == 1 and self.row is None and len(self.values) <= SHORT * len(self.slices):
            function = kernel(PRODUCT, "sum_1_short", type_of(self.values))
            grid, arguments = (-(-self._grid[0] // PAIR),), (*self._head, x, r, NOTHING, y, NOTHING, *self._tail)
            launch_early(function, grid, (WARPS * SLICE,), arguments)
        else:
            self._finish("sum", (x, r, NOTHING, y, NOTHING))

    def _finish(self, name: str, vectors: tuple[Any, ...]) -> None:
        launch_early(self._kernel(name), self._grid, (WARPS * SLICE,), (*self._head, *vectors, *self._tail))

    def _kernel(self, name: str) -> Any:
        return kernel(PRODUCT, f"{name}_{self.block}{self._variant}", type_of(self.values))

    @cached_property
    def _variant(self) -> str:
        """End of the names of kernels: "_wide" where single entries fill more than a round of them."""
        return "_wide" if self.block == 1 and len(self.values) > ROUND * len(self.slices) else ""

    @cached_property
    def _grid(self) -> tuple[int]:
        return (max(1, -(-len(self.slices) // WARPS)),)

    @cached_property
    def _head(self) -> tuple[Any, ...]:
        return self.slices, self.indices, self.values, NOTHING if self.row is None else self.row

    @cached_property
    def _tail(self) -> tuple[np.int32, np.int32]:
        return np.int32(len(self.slices)), np.int32(self.shape[0] // self.block)

    def prepare_dots(self) -> None:
        _ = self._partials

    @cached_property
    def _partials(self) -> Array:
        return cupy.zeros(max(1, len(self.slices)))

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


def made(matrix: Csr, columns: int, dtype: str = "float64", *, block: int = 1, window: int = 1) -> CudaBlockSlices:
    """A matrix in slices, made on the device. It waits for how much memory they take.

    Products read a matrix before they wait for earlier launches: who multiplies waits before.

    Args:
        matrix: on the device; its columns ascend in each row.
        columns: of the matrix.
        dtype: the value type of the slices; values are rounded to it as they are stored.
        block: B.
        window: σ in rows of blocks; 1 keeps their order.

    Raises:
        ValueError: see `require`.
    """
    require((matrix.size, columns), block, window)
    start, of, values = matrix
    assert values.itemsize == 8  # kernels read doubles, whatever they store
    rows = matrix.size // block
    order = None if window == 1 else _sorted(matrix, dtype, block, window)
    count = -(-rows // SLICE) if order is None else len(order) // SLICE
    sizes, found = cupy.empty((count, 2), dtype=np.int32), cupy.empty((count, 2), dtype=np.int32)
    full = NOTHING if block == 1 else cupy.empty(count, dtype=np.uint8)  # slices of full rows of blocks
    places = NOTHING if order is None else order
    grid, threads = (max(1, -(-count // WARPS)),), (WARPS * SLICE,)
    tail = (np.int32(count), np.int32(rows))
    kernel(BUILD, f"measure_{block}", dtype)(
        grid,
        threads,
        (start, of, places, sizes, found, NOTHING, *tail, np.int32(columns // block), tail[0], np.int32(0), full),
    )
    ends, totals = running_sums(sizes)
    slices = cupy.empty((count, 4), dtype=np.uint32)
    flat = (max(1, -(-count // THREADS)),)
    kernel(BUILD, "describe", dtype)(flat, (THREADS,), (ends, sizes, found, slices, tail[0]))
    width, units = map(int, read_back(totals))
    indices = cupy.zeros(units * SLICE, dtype=np.uint16)
    entries = cupy.empty((width, block * block, SLICE), dtype=dtype)
    arguments = (start, of, values, places, slices, indices, entries, *tail, full)
    for fill in ("fill",) if block == 1 else ("fill", "fill_full"):
        kernel(BUILD, f"{fill}_{block}", dtype)(grid, threads, arguments)
    return CudaBlockSlices(
        shape=(matrix.size, columns), block=block, slices=slices, indices=indices, values=entries, row=order
    )


def lengths(
    matrix: Csr, block: int, samples: Samples | None = None, out: Array | None = None, dtype: str = "float64"
) -> Array:
    """Blocks of each row of blocks, or of sampled ones: int32 on the device, in memory of its own by default.

    The kernel is that of a value type which is loaded anyway.
    """
    taken = samples or Samples(count=1, stretch=matrix.size // block, stride=0)
    rows = taken.count * taken.stretch
    out = cupy.empty(rows, dtype=np.int32) if out is None else out
    sizes = (np.int32(rows), np.int32(taken.stretch), np.int32(taken.stride))
    launch = kernel(BUILD, f"count_blocks_{block}", dtype)
    launch((max(1, -(-rows // THREADS)),), (THREADS,), (matrix.start, matrix.columns, out, *sizes))
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
