"""Q and R of aggregates on a GPU: the bits of `dsolver.kernels.cpu.amg.aggregation.tentative`."""

from typing import Final

import cupy
import numpy as np

from dsolver.kernels.cpu.amg.aggregation.tentative import DEPENDENT
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/aggregation/tentative.cu", "float64"
WARP: Final = 32
ROOMS: Final = ((384, 4), (768, 4), (1536, 4), (3072, 2), (6144, 1))
"""Doubles of a warp's shared memory, that for 32 terms included, and warps of a block, which has 48 KB at most."""
AMPLE: Final = 2.0  # room over what the mean aggregate needs: larger ones are where they are, which is slow


def blocks_of_nodes(start: Array, order: Array, near: Array, vectors: int) -> tuple[Array, Array]:
    """See `dsolver.kernels.cpu.amg.aggregation.tentative.blocks_of_nodes`; order: int32."""
    aggregates = len(start) - 1
    q, r = cupy.empty_like(near), cupy.zeros((aggregates * vectors, vectors))
    if aggregates:
        wanted = AMPLE * near.size / aggregates + WARP
        room, warps = next((pair for pair in ROOMS if pair[0] >= wanted), ROOMS[-1])
        numbers = map(np.int32, (aggregates, near.shape[1] // vectors, vectors, room))
        grid, threads = (-(-aggregates // warps),), (warps * WARP,)
        arguments = (start, order, near, *numbers, np.float64(DEPENDENT), q, r)
        kernel(FILE, "make_blocks", DTYPE)(grid, threads, arguments, shared_mem=8 * room * warps)
    return q, r
