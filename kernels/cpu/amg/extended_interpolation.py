"""Table of loops of interpolation from coarse points at a distance of up to two: "extended+i" as matrix products.

De Sterck, Falgout, Nolting, Yang, Numer. Linear Algebra Appl. 15, 2008, and Li, Sjögreen, Yang, SIAM J. Sci. Comput.
43, 2021. A fine point i takes from the coarse points that it depends on strongly, and through each fine point k that it
depends on strongly from those that k does:

    w_ij = -(a_ij + Σ_k a_ik a_kj / s_ik) / d_i,   s_ik = a_ki + Σ_l a_kl,
    d_i = a_ii + (weak entries of row i) + Σ_k a_ik a_ki / s_ik,

with sums over strong couplings to coarse points j and l. As A is symmetric, a_ki is a_ik, which is negative: no divisor
is zero. Where row i of A sums to zero, the weights sum to one.
"""

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from dsolver.kernels.amg import COARSE, FINE
from dsolver.kernels.cpu.amg.couplings import DEPENDS, LEADS, coded
from dsolver.kernels.cpu.csr.rows import written
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import fill, scratch
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE

MOST_SCALING: Final = 10.0
"""Largest factor by which kept weights are scaled: rows with weights of both signs may have a small sum of them."""
ONE: Final = uint64(1)
# Places in arrays are unsigned where time counts: numba then needs no test for negative ones.


def coarse_couplings(a: Csr, bits: Any, state: Any, below: int, names: Any, team: Team, *, every: bool = False) -> Csr:
    """The strong couplings of own fine points to coarse ones; other rows are empty.

    `names`: int32, of every point of the window what it is called among the columns. `every`: of all own points, both
    those that depend and those that lead, which values tell: see `couplings.coded`.
    """

    def most(first: int, last: int) -> Any:
        return a.start[last] - a.start[first]

    def write(first: int, last: int, *room: Any) -> Any:
        return _coarse(first, last, a, bits, state, below, names, every, *room)

    return written(team, a.size, most, write)


def interpolation(
    a: Csr, points: Any, bits: Any, state: Any, below: int, seen: Csr, coarse: Any, columns: int, most: int, team: Team
) -> Csr:
    """Rows of P of some own points, with at most so many entries each, columns ascending.

    Args:
        seen: strong couplings of every fine point of the window to coarse points, by P's columns; or every one, with
            values as of `couplings.coded`.
        coarse: int32, P's column of every point of the window; -1 for fine points.
        most: entries of a row; the largest are kept (among equals those with smaller columns), and scaled to the sum of
            all.
    """
    sums = np.empty(seen.size)
    team.run(_add_up, 0, seen.size, seen, sums, worth=ROWS_WORTH_A_THREAD)
    points = np.arange(a.size) if points is None else points
    pieces = (points, a, bits, state, below, seen, sums, coarse, columns, most, NEGLIGIBLE)
    return _kept(len(points), most, _interpolate, pieces, team)


def renamed(seen: Csr, names: Any, team: Team) -> Csr:
    """Couplings to fewer coarse points; names: int64, their numbers, or -1. A device has zeros in others' places."""

    def most(first: int, last: int) -> Any:
        return seen.start[last] - seen.start[first]

    def write(first: int, last: int, *room: Any) -> Any:
        return _rename(first, last, seen, names, *room)

    return written(team, seen.size, most, write)


def kept_product(a: Csr, b: Csr, columns: int, most: int, team: Team) -> Csr:
    """A B with at most so many entries in each row, kept and scaled as those of `interpolation`."""
    return _kept(a.size, most, _multiply, (a, b, columns, most), team)


def _kept(rows: int, most: int, loop: Any, arguments: tuple[Any, ...], team: Team) -> Csr:
    """Rows of at most so many entries from a loop."""

    def room(first: int, last: int) -> int:
        return most * (last - first)

    def write(first: int, last: int, *out: Any) -> Any:
        return loop(first, last, *arguments, *out)

    return written(team, rows, room, write)


@compiled()
def _coarse(first: Any, last: Any, *given: Any) -> Any:
    """Rows first .. last, one after the other; returns their number of entries. Whether one is wanted is no branch."""
    a, bits, state, below, names, every, ends, columns, values = given
    wanted = DEPENDS | LEADS if every else DEPENDS
    used = uint64(0)
    for i in range(first, last):
        if every or state[below + i] == FINE:
            for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
                j = uint64(a.columns[k])
                columns[used] = names[j]
                values[used] = coded(a.values[k], bits[k]) if every else a.values[k]
                used += uint64((bits[k] & wanted != 0) & (state[j] == COARSE))
        ends[i - first] = used
    return used


@compiled()
def _add_up(first: Any, last: Any, a: Any, sums: Any) -> None:
    for i in range(first, last):
        total = 0.0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            total -= abs(a.values[k])
        sums[i] = total


@compiled()
def _rename(first: Any, last: Any, seen: Any, names: Any, ends: Any, columns: Any, values: Any) -> Any:
    """Rows first .. last, one after the other; returns their number of entries. Whether one is wanted is no branch."""
    used = uint64(0)
    for i in range(first, last):
        for k in range(uint64(seen.start[i]), uint64(seen.start[i + 1])):
            name = names[uint64(seen.columns[k])]
            columns[used], values[used] = name, seen.values[k]
            used += uint64((name >= 0) & (seen.values[k] != 0.0))
        ends[i - first] = used
    return used


