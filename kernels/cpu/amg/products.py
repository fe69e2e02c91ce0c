"""Products of matrices, and coarse matrices PᵀAP."""

from typing import Any, Final

import numpy as np
from numba import uint64

from dsolver.kernels.cpu.amg.transposes import transposed
from dsolver.kernels.cpu.csr.rows import written
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.prefetch import prefetch
from dsolver.kernels.cpu.loops.scratch import fill, scratch
from dsolver.kernels.cpu.loops.sorting import sort_short
from dsolver.kernels.cpu.loops.team import PRODUCTS_WORTH_A_THREAD, ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE

WORTH: Final = 1 << 16  # numbers that are worth a thread
MARGIN: Final = 1.01  # a factor that outweighs the roundings of any sum here
EVERY: Final = -1  # in place of a number of columns before those of the rows: all columns of a product are wanted
ONE, LINE, AHEAD = uint64(1), uint64(8), uint64(8)


def product(a: Csr, b: Csr, columns: int, team: Team, *, ascending: bool = True) -> Csr:
    """A B, where B has so many columns.

    Terms of a sum are added in the order of the row of A.

    `ascending`: whether columns ascend in each row; to sort them takes as long as all else.
    """
    return _entries(a, b, columns, team, ascending, EVERY)


def upper_product(a: Csr, b: Csr, columns: int, below: int, team: Team) -> Csr:
    """Entries of A B from the diagonal on, which row i has in column below + i; columns are numbered from `below`.

    They are in the order in which they are found; all else is as of `product`.
    """
    return _entries(a, b, columns, team, False, below)


def _entries(a: Csr, b: Csr, columns: int, team: Team, *kind: int) -> Csr:
    """A B; kind: whether columns ascend, and the number of columns before those of the rows, or `EVERY`."""

    def most(first: int, last: int) -> Any:
        return _most(first, last, a, b)

    def write(first: int, last: int, *room: Any) -> Any:
        return _product(first, last, a, b, columns, *kind, *room)

    return written(team, a.size, most, write)


def numeric(pattern: Csr, a: Csr, b: Csr, columns: int, team: Team) -> Csr:
    """A B again, of matrices with new values in the same places, with the bits of `product` in less time.

    Args:
        pattern: what `product` has made of A and B before; its values are not read.

    Returns:
        a matrix that shares start and columns with the pattern.
    """
    out = pattern._replace(values=np.empty(len(pattern.columns)))
    team.run(_numeric, 0, a.size, a, b, columns, out, worth=PRODUCTS_WORTH_A_THREAD)
    return out


def fill_lost(coarse: Csr, below: int, r: Csr, diagonal: Any, team: Team) -> None:
    """Replace coarse rows of which only rounding is left, in place: by Σ_i r_i² a_ii on the diagonal, and zeros.

    So it is where a coarse point stands for all of a part of the matrix that nothing fixes: the residual sums to zero
    there, and any positive number will do.

    `coarse`: rows of R A P, of which row i has the diagonal in column below + i. `diagonal`: float64, a_ii for every
    column of R.
    """
    weights, centers = (max(team.run(_largest, 0, len(of), of, worth=WORTH)) for of in (r.values, diagonal))
    largest = MARGIN * weights * weights * centers  # of the terms of a sum
    team.run(_fill_lost, 0, coarse.size, coarse, below, r, diagonal, largest, NEGLIGIBLE, worth=ROWS_WORTH_A_THREAD)


def symmetrize(a: Csr, below: int) -> None:
    """Replace each entry below the diagonal by its mirror image, in place.

    Products leave both with roundings of their own. Entries whose mirror image is not there stay.

    `a`: rows with ascending columns, of which row i is column below + i; others stay as they are.
    """
    _symmetrize(a, below)


def mirrored(a: Csr, team: Team) -> tuple[Csr, int]:
    """The rows of a square matrix with columns ascending, each entry below the diagonal replaced by its mirror image.

    What `symmetrize` makes of sorted rows, without sorting any: entries are transposed.

    Returns:
        the rows, and the number of entries whose mirror image is not there, with which the rows are wrong.
    """
    out = transposed(a, a.size, team)
    return out, sum(team.run(_take_upper, 0, a.size, a, out, worth=ROWS_WORTH_A_THREAD))


@compiled()
def _most(first: Any, last: Any, a: Any, b: Any) -> Any:
    """Products of rows first .. last of A and the rows of B."""
    found = 0
    for k in range(uint64(a.start[first]), uint64(a.start[last])):
        j = uint64(a.columns[k])
        found += b.start[j + ONE] - b.start[j]
    return found


