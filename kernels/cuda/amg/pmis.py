"""Coarse points by a parallel maximal independent set on a GPU: the same ones as on the host."""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cpu.amg.pmis import SALT
from dsolver.kernels.cuda.amg.couplings import lanes_of
from dsolver.kernels.cuda.amg.points import coarse_before
from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/pmis.cu", "float64"
THREADS: Final = 256
BLOCKS: Final = 8
"""Blocks of a round for each multiprocessor: as many as run at once, so that few of them add to a counter."""
ROUNDS: Final = (5, 10)
"""Rounds between two looks at how many points are left, of `FEW` points and of more: most levels need no more. A look
counts coarse points, and a round for which no point is left takes 2 us."""
FEW: Final = 50_000
SLOTS: Final = 4
"""Rounds whose counts are kept, as in pmis.cu."""


def begun(counts: Array, origin: Array, level: int, lone: int) -> tuple[Array, Array]:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.begun`: in one launch, where CuPy would need a dozen."""
    points = len(counts)
    key, state = cupy.empty(points, dtype=np.uint64), cupy.empty(points, dtype=np.int8)
    if points:
        arguments = (counts, origin, np.uint64(level * SALT % 2**64), np.int32(lone), np.int64(points), key, state)
        kernel(FILE, "begin", DTYPE)((-(-points // THREADS),), (THREADS,), arguments)
    return key, state


def settled(a: Csr, below: int, bits: Array, key: Array, origin: Array, state: Array) -> tuple[int, Array, int]:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.settled`. It waits after every few rounds."""
    if not a.size:
        return 0, cupy.zeros(1, dtype=np.int64), 0
    lanes = lanes_of(a)
    round_of = kernel(FILE, f"settle_{lanes}", DTYPE)
    grid = (min(-(-a.size * lanes // THREADS), BLOCKS * device_property("multiProcessorCount")),)
    lists, room = cupy.empty((2, a.size), dtype=np.int32), counters(1 + SLOTS // 2)  # coarse points, and those left
    rows: tuple[Any, ...] = (
        a.start,
        a.columns,
        bits,
        key,
        origin,
        state,
        np.int32(below),
        lists,
        room[1:].view(np.int32),
        np.int32(a.size),
    )
    number, rounds = 0, ROUNDS[a.size > FEW]
    while True:
        for _ in range(rounds):
            round_of(grid, (THREADS,), (*rows, np.int32(number)))
            number += 1
        before = coarse_before(state[below : below + a.size], room)  # as if all were decided, which is so as a rule
        known = read_back(room)
        left = known[1:].view(np.int32)
        earlier, last = (int(left[(number - back) % SLOTS]) for back in (2, 1))
        if last in (0, earlier):
            return last, before, int(known[0])
