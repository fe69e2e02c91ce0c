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
SLAB = 16384
"""Rows of a slab at least, within which coarse points are chosen one after another; 64³ points have 16 slabs."""
BLOCK = 1024
"""Rows whose terms of a sum are added one after another."""
ALONE = Team()
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

    def table(self, xp: Any, team: Team = ALONE) -> Entries:
        """The same as a table of as many entries a row as the longest one has, in arrays of a module."""
        columns = np.empty((self.width, self.size), dtype=np.int32)
        values = np.empty(columns.shape)
        team.run(_tabulate, 0, self.size, self, columns, values)
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
    offsets: tuple[tuple[int, int, int], ...],
    numbering: npt.NDArray[np.int32],
    weights: npt.NDArray[np.float64],
    team: Team = ALONE,
) -> Rows:
    """The rows of a lattice.

    Args:
        offsets: the K offsets of the columns; with each one, its opposite.
        numbering: int32 (nz + 2, ny + 2, nx + 2), the numbers of the points and of those around, -1 outside.
        weights: float64 (K, rows).
        team: shares the rows.
    """
    _, ny, nx = numbering.shape
    steps = np.array([i + nx * (j + ny * k) for i, j, k in offsets], dtype=np.int64)
    opposite = np.array([offsets.index((-i, -j, -k)) for i, j, k in offsets], dtype=np.int64)
    own = np.flatnonzero(_inner(numbering))
    stencil = (numbering.reshape(-1), own, steps, opposite, weights)
    return _filled(team, len(own), _count_stencil, _fill_stencil, *stencil)


def coarser(a: Rows, team: Team = ALONE) -> Coarser:
    """The next coarser level of a symmetric matrix with a positive diagonal.

    Args:
        a: the matrix.
        team: shares the work; the number of its threads changes no bit.
    """
    end, strong = np.empty(a.size, dtype=np.int64), np.empty(len(a.columns), dtype=np.int32)
    team.run(_strong, 0, a.size, a, STRONG, end, strong)
    number, count = _split(team, a, end, strong)
    seen = _filled(team, a.size, _count_seen, _fill_seen, a, number)
    p = _filled(team, a.size, _count_weights, _fill_weights, a, end, strong, seen, number, count)
    r = _filled(team, count, _count_mirrored, _fill_mirrored, p)
    return Coarser(p, r, _joined(team, team.run(_galerkin, 0, count, r, a, p)))


