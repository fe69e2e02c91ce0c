"""Vectors side by side on a GPU: launches of columns.cu. See `dsolver.kernels.vectors` and the contract's `COMBINE`."""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array

FILE: Final = "columns.cu"
THREADS: Final = 256
TILE, ROWS, COLUMNS, OUTPUTS = 32, 64, 16, 4
"""As columns.cu has them."""
MOST_BLOCKS: Final = 528
SHARED: Final = 48 * 1024
"""Bytes of shared memory that every launch may have."""


def gram(s: Array, t: Array) -> Array:
    """See `Vectors.gram`. The grid follows from the shapes alone, since bits depend on it."""
    (rows, items), columns = s.shape, len(t)
    count, blocks = rows * columns, min(MOST_BLOCKS, max(1, -(-items // (4 * TILE))))
    grid = (blocks, -(-rows // ROWS), -(-columns // COLUMNS))
    partials, out = cupy.empty((blocks, rows, columns)), cupy.empty((rows, columns))
    sizes = np.int32(rows), np.int32(columns), np.int64(items)
    launch_early(kernel(FILE, "block_products", type_of(s)), grid, (THREADS,), (s, t, *sizes, partials))
    arguments = (partials, np.int32(blocks), np.int32(count), out)
    launch_early(kernel(FILE, "block_sums", type_of(s)), (-(-count // THREADS),), (THREADS,), arguments)
    return out


def combine(keep: float, s: Array, c: npt.NDArray[np.float64], t: Array) -> None:
    """See `dsolver.kernels.contract.COMBINE`."""
    used = np.flatnonzero(c.any(axis=1)).astype(np.int32)
    columns, items = t.shape
    tile = TILE
    while 8 * tile * len(used) > SHARED:
        tile //= 2
    grid, threads = (min(8 * MOST_BLOCKS, -(-items // tile)),), min(THREADS, tile * -(-columns // OUTPUTS))
    places, factors = cupy.asarray(used), cupy.asarray(c[used])
    arguments: tuple[Any, ...] = (np.float64(keep), s, places, np.int32(len(used)), factors, t)
    arguments += (np.int32(columns), np.int64(items), np.int32(tile))
    kernel(FILE, "combine", type_of(s))(grid, (threads,), arguments, shared_mem=8 * tile * len(used))


def times(d: Array, s: Array, t: Array) -> None:
    """See `dsolver.kernels.contract.TIMES`."""
    items = len(d)
    arguments = (d, s, t, np.int32(s.size // items), np.int64(items))
    launch_early(kernel(FILE, "times", type_of(d)), (-(-items // THREADS),), (THREADS,), arguments)
