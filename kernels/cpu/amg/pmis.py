"""Coarse points by a parallel maximal independent set that is the same for any partition.

PMIS (De Sterck, Yang, Heys, SIAM J. Matrix Anal. Appl. 27, 2006) with keys that nothing random enters: how many rows
depend on a point, then a hash of the finest row that it stems from, then that row's number. No two keys are the same,
and a point looks at neighbors with larger keys alone. So the outcome is that of a pass over all points in descending
order of their keys, whatever threads and chunks know of each other meanwhile.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit, uint64

from dsolver.kernels.amg import COARSE, FINE, UNDECIDED
from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team, rows_worth
from dsolver.kernels.formats.csr import Csr

HASHED: Final = 48  # low bits of a key, which are a hash
LEAST: Final = uint64(0)
MOST: Final = uint64(2**64 - 1)
ONE: Final = uint64(1)
POINTS_WORTH_A_THREAD: Final = 4096
SALT: Final = 0x632BE59BD9B4E019  # factor of the level's number, so that a point's hash differs from level to level


def begun(counts: Any, origin: Any, level: int, lone: int, team: Team = ALONE) -> tuple[Any, Any]:
    """Keys of points, uint64 without the last tie, and their states before any is decided, int8.

    `counts`: int64, of the points that depend on each, below 2¹⁶. `lone`: the state of points that none depends on.
    """
    key, state = np.empty(len(counts), dtype=np.uint64), np.empty(len(counts), dtype=np.int8)
    salt = np.uint64(level * SALT % 2**64)
    team.run(_begin, 0, len(counts), counts, origin, salt, lone, key, state, worth=POINTS_WORTH_A_THREAD)
    return key, state


@njit(inline="always")
def mixed(z: Any) -> Any:
    """Hashes of 64 bits: the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Open(NamedTuple):
    """Points, int64, ascending, that `settle` has left undecided; rank: uint64, of every point of the window."""

    points: Any
    rank: Any


def settle(
    a: Csr, below: int, bits: Any, key: Any, origin: Any, state: Any, team: Team, before: Open | None = None
) -> Open:
    """Decide own points as far as ghosts are known; before: what was left when less was known; None at first."""
    end = below + a.size
    if before is None:
        rank, todo = np.empty(len(key), dtype=np.uint64), np.flatnonzero(state[below:end] == UNDECIDED)
        team.run(_rank, 0, len(key), key, state, rank, worth=4 * POINTS_WORTH_A_THREAD)
    elif not len(before.points):
        return before  # whatever ghosts are now
    else:
        rank, todo = before.rank.copy(), before.points.copy()
        _rank(0, below, key, state, rank)
        _rank(end, len(key), key, state, rank)
    while len(todo):
        parts = team.run(_settle, 0, len(todo), todo, a, below, bits, key, origin, state, rank, worth=rows_worth(a))
        left = np.concatenate([todo[first : first + count] for first, count in parts])
        decided, todo = len(todo) - len(left), left
        if not decided or len(parts) == 1:  # no thread has found what another one has left
            break
    return Open(todo, rank)


@compiled()
def _begin(first: Any, last: Any, counts: Any, origin: Any, salt: Any, lone: Any, key: Any, state: Any) -> None:
    most, by = np.int64((1 << 64 - HASHED) - 1), np.uint64(64 - HASHED)
    for i in range(uint64(first), uint64(last)):
        count = counts[i]
        key[i] = (np.uint64(min(count, most)) << np.uint64(HASHED)) | (mixed(np.uint64(origin[i]) + salt) >> by)
        state[i] = UNDECIDED if count > 0 else lone


@compiled()
def _rank(first: Any, last: Any, key: Any, state: Any, rank: Any) -> None:
    """Keys of points that are undecided; `LEAST` of fine ones and `MOST` of coarse ones, between which keys are put."""
    for i in range(first, last):
        undecided = min(max(key[i], LEAST + ONE), MOST - ONE)
        rank[i] = undecided if state[i] == UNDECIDED else MOST if state[i] == COARSE else LEAST


@compiled()
def _settle(
    first: Any, last: Any, todo: Any, a: Any, below: Any, bits: Any, key: Any, origin: Any, state: Any, rank: Any
) -> Any:
    """Decide points whose neighbors with larger keys are decided, over and over while that decides any.

    Threads see others' decisions sooner or later, which changes when a point is decided, not how. Returns first, and
    the number of points left, which are moved there.
    """
    begin, end = uint64(first), uint64(last)
    while True:
        left = _decide(begin, end, todo, a, below, bits, key, origin, state, rank)
        if left in (begin, end):
            return first, np.int64(left - begin)
        end = left


@njit(inline="always")
def _decide(
    begin: Any, end: Any, todo: Any, a: Any, below: Any, bits: Any, key: Any, origin: Any, state: Any, rank: Any
) -> Any:
    """Decide a point when its neighbors with larger keys are decided; others are moved to the begin.

    It is fine if it depends on a coarse one of them, and else coarse. Neighbors with smaller keys are decided later, so
    whatever is decided has a larger one. Only that a coarse neighbor was found is a branch: others would not be
    foreseen. Returns the end of the points left.
    """
    left = begin
    for n in range(begin, end):
        i = uint64(todo[n])
        me = uint64(below + todo[n])
        mine, waits, ties, fine = rank[me], False, False, False
        for k in range(uint64(a.start[i]), uint64(a.start[i + ONE])):
            if bits[k] == 0:
                continue
            its = rank[uint64(a.columns[k])]
            if (its == MOST) & (bits[k] & 1 != 0):
                fine = True
                break
            waits |= (its > mine) & (its != MOST)
            ties |= its == mine
        if ties and not waits:
            waits = _waits(i, me, a, bits, key, origin, rank)
        if fine:
            state[me], rank[me] = FINE, LEAST
        elif waits:
            todo[left] = i
            left += ONE
        else:
            state[me], rank[me] = COARSE, MOST
    return left


@njit(inline="always")
def _waits(i: Any, me: Any, a: Any, bits: Any, key: Any, origin: Any, rank: Any) -> Any:
    """Whether a neighbor of point i is undecided that has a larger key, or the same one and a larger number."""
    for k in range(uint64(a.start[i]), uint64(a.start[i + ONE])):
        j = uint64(a.columns[k])
        if bits[k] != 0 and LEAST < rank[j] < MOST and (key[j], origin[j]) > (key[me], origin[me]):
            return True
    return False
