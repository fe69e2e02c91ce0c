"""Vectors side by side on a GPU: launches of columns.cu. See `dsolver.kernels.vectors` and the contract's `COMBINE`."""

from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.loader import NOTHING, kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import SLICE, Array

FILE: Final = "vectors/columns.cu"
THREADS: Final = 256
WARPS, STEP, DOWN, ACROSS, ITEMS, OUTPUTS, TOGETHER = 4, 16, 5, 3, 4, 4, 4  # as columns.cu has them
PRODUCT_BLOCKS: Final = 396
"""Most blocks that make products: three for each multiprocessor of an H200, as many as run at once."""
RESIDUAL_BLOCKS: Final = 264  # most for the residuals of all columns: two for each, as many as run at once
COMBINE_BLOCKS: Final = 4224  # most blocks that combine columns
MOST_ITEMS: Final = 128  # items of a block's tile of combinations, at most
SHARED: Final = 48 * 1024  # bytes of shared memory that every launch may have
MOST: Final = SHARED // (8 * ITEMS)  # columns of which that holds the least tile


def gram(s: Array, t: Array, weights: Array | None = None, weighted: int = 0) -> Array:
    """See `Vectors.gram`. The grid follows from the shapes alone, since bits depend on it."""
    (rows, items), columns = s.shape, len(t)
    blocks = min(PRODUCT_BLOCKS, max(1, -(-items // (4 * WARPS * STEP))))
    grid = (blocks, -(-rows // (8 * DOWN)), -(-columns // (8 * ACROSS)))
    partials = cupy.empty((blocks, rows, columns))
    given = (NOTHING, np.int32(0)) if weights is None else (weights, np.int32(weighted))
    arguments = (s, t, *given, np.int32(rows), np.int32(columns), np.int64(items), partials)
    launch_early(kernel(FILE, "block_products", type_of(s)), grid, (SLICE * WARPS,), arguments)
    products = cupy.empty((rows, columns))
    _add(partials, products)
    return products


def residuals(
    values: npt.NDArray[np.float64], x: Array, b: Array | None, sizes: Array, r: Array, squares: Array
) -> None:
    columns, items = r.shape
    groups = -(-columns // TOGETHER)
    blocks = min(max(1, RESIDUAL_BLOCKS // groups), max(1, -(-items // (8 * THREADS))))
    partials = cupy.empty((blocks, 4, columns))
    given = (NOTHING, NOTHING) if b is None else (b, NOTHING) if b.ndim == 1 else (NOTHING, b)
    arguments = (cupy.asarray(values), x, *given, sizes, r, np.int32(columns), np.int64(items), partials)
    kernel(FILE, "residuals", type_of(r))((blocks, groups), (THREADS,), arguments)
    _add(partials, squares)


def _add(partials: Array, out: Array) -> None:
    """out = the sums of the blocks' numbers, (blocks, ...)."""
    arguments = (partials, np.int32(len(partials)), np.int32(out.size), out)
    launch_early(kernel(FILE, "block_sums", "float64"), (-(-out.size // 32),), (THREADS,), arguments)
    return out


def combine(keep: float, s: Array, c: npt.NDArray[np.float64], t: Array) -> None:
    used, (columns, items) = np.flatnonzero(c.any(axis=1)), t.shape
    if len(used) > MOST:  # those beyond come by themselves, before t, which may be some of s, is written
        beyond, more = (np.arange(len(c)) >= used[MOST])[:, None], cupy.empty_like(t)
        combine(0.0, s, np.where(beyond, c, 0.0), more)
        combine(keep, s, np.where(beyond, 0.0, c), t)
        t += more
        return
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
