"""Passes over the rows of a matrix in stages, each with more room for a row than the one before (stage.cuh)."""

from functools import lru_cache
from typing import Any, Final, NamedTuple, Self, final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import device_property
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.formats.layout import Array

WARP: Final = 32
MOST_THREADS: Final = 256
SHARED: Final = 48 * 1024  # bytes of a block's shared memory that need no leave
BLOCKS: Final = 16  # blocks for each multiprocessor where it is not known how many rows are left
LISTS: Final = 3  # lists of rows, used in turns
COUNTERS: Final = 4  # most stages of a pass


@final
class Stages:
    """A pass over rows.

    `passed`: int32 (COUNTERS,) of zeros, in which the device counts rows that a stage passes on; made if there is none.
    `lists`: int32 (LISTS, rows), made if there are none.
    """

    def __init__(self, rows: int, passed: Array | None = None, lists: Array | None = None) -> None:
        self._rows = rows
        self._lists = cupy.empty((LISTS, rows), dtype=np.int32) if lists is None else lists
        self._passed = counters(COUNTERS // 2).view(np.int32) if passed is None else passed
        self.number = 0

    @property
    def last(self) -> int:
        """The counter of the last stage so far."""
        return self.number - 1

    def launch(self, kernel: Any, lanes: int, arguments: tuple[Any, ...], shared: int = 0) -> None:
        """Launch the next stage: a kernel that takes a stage before all arguments, lanes and shared bytes of a row."""
        threads = max(MOST_THREADS, lanes)
        while threads > max(WARP, lanes) and threads // lanes * shared > SHARED:
            threads //= 2
        memory = threads // lanes * shared
        if memory > SHARED and kernel.max_dynamic_shared_size_bytes < memory:
            kernel.max_dynamic_shared_size_bytes = memory
        blocks = -(-self._rows // (threads // lanes))
        if self.number:
            blocks = min(blocks, BLOCKS * device_property("multiProcessorCount"))
        stage = (self._lists, self._passed, np.int32(self._rows), np.int32(self.number))
        kernel((blocks,), (threads,), (*stage, *arguments), shared_mem=memory)
        self.number += 1

    def again(self) -> Self:
        """The rows that the first of at most three stages has passed on, for another second stage."""
        passed = counters(COUNTERS // 2).view(np.int32)
        passed[:1] = self._passed[:1]
        other = Stages(self._rows, passed, self._lists)
        other.number = 1
        return other

    def left(self) -> Array:
        """int32, rows that the last stage has passed on, ascending. It waits for the device."""
        count = int(read_back(self._passed)[self.last])
        rows = self._lists[self.last % LISTS, :count]
        return cupy.sort(rows) if count else rows


class Rooms(NamedTuple):
    """Rows in rooms of equal size (rooms.cuh), or compressed."""

    lengths: Array  # int64 (rows,); of compressed rows, where each begins, (rows + 1,)
    columns: Array  # int32, of all rooms
    values: Array  # float64, of all rooms
    room: int = 0  # entries of each row's own room, a multiple of four; 0 of compressed rows
    larger: int = 0  # of the rooms behind these, for rows that need them; as of `room`

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.lengths) - (not self.room)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Arguments of kernels: both sizes, where larger rooms begin, and how many there are."""
        return _shape(len(self.lengths), len(self.columns), self.room, self.larger)

    @property
    def places(self) -> tuple[Any, ...]:
        """Arguments of kernels: a right factor, but for its values."""
        return (self.lengths, self.columns, *self.shape[:3])


@lru_cache(maxsize=64)
def _shape(rows: int, entries: int, room: int, larger: int) -> tuple[Any, ...]:
    """`Rooms.shape`: kernels of a level ask for it a dozen times."""
    behind = rows * room
    return np.int32(room), np.int32(larger), np.int64(behind), np.int64((entries - behind) // larger if larger else 0)
