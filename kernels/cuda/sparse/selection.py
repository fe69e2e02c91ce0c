"""Some rows of a matrix, with their entries in some columns, on a GPU: see `dsolver.kernels.cpu.amg.selection`.

And rows in two parts, as `dsolver.kernels.general.rows.split` has them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import EVERY
from dsolver.kernels.cuda.launch.loader import THREADS, device_property, for_each, kernel, type_of
from dsolver.kernels.cuda.launch.readback import Asked, Sent, counters
from dsolver.kernels.cuda.sparse.starts import running_sums, starts_of, unfilled
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.general.rows import SplitRows, whole

FILE: Final = "sparse/selection.cu"
LANES: Final = 8  # lanes that share a row, as in selection.cu
BLOCKS: Final = 4  # blocks of a piece for each multiprocessor
PartSizes = tuple[Array, Asked]  # running sums of entries and rows of the parts, and the numbers of all


def selected(a: Csr, rows: Array | None = None, columns: tuple[int, int] = EVERY) -> Csr:
    """See `dsolver.kernels.cpu.amg.selection.selected`. It waits once, for the number of entries."""
    return begun_selection(a, rows, columns)()


def begun_selection(a: Csr, rows: Array | None = None, columns: tuple[int, int] = EVERY) -> Deferred[Csr]:
    """`selected`, which waits when it is called."""
    if rows is not None and columns == EVERY:
        return Deferred(partial(begun_rows(a.start, rows), a))
    count = a.size if rows is None else len(rows)
    lengths, total = cupy.empty(count, dtype=np.int32), counters(1)
    _select(a, rows, columns, lengths, (None, None, None))
    start, found = starts_of(lengths, total), Asked(total)
    return Deferred(lambda: _filled(a, rows, columns, start, int(found()[0])))


def begun_rows(start: Array, rows: Array) -> Callable[[Csr], Csr]:
    """Some rows of a matrix of which the row pointer is there; called with the matrix it waits for their entries."""
    lengths, total = cupy.empty(len(rows), dtype=np.int32), counters(1)
    for_each(FILE, "lengths_of", len(rows), start, rows, np.int32(len(rows)), lengths)
    begins, found = starts_of(lengths, total), Asked(total)
    return lambda a: _filled(a, rows, EVERY, begins, int(found()[0]))


def _filled(a: Csr, rows: Array | None, columns: tuple[int, int], start: Array, entries: int) -> Csr:
    out = Csr(start, cupy.empty(entries, dtype=a.columns.dtype), cupy.empty(entries, dtype=a.values.dtype))
    if entries:
        _select(a, rows, columns, None, out)
    return out


def _select(a: Csr, rows: Array | None, columns: tuple[int, int], lengths: Array | None, out: Sequence[Any]) -> None:
    """Launch the kernel that writes lengths, or the rows that have been counted."""
    count = a.size if rows is None else len(rows)
    head = (*a, rows, np.int32(count), *map(np.int64, columns), lengths)
    for_each(FILE, f"select_{a.columns.itemsize}", count, *head, *out, lanes=LANES, dtype=type_of(a.values))


def bordered(a: Csr, width: int, before: int, after: int) -> Csr:
    """A matrix of so many columns between rows with a one each, the first of them in columns before its own."""
    rows, entries = a.size + before + after, len(a.columns) + before + after
    out = unfilled(cupy.empty(rows + 1, dtype=np.int64), entries, a.values.dtype)
    sizes = np.int64(len(a.columns)), *map(np.int32, (a.size, width, before, after))
    for_each(FILE, "border", max(rows + 1, entries), *a, *sizes, *out, dtype=type_of(a.values))
    return out


def windows_of_pieces(rows: Csr, others: Array, pieces: int) -> Sent:
    """Ends of pieces of as many rows each, and of the rows that their columns range over, on their way to the host.

    Args:
        others: int64, begins of the rows that columns are numbers of.

    Returns:
        int64 (pieces, 6): of each piece its first entry and the one behind its last, the first of the other rows and
        the one behind the last, and of these rows the same entries.
    """
    ends, out = counters(pieces).view(np.int32), cupy.empty((pieces, 6), dtype=np.int64)
    grid = BLOCKS * device_property("multiProcessorCount"), pieces
    kernel(FILE, "ends_of_pieces", "float64")(grid, (THREADS,), (*rows[:2], np.int64(rows.size), ends))
    where = rows.start, np.int64(rows.size), others, ends, np.int32(pieces), out
    kernel(FILE, "windows_of_pieces", "float64")((1,), (THREADS,), where)
    return Sent(out)


def begun_nonempty(start: Array) -> Deferred[tuple[Array, Array]]:
    """See `dsolver.kernels.cpu.amg.selection.nonempty`. When it is called it waits for how many there are."""
    total = counters(1)
    rooms, found = nonempty_rooms(start, total), Asked(total)
    return Deferred(lambda: nonempty_of(rooms, int(found()[0])))


def nonempty_of(rooms: tuple[Array, Array, Array], found: int) -> tuple[Array, Array]:
    """`nonempty` of what `nonempty_rooms` has made, once their number is known."""
    return rooms[0][:found], rooms[1][: found + 1]


def nonempty_rooms(start: Array, total: Array) -> tuple[Array, Array, Array]:
    """Room for `nonempty`, full as far as there are such rows, and how many come before each row, int64 (rows + 1,).

    total: int64 (1,) of zeros, where their number comes.
    """
    rows = len(start) - 1
    if not rows:
        return start[:0], start, start
    marks, out, begins = (cupy.empty(size, dtype=kind) for size, kind in ((rows, "i4"), (rows, "i8"), (rows + 1, "i8")))
    for_each(FILE, "mark_nonempty", rows, start, np.int32(rows), marks)
    before = starts_of(marks, total)
    for_each(FILE, "take_nonempty", rows + 1, start, np.int32(rows), before, out, begins)
    return out, begins, before


def split(rows: Csr, own_columns: int) -> SplitRows:
    """See `dsolver.kernels.general.rows.split`. It waits once, for the numbers of entries and of rows."""
    return parted(rows, 0, own_columns)()


def parted(rows: Csr, low: int, high: int, sizes: PartSizes | None = None) -> Deferred[SplitRows]:
    """See `dsolver.kernels.cpu.csr.rows.parted`. It waits once, when it is called.

    Entries are read twice, and nothing is made for each of them beside the parts.
    """
    sums, known = sizes or part_sizes(rows, low, high)
    return Deferred(lambda: _filled_parts(rows, low, high, sums, *known().tolist()))


def part_sizes(rows: Csr, low: int, high: int) -> PartSizes:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.part_sizes`."""
    count = rows.size
    counts, totals = cupy.empty((count, 3), dtype=np.int32), counters(4)
    limits = map(np.int32, (count, low, high))
    for_each(
        FILE, "count_parts", count, *rows[:2], *limits, counts, totals[3:], lanes=LANES, dtype=type_of(rows.values)
    )
    return running_sums(counts, totals[:3])[0], Asked(totals)


def _filled_parts(
    rows: Csr, low: int, high: int, sums: Array, own: int, ghosts: int, boundary: int, longest: int
) -> SplitRows:
    """The parts of `parted`, whose sizes are known; sums: of entries and rows of each before every row."""
    if not ghosts and not low:
        return whole(rows)
    count, kind = rows.size, rows.values.dtype
    local = unfilled(cupy.empty(count + 1, dtype=np.int64), own, kind)
    numbers = cupy.empty(boundary, dtype=np.int64)
    ghost = unfilled(cupy.empty(boundary + 1, dtype=np.int64), ghosts, kind)
    arguments = (*rows, *map(np.int32, (count, low, high)), sums, *local, numbers, *ghost)
    for_each(FILE, "fill_parts", count, *arguments, lanes=LANES, dtype=type_of(rows.values))
    return SplitRows(local, numbers, ghost, longest)
