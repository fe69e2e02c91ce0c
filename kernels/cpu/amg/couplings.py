"""Strong couplings of a chunk's rows, by the classical measure, and how many rows depend on each.

Rows are numbered in a window: the ghosts with smaller global numbers, the chunk's own rows, the ghosts with larger
ones. So columns that ascend in the window ascend in the whole matrix, and every sum has one order for any number of
chunks.
"""

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from dsolver.kernels.cpu.csr.rows import written
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import fill, scratch
from dsolver.kernels.cpu.loops.sorting import sort_short
from dsolver.kernels.cpu.loops.team import Team, rows_worth
from dsolver.kernels.formats.csr import Csr

DEPENDS: Final = 1  # bit of an entry (i, j): row i depends strongly on j
LEADS: Final = 2  # bit of an entry (i, j): row j depends strongly on i
ONE: Final = uint64(1)
HALF: Final = 32
LOW: Final = (1 << HALF) - 1
# Places in arrays are unsigned where time counts: numba then needs no test for negative ones.


def row_measures(a: Csr, below: int, team: Team) -> tuple[Any, Any, Any]:
    """Size of the most negative coupling of each row, diagonal, and sum of sizes of entries, float64 (rows,) each."""
    largest, diagonal, sizes = np.empty(a.size), np.empty(a.size), np.empty(a.size)
    team.run(_measure, 0, a.size, a, below, largest, diagonal, sizes, worth=rows_worth(a))
    return largest, diagonal, sizes


def couplings(a: Csr, below: int, largest: Any, theta: float, team: Team) -> tuple[Any, Any]:
    """Bits of each entry, `DEPENDS` and `LEADS`, and the number of rows that depend on each row.

    Row i depends strongly on j if -a_ij > theta max_k -a_ik (Ruge and Stüben 1987). The matrix is symmetric, so who
    depends on i follows from the largest couplings of its neighbors, and nothing is transposed.

    Args:
        largest: of `row_measures`, for every row of the window.

    Returns:
        bits, uint8 (entries,); counts, int64 (rows,).
    """
    bits, counts = np.empty(len(a.columns), dtype=np.uint8), np.empty(a.size, dtype=np.int64)
    team.run(_couple, 0, a.size, a, below, largest, theta, bits, counts, worth=rows_worth(a))
    return bits, counts


def paths(
    a: Csr, points: Any, below: int, bits: Any, coarse: Any, seen: Csr, columns: int, least: int, team: Team
) -> Csr:
    """Couplings of own coarse points by at least so many paths of strong couplings to other coarse points.

    A path has two couplings of one direction; a single coupling counts as two paths.

    Args:
        coarse: int32, of every point of the window its number among the columns that are coarse, -1 for fine points.
        seen: of every point of the window the coarse points that it is coupled with, with values as of `coded`.

    Returns:
        a row for each own coarse point, columns ascending, with bits for values.
    """

    def most(first: int, last: int) -> Any:
        return _most_paths(first, last, points, a, seen)

    def write(first: int, last: int, *room: Any) -> Any:
        return _paths(first, last, points, a, below, bits, coarse, seen, columns, least, *room)

    return written(team, len(points), most, write)


@njit(inline="always")
def coded(value: Any, bits: Any) -> Any:
    """A strong coupling (i, j), a negative value, with its directions.

    It is itself if it has both, its size if row i depends on j alone, and zero if j depends on i alone.
    """
    return value if bits == DEPENDS | LEADS else -value if bits & DEPENDS else 0.0


@compiled()
def _measure(first: Any, last: Any, a: Any, below: Any, largest: Any, diagonal: Any, sizes: Any) -> None:
    for i in range(first, last):
        most = center = size = 0.0
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            value, own = a.values[k], a.columns[k] == below + i
            size += abs(value)
            if own:
                center = value
            coupling = 0.0 if own else -value
            most = coupling if coupling > most else most
        largest[i], diagonal[i], sizes[i] = most, center, size


@compiled()
def _couple(first: Any, last: Any, a: Any, below: Any, largest: Any, theta: Any, bits: Any, counts: Any) -> None:
    """Whether a coupling is strong is no branch: a processor would not foresee it."""
    for i in range(first, last):
        n = 0
        own = theta * largest[below + i]
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            j, value = a.columns[k], -a.values[k]
            found: Any = 0
            if j != below + i and value > 0.0:
                found = np.int64(value > own) | (np.int64(value > theta * largest[uint64(j)]) << 1)
            bits[k] = found
            n += found >> 1
        counts[i] = n


@compiled()
def _most_paths(first: Any, last: Any, points: Any, a: Any, seen: Any) -> Any:
    """Paths of points first .. last, at most."""
    found = 0
    for p in range(first, last):
        for k in range(uint64(a.start[points[p]]), uint64(a.start[points[p] + 1])):
            j = uint64(a.columns[k])
            found += 1 + seen.start[j + ONE] - seen.start[j]
    return found


@compiled()
def _paths(first: Any, last: Any, *given: Any) -> Any:
    """Rows of points first .. last, one after the other; returns their number of entries.

    Whether a column is new is no branch: a processor would not foresee it.
    """
    points, a, below, bits, coarse, seen, width, least, ends, columns, values = given
    place = scratch(width, np.int64)  # of each column, where its counts stand, counted over all rows
    fill(place, -1)
    counts = scratch(width + 1, np.int64)  # paths of both directions, in a half each
    base = used = 0
    wanted = np.int64(least)
    for p in range(first, last):
        i, n = points[p], 0
        row = columns[used:]
        for k in range(uint64(a.start[i]), uint64(a.start[i + 1])):
            j, bit = uint64(a.columns[k]), np.int64(bits[k])
            if bit == 0:
                continue
            if coarse[j] >= 0:
                n = _count(uint64(coarse[j]), bit, 2, base, place, counts, row, n)
            for m in range(uint64(seen.start[j]), uint64(seen.start[j + ONE])):
                value = seen.values[m]
                bits_there = np.int64(value != 0.0) | (np.int64(value <= 0.0) << 1)
                n = _count(uint64(seen.columns[m]), bit & bits_there, 1, base, place, counts, row, n)
        kept, own = 0, coarse[below + i]
        for m in range(uint64(n)):
            column, found = row[m], counts[m]
            row[uint64(kept)] = column
            kept += (column != own) & (((found & LOW) >= wanted) | ((found >> HALF) >= wanted))
        sort_short(row[:kept])
        for m in range(uint64(kept)):
            found = counts[uint64(place[uint64(row[m])] - base)]
            values[uint64(used) + m] = ((found & LOW) >= wanted) + 2 * ((found >> HALF) >= wanted)
        base += n
        used += kept
        ends[p - first] = used
    return used


@njit(inline="always")
def _count(column: Any, bits: Any, times: Any, base: Any, place: Any, counts: Any, row: Any, n: Any) -> Any:
    """Count a path to a column for the directions in bits; returns the number of columns met so far."""
    at = place[column] - base
    new = at < 0
    at = n if new else at
    more = times * ((bits & 1) + ((bits >> 1) << HALF))
    before = counts[uint64(at)]
    counts[uint64(at)] = more if new else before + more
    row[uint64(at)] = column
    place[column] = at + base
    return n + new
