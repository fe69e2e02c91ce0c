"""Copies of arrays to other places, on this GPU or from another one: all in one launch, where each would be a call.

Lists of a set-up are short: the host takes longer to ask for a copy than the GPU for the copy.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from dsolver.kernels.cuda.launch.loader import device_property, kernel
from dsolver.kernels.formats.layout import Array

FILE: Final = "peer/moves.cu"
THREADS: Final = 256
PIECES: Final = 16  # of a launch, as in moves.cu
BYTES: Final = 64 * THREADS  # that a block copies together
BLOCKS: Final = 8  # blocks for each multiprocessor, at most
_PIECES: Final = np.dtype([(name, "<u8", PIECES) for name in ("from", "to", "bytes")])


def move(parts: Sequence[tuple[Array, int]], *, back: bool = False) -> None:
    """Copy arrays to addresses, one each, or back from there, on the current stream."""
    for first in range(0, len(parts), PIECES):
        table = np.zeros((3, PIECES), dtype=np.uint64)  # addresses of arrays, the others, bytes
        some = [(part.data.ptr, address, part.nbytes) for part, address in parts[first : first + PIECES]]
        table[:, : len(some)] = np.array(some, dtype=np.uint64).T
        if back:
            table[:2] = table[1::-1].copy()
        blocks = min(-(-int(table[2].max()) // BYTES), BLOCKS * device_property("multiProcessorCount"))
        kernel(FILE, "move_pieces", "float64")((blocks, len(some)), (THREADS,), (table.reshape(-1).view(_PIECES),))
