"""Interpolation from coarse points at a distance of up to two: "extended+i" in its form of matrix products.

De Sterck, Falgout, Nolting, Yang, Numer. Linear Algebra Appl. 15, 2008, and Li, Sjögreen, Yang, SIAM J. Sci. Comput.
43, 2021. A fine point i takes from the coarse points that it depends on strongly, and through each fine point k that it
depends on strongly from those that k does:

    w_ij = -(a_ij + Σ_k a_ik a_kj / s_ik) / d_i,   s_ik = a_ki + Σ_l a_kl,
    d_i = a_ii + (weak entries of row i) + Σ_k a_ik a_ki / s_ik,

with sums over strong couplings to coarse points j and l. As A is symmetric, a_ki is a_ik, which is negative: no divisor
is zero. Where row i of A sums to zero, the weights sum to one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from dsolver.kernels.amg.couplings import DEPENDS, LEADS
from dsolver.kernels.amg.pmis import COARSE, FINE
from dsolver.kernels.cpu.csr.rows import filled
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE

MOST_SCALING: Final = 10.0
"""Largest factor by which kept weights are scaled: rows with weights of both signs may have a small sum of them."""
ONE: Final = uint64(1)
# Places in arrays are unsigned where time counts: numba then needs no test for negative ones.


def coarse_couplings(a: Csr, bits: Any, state: Any, below: int, names: Any, team: Team, *, every: bool = False) -> Csr:
    """The strong couplings of own fine points to coarse ones; other rows are empty.

    Args:
        a: own rows, with columns in the window.
        bits: of `couplings.couplings`.
        state: int8, of every point of the window.
        below: ghosts before the own rows.
        names: int32, of every point of the window what it is called among the columns.
        team: shares the rows.
        every: of all own points, and both those that depend and those that lead; bits are the values then.
    """
    return filled(team, a.size, _count_coarse, _fill_coarse, a, bits, state, below, names, every)


def interpolation(
    a: Csr, points: Any, bits: Any, state: Any, below: int, seen: Csr, coarse: Any, columns: int, most: int, team: Team
) -> Csr:
    """Rows of P of some own points, with at most so many entries each, columns ascending.

    Args:
        a: own rows, with columns in the window.
        points: int64, the own points, ascending.
        bits: of `couplings.couplings`.
        state: int8, of every point of the window.
        below: ghosts before the own rows.
        seen: strong couplings of every fine point of the window to coarse points, by P's columns.
        coarse: int32, P's column of every point of the window; -1 for fine points.
        columns: number of P's columns.
        most: entries of a row; the largest are kept (among equals those with smaller columns), and scaled to the sum of
            all.
        team: shares the rows.
    """
    wide = np.empty((len(points), most), dtype=np.int32), np.empty((len(points), most))
    start = np.zeros(len(points) + 1, dtype=np.int64)
    sums = np.empty(seen.size)
    team.run(_add_up, 0, seen.size, seen, sums)
    pieces = (points, a, bits, state, below, seen, sums, coarse, columns, NEGLIGIBLE)
    team.run(_interpolate, 0, len(points), *pieces, *wide, start[1:])
    return _compressed(*wide, start, team)


def kept_product(a: Csr, b: Csr, columns: int, most: int, team: Team) -> Csr:
    """A B with at most so many entries in each row, kept and scaled as those of `interpolation`.

    Args:
        a: the left matrix.
        b: the right one.
        columns: number of its columns.
        most: entries of a row.
        team: shares the rows.
    """
    wide = np.empty((a.size, most), dtype=np.int32), np.empty((a.size, most))
    start = np.zeros(a.size + 1, dtype=np.int64)
    team.run(_multiply, 0, a.size, a, b, columns, *wide, start[1:])
    return _compressed(*wide, start, team)


def _compressed(columns: Any, values: Any, start: Any, team: Team) -> Csr:
    """Rows of equal room, whose lengths stand in start[1:]."""
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    team.run(_compress, 0, len(columns), columns, values, out)
    return out


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _count_coarse(
    first: Any, last: Any, a: Any, bits: Any, state: Any, below: Any, _names: Any, every: Any, counts: Any
) -> None:
    wanted = DEPENDS | LEADS if every else DEPENDS
    for i in range(first, last):
        n = 0
        if every or state[below + i] == FINE:
            for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
                if bits[k] & wanted and state[uint64(a.columns[k])] == COARSE:
                    n += 1
        counts[i] = n


@compiled()
def _fill_coarse(
    first: Any, last: Any, a: Any, bits: Any, state: Any, below: Any, names: Any, every: Any, out: Any
) -> None:
    wanted = DEPENDS | LEADS if every else DEPENDS
    for i in range(first, last):
        n = uint64(out.start[i])
        if every or state[below + i] == FINE:
            for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
                if bits[k] & wanted and state[uint64(a.columns[k])] == COARSE:
                    out.columns[n] = names[uint64(a.columns[k])]
                    out.values[n] = bits[k] if every else a.values[k]
                    n += ONE


@compiled()
def _add_up(first: Any, last: Any, a: Any, sums: Any) -> None:
    for i in range(first, last):
        total = 0.0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            total += a.values[k]
        sums[i] = total


@compiled()
def _interpolate(
    first: Any,
    last: Any,
    points: Any,
    a: Any,
    bits: Any,
    state: Any,
    below: Any,
    seen: Any,
    sums: Any,
    coarse: Any,
    columns: Any,
    negligible: Any,
    out_columns: Any,
    out_values: Any,
    lengths: Any,
) -> None:
    place = np.full(columns, -1, np.int64)  # of each column, where its weight stands, counted over all rows
    found, weights = np.empty(columns, np.int32), np.empty(columns)
    base = 0
    for p in range(first, last):
        i = points[p]
        if state[below + i] == COARSE:
            out_columns[p, 0] = coarse[below + i]
            out_values[p, 0] = 1.0
            lengths[p] = 1
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
                n = _add(uint64(seen.columns[m]), part * seen.values[m], base, place, found, weights, n)
        base += n
        lengths[p] = 0
        if center > negligible * size:
            lengths[p] = _keep(found, weights, n, -1.0 / center, p, out_columns, out_values)


@compiled()
def _multiply(
    first: Any, last: Any, a: Any, b: Any, columns: Any, out_columns: Any, out_values: Any, lengths: Any
) -> None:
    place = np.full(columns, -1, np.int64)
    found, weights = np.empty(columns, np.int32), np.empty(columns)
    base = 0
    for i in range(first, last):
        n = 0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            j, value = uint64(a.columns[k]), a.values[k]
            begin, end = uint64(b.start[j]), uint64(b.start[j + ONE])
            for m in range(begin, end):
                n = _add(uint64(b.columns[m]), value * b.values[m], base, place, found, weights, n)
        base += n
        lengths[i] = _keep(found, weights, n, 1.0, i, out_columns, out_values)


@compiled()
def _compress(first: Any, last: Any, columns: Any, values: Any, out: Any) -> None:
    for i in range(first, last):
        begin = out.start[i]
        for k in range(uint64(begin), uint64(out.start[i + 1])):
            out.columns[k] = columns[i, k - uint64(begin)]
            out.values[k] = values[i, k - uint64(begin)]


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
def _keep(found: Any, weights: Any, n: Any, scale: Any, row: Any, columns: Any, values: Any) -> Any:
    """The largest of n weights, columns ascending, times scale and what restores their sum; returns how many are kept.

    Among equals those with smaller columns are kept. Weights are added up in the order in which they were found, which
    is that of the rows: the same for any number of chunks.
    """
    p, most, kept, total = uint64(row), columns.shape[1], 0, 0.0
    least: Any = uint64(0)
    for m in range(uint64(n)):
        column, value = found[m], weights[m]
        total += value
        if value == 0.0:
            continue
        at = uint64(kept)
        if kept == most:
            at = least
            if not _before(value, column, values[p, at], columns[p, at]):
                continue
        else:
            kept += 1
        columns[p, at], values[p, at] = column, value
        if kept == most:
            least = uint64(0)
            for q in range(ONE, uint64(most)):
                if _before(values[p, least], columns[p, least], values[p, q], columns[p, q]):
                    least = q
    _finish(p, uint64(kept), total, scale, columns, values)
    return kept


@njit(inline="always")
def _before(value: Any, column: Any, other: Any, others: Any) -> Any:
    """Whether a weight is kept rather than another one: it is larger, or as large in a smaller column."""
    return abs(value) > abs(other) or (abs(value) == abs(other) and column < others)


@njit(inline="always")
def _finish(p: Any, kept: Any, total: Any, scale: Any, columns: Any, values: Any) -> None:
    """Sort the entries of row p, and scale them so that their sum is a total, times scale."""
    found = 0.0
    for m in range(kept):
        k: Any = m
        column, value = columns[p, m], values[p, m]
        while k > 0 and columns[p, k - ONE] > column:
            columns[p, k], values[p, k] = columns[p, k - ONE], values[p, k - ONE]
            k -= ONE
        columns[p, k], values[p, k] = column, value
    for m in range(kept):
        found += values[p, m]
    factor = total / found if found != 0.0 else 1.0
    if not 0.0 < factor <= MOST_SCALING:
        factor = 1.0
    for m in range(kept):
        values[p, m] *= scale * factor
