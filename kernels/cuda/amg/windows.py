"""Numbers of points that a chunk sees, and their places in its window, on a GPU: see `dsolver.kernels.amg.windows`.

Each reads its numbers once: rows of a chunk of 16 million cells have 130 million columns on the way to A P.
"""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/windows.cu", "float64"
THREADS: Final = 256
BLOCKS: Final = 16
"""Blocks for each multiprocessor, at most."""
FEW: Final = 16
"""One of so many numbers lies outside at most, as a rule: so much room there is for them at first."""
LEAST: Final = 4096
"""Room at least."""


def outside(numbers: Array, first: int, last: int) -> Array:
    """See `dsolver.kernels.amg.windows.outside`. It waits, for how many there are."""
    count, room = len(numbers), max(LEAST, len(numbers) // FEW)
    while count:
        found, out = counters(1), cupy.empty(room, dtype=np.int64)
        name, numbered = f"outside_{numbers.itemsize}", (numbers, np.int64(count))
        _launch(name, count, *numbered, np.int64(first), np.int64(last), np.int64(room), found, out)
        there = int(read_back(found)[0])
        if there <= room:
            return cupy.sort(out[:there])  # threads have put them down in any order
        room = there
    return cupy.empty(0, dtype=np.int64)


def places(numbers: Array, first: int, rows: int, ghosts: Array, below: int) -> Array:
    """See `dsolver.kernels.amg.windows.places`."""
    count, found = len(numbers), cupy.empty(len(numbers), dtype=np.int32)
    window = np.int64(first), np.int32(rows), ghosts, np.int32(len(ghosts)), np.int32(below)
    _launch(f"places_{numbers.itemsize}", count, numbers, np.int64(count), *window, found)
    return found


def numbers_at(places: Array, first: int, rows: int, ghosts: Array, below: int) -> Array:
    """See `dsolver.kernels.amg.windows.numbers_at`."""
    count, found = len(places), cupy.empty(len(places), dtype=np.int64)
    window = np.int64(first), np.int32(rows), ghosts, np.int32(below)
    _launch("numbers_at", count, places.astype(np.int32, copy=False), np.int64(count), *window, found)
    return found


def _launch(name: str, count: int, *arguments: Any) -> None:
    if count:
        blocks = min(-(-count // THREADS), BLOCKS * device_property("multiProcessorCount"))
        kernel(FILE, name, DTYPE)((blocks,), (THREADS,), arguments)
