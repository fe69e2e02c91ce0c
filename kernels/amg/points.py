"""Points of a level, one by one: shares of their diagonal, states, and numbers of the coarse ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.kernels.amg.pmis import COARSE, FINE, UNDECIDED


def shares(diagonal: Any, sizes: Any) -> Any:
    """Parts of a_ii that (a_ii + Σ_j |a_ij|) / 2 are, float64; sizes: the sums."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (diagonal + sizes) / (2.0 * diagonal)


def damped(share: Any, least: float, dominance: float, factor: float) -> Any:
    """Parts of a_ii for diagonals of Jacobi's method, times a factor, float64.

    Args:
        share: of `shares`.
        least: what they are at least.
        dominance: they over Σ_j |a_ij| / 2, at least.
        factor: that one.
    """
    return factor * np.maximum(least, dominance * (share - 0.5))


def first_states(counts: Any, lone: int) -> Any:
    """States of points before any is decided, int8.

    Args:
        counts: int64, the points that depend on each.
        lone: the state of points that none depends on.
    """
    return np.where(counts > 0, np.int8(UNDECIDED), np.int8(lone))


def coarse_before(states: Any) -> Any:
    """Numbers of coarse points before each point, and of all: int64 (points + 1,)."""
    found = np.zeros(len(states) + 1, dtype=np.int64)
    np.cumsum(states == COARSE, out=found[1:])
    return found


def numbered(states: Any, before: Any, first: int) -> Any:
    """Numbers of coarse points from a first one on, -1 for others: int64.

    Args:
        states: int8.
        before: of `coarse_before`.
        first: the first number.
    """
    return np.where(states == COARSE, before[:-1] + first, -1)


def states_of(numbers: Any) -> tuple[Any, Any]:
    """States of points by their numbers, which fine ones have not: int8; and the numbers as int32."""
    return np.where(numbers >= 0, np.int8(COARSE), np.int8(FINE)), numbers.astype(np.int32)


def through(numbers: Any, first: int, others: Any) -> Any:
    """The numbers that coarse points have among fewer ones, -1 for those that are not among them: int64.

    Args:
        numbers: of `numbered`.
        first: the first of them.
        others: int64, of each of these coarse points the other number.
    """
    return np.where(numbers >= 0, others[np.maximum(numbers - first, 0)], -1) if len(others) else numbers


def leads(start: Any, values: Any) -> tuple[Any, Any]:
    """Bits of the entries of rows, uint8, and of each row how many entries lead: int64.

    Args:
        start: int64 (rows + 1,), of the rows.
        values: float64, bits of `couplings.couplings`.
    """
    bits = values.astype(np.uint8)
    before = np.append(0, np.cumsum(bits >> 1, dtype=np.int64))
    return bits, np.diff(before[start])


def of_coarse(numbers: Any, first: int, count: int, values: Any) -> Any:
    """The values of coarse points, in the order of their numbers.

    Args:
        numbers: of `numbered`.
        first: the first of them.
        count: how many there are.
        values: float64 or int64, of all points: (points,) or (points, k).
    """
    found = np.empty((count, *values.shape[1:]), dtype=values.dtype)
    if not found.size:
        return found
    chosen = np.flatnonzero(numbers >= 0)
    found[numbers[chosen] - first] = values[chosen]
    return found
