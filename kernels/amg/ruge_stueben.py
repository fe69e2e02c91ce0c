"""Coarse points by the first pass of Ruge and Stüben, slab by slab."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

STRONG = 0.25
"""A coupling is strong if it is at least this part of the row's strongest one (Ruge and Stüben)."""
SLAB = 16384
"""Rows of a slab at least, within which coarse points are chosen one after another; 64³ points have 16 slabs."""
UNDECIDED, COARSE, FINE = 0, 1, 2


class Strong(NamedTuple):
    """The points that each row depends on strongly.

    Attributes:
        start: int64 (rows + 1,), where the row's entries begin in the matrix.
        end: int64 (rows,), row i has the strong couplings start[i] .. end[i].
        columns: int32, of each of them; the places between hold nothing.
    """

    start: Any
    end: Any
    columns: Any

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.end)


def strong_couplings(a: Csr, team: Team) -> Strong:
    """The couplings that are at least `STRONG` of their row's strongest one."""
    end, columns = np.empty(a.size, dtype=np.int64), np.empty(len(a.columns), dtype=np.int32)
    team.run(_strong, 0, a.size, a, STRONG, end, columns)
    return Strong(a.start, end, columns)


def split(strong: Strong, team: Team) -> tuple[Any, int]:
    """The number of each coarse point, -1 for the others, and how many are coarse.

    Slabs of rows are split by themselves, first those with even numbers and then those between, which start from what
    their neighbors have decided. Slabs depend on the number of rows alone, so threads change no bit.
    """
    state = np.zeros(strong.size, dtype=np.int8)
    slabs = max(1, strong.size // SLAB)
    for parity in range(min(2, slabs)):
        mine = (slabs + 1 - parity) // 2
        team.run(_split_slabs, 0, mine, parity, slabs, *strong, state.copy(), state, worth=1)
    _settle(*strong, state)
    coarse = np.flatnonzero(state == COARSE)
    number = np.full(strong.size, -1, dtype=np.int32)
    number[coarse] = np.arange(len(coarse))
    return number, len(coarse)


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _strong(first: Any, last: Any, a: Any, part: Any, end: Any, columns: Any) -> None:
    """The points that row i depends on strongly, from a.start[i] to end[i]; positive entries are never strong."""
    for i in range(first, last):
        least = 0.0
        for k in range(a.start[i], a.start[i + 1]):
            if a.columns[k] != i:
                least = min(least, a.values[k])
        n, bound = a.start[i], part * least
        for k in range(a.start[i], a.start[i + 1]):
            if a.columns[k] != i and a.values[k] < 0.0 and a.values[k] <= bound:
                columns[n] = a.columns[k]
                n += 1
        end[i] = n


@compiled()
def _inside(low: Any, high: Any, start: Any, end: Any, columns: Any) -> Any:
    """The strong couplings among the points low .. high, numbered from low, and who depends on each."""
    rows = high - low
    own, inner = np.zeros(rows + 1, np.int32), np.empty(start[high] - start[low], np.int32)
    own_t = np.zeros(rows + 1, np.int32)
    n = 0
    for i in range(rows):
        for j in columns[start[low + i] : end[low + i]]:
            if low <= j < high:
                inner[n] = j - low
                own_t[j - low + 1] += 1
                n += 1
        own[i + 1] = n
    own_t = np.cumsum(own_t).astype(np.int32)
    place, inner_t = own_t[:-1].copy(), np.empty(n, np.int32)
    for i in range(rows):
        for j in inner[own[i] : own[i + 1]]:
            inner_t[place[j]] = i
            place[j] += 1
    return own, inner, own_t, inner_t


@compiled()
def _move(i: Any, to: Any, first: Any, after: Any, before: Any, merit: Any) -> None:
    """Take point i out of the list of points with its merit and put it first in that of another; -1: in none."""
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        first[merit[i]] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
    if to < 0:
        return
    merit[i] = to
    before[i] = -1
    after[i] = first[to]
    if first[to] >= 0:
        before[first[to]] = i
    first[to] = i


@compiled()
def _merits(start: Any, start_t: Any) -> Any:
    """Lists of points by merit, the number of points that depend strongly on each.

    Returns:
        merit, after and before (the lists' links, -1 at their ends), first (of each list).
    """
    rows = len(start) - 1
    merit, after, before = np.empty(rows, np.int32), np.full(rows, -1, np.int32), np.full(rows, -1, np.int32)
    most = 0
    for i in range(rows):
        merit[i] = start_t[i + 1] - start_t[i]
        most = max(most, merit[i] + start[i + 1] - start[i])
    first = np.full(2 * most + 2, -1, np.int32)
    for back in range(rows):
        i = rows - 1 - back
        after[i] = first[merit[i]]
        if after[i] >= 0:
            before[after[i]] = i
        first[merit[i]] = i
    return merit, after, before, first


@compiled()
def _raise(points: Any, by: Any, state: Any, first: Any, after: Any, before: Any, merit: Any) -> Any:
    """Change the merit of the points that are undecided; returns the largest that any has got."""
    best = 0
    for j in points:
        if state[j] == UNDECIDED and merit[j] + by >= 0:
            _move(j, merit[j] + by, first, after, before, merit)
            best = max(best, merit[j])
    return best


@compiled()
def _split_slabs(
    first: Any,
    last: Any,
    parity: Any,
    slabs: Any,
    start: Any,
    end: Any,
    columns: Any,
    decided: Any,
    state: Any,
) -> None:
    """The slabs 2 first + parity, ... of so many; decided is the state that all of them start from."""
    rows = len(state)
    for half in range(first, last):
        low, high = rows * (2 * half + parity) // slabs, rows * (2 * half + parity + 1) // slabs
        _split_slab(low, high, start, end, columns, decided, state[low:high])


@compiled()
def _split_slab(low: Any, high: Any, start: Any, end: Any, columns: Any, decided: Any, state: Any) -> None:
    """The point that most others depend on becomes coarse, those others do not, and what they depend on gains merit.

    The first pass of Ruge and Stüben among the points low .. high; those that depend on a coarse point elsewhere are
    fine from the beginning.
    """
    own, inner, own_t, inner_t = _inside(low, high, start, end, columns)
    merit, after, before, first = _merits(own, own_t)
    for j in range(high - low):
        for c in columns[start[low + j] : end[low + j]]:
            if state[j] == UNDECIDED and decided[c] == COARSE:
                state[j] = FINE
                _move(j, -1, first, after, before, merit)
                _raise(inner[own[j] : own[j + 1]], 1, state, first, after, before, merit)
    best = len(first) - 1
    while best > 0:
        i = first[best]
        if i < 0:
            best -= 1
            continue
        _move(i, -1, first, after, before, merit)
        state[i] = COARSE
        for j in inner_t[own_t[i] : own_t[i + 1]]:
            if state[j] == UNDECIDED:
                state[j] = FINE
                _move(j, -1, first, after, before, merit)
                best = max(best, _raise(inner[own[j] : own[j + 1]], 1, state, first, after, before, merit))
        _raise(inner[own[i] : own[i + 1]], -1, state, first, after, before, merit)


@compiled()
def _settle(start: Any, end: Any, columns: Any, state: Any) -> None:
    """A point left over that depends on no coarse one becomes coarse; so does the first if otherwise none is."""
    some = False
    for i in range(len(state)):
        if state[i] == UNDECIDED:
            state[i] = COARSE if end[i] > start[i] else FINE
            for j in columns[start[i] : end[i]]:
                if state[j] == COARSE:
                    state[i] = FINE
        some |= state[i] == COARSE
    if not some:
        state[0] = COARSE
