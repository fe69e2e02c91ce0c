"""Phases that turn the couplings of a Hermitian matrix to negative real numbers, as far as that can be.

With |d_i| = 1, Dᴴ A D is as Hermitian as A is, and couples by conj(d_i) a_ij d_j: another gauge of the same field.
Where the phases of A around every loop add up to zero it becomes real, and what a Laplacian is to constants A is to d.
Otherwise d is sought for which dᴴ A d is small: rows are put together with those that they are strongly coupled to,
turned towards them, and what remains between such aggregates is a Hermitian matrix again, of fewer rows. On the way
back each row is turned towards what its neighbors ask for: damped Jacobi for A v = 0 with |v_i| = 1. By three
sweeps CG takes 36 iterations, by two of Gauss-Seidel, which threads cannot share, 35 (phases 0.02 around faces, 40³).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba import njit

from dsolver.kernels.cpu.csr.complex_look import ROWS_WORTH_A_THREAD, writable
from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team

STRONG: Final = 0.0625
"""Square of a coupling over that of its row's largest, from which on rows are put together."""
AGGREGATES_WORTH_A_THREAD: Final = 1024
"""Rows of the next level that are worth one: loops go through the entries of five times as many."""
ROUNDING: Final = 1e-10
"""Part of the sum of the diagonal that counts as zero where all entries are summed up."""
MORE: Final = 1.0 + 1e-10
"""Times a square that another one must exceed: rounding, which differs in every gauge, is to decide nothing."""
FAR: Final = 400
"""Exponent of two of entries whose squares are numbers, and not zero."""
SWEEPS: Final = 3
"""Times that rows are turned on the way back, on each level."""
NOWHERE: Final = -1
"""Aggregate of a row without couplings."""
Phases = npt.NDArray[np.complex128]


def phases(start: Any, columns: Any, values: Any, team: Team = ALONE) -> Phases:
    """d, complex128 (rows,), |d_i| = 1, of a Hermitian matrix: int64 starts, int32 columns, complex128 values."""
    aggregate, turned = np.full(len(start) - 1, NOWHERE, dtype=np.int32), np.ones(len(start) - 1, dtype=np.complex128)
    count = _gather(start, columns, values, aggregate, turned)
    if count:
        _join(start, columns, values, aggregate.copy(), aggregate, turned)
        members = np.zeros(count + 1, dtype=np.int64), np.empty(len(turned), dtype=np.int64)
        begin = np.zeros(count + 1, dtype=np.int64)
        _sort(aggregate, *members)
        team.run(_count, 0, count, start, columns, aggregate, *members, begin, worth=AGGREGATES_WORTH_A_THREAD)
        np.cumsum(begin, out=begin)
        between = np.empty(begin[-1], dtype=np.int32), np.empty(begin[-1], dtype=np.complex128)
        given = (start, columns, values, aggregate, turned, *members, begin, *between)
        team.run(_collapse, 0, count, *given, worth=AGGREGATES_WORTH_A_THREAD)
        turned *= np.append(phases(begin, *between, team), 1.0)[aggregate]  # the last is of those that are nowhere
    for _ in range(SWEEPS):
        before = turned.copy()
        team.run(_relax, 0, len(turned), start, columns, values, before, turned, worth=ROWS_WORTH_A_THREAD)
    return turned


def in_gauge(start: Any, columns: Any, values: Any, team: Team = ALONE) -> tuple[Phases | None, Any]:
    """d, or None for ones, and Re conj(d_i) a_ij d_j, float64 in the places of A's entries.

    None where 1ᴴ A 1 is larger than dᴴ A d by no more than rounding, whose order threads decide, and where dᴴ A d is
    nothing else: a real M would have to know of a vector that A makes zero.
    """
    given = writable(start, columns, values)
    parts = given[2].view(np.float64)
    exponent = math.frexp(max(parts.max(initial=0.0), -parts.min(initial=0.0)))[1]
    if abs(exponent) > FAR:
        turned, out = in_gauge(start, columns, np.ldexp(parts, -exponent).view(np.complex128), team)
        return turned, np.ldexp(out, exponent)
    turned, out = phases(*given, team), np.empty(len(given[1]))
    worth = ROWS_WORTH_A_THREAD
    plain, made, size = map(sum, zip(*team.run(_turn, 0, len(turned), *given, turned, out, worth=worth), strict=True))
    if ROUNDING * size < made < plain - ROUNDING * size:
        return turned, out
    return None, given[2].real.copy()


# -- loops -------------------------------------------------------------------------------------------------------------


@njit
def _square(value: Any) -> Any:
    return value.real * value.real + value.imag * value.imag


@njit
def _direction(value: Any) -> Any:
    return value / np.sqrt(_square(value))


@njit
def _least(start: Any, columns: Any, values: Any, row: Any) -> Any:
    """Square of the least strong coupling that a row may have; 0 where it has none at all."""
    largest = 0.0
    for k in range(start[row], start[row + 1]):
        if columns[k] != row:
            largest = max(largest, _square(values[k]))
    return STRONG * largest


