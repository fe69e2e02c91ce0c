"""Columns of the rows of a product before they are known: guessed, or by those of some rows."""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import device_property, kernel
from dsolver.kernels.cuda.launch.readback import Sent, read_back
from dsolver.kernels.cuda.sparse.products.tables import COUNTED, LONGEST, MOST_BITS, SUMMED, Tables
from dsolver.kernels.cuda.sparse.stages.stages import WARP, Rooms
from dsolver.kernels.formats.csr import Csr

FILE, DTYPE = "sparse/products/product.cu", "float64"
EVERY: Final = -(1 << 30)
"""A diagonal before all columns, for products of which every column is wanted, as in product.cu."""
BLOCK: Final = 256  # threads of a block that counts a sampled row by itself
OF_BLOCK: Final = 13  # bits of its table
LARGE: Final = 1 << 23  # columns of all rows, about, from which on some rows are counted first
SAMPLES: Final = 512  # rows that are counted
AMPLE: Final = 3.0
"""Slots of tables of small products for each column that is guessed: rows had up to 2.2 times as many in a set-up.
Where not all rows would be under way at once, or each would need a block, tables have half of them."""
SHARED: Final = "sharedMemPerMultiprocessor"
TIGHT: Final = 0.9
"""Columns of nearly all rows of small products for each column that is guessed: rows of set-ups had up to 0.8."""
HALF: Final = 0.7  # columns from the diagonal on, as a part of all: half in the mean, and all in the first rows
NEARLY: Final = 0.985  # part of the rows for whose columns there is room in their own rooms, where a thread makes them
EVEN: Final = 1.0 - 1.0 / 32.0  # part of the rows that need no larger room, of which there is one for 16 rows or 32
USUAL: Final = 0.9  # part of the rows whose columns there is room for
LONGER: Final = 1.5
"""Columns that there is room for as parts of those of usual rows, where all samples fit into a table."""


class Expected(NamedTuple):
    """Columns of rows of A B, and slots of a table for them."""

    mean: float  # columns in the mean
    usual: float  # of nearly all rows, at most
    most: float  # as a rule, at most
    slots: float  # for these
    # whether hardly a row will have more, so that no kernel counts those of rows for which there is no room before it
    # is known that there are some.
    ample: bool = False
    even: bool = False  # whether some rows were counted, and nearly all of them have `most` columns at most
    empty: float = 0.0  # the part of those that have none


def expecting(a: Csr, b: Rooms, mean: float, diagonal: int = EVERY, *, sampled: bool = False) -> Callable[[], Expected]:
    """Columns of rows of A B, before they are known, to be called for: of large products, some rows are counted first.

    mean: entries of a row of B. diagonal: as of `in_rooms`. sampled: whether rows are counted in any case.

    Of n products about n^0.8 have columns of their own at most in a set-up: 28 have 16 and 340 have 58. The square of a
    7-point matrix has 25 of 49, though, and columns at random have nearly all.
    """
    ample = ample_of(a.size, a.mean * mean, half=diagonal != EVERY)
    if ample and not sampled:
        return lambda: ample
    tables, found = Tables.of(BLOCK, OF_BLOCK, 4 * LONGEST), cupy.empty(SAMPLES, dtype=np.int32)
    arguments = (np.int32(a.size), a.start, a.columns, *b.places, *tables.limits, np.int32(diagonal), found)
    kernel(FILE, "count_some", DTYPE)((SAMPLES,), (BLOCK,), arguments, shared_mem=COUNTED << tables.bits)
    sent = Sent(found)
    return lambda: _of_samples(sent())


def expected_of(a: Csr, b: Rooms, mean: float, diagonal: int = EVERY, *, sampled: bool = False) -> Expected:
    """Columns of rows of A B: see `expecting`. It waits."""
    return expecting(a, b, mean, diagonal, sampled=sampled)()


def ample_of(rows: int, terms: float, *, half: bool = False) -> Expected | None:
    """Columns of rows with so many products on average, ample for nearly all of them; None where they are many.

    half: whether only those from the diagonal on are wanted.
    """
    guess = terms**0.8
    if guess * rows >= LARGE:
        return None
    guess *= HALF if half else 1.0
    slots = AMPLE * guess
    together = device_property("multiProcessorCount") * device_property(SHARED)
    if rows * SUMMED * slots > together or slots > 1 << MOST_BITS:
        slots /= 2.0
    return Expected(guess, TIGHT * guess, 0.75 * slots, slots, ample=True)


def _of_samples(found: Any) -> Expected:
    """Columns of all rows, by those of some: int (samples,).

    In Python, which takes less time than NumPy behind a wait, when caches are cold: 47 us in place of 78.
    """
    ascending = sorted(found.tolist())
    count, usual = len(ascending), float(ascending[int(USUAL * len(ascending))])
    most = min(float(ascending[-1]), LONGER * usual)
    if most / 0.75 > 1 << MOST_BITS:
        most = usual
    nearly, even = float(ascending[int(NEARLY * count)]), ascending[int(EVEN * count)] <= most
    empty = bisect_right(ascending, 0) / count
    return Expected(sum(ascending) / count, nearly, most, most / 0.75, even=even, empty=empty)


def sampled_of(out: Csr) -> Expected:
    """Columns of rows whose lengths are known; of large matrices, by those of some."""
    if len(out.columns) < LARGE:
        return Expected(out.mean, out.mean, out.mean, 1.7 * out.mean)
    found = cupy.empty(SAMPLES, dtype=np.int32)
    kernel(FILE, "lengths_of_some", DTYPE)((SAMPLES // WARP,), (WARP,), (np.int32(out.size), out.start, found))
    return _of_samples(read_back(found))
