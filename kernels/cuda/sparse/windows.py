"""Numbers of points that a chunk sees, and their places in its window, on a GPU: see `dsolver.kernels.cpu.amg.windows`.

Each reads its numbers once: A P of a chunk of 16 million cells has 130 million columns.
"""

from collections.abc import Sequence
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import WindowNumbers
from dsolver.kernels.cuda.launch.loader import NOTHING, device_property, for_each
from dsolver.kernels.cuda.launch.readback import Asked, counters, read_back
from dsolver.kernels.cuda.sparse.starts import starts_of, taken, unfilled
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "sparse/windows.cu"
BLOCKS: Final = 16  # blocks for each multiprocessor, at most
FEW: Final = 16  # one of so many numbers lies outside at most, as a rule: so much room there is for them at first
LEAST: Final = 4096  # room at least
NAMES: Final = {"b": "int8", "l": "int64", "q": "int64", "d": "float64"}
"""Names of types of values, by NumPy's characters: it takes 5 us to write a type's name."""
MARKED: Final = 1 << 23
"""Numbers of a level up to which there is a mark for each, or a place: to sort those that are seen takes longer, and
waits."""
SORTED: Final = 1 << 16
"""Numbers that are sorted with those that do not lie outside, at most: to wait for how many do would take longer."""


def outside(numbers: Array, first: int, last: int) -> Array:
    """See `dsolver.kernels.cpu.amg.windows.outside`. It waits, for how many there are."""
    return cupy.sort(_outside(numbers, first, last, named=False))  # threads have put them down in any order


def ghosts(parts: Sequence[Array], first: int, last: int, end: int = 0) -> tuple[Array, int]:
    """See `dsolver.kernels.cpu.amg.windows.ghosts`. It waits, for how many there are, and how many different ones."""
    if 0 < end <= MARKED:
        return _marked_ghosts(parts, first, last, end)
    numbers = parts[0] if len(parts) == 1 else cupy.concatenate(parts)
    if len(numbers) > SORTED:
        numbers = _outside(numbers, first, last, named=True)
    found, below = _distinct(numbers, first, last)
    return found.astype(np.int64, copy=False), below


def others(first: int, rows: int, end: int) -> Array:
    count, out = end - rows, cupy.empty(end - rows, dtype=np.int64)
    _launch("others", count, np.int64(count), np.int64(first), np.int64(rows), out)
    return out


def distinct(numbers: Array) -> Array:
    """See `dsolver.kernels.cpu.amg.windows.distinct`. It waits, for how many there are."""
    return _distinct(numbers, 0, 0)[0]


def places(numbers: Array, first: int, rows: int, ghosts: Array, below: int) -> Array:
    count, found = len(numbers), cupy.empty(len(numbers), dtype=np.int32)
    window = np.int64(first), np.int32(rows), ghosts, np.int32(len(ghosts)), np.int32(below)
    _launch(f"places_{numbers.itemsize}", count, numbers, np.int64(count), *window, found)
    return found


def relabeled(places: Array, rows: int, below: int, base: int, names: Array) -> Array:
    count, found = len(places), cupy.empty(len(places), dtype=names.dtype)
    window = np.int32(rows), np.int32(below), np.int64(base), names
    _launch(f"relabel_{names.itemsize}", count, places, np.int64(count), *window, found)
    return found


def slots(places: Array, rows: int, below: int) -> Array:
    count, out = len(places), cupy.empty(len(places), dtype=np.int32)
    _launch("slots", count, places, np.int64(count), np.int32(rows), np.int32(below), out)
    return out


def named(numbers: Array, first: int, rows: int) -> Deferred[Array]:
    """See `dsolver.kernels.cpu.amg.windows.named`. When it is called it waits for how many there are."""
    count, marks, total = len(numbers), cupy.zeros(rows, dtype=np.int32), counters(1)
    _launch(f"mark_named_{numbers.itemsize}", count, numbers, np.int64(count), np.int64(first), marks)
    out, found = taken(starts_of(marks, total), min(count, rows)), Asked(total)
    return Deferred(lambda: out[: int(found()[0])])


def used(places: Array, rows: int, below: int, ghosts: Array) -> tuple[Array, int, Array]:
    """See `dsolver.kernels.cpu.amg.windows.used`. It waits, for how many there are."""
    marks, names = cupy.zeros(len(ghosts), dtype=np.int32), cupy.empty(len(ghosts), dtype=np.int32)
    _launch("mark_used", len(places), places, np.int64(len(places)), np.int32(rows), np.int32(below), marks)
    return *_marked(ghosts, marks, rows, below, names), names


