"""Coarse points by a parallel maximal independent set on a GPU: the same ones as on the host."""

from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.cpu.amg.pmis import SALT
from dsolver.kernels.cuda.amg.couplings import lanes_of
from dsolver.kernels.cuda.amg.points import coarse_before
from dsolver.kernels.cuda.launch.loader import THREADS, device_property, for_each, kernel
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/pmis.cu", "float64"
BLOCKS: Final = 8
"""Blocks of a round for each multiprocessor: as many as run at once, so that few of them add to a counter."""
ROUNDS: Final = (5, 10)
"""Rounds in turn, of `FEW` points and of more: most levels need no more. A round for which no point is left takes
2 us, and the host some more."""
AGAIN: Final = 2  # rounds where others have decided points that these depend on
FEW: Final = 50_000
SLOTS: Final = 4  # rounds whose counts are kept, as in pmis.cu


class Settling(NamedTuple):
    """Points that some rounds have left undecided."""

    lists: Array  # int32 (2, points)
    # int64 (1 + SLOTS,): room for the number of coarse points, and behind it, int32, of the last rounds how many points
    # each has left, and which list has them.
    found: Array
    rounds: int

    @property
    def counts(self) -> Array:
        """The numbers of the rounds, int32 (2 SLOTS,)."""
        return self.found[1:].view(np.int32)


def begun(counts: Array, origin: Array, level: int, lone: int) -> tuple[Array, Array]:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.begun`: in one launch, where CuPy would need a dozen."""
    points = len(counts)
    key, state = cupy.empty(points, dtype=np.uint64), cupy.empty(points, dtype=np.int8)
    numbers = np.uint64(level * SALT % 2**64), np.int32(lone), np.int64(points)
    for_each(FILE, "begin", points, counts, origin, *numbers, key, state)
    return key, state


def settled(
    a: Csr, below: int, bits: Array, key: Array, origin: Array, state: Array, before: Settling | None = None
) -> Settling:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.settled`: a few rounds, for nothing of which it waits.

    before: what was left where some have been made, and others have decided points since.
    """
    left = before or Settling(cupy.empty((2, a.size), dtype=np.int32), counters(1 + SLOTS), 0)
    more = AGAIN if before else ROUNDS[a.size > FEW]
    if a.size:
        lanes = lanes_of(a)
        round_of = kernel(FILE, f"settle_{lanes}", DTYPE)
        grid = (min(-(-a.size * lanes // THREADS), BLOCKS * device_property("multiProcessorCount")),)
        lists = left.lists, left.counts, np.int32(a.size)
        rows: tuple[Any, ...] = (a.start, a.columns, bits, key, origin, state, np.int32(below), *lists)
        for number in range(left.rounds, left.rounds + more):
            round_of(grid, (THREADS,), (*rows, np.int32(number), np.int32(number == left.rounds)))
    return left._replace(rounds=left.rounds + more)


def counted(states: Array, left: Settling) -> tuple[int, int, Array]:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.counted`. It waits."""
    before = coarse_before(states, left.found)
    found = read_back(left.found)
    return int(found[1:].view(np.int32)[(left.rounds - 1) % SLOTS]), int(found[0]), before
