"""Transposes and mirror images of entries on a GPU, with the bits of `dsolver.kernels.cpu.amg.products`."""

import math
from collections.abc import Sequence
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import device_property, for_each, kernel
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.products.long_rows import sort_long
from dsolver.kernels.cuda.sparse.stages.stages import COUNTERS, WARP, Rooms, Stages
from dsolver.kernels.cuda.sparse.starts import add_up, starts_of, unfilled
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE

FILE, DTYPE = "sparse/products/mirrors.cu", "float64"
MOST_SORTED: Final = 4096  # entries of a row that shared memory holds, 12 bytes each
BLOCKS: Final = 8
"""Blocks of 256 threads for each multiprocessor where entries are ranked: with one for each entry of 55 million it took
0.91 ms in place of 0.72."""
LANES_OF_LOST: Final = 8  # lanes of a row in `fill_lost`, as in mirrors.cu


def transposed(a: Csr, columns: int) -> Csr:
    """Aᵀ of a matrix with so many columns: see `products.transposed`.

    Entries come to their rows in an order that chance has chosen, and are sorted there.
    """
    if not len(a.columns):
        return unfilled(cupy.zeros(columns + 1, dtype=np.int64), 0)
    stages = Stages(columns)
    out, finish = begun_transpose(a, columns, stages)
    finish()
    _sort_rest(out, a.size, out, stages)
    return out


def begun_transpose(a: Csr, columns: int, stages: Stages) -> tuple[Csr, Deferred[None]]:
    """Aᵀ of a matrix with entries: rows with their columns in any order, and what brings values and sorts.

    But for rows that the last of the stages leaves, which have yet to be sorted.
    """
    counts = cupy.zeros(columns, dtype=np.int32)
    ranks = rank(a.columns, counts)
    out = unfilled(starts_of(counts), len(a.columns))
    places = a.start, a.columns, ranks, out.start
    _by_rows("scatter_columns", a, (*places, out.columns))

    def finish() -> None:
        _by_rows("scatter_values", a, (*places, a.values, out.values))
        _sort_short(Rooms(*out), out, stages)

    return out, Deferred(finish)


def rank(columns: Array, counts: Array) -> Array:
    """The rank of each entry among those of its column, by chance: int32. Counts of columns are added to counts."""
    entries = len(columns)
    ranks, most = cupy.empty(entries, dtype=np.int32), BLOCKS * device_property("multiProcessorCount")
    for_each(FILE, "rank_entries", entries, columns, np.int64(entries), counts, ranks, most=most)
    return ranks


def ascending(a: Csr, columns: int) -> Csr:
    """The rows of a matrix with so many columns, with their columns ascending."""
    out = Csr(a.start, cupy.empty_like(a.columns), cupy.empty_like(a.values))
    if len(a.columns):
        _sort(a, columns, out)
    return out


def reordered(a: Csr, order: Array) -> Csr:
    """Rows in another order: int32, each of them once, and -1 for a row without entries.

    The host knows how many entries there are, so no number is waited for.
    """
    start = cupy.empty(len(order) + 1, dtype=np.int64)
    out = Csr(start, cupy.empty_like(a.columns), cupy.empty_like(a.values))
    for_each(FILE, "lengths_in_order", len(order), np.int32(len(order)), order, a.start, start[1:])
    add_up(start)
    _by_rows("reorder", out, (*a, order, *out))
    return out


def symmetrize(a: Csr, below: int = 0) -> None:
    """Replace entries below the diagonal by their mirror images, in place: see `products.symmetrize`."""
    _mirror(a, a.values, below, cupy.zeros(1, dtype=np.uint64))


