"""Compressed sparse rows, made by loops on the host."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numba import uint64

from dsolver.kernels.cpu.csr.loops import ONE
from dsolver.kernels.cpu.csr.ranges import count_outside
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import PRODUCTS_WORTH_A_THREAD, ROWS_WORTH_A_THREAD, Room, Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.general.rows import SplitRows, whole

ALONE = Team()
TOGETHER: Final = 32  # rows that are looked at together: most of a chunk's have no ghosts


def tabulated(rows: Csr, width: int, team: Team = ALONE) -> Ell:
    """A matrix as a table of so many entries a row, at least as many as the longest one has."""
    columns, values = np.empty((width, rows.size), dtype=np.int32), np.empty((width, rows.size))
    team.run(_tabulate, 0, rows.size, rows, columns, values, worth=ROWS_WORTH_A_THREAD)
    return Ell(columns=columns, values=values, halo=False)


def written(team: Team, rows: int, most: Callable[[int, int], int], write: Callable[..., Any]) -> Csr:
    """Rows that a loop writes one after the other, whose lengths are not known before.

    Each thread writes into a room of the team for the most entries that there may be, which stays warm from one call
    to the next: fresh memory costs a thread as much time as products of matrices do. Rows are copied from there to
    arrays of their size, 24 bytes an entry.

    `most`: entries of rows first .. last, at most. `write`: writes rows first .. last with these arguments: where each
    of them ends, int64, counted from the first; int32 columns, float64 values of theirs.
    """
    start = np.zeros(rows + 1, dtype=np.int64)

    def piece(first: int, last: int) -> tuple[int, int, Room]:
        ends, room = start[first + 1 : last + 1], team.room(int(most(first, last)))
        write(first, last, ends, *room)
        return first, last, room

    parts = team.run(piece, 0, rows, worth=PRODUCTS_WORTH_A_THREAD)
    begins = list(accumulate((int(start[last]) for _, last, _ in parts), initial=0))
    out = Csr(start, np.empty(begins[-1], np.int32), np.empty(begins[-1]))

    def copy(number: int) -> None:
        (first, last, room), begin, end = parts[number], begins[number], begins[number + 1]
        out.columns[begin:end] = room.columns[: end - begin]
        out.values[begin:end] = room.values[: end - begin]
        if begin:
            start[first + 1 : last + 1] += begin
        team.leave(room)

    team.each(copy, len(parts))
    return out


def split(rows: Csr, own_columns: int, team: Team) -> SplitRows:
    """A chunk's rows in two parts: see `dsolver.kernels.general.rows.split`."""
    return parted(rows, 0, own_columns, team)


def parted(rows: Csr, low: int, high: int, team: Team) -> SplitRows:
    """Rows by their entries in columns low .. high, numbered from there on, and in others, numbered without these."""
    start, columns, values = rows
    own = np.zeros(rows.size + 1, dtype=np.int64)
    team.run(_count_own, 0, rows.size, start, columns, low, high, own[1:], worth=ROWS_WORTH_A_THREAD)
    np.cumsum(own, out=own)
    before = start - own  # entries in slots before each row
    ghosts = int(before[-1])
    if not ghosts and not low:
        return whole(rows)
    local = Csr(own, np.empty(own[-1], np.int32), np.empty(own[-1], values.dtype))
    slots, ghost_values = np.empty(ghosts, np.int32), np.empty(ghosts, values.dtype)
    team.run(
        _split,
        0,
        rows.size,
        start,
        columns,
        values,
        low,
        high,
        *local,
        before,
        slots,
        ghost_values,
        worth=ROWS_WORTH_A_THREAD,
    )
    boundary = np.flatnonzero(before[1:] > before[:-1])
    ghost = Csr(np.append(before[boundary], before[-1:]), slots, ghost_values)
    return SplitRows(local, boundary, ghost)


@compiled()
def _count_own(first: Any, last: Any, start: Any, columns: Any, low: Any, high: Any, counts: Any) -> None:
    width = uint64(high - low)
    for begin in range(first, last, TOGETHER):
        end = min(begin + TOGETHER, last)
        if not count_outside(columns[start[begin] : start[end]], low, width):
            for row in range(uint64(begin), uint64(end)):
                counts[row] = start[row + ONE] - start[row]
            continue
        for row in range(uint64(begin), uint64(end)):
            count = 0
            for i in range(uint64(start[row]), uint64(start[row + ONE])):
                count += int((columns[i] >= low) & (columns[i] < high))
            counts[row] = count


@compiled()
def _split(first: Any, last: Any, *given: Any) -> None:
    start, columns, values, low, high, own, own_out, own_values, before, slots, ghost_values = given
    for begin in range(first, last, TOGETHER):
        end = min(begin + TOGETHER, last)
        at, ghost, one = uint64(own[begin]), uint64(before[begin]), uint64(start[begin])
        if before[end] == before[begin]:
            for i in range(uint64(start[end]) - one):
                own_out[at + i], own_values[at + i] = columns[one + i] - low, values[one + i]
            continue
        for i in range(one, uint64(start[end])):
            if (columns[i] >= low) & (columns[i] < high):
                own_out[at], own_values[at] = columns[i] - low, values[i]
                at += ONE
            else:
                slots[ghost], ghost_values[ghost] = columns[i] - (columns[i] >= high) * (high - low), values[i]
                ghost += ONE


def joined(team: Team, parts: list[tuple[Any, Any, Any]]) -> Csr:
    """Rows whose lengths, columns and values come in parts."""
    start = np.concatenate([[0], *(lengths for lengths, _, _ in parts)]).cumsum()
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    ends = np.cumsum([len(columns) for _, columns, _ in parts])

    def copy(first: int, last: int) -> None:
        for (_, columns, values), end in zip(parts[first:last], ends[first:last], strict=True):
            out.columns[end - len(columns) : end] = columns
            out.values[end - len(columns) : end] = values

    team.run(copy, 0, len(parts), worth=1)
    return out


@compiled()
def _tabulate(first: Any, last: Any, a: Any, out_columns: Any, out_values: Any) -> None:
    for i in range(first, last):
        begin, n = a.start[i], a.start[i + 1] - a.start[i]
        for k in range(n):
            out_columns[k, i] = a.columns[begin + k]
            out_values[k, i] = a.values[begin + k]
        for k in range(n, len(out_columns)):
            out_columns[k, i] = -1
            out_values[k, i] = 0.0
