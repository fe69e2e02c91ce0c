"""Coarse points by a parallel maximal independent set on a GPU: the same ones as on the host."""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg.pmis import SALT
from dsolver.kernels.cuda.amg.couplings import lanes_of
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.cuda.launch.told import counters, told
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/pmis.cu", "float64"
THREADS: Final = 256
BLOCKS: Final = 8
"""Blocks of a round for each multiprocessor: as many as run at once, so that few of them add to a counter."""
ROUNDS: Final = 12
"""Rounds between two looks at how many points are left: most levels need so many, and one without work takes 3 us."""
SLOTS: Final = 4
"""Rounds whose counts are kept, as in pmis.cu."""


def keys(counts: Array, origin: Array, level: int) -> Array:
    """See `dsolver.kernels.amg.pmis.keys`: in one launch, where CuPy would need a dozen."""
    points = len(counts)
    made = cupy.empty(points, dtype=np.uint64)
    if points:
        arguments = (counts, origin, np.uint64(level * SALT % 2**64), np.int64(points), made)
        kernel(FILE, "make_keys", DTYPE)((-(-points // THREADS),), (THREADS,), arguments)
    return made


def settle(a: Csr, below: int, bits: Array, key: Array, origin: Array, state: Array) -> int:
    """See `dsolver.kernels.amg.pmis.settle`. It waits after every few rounds."""
    if not a.size:
        return 0
    lanes = lanes_of(a)
    round_of = kernel(FILE, f"settle_{lanes}", DTYPE)
    grid = (min(-(-a.size * lanes // THREADS), BLOCKS * device_property("multiProcessorCount")),)
    lists, counts = cupy.empty((2, a.size), dtype=np.int32), counters(SLOTS // 2).view(np.int32)
    rows: tuple[Any, ...] = (
        a.start,
        a.columns,
        bits,
        key,
        origin,
        state,
        np.int32(below),
        lists,
        counts,
        np.int32(a.size),
    )
    number = 0
    while True:
        for _ in range(ROUNDS):
            round_of(grid, (THREADS,), (*rows, np.int32(number)))
            number += 1
        left = told(counts)
        before, last = (int(left[(number - back) % SLOTS]) for back in (2, 1))
        if last in (0, before):
            return last
