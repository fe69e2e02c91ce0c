"""Products of sparse matrices on a GPU, with the bits of `dsolver.kernels.cpu.amg.products`."""

import math
from typing import Final, NamedTuple, Self

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.loader import for_each, kernel
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.products import long_rows
from dsolver.kernels.cuda.sparse.products.alone.alone import launch_alone, room_for, suits
from dsolver.kernels.cuda.sparse.products.expected_columns import EVERY, Expected, expected_of, sampled_of
from dsolver.kernels.cuda.sparse.products.mirrors import sort_rooms
from dsolver.kernels.cuda.sparse.products.tables import COUNTED, LEAST_BITS, MOST_BITS, SUMMED, Tables, tables_of
from dsolver.kernels.cuda.sparse.stages.stages import COUNTERS, WARP, Rooms, Stages
from dsolver.kernels.cuda.sparse.starts import starts_of, unfilled, without_rows
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "sparse/products/product.cu", "float64"
MOST_ROOM: Final = 1 << 28
"""Entries for which there is room before the rows' lengths are known, 3 GiB; rooms that are not moved may have as many
as A has. Larger products are counted first, or made in pieces where that is possible (`galerkin._in_pieces`)."""
SNUG: Final = 7 * MOST_ROOM // 8  # entries of all rooms up to which larger ones may be more than the least
OVERLAP: Final = 1.25
"""Rows of A P that a piece of the rows of R A P reads, over its part of all, about: neighbors of other pieces' rows."""
LARGER: Final = ((16, 16), (16, 8), (32, 16), (32, 8), (32, 4))
"""Rows for each larger room, and times that this is as large as a row's own: the first of these for which `SPARE`
entries suffice, and `SNUG` with the rows' own rooms, else the last. Beside thin layers one of 22 rows needed a larger
room, elsewhere one of 100, 13 times as large as its own."""
SPARE: Final = 1 << 26  # entries of larger rooms, 0.8 GB
FEW: Final = 1 << 23
"""Entries of larger rooms up to which each row may have one; in larger products some of them, see `LARGER`."""
HOMELESS: Final = 64
"""One of so many rows at most may find no room at all where rows are made in rooms: it is made by a block then."""
MANY_TERMS: Final = 1 << 13
"""Products of numbers in a row, in the mean, from which on rows of large products are made by blocks: 15,000 took 0.75
of the time of tables, 6,000 as long, and 1,200 1.7 times as long."""
LONG: Final = 1 << 17  # rows of a product from which on a host has time for other work while it waits for their lengths
EMPTY: Final = 0.25
"""Part of the sampled rows of A B, and of all rows of A, without entries from which on these are left out first."""


def product(a: Csr, b: Csr, columns: int, *, ascending: bool = True) -> Csr:
    """A B, where B has so many columns and no column twice in a row: see `products.product`."""
    if not a.size:
        return without_rows()
    expected = expected_of(a, Rooms(*b), b.mean)
    if expected.empty > EMPTY and (kept := _FilledRows.of(a)):
        return kept.spread(product(kept.rows(a), b, columns, ascending=ascending))
    many = not expected.ample and len(a.columns) * b.mean > MANY_TERMS * a.size
    if many and ascending and columns <= long_rows.RANGE:
        return _by_blocks(a, b, columns)
    made = _of_even_rows(a, b, columns, expected, ascending) if expected.even else None
    return _in_stages(a, b, columns, expected, ascending) if made is None else made


