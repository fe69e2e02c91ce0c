"""Coarsening that follows strong couplings instead of the lattice, for a whole level on the host.

Classical algebraic multigrid (Brandt, McCormick, Ruge, in Sparsity and its Applications, 1985; Ruge, Stüben, in
Multigrid Methods, SIAM 1987, chapter 4): coarse points are chosen so that every other point depends strongly on one of
them, wherever on the lattice they lie. For small levels: loops in a fixed order, so that whoever repeats them gets the
same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Entries
from dsolver.kernels.coarsening import NEGLIGIBLE
from dsolver.kernels.cpu.compiled import compiled
from dsolver.kernels.cpu.team import Team

STRONG = 0.25
"""A coupling is strong if it is at least this part of the row's strongest one (Ruge and Stüben)."""
STEPS = 15
UNDECIDED, COARSE, FINE = 0, 1, 2


class Rows(NamedTuple):
    """A sparse matrix, row after row.

    Attributes:
        start: int64 (rows + 1,), row i has the entries start[i] .. start[i + 1].
        columns: int32, of each entry.
        values: float64, of each entry.
    """

    start: Any
    columns: Any
    values: Any

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def width(self) -> int:
        """Entries of the longest row."""
        return int(np.diff(self.start).max(initial=1))

    def table(self, xp: Any) -> Entries:
        """The same as a table of as many entries a row as the longest one has, in arrays of a module."""
        columns = np.full((self.width, self.size), -1, dtype=np.int32)
        values = np.zeros(columns.shape)
        _tabulate(*self, columns, values)
        return Entries(columns=xp.asarray(columns), values=xp.asarray(values))

    def dense(self) -> npt.NDArray[np.float64]:
        """The same with its zeros, (rows, rows)."""
        out = np.zeros((self.size, self.size))
        np.add.at(out, (np.repeat(np.arange(self.size), np.diff(self.start)), self.columns), self.values)
        return out


class Coarser(NamedTuple):
    """What lies below a level.

    Attributes:
        prolongation: P, a row for each fine point.
        restriction: Pᵀ.
        matrix: Pᵀ A P.
    """

    prolongation: Rows
    restriction: Rows
    matrix: Rows


def of_stencil(
    offsets: tuple[tuple[int, int, int], ...], numbering: npt.NDArray[np.int32], weights: npt.NDArray[np.float64]
) -> Rows:
    """The rows of a lattice.

    Args:
        offsets: the K offsets of the columns; with each one, its opposite.
        numbering: int32 (nz + 2, ny + 2, nx + 2), the numbers of the points and of those around, -1 outside.
        weights: float64 (K, rows).
    """
    _, ny, nx = numbering.shape
    steps = np.array([i + nx * (j + ny * k) for i, j, k in offsets], dtype=np.int64)
    opposite = np.array([offsets.index((-i, -j, -k)) for i, j, k in offsets], dtype=np.int64)
    own = np.flatnonzero(_inner(numbering))
    return Rows(*_rows_of_stencil(numbering.reshape(-1), own, steps, opposite, weights))


def coarser(a: Rows, threads: int = 1) -> Coarser:
    """The next coarser level of a symmetric matrix with a positive diagonal.

    Args:
        a: the matrix.
        threads: that share the work which is independent by rows; it changes no bit.
    """
    team = Team(threads)
    strong = _filled(team, a.size, _count_strong, _fill_strong, a, STRONG)
    transposed = _transposed(*strong, a.size)
    number, count = _split(strong.start, strong.columns, transposed[0], transposed[1])
    p = _filled(team, a.size, _count_weights, _fill_weights, a, strong, number)
    r = Rows(*_transposed(*p, count))
    ap = _filled(team, a.size, _count_product, _fill_product, a, p, count)
    return Coarser(p, r, _filled(team, count, _count_product, _fill_product, r, ap, count))


def _filled(team: Team, rows: int, count: Any, fill: Any, *arguments: Any) -> Rows:
    """Rows that a loop fills after another one has counted their entries."""
    start = np.zeros(rows + 1, dtype=np.int64)
    team.run(count, 0, rows, *arguments, start[1:])
    np.cumsum(start, out=start)
    columns, values = np.empty(start[-1], dtype=np.int32), np.zeros(start[-1])
    out = Rows(start, columns, values)
    team.run(fill, 0, rows, *arguments, out)
    return out


def largest_eigenvalue(a: Rows) -> float:
    """The largest eigenvalue of D⁻¹A, from below: `STEPS` steps of the power method in the norm of D."""
    return float(_largest(*a, STEPS))