def mirrored(a: Csr) -> tuple[Csr, int]:
    """Rows with columns ascending, entries below the diagonal replaced by their mirror images.

    What `products.mirrored` makes of a matrix whose entries all have mirror images.

    Returns:
        the rows, and the number of entries whose mirror image is not there, with which the rows are wrong.
    """
    out = Csr(a.start, cupy.empty_like(a.columns), cupy.empty_like(a.values))
    if not len(a.columns):
        return out, 0
    room = counters(COUNTERS // 2 + 1)  # rows that are too long, and missing images: read at once
    stages, wrong = Stages(a.size, room[:-1].view(np.int32)), room[-1:].view(np.uint64)
    _sort_short(Rooms(*a), out, stages)
    _mirror(out, out.values, 0, wrong)
    known = read_back(room)
    if not known[:-1].view(np.int32)[stages.last]:
        return out, int(known[-1])
    _sort(a, a.size, out)  # some were too long, and nothing that came after it is right
    wrong[:] = 0
    _mirror(out, out.values, 0, wrong)
    return out, int(wrong[0])


def fill_lost(coarse: Csr, below: int, r: Csr, diagonal: Any) -> None:
    """Replace coarse rows of which only rounding is left, in place: see `products.fill_lost`."""
    fill_lost_rooms(Rooms(*coarse), below, r, diagonal)


def fill_lost_rooms(coarse: Rooms, below: int, r: Csr, diagonal: Any) -> None:
    """`fill_lost` of rows in rooms, which may have entries from the diagonal on alone."""
    what = (*coarse[:3], *coarse.shape, np.int32(r.size), np.int32(below), *r, diagonal, np.float64(NEGLIGIBLE))
    for_each(FILE, "fill_lost", r.size, *what, lanes=LANES_OF_LOST)


def sort_rooms(rooms: Rooms, out: Csr) -> None:
    """Rows from rooms to their places, with columns ascending. No room is larger than `MOST_SORTED`."""
    if len(out.columns):
        _sort_short(rooms, out, Stages(out.size))


def all_lengths(pieces: Sequence[Rooms]) -> Array:
    """Lengths of the rows of all pieces, int64."""
    lengths = [rooms.lengths if rooms.room else cupy.diff(rooms.lengths) for rooms in pieces]
    return lengths[0] if len(lengths) == 1 else cupy.concatenate(lengths)


def by_rooms(name: str, width: int, first: int, rooms: Rooms, arrays: tuple[Any, ...], others: tuple[Any, ...]) -> None:
    """Launch a kernel that goes through rows in rooms, with so many threads a row."""
    sizes = map(np.int32, (rooms.size, width, first))
    for_each(FILE, name, rooms.size, *sizes, *arrays, *rooms.shape, *others, lanes=width)


def _mirror(a: Csr, out: Array, below: int, wrong: Array) -> None:
    """Mirrored values, perhaps in place; to wrong, uint64 (1,), the number of entries without images is added."""
    _by_rows("mirror", a, (*a, out, np.int32(below), wrong))


def _by_rows(name: str, a: Csr, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel that goes through the entries of a matrix, with some threads a row."""
    width = 4 if len(a.columns) <= 24 * a.size else 16
    for_each(FILE, name, a.size, np.int32(a.size), np.int32(width), *arguments, lanes=width)


def _sort(a: Csr, columns: int, out: Csr) -> None:
    """Rows of a with columns ascending, into a matrix of the same starts, which may be a."""
    stages = Stages(a.size)
    _sort_short(Rooms(*a), out, stages)
    _sort_rest(a, columns, out, stages)


def _sort_rest(a: Csr, columns: int, out: Csr, stages: Stages) -> None:
    """The rows that the stages have left."""
    if columns > MOST_SORTED:  # else no row is longer
        rows = stages.left()
        if len(rows):
            sort_long(rows, a, columns, out)


def _lanes(mean: float) -> int:
    """Lanes of a row that is sorted; mean: entries of a row."""
    return 4 if mean <= 12.0 else 8 if mean <= 48.0 else 16


def _sort_short(a: Rooms, out: Csr, stages: Stages) -> None:
    """The rows of the stages, of all but those that shared memory does not hold, which are left."""
    sort_stages("sort", out.mean, (*a.shape, out.start, a.columns, a.values), out, stages)


def sort_stages(name: str, mean: float, source: tuple[Any, ...], out: Csr, stages: Stages) -> None:
    """Launch the stages of kernels that sort rows of so many entries in the mean; source: their first arguments."""
    # Groups of a warp read 16 bytes of their rows together: with rooms of 32 k + 4 integers they meet in no bank.
    most = WARP * max(1, math.ceil((2.0 * mean - 3.0) / WARP)) + 4
    lanes = _lanes(mean)
    for width, room in [(lanes, most)] * (most < MOST_SORTED) + [(WARP, MOST_SORTED)]:
        stages.launch(kernel(FILE, f"{name}_{width}", DTYPE), width, (np.int32(room), *source, *out[1:]), 12 * room)
