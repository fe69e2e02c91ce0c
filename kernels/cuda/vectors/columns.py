"""Vectors side by side on a GPU: launches of columns.cu. See `dsolver.kernels.vectors` and the contract's `COMBINE`."""

from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array

FILE: Final = "vectors/columns.cu"
THREADS: Final = 256
TILE, ROWS, COLUMNS, ITEMS, OUTPUTS = 32, 48, 32, 4, 4  # as columns.cu has them
PRODUCT_BLOCKS: Final = 264
"""Most blocks that make products: two for each multiprocessor of an H200, as many as run at once."""
SQUARE_BLOCKS: Final = 96  # most blocks for the squares of a column
AT_ONCE: Final = 1056  # most for those of all columns: eight for each multiprocessor of an H200, as many as run at once
COMBINE_BLOCKS: Final = 4224  # most blocks that combine columns
MOST_ITEMS: Final = 128  # items of a block's tile of combinations, at most
SHARED: Final = 48 * 1024  # bytes of shared memory that every launch may have


def gram(s: Array, t: Array) -> Array:
    """See `Vectors.gram`. The grid follows from the shapes alone, since bits depend on it."""
    (rows, items), columns = s.shape, len(t)
    blocks = min(PRODUCT_BLOCKS, max(1, -(-items // (4 * TILE))))
    grid = (blocks, -(-rows // ROWS), -(-columns // COLUMNS))
    partials = cupy.empty((blocks, rows, columns))
    sizes = np.int32(rows), np.int32(columns), np.int64(items)
    launch_early(kernel(FILE, "block_products", type_of(s)), grid, (THREADS,), (s, t, *sizes, partials))
    return _sums(s, partials)


def squares(s: Array) -> Array:
    """See `Vectors.squares`; as of `gram`."""
    columns, items = s.shape
    blocks = min(SQUARE_BLOCKS, max(1, AT_ONCE // columns), max(1, -(-items // (16 * THREADS))))
    partials = cupy.empty((blocks, columns))
    arguments = (s, np.int64(items), partials)
    launch_early(kernel(FILE, "block_squares", type_of(s)), (blocks, columns), (THREADS,), arguments)
    return _sums(s, partials)


def _sums(s: Array, partials: Array) -> Array:
    """Sums of the blocks' numbers, (blocks, ...)."""
    out = cupy.empty(partials.shape[1:])
    arguments = (partials, np.int32(len(partials)), np.int32(out.size), out)
    launch_early(kernel(FILE, "block_sums", type_of(s)), (-(-out.size // 32),), (THREADS,), arguments)
    return out


def combine(keep: float, s: Array, c: npt.NDArray[np.float64], t: Array) -> None:
    used, (columns, items) = np.flatnonzero(c.any(axis=1)), t.shape
    count, tile = len(used), MOST_ITEMS
    while 8 * tile * count > SHARED:
        tile //= 2
    groups, width = -(-columns // OUTPUTS), -(-columns // OUTPUTS) * OUTPUTS
    table = np.zeros(count + count % 2 + count * width)  # places and factors in one copy
    table[:count] = used
    table[count + count % 2 :].reshape(count, width)[:, :columns] = c[used]
    grid, threads = (min(COMBINE_BLOCKS, -(-items // tile)),), min(THREADS, tile // ITEMS * groups)
    arguments: tuple[Any, ...] = (np.float64(keep), s, cupy.asarray(table), np.int32(count), t)
    arguments += (np.int32(columns), np.int64(items), np.int32(tile))
    kernel(FILE, "combine", type_of(s))(grid, (threads,), arguments, shared_mem=8 * tile * count)


def times(d: Array, s: Array, t: Array) -> None:
    items = len(d)
    arguments = (d, s, t, np.int32(s.size // items), np.int64(items))
    launch_early(kernel(FILE, "times", type_of(d)), (-(-items // THREADS),), (THREADS,), arguments)
