"""Turned entries of a Hermitian matrix, loops on a CPU: what phases in `dsolver.matrices.complex.gauge` are made by.

A phase is a row of float64 (rows, 2), its real and its imaginary part. Products are written out by parts, so that a
GPU, which would contract them, gives the same bits.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from dsolver.kernels.cpu.csr.complex_look import ROWS_WORTH_A_THREAD, writable
from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.sorting import sort_short
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

AGGREGATES_WORTH_A_THREAD: Final = 512
"""Rows of the next level that are worth one: loops go through the entries of some twenty times as many."""
NOWHERE: Final = -1  # aggregate of a row without couplings


def largest_squares(rows: Csr, team: Team = ALONE) -> Array:
    """The largest |a_ij|² off the diagonal of each row, float64 (rows,)."""
    out = np.empty(rows.size)
    team.run(_largest, 0, rows.size, *writable(rows), out, worth=ROWS_WORTH_A_THREAD)
    return out


def relaxed(rows: Csr, turned: Array, aggregate: Array, team: Team = ALONE) -> Array:
    """Rows turned half the way to where those that they are coupled to in their aggregate have them."""
    out = np.empty_like(turned)
    team.run(_relax, 0, rows.size, *writable(rows), turned, aggregate, out, worth=ROWS_WORTH_A_THREAD)
    return out


def turned_rows(rows: Csr, turned: Array, team: Team = ALONE) -> Csr:
    """The rows of Dᴴ A D."""
    given = writable(rows)
    out = np.empty_like(given.values)
    team.run(_turn, 0, rows.size, *given, turned, out, worth=ROWS_WORTH_A_THREAD)
    return given._replace(values=out)


def collapsed(rows: Csr, aggregate: Array, count: int, team: Team = ALONE) -> Csr:
    """Couplings between aggregates, int64 (rows,): sums of those of their rows, in their order."""
    given = writable(rows)
    members = np.zeros(count + 1, dtype=np.int64), np.empty(rows.size, dtype=np.int64)
    start = np.zeros(count + 1, dtype=np.int64)
    _sort(aggregate, *members)
    worth = AGGREGATES_WORTH_A_THREAD
    team.run(_count, 0, count, given.start, given.columns, aggregate, *members, start, worth=worth)
    np.cumsum(start, out=start)
    made = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1], dtype=np.complex128))
    team.run(_collapse, 0, count, *given, aggregate, *members, *made, worth=worth)
    return made


@njit
def _square(re: Any, im: Any) -> Any:
    return re * re + im * im


@compiled()
def _largest(first: Any, last: Any, start: Any, columns: Any, values: Any, out: Any) -> None:
    for row in range(first, last):
        most = 0.0
        for k in range(start[row], start[row + 1]):
            if columns[k] != row:
                most = max(most, _square(values[k].real, values[k].imag))
        out[row] = most


@compiled()
def _relax(first: Any, last: Any, start: Any, columns: Any, values: Any, turned: Any, aggregate: Any, out: Any) -> None:
    for row in range(first, last):
        re, im = 0.0, 0.0
        for k in range(start[row], start[row + 1]):
            j = columns[k]
            if j != row and aggregate[j] == aggregate[row]:
                re -= values[k].real * turned[j, 0] - values[k].imag * turned[j, 1]
                im -= values[k].real * turned[j, 1] + values[k].imag * turned[j, 0]
        size = np.sqrt(_square(re, im))
        middle_re, middle_im = turned[row, 0], turned[row, 1]
        if size > 0.0:
            middle_re, middle_im = middle_re + re / size, middle_im + im / size
        size = np.sqrt(_square(middle_re, middle_im))
        if size > 0.0:
            out[row, 0], out[row, 1] = middle_re / size, middle_im / size
        else:
            out[row, 0], out[row, 1] = turned[row, 0], turned[row, 1]


@compiled()
def _turn(first: Any, last: Any, start: Any, columns: Any, values: Any, turned: Any, out: Any) -> None:
    for row in range(first, last):
        own_re, own_im = turned[row, 0], turned[row, 1]
        for k in range(start[row], start[row + 1]):
            other_re, other_im = turned[columns[k], 0], turned[columns[k], 1]
            re = values[k].real * other_re - values[k].imag * other_im
            im = values[k].real * other_im + values[k].imag * other_re
            out[k] = complex(own_re * re + own_im * im, own_re * im - own_im * re)


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
def _collapse(first: Any, last: Any, *arrays: Any) -> None:
    """Couplings between aggregates, columns ascending."""
    start, columns, values, aggregate, begin, order, out_start, out_columns, out = arrays
    place = np.full(len(begin) - 1, -1, dtype=np.int64)
    for number in range(first, last):
        at = out_start[number]
        for i in range(begin[number], begin[number + 1]):
            for k in range(start[order[i]], start[order[i] + 1]):
                other = aggregate[columns[k]]
                if other != number and other != NOWHERE and place[other] < out_start[number]:
                    place[other], out_columns[at] = at, other
                    at += 1
        sort_short(out_columns[out_start[number] : at])
        for at in range(out_start[number], out_start[number + 1]):
            place[out_columns[at]], out[at] = at, 0.0j
        for i in range(begin[number], begin[number + 1]):
            for k in range(start[order[i]], start[order[i] + 1]):
                other = aggregate[columns[k]]
                if other != number and other != NOWHERE:
                    out[place[other]] += values[k]
