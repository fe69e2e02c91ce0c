"""Points of a level, one by one: shares of their diagonal, states, and numbers of the coarse ones.

NumPy would pass over all points several times for each of these, on one thread, and write fresh memory each time.
"""

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np
from numba import uint64

from dsolver.kernels.amg import COARSE, FINE
from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team, worth_of

WORTH: Final = 1 << 16  # points that are worth a thread


def shares(diagonal: Any, sizes: Any, team: Team = ALONE) -> Any:
    """Parts of a_ii that (a_ii + Σ_j |a_ij|) / 2 are, float64; sizes: the sums."""
    return _each(_shares, np.empty(len(diagonal)), team, diagonal, sizes)


def damped(share: Any, least: float, dominance: float, factor: float, team: Team = ALONE) -> Any:
    """Parts of a_ii for diagonals of Jacobi's method, times a factor, float64.

    `least`: what they are at least. `dominance`: they over Σ_j |a_ij| / 2, at least.
    """
    return _each(_damped, np.empty(len(share)), team, share, least, dominance, factor)


def coarse_before(states: Any, team: Team = ALONE) -> Any:
    """Numbers of coarse points before each point, and of all: int64 (points + 1,)."""
    found = np.zeros(len(states) + 1, dtype=np.int64)
    parts = team.run(_count_up, 0, len(states), states, found, worth=WORTH)
    before = 0
    for first, last, count in parts:
        if before:
            found[first + 1 : last + 1] += before
        before += count
    return found


def numbered(states: Any, before: Any, first: int, team: Team = ALONE) -> Any:
    """Numbers of coarse points from a first one on, -1 for others: int64; before: of `coarse_before`."""
    return _each(_number, np.empty(len(states), dtype=np.int64), team, states, before, first)


def states_of(numbers: Any, team: Team = ALONE) -> tuple[Any, Any]:
    """States of points by their numbers, which fine ones have not: int8; and the numbers as int32."""
    names = np.empty(len(numbers), dtype=np.int32)
    return _each(_tell, np.empty(len(numbers), dtype=np.int8), team, numbers, names), names


def through(numbers: Any, first: int, others: Any, team: Team = ALONE) -> Any:
    """The numbers (int64) that coarse points, from a first one on, have among `others`, fewer ones; -1 for none."""
    return _each(_go_through, np.empty_like(numbers), team, numbers, first, others) if len(others) else numbers


def leads(start: Any, values: Any, team: Team = ALONE) -> tuple[Any, Any]:
    """Bits of the entries of rows, uint8, of float64 of `couplings.couplings`; int64, how many lead in each row."""
    bits, counts = np.empty(len(values), dtype=np.uint8), np.empty(len(start) - 1, dtype=np.int64)
    team.run(_lead, 0, len(counts), start, values, bits, counts, worth=worth_of(WORTH, len(counts), len(values)))
    return bits, counts


def of_coarse(numbers: Any, first: int, count: int, values: Any, team: Team = ALONE) -> Any:
    """The values, (points,) or (points, k), of coarse points, in the order of their numbers."""
    found = np.empty((count, *values.shape[1:]), dtype=values.dtype)
    if found.size:
        words = np.ascontiguousarray(values).view(np.int64).reshape(-1, prod(values.shape[1:]))
        out = found.view(np.int64).reshape(count, -1)
        team.run(_choose, 0, len(numbers), numbers, first, words, out, worth=WORTH)
    return found


def _each(loop: Callable[..., Any], out: Any, team: Team, *args: Any) -> Any:
    """Items that a loop writes."""
    team.run(loop, 0, len(out), *args, out, worth=WORTH)
    return out


@compiled(error_model="numpy")
def _shares(first: Any, last: Any, diagonal: Any, sizes: Any, out: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        out[i] = (diagonal[i] + sizes[i]) / (2.0 * diagonal[i])


@compiled()
def _damped(first: Any, last: Any, share: Any, least: Any, dominance: Any, factor: Any, out: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        wanted = dominance * (share[i] - 0.5)
        out[i] = factor * (least if wanted < least else wanted)  # what is not a number stays so


@compiled()
def _count_up(first: Any, last: Any, states: Any, out: Any) -> Any:
    """These numbers, and how many points first .. last are coarse: what is before them counts later."""
    found = 0
    for i in range(uint64(first), uint64(last)):
        found += states[i] == COARSE
        out[i + uint64(1)] = found
    return first, last, found


@compiled()
def _number(first: Any, last: Any, states: Any, before: Any, begin: Any, out: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        out[i] = before[i] + begin if states[i] == COARSE else -1


@compiled()
def _tell(first: Any, last: Any, numbers: Any, names: Any, out: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        out[i], names[i] = COARSE if numbers[i] >= 0 else FINE, numbers[i]


@compiled()
def _go_through(first: Any, last: Any, numbers: Any, begin: Any, others: Any, out: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        number = numbers[i]
        other = others[uint64(max(number - begin, 0))]
        out[i] = other if number >= 0 else -1


@compiled()
def _lead(first: Any, last: Any, start: Any, values: Any, bits: Any, counts: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        count = 0
        for k in range(uint64(start[i]), uint64(start[i + uint64(1)])):
            bits[k] = np.uint8(values[k])
            count += bits[k] >> 1
        counts[i] = count


@compiled()
def _choose(first: Any, last: Any, numbers: Any, begin: Any, words: Any, out: Any) -> None:
    for i in range(uint64(first), uint64(last)):
        if numbers[i] >= 0:
            for k in range(uint64(words.shape[1])):
                out[uint64(numbers[i] - begin), k] = words[i, k]
