"""Running sums of integers on a GPU, by which rows of known lengths begin: one or two launches of this package's own.

CuPy's takes four to six launches, of which two change the type or the place of the numbers.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.csr.finish import NOTHING
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "csr/starts.cu", "float64"
THREADS, TILE = 256, 4096
"""Threads of a block, and items that it adds up, as in starts.cu."""


def add_up(start: Array) -> None:
    """Replace each number by the sum of all up to it, in place.

    Args:
        start: int64; of rows, a zero and their lengths.
    """
    _add_up(start, len(start), 1, start)


def starts_of(lengths: Array) -> Array:
    """Begins of rows, and the end of the last one: int64 (rows + 1,), of their lengths, int32."""
    start = cupy.zeros(len(lengths) + 1, dtype=np.int64)
    _add_up(lengths, len(lengths), 1, start[1:])
    return start


def running_sums(numbers: Array) -> tuple[Array, Array]:
    """The sum of all numbers of a list up to each one, and of all of each list.

    Args:
        numbers: int32 (numbers, lists).

    Returns:
        int64 (lists, numbers) and (lists,).
    """
    count, lists = numbers.shape
    out, totals = (
        cupy.empty((lists, count), dtype=np.int64),
        (cupy.empty if count else cupy.zeros)(lists, dtype=np.int64),
    )
    _add_up(numbers, count, lists, out, totals)
    return out, totals


def _add_up(numbers: Array, count: int, lists: int, out: Array, totals: Any = NOTHING) -> None:
    if not count:
        return
    grid, length, tiles = (-(-count // TILE), lists), np.int64(count), NOTHING
    if grid[0] > 1:
        tiles = cupy.empty(grid[0] * lists, dtype=np.int64)
        kernel(FILE, f"sum_tiles_{numbers.dtype}", DTYPE)(grid, (THREADS,), (numbers, length, tiles))
    kernel(FILE, f"add_up_{numbers.dtype}", DTYPE)(grid, (THREADS,), (numbers, length, tiles, out, totals))