def numbered_ghosts(numbers: Array, rows: int, below: int) -> tuple[Array, int]:
    """See `dsolver.kernels.cpu.amg.windows.numbered_ghosts`. It waits, for how many there are."""
    count = len(numbers) - rows
    found, marks = cupy.empty(count, dtype=np.int64), cupy.empty(count, dtype=np.int32)
    _launch("mark_numbered", count, numbers, np.int64(count), np.int32(rows), np.int32(below), found, marks)
    return _marked(found, marks, rows, below)


def stacked(
    before: Sequence[Csr], own: Csr | None, after: Sequence[Csr], old: WindowNumbers, window: WindowNumbers
) -> Csr:
    """See `dsolver.kernels.cpu.amg.windows.stacked`. Each part is one launch, and nothing else is made."""
    parts = [*before, *(() if own is None else (own,)), *after]
    entries = sum(len(part.columns) for part in parts)
    out = unfilled(cupy.empty(sum(part.size for part in parts) + 1, dtype=np.int64), entries)
    place = np.int64(window.first), np.int32(window.rows), window.ghosts, np.int32(len(window.ghosts))
    row, entry = 0, 0
    for part in parts:
        size, count = part.size, len(part.columns)
        last, end = row + size, entry + count
        where = np.int64(size), np.int64(count), np.int64(entry), *place, np.int32(window.below)
        target = out.start[row : last + 1], out.columns[entry:end], out.values[entry:end]
        most = max(size + 1, count)
        head = *part[:2], np.int64(most), part.values
        if part is own:
            _launch("stack_placed", most, *head, old.ghosts, np.int32(old.below), *where, *target)
        else:
            _launch("stack_numbered", most, *head, *where, *target)
        row, entry = last, end
    return out


def around(own: Array, ghosts: Array, rows: int, below: int) -> Array:
    count = rows + len(ghosts)
    out = cupy.empty(count, dtype=own.dtype)
    where = np.int32(rows), np.int32(below)
    _launch(f"around_{NAMES[own.dtype.char]}", count, own, np.int64(count), ghosts, *where, out)
    return out


def _marked_ghosts(parts: Sequence[Array], first: int, last: int, end: int) -> tuple[Array, int]:
    """`ghosts` by marks of all numbers up to the end."""
    marks, totals = cupy.zeros(end, dtype=np.int32), counters(2)
    for part in parts:
        count = len(part)
        _launch(f"mark_others_{part.itemsize}", count, part, np.int64(count), np.int64(first), np.int64(last), marks)
    before = starts_of(marks, totals[:1])
    totals[1:] = before[first : first + 1]
    size, below = read_back(totals).tolist()
    return taken(before, size), below


def _distinct(numbers: Array, first: int, last: int) -> tuple[Array, int]:
    """The numbers that are not first .. last, each once, ascending, of their type; how many are less than the first."""
    count = len(numbers)
    if not count:
        return numbers, 0
    ordered = cupy.sort(numbers.astype(np.int64, copy=False))
    marks, totals = cupy.empty(count, dtype=np.int32), counters(2)
    _launch("mark_first", count, ordered, np.int64(count), np.int64(first), np.int64(last), marks, totals[1:])
    before = starts_of(marks, totals[:1])
    size, below = read_back(totals).tolist()
    return taken(before, size, ordered).astype(numbers.dtype, copy=False), below


def _marked(ghosts: Array, marks: Array, rows: int, below: int, names: Any = NOTHING) -> tuple[Array, int]:
    """The marked ghosts, and how many of them are before own points; names: int32, where places of all come."""
    count, totals, out = len(ghosts), counters(2), cupy.empty(len(ghosts), dtype=np.int64)
    before = starts_of(marks, totals[:1])
    where = np.int32(rows), np.int32(below), totals[1:]
    _launch("take_marked", count, ghosts, np.int64(count), before, *where, out, names)
    size, lower = read_back(totals).tolist()
    return out[:size], lower


def _outside(numbers: Array, first: int, last: int, *, named: bool) -> Array:
    """The numbers that are not first .. last, or their places, int64, in any order."""
    count, room = len(numbers), max(LEAST, len(numbers) // FEW)
    while count:
        found, out = counters(1), cupy.empty(room, dtype=np.int64)
        limits = np.int64(first), np.int64(last), np.int32(named), np.int64(room)
        _launch(f"outside_{numbers.itemsize}", count, numbers, np.int64(count), *limits, found, out)
        there = int(read_back(found)[0])
        if there <= room:
            return out[:there]
        room = there
    return cupy.empty(0, dtype=np.int64)


def _launch(name: str, count: int, *arguments: Any) -> None:
    for_each(FILE, name, count, *arguments, most=BLOCKS * device_property("multiProcessorCount"))