def _split(team: Team, a: Rows, end: Any, strong: Any) -> tuple[Any, int]:
    """The number of each coarse point, -1 for the others, and how many are coarse.

    Slabs of rows are split by themselves, first those with even numbers and then those between, which start from what
    their neighbors have decided. Slabs depend on the number of rows alone, so threads change no bit.
    """
    state = np.zeros(a.size, dtype=np.int8)
    slabs = max(1, a.size // SLAB)
    for parity in range(min(2, slabs)):
        mine = (slabs + 1 - parity) // 2
        team.run(_split_slabs, 0, mine, parity, slabs, a.start, end, strong, state.copy(), state, worth=1)
    _settle(a.start, end, strong, state)
    coarse = np.flatnonzero(state == COARSE)
    number = np.full(a.size, -1, dtype=np.int32)
    number[coarse] = np.arange(len(coarse))
    return number, len(coarse)


def _filled(team: Team, rows: int, count: Any, fill: Any, *arguments: Any) -> Rows:
    """Rows that a loop fills after another one has counted their entries."""
    start = np.zeros(rows + 1, dtype=np.int64)
    team.run(count, 0, rows, *arguments, start[1:])
    np.cumsum(start, out=start)
    out = Rows(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    team.run(fill, 0, rows, *arguments, out)
    return out


def _joined(team: Team, parts: list[tuple[Any, Any, Any]]) -> Rows:
    """Rows whose lengths, columns and values come in parts."""
    start = np.concatenate([[0], *(lengths for lengths, _, _ in parts)]).cumsum()
    out = Rows(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    ends = np.cumsum([len(columns) for _, columns, _ in parts])

    def copy(first: int, last: int) -> None:
        for (_, columns, values), end in zip(parts[first:last], ends[first:last], strict=True):
            out.columns[end - len(columns) : end] = columns
            out.values[end - len(columns) : end] = values

    team.run(copy, 0, len(parts), worth=1)
    return out


def largest_eigenvalue(a: Rows, team: Team = ALONE) -> float:
    """The largest eigenvalue of D⁻¹A, from below: `STEPS` steps of the power method in the norm of D."""
    x, y, diagonal = np.empty(a.size), np.empty(a.size), np.ones(a.size)
    team.run(_rough, 0, a.size, a, x, diagonal)
    blocks = -(-a.size // BLOCK)
    before, after = np.empty(blocks), np.empty(blocks)
    for _ in range(STEPS):
        team.run(_step, 0, blocks, BLOCK, a, diagonal, x, y, before, after, worth=1)
        x, y = y, x
    return float(np.sqrt(after.sum() / before.sum()))


def _inner(numbering: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    inside = np.zeros(numbering.shape, dtype=np.bool_)
    inside[1:-1, 1:-1, 1:-1] = True
    return inside


# -- loops -------------------------------------------------------------------------------------------------------------


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


@compiled()
def _count_stencil(
    first: Any, last: Any, numbering: Any, own: Any, steps: Any, opposite: Any, weights: Any, counts: Any
) -> None:
    """An entry is there if it or its mirror image is not zero: rounding leaves one of them sometimes."""
    for i in range(first, last):
        n = 0
        for k in range(len(steps)):
            j = numbering[own[i] + steps[k]]
            if j >= 0 and (weights[k, i] != 0.0 or weights[opposite[k], j] != 0.0):
                n += 1
        counts[i] = n


@compiled()
def _fill_stencil(
    first: Any, last: Any, numbering: Any, own: Any, steps: Any, opposite: Any, weights: Any, out: Any
) -> None:
    for i in range(first, last):
        n = out.start[i]
        for k in range(len(steps)):
            j = numbering[own[i] + steps[k]]
            if j >= 0 and (weights[k, i] != 0.0 or weights[opposite[k], j] != 0.0):
                out.columns[n] = j
                out.values[n] = weights[k, i]
                n += 1


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
    """Every point in the list of those with its merit: on how many points' coarse choice it would tell.

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


@compiled()
def _count_seen(first: Any, last: Any, a: Any, number: Any, counts: Any) -> None:
    for i in range(first, last):
        n = 0
        if number[i] < 0:
            for k in range(a.start[i], a.start[i + 1]):
                if number[a.columns[k]] >= 0 and a.values[k] < 0.0:
                    n += 1
        counts[i] = n


@compiled()
def _fill_seen(first: Any, last: Any, a: Any, number: Any, out: Any) -> None:
    """The negative entries of fine points' rows in coarse columns, by those columns' numbers."""
    for i in range(first, last):
        if number[i] < 0:
            n = out.start[i]
            for k in range(a.start[i], a.start[i + 1]):
                if number[a.columns[k]] >= 0 and a.values[k] < 0.0:
                    out.columns[n] = number[a.columns[k]]
                    out.values[n] = a.values[k]
                    n += 1


@compiled()
def _count_weights(
    first: Any, last: Any, a: Any, end: Any, strong: Any, _: Any, number: Any, __: Any, counts: Any
) -> None:
    for i in range(first, last):
        n = 1
        if number[i] < 0:
            n = 0
            for j in strong[a.start[i] : end[i]]:
                if number[j] >= 0:
                    n += 1
        counts[i] = n


@compiled()
def _fill_weights(
    first: Any, last: Any, a: Any, end: Any, strong: Any, seen: Any, number: Any, count: Any, out: Any
) -> None:
    """The classical interpolation to fine point i from the coarse points C that it depends on strongly.

    Each other point that it depends on strongly is what its own row makes of C; weakly coupled ones count as the
    point itself, and so do strong ones that see nothing of C (Ruge and Stüben, equations 4.28 and following).
    """
    place = np.full(count, -1, np.int64)  # of coarse points, where the weight of i stands
    leads = np.full(len(number), -1, np.int32)  # the last row that depends on a fine point strongly
    for i in range(first, last):
        begin = n = out.start[i]
        if number[i] >= 0:
            out.columns[n] = number[i]
            out.values[n] = 1.0
            continue
        for j in strong[a.start[i] : end[i]]:
            if number[j] >= 0:
                out.columns[n] = number[j]
                place[number[j]] = n
                n += 1
            else:
                leads[j] = i
        weights = out.values[begin:n]
        weights[:] = 0.0
        center = _collapsed(i, a, seen, number, leads, place, begin, weights)
        if center > 0.0:
            weights /= -center
        else:
            weights[:] = 0.0


@compiled()
def _collapsed(i: Any, a: Any, seen: Any, number: Any, leads: Any, place: Any, begin: Any, weights: Any) -> Any:
    """Row i of A collapsed onto its coarse points, whose entries are added to weights, and the point itself.

    Returns:
        the entry of the point itself; 0 if it is rounding.
    """
    center = size = 0.0
    for k in range(a.start[i], a.start[i + 1]):
        j, value = a.columns[k], a.values[k]
        size += abs(value)
        if number[j] >= 0:
            if place[number[j]] >= begin:
                weights[place[number[j]] - begin] += value
            else:
                center += value
        elif leads[j] != i or not _shared(value, j, seen, place, begin, weights):
            center += value
    return center if center > NEGLIGIBLE * size else 0.0


@compiled()
def _shared(value: Any, j: Any, seen: Any, place: Any, begin: Any, weights: Any) -> Any:
    """Share an entry among the coarse points that row j sees, as that row weighs them; False if there are none."""
    total = 0.0
    for k in range(seen.start[j], seen.start[j + 1]):
        if place[seen.columns[k]] >= begin:
            total += seen.values[k]
    if total == 0.0:
        return False
    for k in range(seen.start[j], seen.start[j + 1]):
        if place[seen.columns[k]] >= begin:
            weights[place[seen.columns[k]] - begin] += value * (seen.values[k] / total)
    return True


@compiled()
def _count_mirrored(first: Any, last: Any, a: Any, counts: Any) -> None:
    for j in a.columns:
        if first <= j < last:
            counts[j] += 1


@compiled()
def _fill_mirrored(first: Any, last: Any, a: Any, out: Any) -> None:
    """Rows first .. last of Aᵀ. Every thread reads all columns: that takes less than to sort them among threads."""
    place = out.start[first:last].copy()
    for i in range(len(a.start) - 1):
        for k in range(a.start[i], a.start[i + 1]):
            j = a.columns[k]
            if first <= j < last:
                out.columns[place[j - first]] = i
                out.values[place[j - first]] = a.values[k]
                place[j - first] += 1


@compiled()
def _galerkin(first: Any, last: Any, r: Any, a: Any, p: Any) -> Any:
    """Rows first .. last of R A P, each one as (a row of R A) P: nothing between is stored, and nothing is counted.

    The rows of Gustavson (ACM Trans. Math. Softw. 4, 1978), where each column finds its sum by its number.

    Returns:
        the rows' lengths, columns and values.
    """
    lengths = np.empty(last - first, np.int64)
    columns, values = np.empty(64 * (last - first) + 64, np.int32), np.empty(64 * (last - first) + 64)
    near, sums = np.empty(len(a.start), np.int32), np.empty(len(a.start))  # the row of R A
    near_place, place = np.full(len(a.start), -1, np.int64), np.full(len(r.start), -1, np.int64)
    base = used = 0
    for i in range(first, last):
        n = _row_of_product(i, r, a, base, near_place, near, sums)
        base += n
        most = used
        for j in near[:n]:
            most += p.start[j + 1] - p.start[j]
        if most > len(columns):
            columns, values = _longer(columns, 2 * most), _longer(values, 2 * most)
        begin = used
        for q in range(n):
            for m in range(p.start[near[q]], p.start[near[q] + 1]):
                c = p.columns[m]
                if place[c] < begin:
                    place[c] = used
                    columns[used] = c
                    values[used] = 0.0
                    used += 1
                values[place[c]] += sums[q] * p.values[m]
        lengths[i - first] = used - begin
    return lengths, columns[:used], values[:used]


@compiled()
def _row_of_product(i: Any, r: Any, a: Any, base: Any, place: Any, near: Any, sums: Any) -> Any:
    """Row i of R A into near and sums; place is at least base where a column is in that row."""
    n = 0
    for k in range(r.start[i], r.start[i + 1]):
        j = r.columns[k]
        for m in range(a.start[j], a.start[j + 1]):
            c = a.columns[m]
            if place[c] < base:
                place[c] = base + n
                near[n] = c
                sums[n] = 0.0
                n += 1
            sums[place[c] - base] += r.values[k] * a.values[m]
    return n


@compiled()
def _longer(values: Any, size: Any) -> Any:
    out = np.empty(size, values.dtype)
    out[: len(values)] = values
    return out


@compiled()
def _rough(first: Any, last: Any, a: Any, x: Any, diagonal: Any) -> None:
    """A vector that is rough, and everywhere the same; and the diagonal."""
    for i in range(first, last):
        x[i] = ((i + 1) * 2654435761 % 4294967296) / 2147483648.0 - 1.0
        for k in range(a.start[i], a.start[i + 1]):
            if a.columns[k] == i:
                diagonal[i] = a.values[k]


@compiled()
def _step(first: Any, last: Any, block: Any, a: Any, diagonal: Any, x: Any, y: Any, before: Any, after: Any) -> None:
    """y = D⁻¹ A x on blocks first .. last, and of each block the parts of xᵀDx and yᵀDy."""
    for number in range(first, last):
        of_x = of_y = 0.0
        for i in range(number * block, min((number + 1) * block, len(x))):
            product = 0.0
            for k in range(a.start[i], a.start[i + 1]):
                product += a.values[k] * x[a.columns[k]]
            y[i] = product / diagonal[i]
            of_x += diagonal[i] * x[i] * x[i]
            of_y += diagonal[i] * y[i] * y[i]
        before[number], after[number] = of_x, of_y