@compiled()
def _product(first: Any, last: Any, *given: Any) -> Any:
    """Rows first .. last of A B, one after the other; returns their number of entries.

    below: `EVERY`, or the column of the first row's diagonal, before which entries go once their row is summed.

    The rows of Gustavson (ACM Trans. Math. Softw. 4, 1978), where each column finds its sum by its number. Rows of B
    are requested ahead. Whether a column is new is no branch: a processor would not foresee it.
    """
    a, b, width, ascending, below, ends, columns, values = given
    place = scratch(width, np.int64)  # of each column, where its sum stands, if none had ever left the room
    fill(place, -1)
    used, left, end = np.int64(0), np.int64(0), uint64(len(a.columns))
    for i in range(first, last):
        begin = used
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            if k + AHEAD < end:
                ahead = uint64(b.start[uint64(a.columns[k + AHEAD])])
                prefetch(b.columns, ahead)
                prefetch(b.values, ahead)
                prefetch(b.values, ahead + LINE)
            j, value = uint64(a.columns[k]), a.values[k]
            for m in range(uint64(b.start[j]), uint64(b.start[j + ONE])):
                c, term = uint64(b.columns[m]), value * b.values[m]
                at = place[c]
                new = at < begin
                at = used if new else at
                total = values[uint64(at - left)] + term
                values[uint64(at - left)] = term if new else total
                columns[uint64(at - left)] = c
                place[c] = at
                used += new
        if below != EVERY:
            kept = begin - left
            for m in range(uint64(begin - left), uint64(used - left)):
                c = columns[m] - below
                columns[uint64(kept)], values[uint64(kept)] = c, values[m]
                kept += c >= i
            left = used - kept
        ends[i - first] = used - left
        if ascending:
            found = values[begin:used].copy()
            sort_short(columns[begin:used])
            for m in range(uint64(begin), uint64(used)):
                values[m] = found[uint64(place[uint64(columns[m])] - begin)]
    return used - left


@compiled()
def _numeric(first: Any, last: Any, a: Any, b: Any, width: Any, out: Any) -> None:
    """Values of rows first .. last of A B, whose columns are known; rows of B are requested ahead."""
    place, end = scratch(width, np.int64), uint64(len(a.columns))
    for i in range(first, last):
        for k in range(uint64(out.start[i]), uint64(out.start[i + 1])):
            place[uint64(out.columns[k])] = k
            out.values[k] = -0.0  # and not 0.0, which would change a sum of terms that are -0.0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            if k + AHEAD < end:
                ahead = uint64(b.start[uint64(a.columns[k + AHEAD])])
                prefetch(b.columns, ahead)
                prefetch(b.values, ahead)
                prefetch(b.values, ahead + LINE)
            j, value = uint64(a.columns[k]), a.values[k]
            for m in range(uint64(b.start[j]), uint64(b.start[j + ONE])):
                out.values[uint64(place[uint64(b.columns[m])])] += value * b.values[m]


@compiled()
def _take_upper(first: Any, last: Any, a: Any, mirrored: Any) -> Any:
    """Entries above the diagonal of A in rows first .. last of Aᵀ; returns the entries that only one of them has."""
    place = scratch(len(a.start), np.int64)
    fill(place, -1)
    wrong = 0
    for i in range(first, last):
        begin = a.start[i]
        for k in range(uint64(begin), uint64(a.start[i + 1])):
            place[uint64(a.columns[k])] = k
        for k in range(uint64(mirrored.start[i]), uint64(mirrored.start[i + 1])):
            other = place[uint64(mirrored.columns[k])]
            if other < begin:
                wrong += 1
            elif mirrored.columns[k] > i:
                mirrored.values[k] = a.values[uint64(other)]
        wrong += abs(a.start[i + 1] - begin - (mirrored.start[i + 1] - mirrored.start[i]))
    return wrong


@compiled()
def _largest(first: Any, last: Any, values: Any) -> Any:
    """The largest size of these numbers."""
    found = 0.0
    for i in range(uint64(first), uint64(last)):
        size = abs(values[i])
        found = size if size > found else found
    return found


@compiled()
def _fill_lost(
    first: Any, last: Any, coarse: Any, below: Any, r: Any, diagonal: Any, largest: Any, negligible: Any
) -> None:
    """Rows whose diagonal is more than that of the largest sum that there may be are not lost, and read no further."""
    for i in range(uint64(first), uint64(last)):
        at, end = uint64(coarse.start[i]), uint64(coarse.start[i + ONE])
        while at < end and coarse.columns[at] != below + i:
            at += ONE
        most = negligible * (np.float64(r.start[i + ONE] - r.start[i]) * largest)
        if at == end or coarse.values[at] > most:
            continue
        size = 0.0
        for k in range(uint64(r.start[i]), uint64(r.start[i + ONE])):
            size += r.values[k] * r.values[k] * diagonal[uint64(r.columns[k])]
        if coarse.values[at] <= negligible * size:
            coarse.values[uint64(coarse.start[i]) : end] = 0.0
            coarse.values[at] = size if size > 0.0 else 1.0  # a column of P that is zero


@compiled()
def _symmetrize(a: Any, below: Any) -> None:
    rows = len(a.start) - 1
    place = a.start[:-1].copy()  # in each row, the first entry whose column was not met yet
    for i in range(rows):
        for k in range(place[i], a.start[i + 1]):
            j = a.columns[k] - below
            if j <= i or j >= rows:
                continue
            while place[j] < a.start[j + 1] and a.columns[place[j]] < below + i:
                place[j] += 1
            if place[j] < a.start[j + 1] and a.columns[place[j]] == below + i:
                a.values[place[j]] = a.values[k]
