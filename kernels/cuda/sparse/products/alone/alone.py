"""Rows of products of sparse matrices by a thread each: which products have such rows, and their launches."""

import math
from typing import Any, Final

import numpy as np

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.sparse.products.expected_columns import EVERY
from dsolver.kernels.cuda.sparse.stages.stages import Rooms, Stages
from dsolver.kernels.formats.csr import Csr

DTYPE: Final = "float64"
ALONE, ALONE_IN_ROOMS = "sparse/products/alone/alone.cu", "sparse/products/alone/alone_in_rooms.cu"
MOST_ALONE: Final = 16  # columns of rows that a thread makes, at most
OF_ROOMS: Final = (8, 12, 16, 20, 24)  # sizes of rooms of B whose products a thread makes
MOST_OF_ROOMS: Final = 96  # columns of its row then, at most
MANY: Final = 1 << 17  # rows from which there are so many threads that GPUs are busy
SHORT: Final = 8
"""Entries of A's rows in the mean up to which a thread reads its row by itself: longer ones come to it through shared
memory, read by lanes together."""
LONG: Final = 32  # entries of A's rows that a thread takes at all, in the mean, at most
STAGED: Final = 4 * 16  # bytes of shared memory of a thread for entries that lanes have read for it, as in alone.cu
SLOTS: Final = 3.5  # slots of its table for each of them, at least: 64 for 12 took 2.6 ms where 32 took 3.0
SLOTS_OF_ROOMS: Final = 3.6
"""Slots for each column where B is in rooms. With half of them rows of few columns took up to 1.5 times as long."""
OF_TABLES: Final = 70
"""Percent of a multiprocessor's memory for tables and L1 that tables may have then. Threads read a room in pieces of 16
bytes, and 16 warps have 74 KB of rooms under way: where tables left L1 28 KB, R A P of 256³ took 9.2 ms in place of
5.3."""


def suits(a: Csr, b: Rooms, room: int) -> bool:
    """Whether a thread makes each row of A B; room: entries of a row's own room."""
    if b.room:
        return b.room in OF_ROOMS and room <= MOST_OF_ROOMS and a.size >= MANY
    return room <= MOST_ALONE and len(a.columns) <= LONG * a.size


def launch_alone(a: Csr, b: Rooms, room: int, stages: Stages, out: tuple[Any, ...], diagonal: int = EVERY) -> None:
    """Launch the first stage, by a thread for each row."""
    if b.room:
        bits = max(5, math.ceil(math.log2(SLOTS_OF_ROOMS * room)))
        function = kernel(ALONE_IN_ROOMS, f"make_{b.room}", DTYPE)
        if function.preferred_shared_memory_carveout != OF_TABLES:
            function.preferred_shared_memory_carveout = OF_TABLES
        arguments = (*a, *b.places, b.values, np.int32(bits), np.int32(room), np.int32(diagonal), *out)
        stages.launch(function, 1, arguments, 12 * room + (1 << bits))
        return
    staged = len(a.columns) > SHORT * a.size
    bits = max(5, math.ceil(math.log2(SLOTS * room)))
    function = kernel(ALONE, "make_staged" if staged else "make_alone", DTYPE)
    shared = 12 * room + (1 << bits) + (STAGED if staged else 0)
    stages.launch(function, 1, (*a, *b[:3], np.int32(bits), np.int32(room), *out), shared)


def room_for(columns: float) -> int:
    """Places for so many columns, a multiple of four."""
    return 4 * math.ceil(max(columns, 1.0) / 4.0)