def _inner(numbering: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(numbering.shape, dtype=np.bool_)
    inside[1:-1, 1:-1, 1:-1] = True
    return inside


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _tabulate(start: Any, columns: Any, values: Any, out_columns: Any, out_values: Any) -> None:
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            out_columns[k - start[i], i] = columns[k]
            out_values[k - start[i], i] = values[k]


@compiled()
def _rows_of_stencil(numbering: Any, own: Any, steps: Any, opposite: Any, weights: Any) -> Any:
    """An entry is there if it or its mirror image is not zero: rounding leaves one of them sometimes."""
    rows = len(own)
    start = np.zeros(rows + 1, np.int64)
    for filling in range(2):
        if filling == 0:
            columns, values = np.empty(0, np.int32), np.empty(0)
        else:
            columns, values = np.empty(start[rows], np.int32), np.empty(start[rows])
        n = 0
        for i in range(rows):
            for k in range(len(steps)):
                j = numbering[own[i] + steps[k]]
                if j >= 0 and (weights[k, i] != 0.0 or weights[opposite[k], j] != 0.0):
                    if filling == 1:
                        columns[n] = j
                        values[n] = weights[k, i]
                    n += 1
            start[i + 1] = n
    return start, columns, values


@compiled()
def _strongest(i: Any, a: Any, part: Any) -> Any:
    """What an entry of row i is at most if it is strong; positive ones off the diagonal never are."""
    least = 0.0
    for k in range(a.start[i], a.start[i + 1]):
        if a.columns[k] != i:
            least = min(least, a.values[k])
    return part * least


@compiled()
def _count_strong(first: Any, last: Any, a: Any, part: Any, counts: Any) -> None:
    for i in range(first, last):
        bound = _strongest(i, a, part)
        for k in range(a.start[i], a.start[i + 1]):
            counts[i] += a.columns[k] != i and a.values[k] < 0.0 and a.values[k] <= bound


@compiled()
def _fill_strong(first: Any, last: Any, a: Any, part: Any, out: Any) -> None:
    """The entries by which rows depend strongly on others."""
    for i in range(first, last):
        bound, n = _strongest(i, a, part), out.start[i]
        for k in range(a.start[i], a.start[i + 1]):
            if a.columns[k] != i and a.values[k] < 0.0 and a.values[k] <= bound:
                out.columns[n] = a.columns[k]
                out.values[n] = a.values[k]
                n += 1


@compiled()
def _transposed(start: Any, columns: Any, values: Any, count: Any) -> Any:
    out_start = np.zeros(count + 1, np.int64)
    for j in columns:
        out_start[j + 1] += 1
    for i in range(count):
        out_start[i + 1] += out_start[i]
    place, out_columns, out_values = out_start[:-1].copy(), np.empty(len(columns), np.int32), np.empty(len(columns))
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            n = place[columns[k]]
            out_columns[n] = i
            out_values[n] = values[k]
            place[columns[k]] = n + 1
    return out_start, out_columns, out_values


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
    """Every point in the list of those with its merit: on how many points' coarse choice it would tell.

    Returns:
        merit, after and before (the lists' links, -1 at their ends), first (of each list).
    """
    rows = len(start) - 1
    merit, after, before = np.empty(rows, np.int64), np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    most = 0
    for i in range(rows):
        merit[i] = start_t[i + 1] - start_t[i]
        most = max(most, merit[i] + start[i + 1] - start[i])
    first = np.full(2 * most + 2, -1, np.int64)
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
def _split(start: Any, columns: Any, start_t: Any, columns_t: Any) -> Any:
    """The number of each coarse point, -1 for the others, and how many are coarse; at least one is.

    The point that most others depend on becomes coarse, those others do not, and what they depend on gains merit: the
    first pass of Ruge and Stüben.
    """
    state = np.zeros(len(start) - 1, np.int8)
    merit, after, before, first = _merits(start, start_t)
    best = len(first) - 1
    while best > 0:
        i = first[best]
        if i < 0:
            best -= 1
            continue
        _move(i, -1, first, after, before, merit)
        state[i] = COARSE
        for j in columns_t[start_t[i] : start_t[i + 1]]:
            if state[j] == UNDECIDED:
                state[j] = FINE
                _move(j, -1, first, after, before, merit)
                depends = columns[start[j] : start[j + 1]]
                best = max(best, _raise(depends, 1, state, first, after, before, merit))
        _raise(columns[start[i] : start[i + 1]], -1, state, first, after, before, merit)
    _settle(start, columns, state)
    number = np.full(len(state), -1, np.int64)
    coarse = np.flatnonzero(state == COARSE)
    number[coarse] = np.arange(len(coarse))
    return number, len(coarse)


@compiled()
def _settle(start: Any, columns: Any, state: Any) -> None:
    """A point left over that depends on no coarse one becomes coarse; so does the first if otherwise none is."""
    some = False
    for i in range(len(state)):
        if state[i] == UNDECIDED:
            state[i] = COARSE if start[i + 1] > start[i] else FINE
            for j in columns[start[i] : start[i + 1]]:
                if state[j] == COARSE:
                    state[i] = FINE
        some |= state[i] == COARSE
    if not some:
        state[0] = COARSE


@compiled()
def _count_weights(first: Any, last: Any, _: Any, strong: Any, number: Any, counts: Any) -> None:
    for i in range(first, last):
        counts[i] = 1
        if number[i] < 0:
            counts[i] = (number[strong.columns[strong.start[i] : strong.start[i + 1]]] >= 0).sum()


@compiled()
def _fill_weights(first: Any, last: Any, a: Any, strong: Any, number: Any, out: Any) -> None:
    """The classical interpolation to fine point i from the coarse points C that it depends on strongly.

    Each other point that it depends on strongly is what its own row makes of C; weakly coupled ones count as the
    point itself, and so do strong ones that see nothing of C (Ruge and Stüben, equations 4.28 and following).
    """
    rows = len(a.start) - 1
    place = np.full(rows, -1, np.int64)  # of coarse points, where the weight of i stands
    leads = np.full(rows, -1, np.int64)  # the last row that depends on a point strongly
    for i in range(first, last):
        begin = n = out.start[i]
        if number[i] >= 0:
            out.columns[n] = number[i]
            out.values[n] = 1.0
            continue
        for j in strong.columns[strong.start[i] : strong.start[i + 1]]:
            leads[j] = i
            if number[j] >= 0:
                out.columns[n] = number[j]
                place[j] = n
                n += 1
        weights = out.values[begin:n]
        center = _collapsed(i, a, leads, place, begin, weights)
        if center > 0.0:
            weights /= -center
        else:
            weights[:] = 0.0


@compiled()
def _collapsed(i: Any, a: Any, leads: Any, place: Any, begin: Any, weights: Any) -> Any:
    """Row i of A collapsed onto its coarse points, whose entries are added to weights, and the point itself.

    Returns:
        the entry of the point itself; 0 if it is rounding.
    """
    center = size = 0.0
    for k in range(a.start[i], a.start[i + 1]):
        j, value = a.columns[k], a.values[k]
        size += abs(value)
        if j == i or leads[j] != i:
            center += value
        elif place[j] >= begin:
            weights[place[j] - begin] += value
        elif not _shared(value, j, a, place, begin, weights):
            center += value
    return center if center > NEGLIGIBLE * size else 0.0


@compiled()
def _shared(value: Any, j: Any, a: Any, place: Any, begin: Any, weights: Any) -> Any:
    """Share an entry among the coarse points that row j sees, as that row weighs them; False if there are none."""
    seen = 0.0
    for k in range(a.start[j], a.start[j + 1]):
        if a.values[k] < 0.0 and place[a.columns[k]] >= begin:
            seen += a.values[k]
    if seen == 0.0:
        return False
    for k in range(a.start[j], a.start[j + 1]):
        if a.values[k] < 0.0 and place[a.columns[k]] >= begin:
            weights[place[a.columns[k]] - begin] += value * (a.values[k] / seen)
    return True


@compiled()
def _count_product(first: Any, last: Any, a: Any, b: Any, width: Any, counts: Any) -> None:
    seen = np.full(width, -1, np.int64)  # the last row that has a column
    for i in range(first, last):
        for j in a.columns[a.start[i] : a.start[i + 1]]:
            for column in b.columns[b.start[j] : b.start[j + 1]]:
                counts[i] += seen[column] != i
                seen[column] = i


@compiled()
def _fill_product(first: Any, last: Any, a: Any, b: Any, width: Any, out: Any) -> None:
    """The product of two sparse matrices, row by row (Gustavson, ACM Trans. Math. Softw. 4, 1978)."""
    place = np.full(width, -1, np.int64)
    for i in range(first, last):
        begin = n = out.start[i]
        for k in range(a.start[i], a.start[i + 1]):
            j = a.columns[k]
            for m in range(b.start[j], b.start[j + 1]):
                column = b.columns[m]
                if place[column] < begin:
                    place[column] = n
                    out.columns[n] = column
                    n += 1
                out.values[place[column]] += a.values[k] * b.values[m]


@compiled()
def _largest(start: Any, columns: Any, values: Any, steps: Any) -> Any:
    rows = len(start) - 1
    x, y, diagonal = np.empty(rows), np.empty(rows), np.ones(rows)
    for i in range(rows):
        x[i] = ((i + 1) * 2654435761 % 4294967296) / 2147483648.0 - 1.0  # rough, and everywhere the same
        for k in range(start[i], start[i + 1]):
            if columns[k] == i:
                diagonal[i] = values[k]
    found = 0.0
    for _ in range(steps):
        before = after = 0.0
        for i in range(rows):
            product = 0.0
            for k in range(start[i], start[i + 1]):
                product += values[k] * x[columns[k]]
            y[i] = product / diagonal[i]
            before += diagonal[i] * x[i] * x[i]
            after += diagonal[i] * y[i] * y[i]
        found = np.sqrt(after / before)
        for i in range(rows):
            x[i] = y[i] / found
    return found
