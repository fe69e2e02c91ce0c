"""Strong couplings of a chunk's rows on a GPU: the bits of `dsolver.kernels.cpu.amg.setup.AmgKernels`."""

from collections.abc import Callable
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import Counted, uncounted
from dsolver.kernels.cuda.launch.loader import for_each, kernel
from dsolver.kernels.cuda.launch.readback import Asked, counters
from dsolver.kernels.cuda.sparse.starts import add_up, unfilled
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/couplings.cu", "float64"
THREADS, TILE = 256, 2048  # threads of a block, and entries that it has in shared memory at once, as in couplings.cu
LANES: Final = (1, 2, 4, 8, 16, 32)  # lanes of a row that there are kernels for
LOOSE: Final = 1 << 22  # entries of A for all of which there is room before it is known how many are wanted: 50 MB
OF_LANE: Final = 8
"""Entries of a lane at most, on average: it has 4 at a time. With twice as many lanes, coarse points of 256³ rows of 7
entries took 1.2 times as long on an H200, with four times as many twice as long."""


def row_measures(a: Csr, below: int) -> tuple[Array, Array, Array]:
    largest, diagonal, share = (cupy.empty(a.size) for _ in range(3))
    if a.size:
        fitting = int(TILE / max(1.0, a.mean))  # rows whose entries make a tile
        of_block = min(THREADS, max(8, 1 << fitting.bit_length() - 1)) if fitting else 8
        numbers = (np.int32(a.size), np.int32(below), np.int32(of_block))
        grid = (-(-a.size // of_block),)
        kernel(FILE, "measure", DTYPE)(grid, (THREADS,), (*a, *numbers, largest, diagonal, share))
    return largest, diagonal, share


def couplings(a: Csr, below: int, largest: Array, theta: float) -> tuple[Array, Array]:
    bits, counts = cupy.empty(len(a.columns), dtype=np.uint8), cupy.empty(a.size, dtype=np.int64)
    arguments = (*a, np.int32(a.size), np.int32(below), largest, np.float64(theta), bits, counts)
    _launch("couple", a, arguments)
    return bits, counts


def coarse_couplings(
    a: Csr,
    bits: Array,
    state: Array,
    below: int,
    names: Callable[[], Any],
    counted: Counted = uncounted,
    *,
    every: bool = False,
    loose: bool = False,
) -> Csr:
    """See `dsolver.kernels.cpu.amg.extended_interpolation.coarse_couplings`.

    It waits for the number of entries, unless that of A is small and arrays may be longer (`loose`).
    """
    start, entries = cupy.empty(a.size + 1, dtype=np.int64), len(a.columns)
    rows = (a.start, a.columns, bits, state, np.int32(a.size), np.int32(below), np.int32(every))
    _launch("count_coarse", a, (*rows, start[1:]))
    if loose and entries <= LOOSE:
        add_up(start)
        counted(start)
        found = names()
    else:
        total = counters(1)
        add_up(start, total)
        asked = Asked(total)
        counted(start)
        found, entries = names(), int(asked()[0])
    out = unfilled(start, entries)
    if entries:
        _launch("fill_coarse", a, (*rows, a.values, found, *out))
    return out


def lanes_of(a: Csr) -> int:
    """Lanes of a row: as few as read what lies together, for the more rows are under way."""
    mean = a.mean
    return next((lanes for lanes in LANES if OF_LANE * lanes >= mean), LANES[-1])


def _launch(name: str, a: Csr, arguments: tuple[Any, ...]) -> None:
    lanes = lanes_of(a)
    for_each(FILE, f"{name}_{lanes}", a.size, *arguments, lanes=lanes)