@compiled()
def _interpolate(first: Any, last: Any, *given: Any) -> Any:
    """Rows of points first .. last, one after the other; returns their number of entries."""
    points, a, bits, state, below, seen, sums = given[:7]
    coarse, columns, most, negligible, ends, out_columns, out_values = given[7:]
    place = scratch(columns, np.int64)  # of each column, where its weight stands, counted over all rows
    fill(place, -1)
    found, weights = scratch(columns, np.int32), scratch(columns, np.float64)
    base = used = 0
    for p in range(first, last):
        i = points[p]
        if state[below + i] == COARSE:
            out_columns[used] = coarse[below + i]
            out_values[used] = 1.0
            used += 1
            ends[p - first] = used
            continue
        n, center, size = 0, 0.0, 0.0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            j, value = uint64(a.columns[k]), a.values[k]
            size += abs(value)
            if not bits[k] & DEPENDS:
                center += value
                continue
            begin, end = uint64(seen.start[j]), uint64(seen.start[j + ONE])
            if state[j] == COARSE:
                n = _add(uint64(coarse[j]), value, base, place, found, weights, n)
                continue
            part = value / (value + sums[j])
            center += value * part
            for m in range(begin, end):
                term = -part * abs(seen.values[m])
                if term != 0.0:
                    n = _add(uint64(seen.columns[m]), term, base, place, found, weights, n)
        base += n
        kept = 0
        if center > negligible * size:
            kept = _keep(found, weights, n, most, -1.0 / center, used, out_columns, out_values)
        used += kept
        ends[p - first] = used
    return used


@compiled()
def _multiply(
    first: Any, last: Any, a: Any, b: Any, columns: Any, most: Any, ends: Any, out_columns: Any, out_values: Any
) -> Any:
    """Rows first .. last, one after the other; returns their number of entries."""
    place = scratch(columns, np.int64)
    fill(place, -1)
    found, weights = scratch(columns, np.int32), scratch(columns, np.float64)
    base = used = 0
    for i in range(first, last):
        n = 0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            j, value = uint64(a.columns[k]), a.values[k]
            begin, end = uint64(b.start[j]), uint64(b.start[j + ONE])
            for m in range(begin, end):
                n = _add(uint64(b.columns[m]), value * b.values[m], base, place, found, weights, n)
        base += n
        kept = _keep(found, weights, n, most, 1.0, used, out_columns, out_values)
        used += kept
        ends[i - first] = used
    return used


@njit(inline="always")
def _add(column: Any, value: Any, base: Any, place: Any, found: Any, weights: Any, n: Any) -> Any:
    """Add to the weight of a column; returns the number of columns found so far.

    Those of this row have places from base on.
    """
    if place[column] >= base:
        weights[uint64(place[column] - base)] += value
        return n
    place[column] = base + n
    found[uint64(n)] = column
    weights[uint64(n)] = value
    return n + 1


@njit(inline="always")
def _keep(found: Any, weights: Any, n: Any, most: Any, scale: Any, begin: Any, columns: Any, values: Any) -> Any:
    """The largest of n weights, columns ascending, times scale and what restores their sum; returns how many are kept.

    Among equals those with smaller columns are kept. Weights are added up in the order in which they were found, which
    is that of the rows: the same for any number of chunks.
    """
    row: Any = uint64(begin)
    kept, total, least = uint64(0), 0.0, uint64(begin)
    for m in range(uint64(n)):
        column, value = found[m], weights[m]
        total += value
        if value == 0.0:
            continue
        at = row + kept
        if kept == uint64(most):
            at = least
            if not _before(value, column, values[at], columns[at]):
                continue
        else:
            kept += ONE
        columns[at], values[at] = column, value
        if kept == uint64(most):
            least = row
            for q in range(row + ONE, row + kept):
                if _before(values[least], columns[least], values[q], columns[q]):
                    least = q
    _finish(row, row + kept, total, scale, columns, values)
    return np.int64(kept)


@njit(inline="always")
def _before(value: Any, column: Any, other: Any, others: Any) -> Any:
    """Whether a weight is kept rather than another one: it is larger, or as large in a smaller column."""
    return abs(value) > abs(other) or (abs(value) == abs(other) and column < others)


@njit(inline="always")
def _finish(begin: Any, end: Any, total: Any, scale: Any, columns: Any, values: Any) -> None:
    """Sort the entries of a row, and scale them so that their sum is a total, times scale."""
    found = 0.0
    for m in range(begin, end):
        k: Any = m
        column, value = columns[m], values[m]
        while k > begin and columns[k - ONE] > column:
            columns[k], values[k] = columns[k - ONE], values[k - ONE]
            k -= ONE
        columns[k], values[k] = column, value
    for m in range(begin, end):
        found += values[m]
    factor = total / found if found != 0.0 else 1.0
    if not 0.0 < factor <= MOST_SCALING:
        factor = 1.0
    for m in range(begin, end):
        values[m] *= scale * factor
