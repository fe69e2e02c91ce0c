"""Numbers of points that a chunk sees, and their places in its window.

A window has the chunk's own numbers, which follow one another, and *ghosts*, all others that it sees, ascending
(`dsolver.multigrid.algebraic.rows.window`). Most numbers in rows of a chunk are its own, so no loop asks more of them
than whether they are.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from dsolver.kernels.amg import WindowNumbers
from dsolver.kernels.cpu.csr.ranges import BLOCK, WORTH, count_outside, outside
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

SPREAD: Final = 16
"""The most that numbers may lie apart, for each of them, where tables tell them apart; beyond that they are sorted."""


def others(first: int, rows: int, end: int) -> Any:
    """All numbers up to the end, int64, but so many from the first on."""
    found = np.arange(end - rows)
    found[first:] += rows
    return found


def distinct(numbers: Any) -> Any:
    """The numbers, each once, ascending: of their type."""
    if len(numbers) < 2:
        return numbers.copy()
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < SPREAD * len(numbers):
        return _marked(numbers, low, high)
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])]


@compiled()
def _marked(numbers: Any, low: int, high: int) -> Any:
    """Numbers of low .. high, each once: by a mark for each that there may be. NumPy takes 10 times as long."""
    marks = np.zeros(high - low + 1, np.uint8)
    for number in numbers:
        marks[number - low] = 1
    found = np.empty(np.count_nonzero(marks), numbers.dtype)
    at = 0
    for i in range(len(marks)):
        if marks[i]:
            found[at] = low + i
            at += 1
    return found


def ghosts(numbers: Any, first: int, last: int, team: Team) -> tuple[Any, int]:
    """The numbers that are not first .. last, each once, ascending: int64; and how many are less than the first."""
    found = distinct(numbers[outside(numbers, first, last, team)].astype(np.int64, copy=False))
    return found, int(np.searchsorted(found, first))


def places(numbers: Any, first: int, rows: int, ghosts: Any, below: int, team: Team, found: Any = None) -> Any:
    """Places in a window of numbers that it holds, int32; -1 of negative ones. Those of others mean nothing.

    found: room for them.
    """
    if found is None:
        found = np.empty(len(numbers), dtype=np.int32)
    low, high = (int(ghosts[0]), int(ghosts[-1]) + 1) if len(ghosts) else (0, 0)
    gap = rows if low < first < high else 0  # numbers between ghosts that are none
    if high - low - gap < SPREAD * len(numbers):
        args = _table(ghosts, first, rows, below, high - low - gap, gap), low, gap, below, found
        team.run(_look_up, 0, len(numbers), numbers, first, rows, *args, worth=WORTH)
    else:
        team.run(_search, 0, len(numbers), numbers, first, rows, ghosts, below, found, worth=WORTH)
    return found


def relabeled(places: Any, rows: int, below: int, base: int, names: Any, team: Team, found: Any = None) -> Any:
    """Other numbers for places in a window, such as those that `places` is asked of: of the type of the names.

    `base`: the number of the first own one, which those of the others follow. `names`: int64 or int32, the numbers of
    the ghosts. `found`: room for them.
    """
    if found is None:
        found = np.empty(len(places), dtype=names.dtype)
    team.run(_name, 0, len(places), places, base, rows, names, below, found, worth=WORTH)
    return found


def slots(places: Any, rows: int, below: int, team: Team) -> Any:
    """Numbers of places in a window where own points come first, from 0, and ghosts behind them: int32."""
    found = np.empty(len(places), dtype=np.int32)
    team.run(_slots, 0, len(places), places, rows, below, found, worth=WORTH)
    return found


@compiled()
def _slots(begin: int, end: int, places: Any, rows: int, below: int, found: Any) -> None:
    part, out = places[begin:end], found[begin:end]
    for i in range(len(part)):
        place = np.int64(part[i])
        own = place - below
        out[i] = place + rows if own < 0 else own if own < rows else place


def named(numbers: Any, first: int, rows: int) -> Any:
    """Numbers less the first one that there may be, each once, ascending: int64; rows: how many there may be."""
    found = _marked(numbers, first, first + rows - 1) if rows < SPREAD * len(numbers) else distinct(numbers)
    return found.astype(np.int64, copy=False) - first


def used(places: Any, rows: int, below: int, ghosts: Any, team: Team) -> tuple[Any, int, Any]:
    """The ghosts of a window that some places name.

    Returns:
        these ghosts; how many of them are before own points; and of all ghosts the place in a window of these, int32,
        which means something for these alone.
    """
    named = places[outside(places, below, below + rows, team)]
    marks = np.zeros(len(ghosts), dtype=np.bool_)
    marks[named - np.int32(rows) * (named >= below)] = True
    names = np.cumsum(marks, dtype=np.int32) - np.int32(1)
    names[below:] += np.int32(rows)
    return ghosts[marks], int(np.count_nonzero(marks[:below])), names


def numbered_ghosts(numbers: Any, rows: int, below: int) -> tuple[Any, int]:
    """Numbers, of all points of a window, of ghosts that are not negative, and how many are before own points."""
    before, after = (ghosts[ghosts >= 0] for ghosts in (numbers[:below], numbers[below + rows :]))
    return np.concatenate([before, after]), len(before)


def stacked(
    before: Sequence[Csr], own: Csr | None, after: Sequence[Csr], old: WindowNumbers, window: WindowNumbers, team: Team
) -> Csr:
    """Rows between others, columns as places in a window that has those of all.

    `before`: rows with columns by number, int64. `own`: rows with columns as places in the old window, if there are.
    """
    parts = [*before, *(() if own is None else (own,)), *after]
    ends = [0, *accumulate(len(part.columns) for part in parts)]
    rows = [0, *accumulate(part.size for part in parts)]
    out = Csr(np.empty(rows[-1] + 1, np.int64), np.empty(ends[-1], np.int32), np.empty(ends[-1]))
    out.start[0] = 0
    for part, row, end in zip(parts, rows, ends, strict=False):
        np.add(part.start[1:], end, out=out.start[row + 1 : row + 1 + part.size])
    for part, begin, end in zip(parts, ends, ends[1:], strict=False):
        columns, out.values[begin:end] = out.columns[begin:end], part.values
        if part is not own:
            places(part.columns, window.first, window.rows, window.ghosts, window.below, team, columns)
        elif old is window:
            columns[:] = own.columns
        else:
            names = places(old.ghosts, window.first, window.rows, window.ghosts, window.below, team)
            relabeled(own.columns, old.rows, old.below, window.below, names, team, columns)
    return out


def around(own: Any, ghosts: Any, rows: int, below: int) -> Any:
    """Values of all points of a window, in its order, of the type of its own ones; ghosts: float64."""
    out = np.empty(rows + len(ghosts), dtype=own.dtype)
    out[:below], out[below : below + rows], out[below + rows :] = ghosts[:below], own[:rows], ghosts[below:]
    return out


@compiled()
def _name(begin: int, end: int, places: Any, first: int, rows: int, ghosts: Any, below: int, found: Any) -> None:
    """By arithmetic and no branch where a block has ghosts, too: they and own points take turns as nothing foresees."""
    part, out, width = places[begin:end], found[begin:end], np.uint64(rows)
    for low in range(0, len(part), BLOCK):
        block, names = part[low : low + BLOCK], out[low : low + BLOCK]
        for i in range(len(block)):
            names[i] = np.int64(block[i]) + (first - below)
        if not count_outside(block, below, width):
            continue
        for i in range(len(block)):
            place = np.int64(block[i])
            other = np.int64(np.uint64(place - below) >= width)
            name = ghosts[np.uint64(other * (place - rows * (place >= below)))]
            names[i] += other * (name - names[i])


@compiled()
def _table(ghosts: Any, first: int, rows: int, below: int, size: int, gap: int) -> Any:
    """Places of ghosts, int32, by their number less the first one's, and behind own points less the gap, too.

    All places may be behind own points'.
    """
    table = np.zeros(max(size, 1), dtype=np.int32)
    for i in range(len(ghosts)):
        table[ghosts[i] - ghosts[0] - (gap if ghosts[i] >= first else 0)] = i + (rows if i >= below else 0)
    return table


@compiled()
def _look_up(
    begin: int, end: int, numbers: Any, first: int, rows: int, table: Any, low: int, gap: int, below: int, found: Any
) -> None:
    """By arithmetic and no branch, as coarse and fine points take turns, and ghosts and own points."""
    part, out, size, width = numbers[begin:end], found[begin:end], np.uint64(len(table)), np.uint64(rows)
    for begun in range(0, len(part), BLOCK):
        block, places = part[begun : begun + BLOCK], out[begun : begun + BLOCK]
        others = 0
        for i in range(len(block)):
            number = np.int64(block[i])
            others += int((np.uint64(number - first) >= width) & (number >= 0))
            places[i] = number - first + below if number >= 0 else -1
        for i in range(len(block) if others else 0):
            number = np.int64(block[i])
            at = np.uint64(number - low - gap * (number >= first))
            other = np.int64((np.uint64(number - first) >= width) & (at < size))
            places[i] += other * (np.int64(table[np.uint64(other) * at]) - np.int64(places[i]))


@compiled()
def _search(begin: int, end: int, numbers: Any, first: int, rows: int, ghosts: Any, below: int, found: Any) -> None:
    for i in range(begin, end):
        number = numbers[i]
        if (number >= first) & (number < first + rows):
            found[i] = number - first + below
        elif number < 0:
            found[i] = -1
        else:
            ghost = np.searchsorted(ghosts, number)
            found[i] = ghost + rows * (ghost >= below)
