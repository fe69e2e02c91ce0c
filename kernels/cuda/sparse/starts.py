"""Running sums of integers on a GPU, by which rows of known lengths begin: one or two launches of this package's own.

CuPy's takes four to six launches, of which two change the type or the place of the numbers.
"""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import NOTHING, THREADS, for_each, kernel
from dsolver.kernels.cuda.launch.readback import zeros
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "sparse/starts.cu", "float64"
TILE: Final = 4096  # items that a block adds up, as in starts.cu
NAMES: Final = {1: "states", 4: "int32", 8: "int64"}
"""Ends of kernels' names, by the bytes of an item: NumPy takes 5 us to write a type's name."""


def add_up(start: Array, total: Any = NOTHING) -> None:
    """Make row begins of lengths from start[1] on, int64 (rows + 1,), in place; total: int64 (1,), gets their sum."""
    _begins(start[1:], start, total)


def starts_of_lists(lengths: Array, totals: Array) -> Array:
    """Begins for each list of lengths, int32 (rows, lists) of at least one row: int64 (lists, rows + 1)."""
    rows, lists = lengths.shape
    out = cupy.empty((lists, rows + 1), dtype=np.int64)
    _add_up(lengths, rows, lists, out, totals, shift=1)
    return out


def starts_of(lengths: Array, total: Any = NOTHING) -> Array:
    """Begins of rows of lengths, int64 (rows + 1,); of int8 states, coarse points are counted. total: of `add_up`."""
    if not len(lengths):
        return zeros(1, np.int64)
    start = cupy.empty(len(lengths) + 1, dtype=np.int64)
    _begins(lengths, start, total)
    return start


def _begins(lengths: Array, start: Array, total: Any) -> None:
    if len(lengths):
        _add_up(lengths, len(lengths), 1, start, total, shift=1)
    else:
        start.fill(0)


def unfilled(start: Array, entries: int, dtype: Any = np.float64) -> Csr:
    """Rows that begin so, with room for their entries."""
    return Csr(start, cupy.empty(entries, dtype=np.int32), cupy.empty(entries, dtype=dtype))


def without_rows() -> Csr:
    """A matrix without rows."""
    return unfilled(cupy.zeros(1, dtype=np.int64), 0)


def places_of(flags: Array, count: int) -> Array:
    """Places of flags, bool, that are set, ascending: int32 (count,); count: how many there are."""
    out = cupy.empty(count, dtype=np.int32)
    if count:
        flags = cupy.ascontiguousarray(flags).reshape(-1)
        tiles = _tiles("states", 1, (flags, np.int64(flags.size)), flags.size)
        grid = (-(-flags.size // TILE),)
        kernel(FILE, "list_states", DTYPE)(grid, (THREADS,), (flags, np.int64(flags.size), tiles, out))
    return out


def starts_of_halves(lengths: Array, counts: Array, totals: Array) -> tuple[Array, Array]:
    """Begins of rows of which a part is known by itself, and of their other parts: int64 (rows + 1,) each.

    Args:
        lengths: int64 (rows,), of the first parts.
        counts: int32 (rows,), of the others.
        totals: int64 (3,) of zeros, where the sum of all lengths comes, that of the other parts, and, in the first half
            of the number, the length of the longest row.
    """
    start, begin = ((cupy.empty if len(lengths) else cupy.zeros)(len(lengths) + 1, dtype=np.int64) for _ in range(2))
    if len(lengths):
        _launch("halves", 2, (lengths, counts, np.int64(len(lengths))), len(lengths), (start, begin, totals))
    return start, begin


def taken(before: Array, found: int, numbers: Any = NOTHING) -> Array:
    """The counted items, int64 (found,), or what numbers, int64, has of them; before: how many come before each one."""
    out, count = cupy.empty(found, dtype=np.int64), len(before) - 1
    for_each(FILE, "take", count if found else 0, before, np.int64(count), numbers, np.int64(found), out)
    return out


def running_sums(numbers: Array, totals: Array | None = None) -> tuple[Array, Array]:
    """The sum of all numbers of a list up to each one, and of all of each list.

    `numbers`: int32 (numbers, lists). `totals`: int64 (lists,) of zeros for the latter, if there are any.
    """
    count, lists = numbers.shape
    out = cupy.empty((lists, count), dtype=np.int64)
    if totals is None:
        totals = (cupy.empty if count else cupy.zeros)(lists, dtype=np.int64)
    _add_up(numbers, count, lists, out, totals)
    return out, totals


def _add_up(numbers: Array, count: int, lists: int, out: Array, totals: Any, shift: int = 0) -> None:
    if count:
        _launch(NAMES[numbers.itemsize], lists, (numbers, np.int64(count)), count, (out, np.int32(shift), totals))


def _launch(of: str, lists: int, numbers: tuple[Any, ...], count: int, out: tuple[Any, ...]) -> None:
    """Sums of so many numbers, by tiles first where there are several."""
    tiles = _tiles(of, lists, numbers, count)
    kernel(FILE, f"add_up_{of}", DTYPE)((-(-count // TILE), lists), (THREADS,), (*numbers, tiles, *out))


def _tiles(of: str, lists: int, numbers: tuple[Any, ...], count: int) -> Any:
    """Sums of the tiles of so many numbers, where there are several."""
    grid = (-(-count // TILE), lists)
    if grid[0] == 1:
        return NOTHING
    tiles = cupy.empty(grid[0] * lists, dtype=np.int64)
    kernel(FILE, f"sum_tiles_{of}", DTYPE)(grid, (THREADS,), (*numbers, tiles))
    return tiles
