"""Numbers of points that a chunk sees, and their places in its window, on a GPU: see `dsolver.kernels.cpu.amg.windows`.

Each reads its numbers once: A P of a chunk of 16 million cells has 130 million columns.
"""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "sparse/windows.cu", "float64"
THREADS: Final = 256
BLOCKS: Final = 16
"""Blocks for each multiprocessor, at most."""
FEW: Final = 16
"""One of so many numbers lies outside at most, as a rule: so much room there is for them at first."""
LEAST: Final = 4096
"""Room at least."""
SORTED: Final = 1 << 16
"""Numbers that are sorted with those that do not lie outside, at most: to wait for how many do would take longer."""


def outside(numbers: Array, first: int, last: int) -> Array:
    """See `dsolver.kernels.cpu.amg.windows.outside`. It waits, for how many there are."""
    return cupy.sort(_outside(numbers, first, last, named=False))  # threads have put them down in any order


def ghosts(numbers: Array, first: int, last: int) -> tuple[Array, int]:
    """See `dsolver.kernels.cpu.amg.windows.ghosts`. It waits, for how many there are, and how many different ones."""
    if len(numbers) > SORTED:
        numbers = _outside(numbers, first, last, named=True)
    found, below = _distinct(numbers, first, last)
    return found.astype(np.int64, copy=False), below


def distinct(numbers: Array) -> Array:
    """See `dsolver.kernels.cpu.amg.windows.distinct`. It waits, for how many there are."""
    return _distinct(numbers, 0, 0)[0]


def places(numbers: Array, first: int, rows: int, ghosts: Array, below: int) -> Array:
    """See `dsolver.kernels.cpu.amg.windows.places`."""
    count, found = len(numbers), cupy.empty(len(numbers), dtype=np.int32)
    window = np.int64(first), np.int32(rows), ghosts, np.int32(len(ghosts)), np.int32(below)
    _launch(f"places_{numbers.itemsize}", count, numbers, np.int64(count), *window, found)
    return found


def relabeled(places: Array, rows: int, below: int, base: int, names: Array) -> Array:
    """See `dsolver.kernels.cpu.amg.windows.relabeled`."""
    count, found = len(places), cupy.empty(len(places), dtype=names.dtype)
    window = np.int32(rows), np.int32(below), np.int64(base), names
    _launch(f"relabel_{names.itemsize}", count, places, np.int64(count), *window, found)
    return found


def _distinct(numbers: Array, first: int, last: int) -> tuple[Array, int]:
    """The numbers that are not first .. last, each once, ascending, of their type; how many are less than the first."""
    count = len(numbers)
    if not count:
        return numbers, 0
    ordered = cupy.sort(numbers.astype(np.int64, copy=False))
    marks, totals = cupy.empty(count, dtype=np.int32), counters(2)
    _launch("mark_first", count, ordered, np.int64(count), np.int64(first), np.int64(last), marks, totals[1:])
    before = starts_of(marks, totals[:1])
    size, below = read_back(totals).tolist()
    found = cupy.empty(size, dtype=np.int64)
    _launch("take_first", count, ordered, np.int64(count), before, found)
    return found.astype(numbers.dtype, copy=False), below


def _outside(numbers: Array, first: int, last: int, *, named: bool) -> Array:
    """The numbers that are not first .. last, or their places, int64, in any order."""
    count, room = len(numbers), max(LEAST, len(numbers) // FEW)
    while count:
        found, out = counters(1), cupy.empty(room, dtype=np.int64)
        limits = np.int64(first), np.int64(last), np.int32(named), np.int64(room)
        _launch(f"outside_{numbers.itemsize}", count, numbers, np.int64(count), *limits, found, out)
        there = int(read_back(found)[0])
        if there <= room:
            return out[:there]
        room = there
    return cupy.empty(0, dtype=np.int64)


def _launch(name: str, count: int, *arguments: Any) -> None:
    if count:
        blocks = min(-(-count // THREADS), BLOCKS * device_property("multiProcessorCount"))
        kernel(FILE, name, DTYPE)((blocks,), (THREADS,), arguments)