def _in_stages(a: Csr, b: Csr, columns: int, expected: Expected, ascending: bool) -> Csr:
    """A B by larger and larger tables: rows that found no room are counted, and made again."""
    room = counters(1 + COUNTERS // 2)  # the number of entries, and rows that were passed on: read at once
    lengths, stages = cupy.empty(a.size, dtype=np.int64), Stages(a.size, room[1:].view(np.int32))
    rooms = None
    if expected.most * a.size <= MOST_ROOM:
        rooms = rooms_of(a, b, b.mean, expected, ascending, stages, lengths)
    if rooms is None or not expected.ample:
        _count(a, b, expected.mean, stages, lengths)
    start, entries, passed = _starts(lengths, room)
    if passed[0] and stages.number == 1:
        _count(a, b, expected.mean, stages, lengths)
        start, entries, passed = _starts(lengths, room)
    left = stages.left() if passed[stages.last] else None
    out = _with_long_rows(start, entries, left, a, b, columns)
    if rooms is None:
        _fill(a, b, out, Stages(a.size), sampled_of(out).slots, ascending=ascending)
    else:
        move(rooms, entries / a.size, out)
        if passed[0]:
            _fill(a, b, out, stages.again(), sampled_of(out).slots, ascending=ascending)
    if left is not None:
        long_rows.fill(left, a, b, columns, out, ascending=ascending)
    return out


def _of_even_rows(a: Csr, b: Csr, columns: int, expected: Expected, ascending: bool) -> Csr | None:
    """A B by rooms for all rows but a few; None if there are more without one."""
    room = counters(1 + COUNTERS // 2)
    stages = Stages(a.size, room[1:].view(np.int32))
    rooms = in_rooms(a, Rooms(*b), b.mean, expected, stages)
    if rooms is None:
        return None
    start, entries, passed = _starts(rooms.lengths, room)
    if int(passed[stages.last]) * HOMELESS > a.size:
        return None
    left = stages.left() if passed[stages.last] else None
    out = _with_long_rows(start, entries, left, a, b, columns)
    if left is not None:
        rooms.columns[left.astype(np.int64) * rooms.room] = 0  # a room to be read, for what is overwritten below
    if ascending:
        sort_rooms(rooms, out)
    else:
        move(rooms, expected.mean, out)
    if left is not None:
        long_rows.fill(left, a, b, columns, out, ascending=ascending)
    return out


def _by_blocks(a: Csr, b: Csr, columns: int) -> Csr:
    """A B of which all rows are long, each by a block, with columns ascending."""
    rows = cupy.arange(a.size, dtype=np.int32)
    out = _with_long_rows(cupy.zeros(a.size + 1, dtype=np.int64), 0, rows, a, b, columns)
    long_rows.fill(rows, a, b, columns, out, ascending=True)
    return out


def _with_long_rows(start: Array, entries: int, left: Array | None, a: Csr, b: Csr, columns: int) -> Csr:
    """A matrix for A B, whose rows begin at `start` as long as those that are left have no entries."""
    if left is not None:
        lengths = cupy.diff(start)
        lengths[left] = long_rows.count(left, a, b, columns)
        start = starts_of(lengths)
        entries = int(start[-1])
    return unfilled(start, entries)


class _FilledRows:
    """Rows of a matrix that have entries (flags, ascending numbers): nothing is made of the others."""

    def __init__(self, flags: Array, numbers: Array) -> None:
        self._flags, self._numbers = flags, numbers

    @classmethod
    def of(cls, a: Csr) -> Self | None:
        """Rows of A that have entries; None where nearly all of them have some, or none. It waits."""
        flags = a.start[1:] > a.start[:-1]
        numbers = cupy.flatnonzero(flags)
        return cls(flags, numbers) if 0 < len(numbers) < (1.0 - EMPTY) * a.size else None

    def rows(self, matrix: Csr) -> Csr:
        """These rows of a matrix that has no entries in others, in its memory."""
        return matrix._replace(start=cupy.append(matrix.start[self._numbers], matrix.start[-1:]))

    def spread(self, matrix: Csr) -> Csr:
        """All rows, of these."""
        return matrix._replace(start=matrix.start[starts_of(self._flags.view(np.int8))])


def numeric(pattern: Csr, a: Csr, b: Csr, columns: int, *, ascending: bool = True) -> Csr:
    """A B again, of matrices with new values in the same places: half of the work of `product`.

    `pattern`: what `product` has made of A and B before, with the same order of columns; its values are not read.
    """
    out = pattern._replace(values=cupy.empty(len(pattern.columns)))
    if a.size:
        stages, expected = Stages(a.size), sampled_of(out)
        if expected.empty > EMPTY and (kept := _FilledRows.of(a)):
            made = numeric(kept.rows(pattern), kept.rows(a), b, columns, ascending=ascending)
            return pattern._replace(values=made.values)
        rows = _fill(a, b, out, stages, expected.slots, ascending=ascending).left()
        if len(rows):
            long_rows.fill(rows, a, b, columns, out, ascending=ascending)
    return out


def _starts(lengths: Array, room: Array) -> tuple[Array, int, npt.NDArray[np.int32]]:
    """Begins of rows, the number of entries, and how many rows each stage has passed on. It waits for the device."""
    start = starts_of(lengths, room)
    known = read_back(room, long_wait=len(lengths) >= LONG)
    return start, int(known[0]), known[1:].view(np.int32)


def rooms_of(a: Csr, b: Csr, mean: float, expected: Expected, ascending: bool, stages: Stages, lengths: Array) -> Rooms:
    """Columns and values of rows of A B in rooms, and lengths, of those with room; mean: entries of a row of B."""
    tables = tables_of(expected.slots, mean)[0]
    most = tables.most if expected.ample else min(max(4 * math.ceil(expected.most / 4.0), 16), tables.most)
    made = Rooms(*unfilled(lengths, a.size * most), most)
    _make(a, Rooms(*b), made, tables._replace(most=most), stages, ascending=ascending)
    return made


def in_rooms(a: Csr, b: Rooms, mean: float, expected: Expected, stages: Stages, diagonal: int = EVERY) -> Rooms | None:
    """Rows of A B in rooms, in the order in which columns are found; None where these would be too large.

    Rows for which there is no room are passed on by the second stage, too.

    `diagonal`: the column of the first row's diagonal, where columns from the diagonal on are wanted alone.
    """
    shape = _shape(a, b, mean, expected)
    room, second, entries = shape.room, shape.second, shape.entries
    if entries > max(MOST_ROOM, len(a.columns)):
        return None
    made = Rooms(*unfilled(cupy.empty(a.size, dtype=np.int64), entries), room, second.most)
    if shape.alone:
        launch_alone(a, b, room, stages, made[:3], diagonal)
    else:
        _make(a, b, made, shape.first._replace(most=room), stages, diagonal=diagonal)
    _make(a, b, made, second, stages, diagonal=diagonal)
    return made


def pieces_of(a: Csr, b: Rooms, mean: float, expected: Expected) -> int:
    """Number of pieces of A's rows, as large as each other, that `in_rooms` takes one by one; arguments as there."""
    entries = _shape(a, b, mean, expected).entries
    return 1 if entries <= max(MOST_ROOM, len(a.columns)) else math.ceil(OVERLAP * entries / max(1, MOST_ROOM))


class _Shape(NamedTuple):
    """Rooms of the rows of a product."""

    alone: bool  # whether the first stage has a thread for each row
    room: int  # entries of each row's own room
    first: Tables  # tables of the first stage, if it has groups of lanes
    second: Tables  # of the second one, whose rows have larger rooms
    entries: int  # of all rooms


def _shape(a: Csr, b: Rooms, mean: float, expected: Expected) -> _Shape:
    """Rooms of `in_rooms`, whose arguments these are."""
    room = room_for(expected.usual)
    alone = suits(a, b, room)
    tables = tables_of(expected.slots, mean)[0]
    room = room if alone else 4 * min(math.ceil(expected.most / 4.0), tables.most // 4)
    second, larger = _larger(a.size, room)
    return _Shape(alone, room, tables, second, a.size * room + larger)


def _larger(rows: int, room: int) -> tuple[Tables, int]:
    """Tables of the stage whose rows have larger rooms, and the entries of these; room: of each row's own."""
    for part, times in LARGER:
        second = Tables.of(WARP, min(max(math.ceil(math.log2(times * room)), LEAST_BITS), MOST_BITS))
        entries = (rows if rows * second.most <= FEW else rows // part) * second.most
        if entries <= min(SPARE, SNUG - rows * room):
            break
    return second, entries


def _make(
    a: Csr, b: Rooms, made: Rooms, tables: Tables, stages: Stages, *, ascending: bool = False, diagonal: int = EVERY
) -> None:
    """Launch the next stage, by groups of lanes."""
    what = (*tables.limits, np.int32(ascending), *made.shape, np.int32(diagonal), *made[:3])
    function = kernel(FILE, f"make_{tables.lanes}", DTYPE)
    stages.launch(function, tables.lanes, (*a, *b.places, b.values, *what), SUMMED << tables.bits)


def move(rooms: Rooms, mean: float, out: Csr) -> None:
    """Rows from their rooms to their places, of all that have one; mean: entries of a row, about."""
    width = 4 if mean <= 16.0 else 8 if mean <= 48.0 else 16
    sizes = np.int32(out.size), np.int32(width)
    for_each(FILE, "move_rows", out.size, *sizes, *rooms.shape, *rooms[1:3], *out, lanes=width)


def _count(a: Csr, b: Csr, guess: float, stages: Stages, lengths: Array) -> None:
    """Lengths of the rows of A B that the stages have not done yet, of all but those that are left."""
    for tables in tables_of(2.0 * guess, b.mean, stages.number):
        function = kernel(FILE, f"count_{tables.lanes}", DTYPE)
        matrices = (a.start, a.columns, *Rooms(*b).places)
        stages.launch(function, tables.lanes, (*matrices, *tables.limits, lengths), COUNTED << tables.bits)


def _fill(a: Csr, b: Csr, out: Csr, stages: Stages, slots: float, *, ascending: bool) -> Stages:
    """Columns and values of the stages' rows of A B, whose starts are known, of all but those that are left."""
    for tables in tables_of(slots, b.mean, stages.number):
        function = kernel(FILE, f"fill_{tables.lanes}", DTYPE)
        arguments = (*a, *Rooms(*b).places, b.values, *tables.limits, np.int32(ascending), *out)
        stages.launch(function, tables.lanes, arguments, SUMMED << tables.bits)
    return stages
