"""Launches of the kernels that make rows of sums over two matrices (rows.cuh)."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import Counted, uncounted
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import Asked, counters
from dsolver.kernels.cuda.sparse.starts import add_up
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr

DTYPE: Final = "float64"
COUNTERS: Final = 4
"""Numbers that the kernels count in: short and long rows that wait, rows without room, and the most terms of these."""
THREADS, WARP = 128, 32
ALONE: Final = 16  # a thread makes rows of fewer columns alone
LIST: Final = 64  # most terms of a row that 8 lanes make
ROOM, BITS = 256, 9
"""Most columns of a row that a warp makes in shared memory, and the power of two of its slots. All as in rows.cuh."""
SCARCE: Final = 48
"""Terms of a row on average, up to which rows begin with a thread each; up to twice as many, with 8 lanes."""
SHORT: Final = 8
"""Entries of a row on average, up to which a thread reads them by itself, not lanes together for each other."""
STAGED: Final = 4 * 16  # bytes of shared memory of a thread for entries that lanes have read for it
BLOCKS: Final = 2048  # most blocks of a kernel that learns on the device how many rows there are for it
FAR_BYTES: Final = 1 << 28  # bytes of tables in global memory, unless a single one takes more


class RowKernels:
    """Rows of a matrix that a task's four kernels make: `count`, then where rows are filled by themselves `fill`.

    Args:
        terms: of a row on average, roughly: with how many lanes rows begin.
        kept: entries of a row that are kept, at most; 0 where none are chosen.

    Attributes:
        alone: whether rows begin with a thread each.
        start: int64 (rows + 1,), the row pointer; lengths from start[1] on while rows are counted.
    """

    def __init__(self, file: str, name: str, rows: int, columns: int, mean: float, terms: float, kept: int = 0) -> None:
        self._file, self._name, self._rows, self._columns, self._kept = file, name, rows, columns, kept
        self._first = 1 if terms <= SCARCE else 8 if terms <= 2 * SCARCE else WARP
        self._staged = mean > SHORT
        self.alone = self._first == 1
        self._room = counters(1 + COUNTERS)  # entries, and what kernels count: read at once
        self._waiting = cupy.empty(rows, dtype=np.int32)
        self._far: tuple[Any, int] | None = None
        self.start = cupy.empty(rows + 1, dtype=np.int64)

    def count(self, arguments: tuple[Any, ...], counted: Counted = uncounted) -> Deferred[int]:
        """Launch kernels that write lengths, and make the row pointer of them; gives the number of entries.

        It waits when it is called. counted: takes the row pointer, again where that has changed.
        """
        self._launch(arguments, again=False)
        add_up(self.start, self._room)
        asked = Asked(self._room)
        counted(self.start)

        def entries() -> int:
            found, _, _, lost, terms = asked().tolist()
            if not lost:
                return int(found)
            self.start[1:] = cupy.diff(self.start)
            self._far = cupy.flatnonzero(self.start < 0) - 1, min(terms, self._columns)
            self._launch_far(*self._far, arguments)
            add_up(self.start)
            counted(self.start)
            return int(self.start[-1])

        return Deferred(entries)

    def fill(self, arguments: tuple[Any, ...]) -> None:
        """Launch kernels that write entries, after `count`, but of rows that a thread has made."""
        self._launch(arguments, again=True)
        if self._far is not None:
            self._launch_far(*self._far, arguments)

    def _launch(self, arguments: tuple[Any, ...], *, again: bool) -> None:
        waiting, all_rows = self._room[1:], np.int64(self._rows)
        if self.alone and not again:
            kernel(self._file, f"{self._name}_{'staged' if self._staged else '1'}", DTYPE)(
                (-(-self._rows // THREADS),),
                (THREADS,),
                (self._waiting, waiting, all_rows, *arguments),
                shared_mem=THREADS * (ALONE * 12 + (STAGED if self._staged else 0)),
            )
        for lanes in (8, WARP):
            if lanes < self._first:
                continue
            blocks, later = -(-self._rows * lanes // THREADS), lanes > self._first
            kept = min(self._kept, ROOM if lanes == WARP else LIST)
            stride = _bytes(ROOM, kept, BITS) if lanes == WARP else _bytes(LIST, kept)
            sizes = all_rows, np.int32(later), np.int32(again), np.int32(kept), np.int32(stride)
            kernel(self._file, f"{self._name}_{lanes}", DTYPE)(
                (min(blocks, BLOCKS) if later else blocks,),
                (THREADS,),
                (self._waiting, waiting, *sizes, *arguments),
                shared_mem=THREADS // lanes * stride,
            )

    def _launch_far(self, rows: Any, columns: int, arguments: tuple[Any, ...]) -> None:
        """Make rows that found no room in shared memory, with tables in global memory."""
        most, kept, bits = columns + WARP, min(self._kept, columns), (2 * columns - 1).bit_length()
        stride = _bytes(most, kept, bits)
        blocks = max(1, min(len(rows), FAR_BYTES // stride))
        memory = cupy.empty(blocks * stride, dtype=np.uint8)
        sizes = np.int64(stride), np.int32(most), np.int32(bits), np.int32(kept)
        kernel(self._file, f"{self._name}_far", DTYPE)(
            (blocks,), (WARP,), (rows, np.int32(len(rows)), memory, *sizes, *arguments)
        )


def terms_of(a: Csr, b: Csr) -> float:
    """Terms of a row of A B on average, from sizes that the host knows."""
    return a.mean * max(1.0, b.mean)


def terms_of_coarse(a: Csr) -> float:
    """Terms of a row of A B on average, roughly, where B is A's entries that lead to coarse points: one of twenty."""
    return a.mean * max(1.0, 0.05 * a.mean)


def _bytes(most: int, kept: int, bits: int | None = None) -> int:
    """Bytes of a group's memory: sums and columns, those that are kept, and perhaps a table."""
    slots = 0 if bits is None else 2 << bits
    return -(-(12 * (most + kept) + 4 * slots) // 8) * 8