@njit
def _is_free(start: Any, columns: Any, values: Any, row: Any, least: Any, aggregate: Any) -> Any:
    """Whether no row that a row is strongly coupled to is in an aggregate."""
    for k in range(start[row], start[row + 1]):
        if aggregate[columns[k]] != NOWHERE and _square(values[k]) >= least:
            return False
    return True


@compiled()
def _gather(start: Any, columns: Any, values: Any, aggregate: Any, turned: Any) -> Any:
    """Aggregates of rows that are free, each with all that it is strongly coupled to; their number."""
    count = 0
    for row in range(len(start) - 1):
        if aggregate[row] != NOWHERE:
            continue
        least = _least(start, columns, values, row)
        if least == 0.0 or not _is_free(start, columns, values, row, least, aggregate):
            continue
        aggregate[row] = count
        for k in range(start[row], start[row + 1]):
            other = columns[k]
            if other != row and _square(values[k]) >= least:
                aggregate[other], turned[other] = count, -_direction(values[k].conjugate())
        count += 1
    return count


@compiled()
def _join(start: Any, columns: Any, values: Any, before: Any, aggregate: Any, turned: Any) -> None:
    """Put rows that are nowhere into the aggregate, of those before, of the strongest coupling."""
    for row in range(len(start) - 1):
        if before[row] != NOWHERE:
            continue
        largest = 0.0
        for k in range(start[row], start[row + 1]):
            other, size = columns[k], _square(values[k])
            if size > MORE * largest and before[other] != NOWHERE:
                largest, aggregate[row] = size, before[other]
                turned[row] = -_direction(values[k] * turned[other])


@compiled()
def _sort(aggregate: Any, begin: Any, order: Any) -> None:
    """Rows of each aggregate, in their order, from `begin` on, which is zero before."""
    for row in range(len(aggregate)):
        if aggregate[row] != NOWHERE:
            begin[aggregate[row]] += 1
    for number in range(1, len(begin)):
        begin[number] += begin[number - 1]
    for row in range(len(aggregate) - 1, -1, -1):
        if aggregate[row] != NOWHERE:
            begin[aggregate[row]] -= 1
            order[begin[aggregate[row]]] = row


@compiled()
def _count(
    first: Any, last: Any, start: Any, columns: Any, aggregate: Any, begin: Any, order: Any, out_start: Any
) -> None:
    """Numbers of others that each aggregate is coupled to, behind its place."""
    seen = np.full(len(begin) - 1, NOWHERE, dtype=np.int32)
    for number in range(first, last):
        found = 0
        for i in range(begin[number], begin[number + 1]):
            for k in range(start[order[i]], start[order[i] + 1]):
                other = aggregate[columns[k]]
                if other != number and other != NOWHERE and seen[other] != number:
                    seen[other] = number
                    found += 1
        out_start[number + 1] = found


@compiled()
def _collapse(
    first: Any,
    last: Any,
    start: Any,
    columns: Any,
    values: Any,
    aggregate: Any,
    turned: Any,
    begin: Any,
    order: Any,
    out_start: Any,
    out_columns: Any,
    out: Any,
) -> None:
    """Couplings between aggregates, sums of turned ones."""
    place = np.full(len(begin) - 1, -1, dtype=np.int64)
    for number in range(first, last):
        at = out_start[number]
        for i in range(begin[number], begin[number + 1]):
            row = order[i]
            own = turned[row].conjugate()
            for k in range(start[row], start[row + 1]):
                other = aggregate[columns[k]]
                if other in (number, NOWHERE):
                    continue
                value = own * values[k] * turned[columns[k]]
                if place[other] < out_start[number]:
                    place[other], out_columns[at], out[at] = at, other, value
                    at += 1
                else:
                    out[place[other]] += value


@compiled()
def _relax(first: Any, last: Any, start: Any, columns: Any, values: Any, turned: Any, out: Any) -> None:
    """Turn each row half the way to where its neighbors have it."""
    for row in range(first, last):
        wanted = 0.0j
        for k in range(start[row], start[row + 1]):
            if columns[k] != row:
                wanted -= values[k] * turned[columns[k]]
        middle = turned[row] + _direction(wanted) if _square(wanted) > 0.0 else turned[row]
        out[row] = _direction(middle) if _square(middle) > 0.0 else turned[row]


@compiled()
def _turn(first: Any, last: Any, start: Any, columns: Any, values: Any, turned: Any, out: Any) -> Any:
    """Real parts of turned entries; sums of those of A, of these, and of magnitudes on the diagonal."""
    plain, made, size = 0.0, 0.0, 0.0
    for row in range(first, last):
        own = turned[row].conjugate()
        for k in range(start[row], start[row + 1]):
            out[k] = value = (own * values[k] * turned[columns[k]]).real
            plain, made = plain + values[k].real, made + value
            if columns[k] == row:
                size += abs(value)
    return plain, made, size
