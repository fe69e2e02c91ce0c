"""New values of products on a GPU, at places that are kept, with the bits of `dsolver.kernels.cpu.amg.products`.

A product is a value of B, a factor, and a place that takes a byte, or two where a row has more than 256 columns: no
kernel reads columns, searches, or waits for a number. Places are found when values are first wanted.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import Places
from dsolver.kernels.cuda.launch.loader import NOTHING, for_each, kernel
from dsolver.kernels.cuda.sparse.products import long_rows
from dsolver.kernels.cuda.sparse.products import product as scalar
from dsolver.kernels.cuda.sparse.products.tables import LONGEST
from dsolver.kernels.cuda.sparse.stages.stages import MOST_THREADS, WARP, Stages
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "sparse/places/products.cu", "float64"
COUNTING: Final = 8  # lanes of a row whose products are counted, as in products.cu
LEAST_BITS, MOST_BITS = 5, 10  # tables have 32 to 1024 slots, three quarters of which are used at most
MOST: Final = 3 << MOST_BITS >> 2  # most columns of a row
ROOM: Final = 24
"""Sums of a row for each of its lanes in shared memory: 6 KiB for a warp, of which a multiprocessor has room for 36."""
OF_ENTRY: Final = 12  # bytes of an entry: places take no more than the matrices


@dataclass(frozen=True, kw_only=True)
class _Found:
    """Places of the products of A B."""

    first: Array  # int64 (rows + 1,), where those of each row begin
    places: Array | None  # uint8 or uint16, of each product its entry in the row; None where that is too much
    lanes: int = WARP  # of a row
    room: int = 0  # columns of nearly all rows, at most
    longer: Array | None = None  # int32, rows that have more of them
    left: Array | None = None  # int32, rows that are too long for shared memory, ascending


def numeric(kept: Places, pattern: Csr, a: Csr, b: Csr, columns: int, *, ascending: bool = True) -> Csr:
    """A B again, of new values in the same places: see `products.numeric`; kept: of the pattern, by the first call."""
    found: _Found | None = kept.found
    if found is None:
        kept.found = found = _find(pattern, a, b)
    if found.places is None:
        return scalar.numeric(pattern, a, b, columns, ascending=ascending)
    out = pattern._replace(values=cupy.empty(len(pattern.columns)))
    _add(found, found.lanes, found.room, NOTHING, a.size, a, b, out)
    if found.longer is not None:
        _add(found, WARP, MOST, found.longer, len(found.longer), a, b, out)
    if found.left is not None:
        long_rows.fill(found.left, a, b, columns, out, ascending=ascending)
    return out


def _add(found: _Found, lanes: int, most: int, rows: Any, count: int, a: Csr, b: Csr, out: Csr) -> None:
    assert found.places is not None
    function = kernel(FILE, f"add_{lanes}_{found.places.itemsize}", DTYPE)
    limits = np.int32(most), np.int64(LONGEST)
    arguments = (rows, np.int32(count), *a, b.start, b.values, *limits, out.start, found.first, found.places)
    grid = (-(-count * lanes // MOST_THREADS),)
    function(grid, (MOST_THREADS,), (*arguments, out.values), shared_mem=8 * most * MOST_THREADS // lanes)


def _find(pattern: Csr, a: Csr, b: Csr) -> _Found:
    """Places of all products. It waits for the device."""
    first = starts_of(_counts(a, b))
    lengths = cupy.diff(pattern.start)
    terms, longest = int(first[-1]), int(lengths.max()) if a.size else 0
    number = np.uint8 if min(longest, MOST) <= 256 else np.uint16
    entries = len(a.columns) + len(b.columns) + len(pattern.columns)
    if not terms or terms * np.dtype(number).itemsize > OF_ENTRY * entries:
        return _Found(first=first[:1], places=None)
    mean = pattern.mean
    lanes = _lanes(b.mean)
    while lanes < WARP and mean > ROOM // 2 * lanes:
        lanes *= 2
    places, stages = cupy.empty(terms, dtype=number), Stages(a.size)
    bits = min(max(math.ceil(math.log2(1.5 * max(mean, 1.0))), LEAST_BITS), MOST_BITS)
    for width, size in ((lanes, bits), (WARP, MOST_BITS)):
        limits = np.int32(size), np.int32(3 << size >> 2), np.int64(LONGEST)
        arguments = (*a[:2], *b[:2], *limits, *pattern[:2], first, places)
        stages.launch(kernel(FILE, f"place_{width}_{places.itemsize}", DTYPE), width, arguments, 6 << size)
    room, left = min(longest, ROOM * lanes), stages.left()
    # Rows of A that are too long are in no list of the kernels, which leave them.
    longer = cupy.flatnonzero((lengths > room) & (lengths <= MOST)).astype(np.int32) if longest > room else ()
    return _Found(
        first=first,
        places=places,
        lanes=lanes,
        room=room,
        longer=longer if len(longer) else None,
        left=left if len(left) else None,
    )


def _counts(a: Csr, b: Csr) -> Array:
    """int64, numbers of products of the rows of A B."""
    counts = cupy.empty(a.size, dtype=np.int64)
    for_each(FILE, "count_products", a.size, np.int32(a.size), *a[:2], b.start, counts, lanes=COUNTING)
    return counts


def _lanes(mean: float) -> int:
    """Lanes of a row; mean: entries of a row of B."""
    return 4 if mean <= 4.5 else 8 if mean <= 12.0 else 16 if mean <= 16.0 else WARP
