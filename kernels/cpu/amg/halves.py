"""Symmetric matrices by their halves: of each row the entries from the diagonal on, and the others as their images.

Columns of a chunk's rows are places in a window (`dsolver.multigrid.algebraic.rows.window`). Own rows have images of
each other here; entries in columns behind these have theirs with the chunks that own them, and those in columns before
these come from there.
"""

from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numba import uint64

from dsolver.kernels.amg import Images
from dsolver.kernels.cpu.amg.products import ONE
from dsolver.kernels.cpu.amg.transposes import count_columns, fill_mirrored, transposed
from dsolver.kernels.cpu.csr.ranges import outside
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team, rows_worth
from dsolver.kernels.formats.csr import Csr


class Halves:
    """The half of a chunk's rows, which is turned where whole rows are made of it, and not where it is sent.

    `upper`: rows that have no entries before the diagonal, column i of row i. They are kept, with their columns renamed
    by `tight`.
    """

    def __init__(self, upper: Csr, team: Team) -> None:
        # rows from the diagonal on, own columns from 0; in any order.
        self.upper, self._columns, self._team = upper, upper.size, team

    @property
    def rows(self) -> int:
        """Number of own rows, whose columns are the first ones."""
        return self.upper.size

    def tight(self) -> Any:
        """Leave out columns behind own rows that have no entries; which of these have some, int64."""
        rows, columns = self.rows, self.upper.columns
        entries = outside(columns, 0, rows, self._team)
        behind = columns[entries] - rows
        marks = np.zeros(behind.max(initial=-1) + 1, dtype=np.bool_)
        marks[behind] = True
        columns[entries] = rows - 1 + np.cumsum(marks, dtype=np.int32)[behind]
        used = np.flatnonzero(marks)
        self._columns = rows + len(used)
        return used

    @cached_property
    def turned(self) -> Csr:
        """A row for each own column and for each behind these, whose columns are own rows, ascending."""
        return transposed(self.upper, self._columns, self._team)

    @property
    def behind(self) -> Csr:
        """Entries in columns behind own rows: a row for each of these, whose columns are own rows."""
        start, columns, values = self.turned
        first = start[self.rows]
        return Csr(start[self.rows :] - first, columns[first:], values[first:])


def completed(half: Halves, before: Images | None = None, below: int = 0, *, team: Team) -> Csr:
    """Whole rows with columns ascending, entries before the diagonal those of their mirror images.

    `before`: entries of columns before those of own rows. `below`: number of these columns.
    """
    turned, rows = half.turned, half.rows
    parts = team.run(count_columns, 0, turned.size, turned, rows, worth=rows_worth(turned))
    counts = [of for *_, of in parts]
    lengths = np.zeros(rows, dtype=np.int64) if before is None else np.bincount(before.rows, minlength=rows)
    start, first = np.zeros(rows + 1, dtype=np.int64), np.empty(rows, dtype=np.int64)
    team.run(
        _lengths, 0, rows, turned, lengths, sum(counts[1:], counts[0]), start[1:], first, worth=ROWS_WORTH_A_THREAD
    )
    np.cumsum(start, out=start)
    first += start[:-1]
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    if before is not None:
        _place(*before, start[:-1].copy(), out)
    places = list(accumulate(counts[:-1], np.add, initial=first))

    def fill(number: int) -> None:
        begin, end, _ = parts[number]
        _copy(begin, min(end, rows), turned, lengths, below, out)
        fill_mirrored(begin, end, places[number], turned, below, out)

    team.each(fill, len(parts))
    return out


@compiled()
def _lengths(begin: Any, end: Any, turned: Any, before: Any, counts: Any, lengths: Any, first: Any) -> None:
    """Lengths of whole rows, and where entries from the diagonal on begin in each: the diagonal's has one place."""
    for i in range(uint64(begin), uint64(end)):
        last = turned.start[i + ONE]
        own = last - turned.start[i]
        both = int(own > 0 and turned.columns[uint64(last - 1)] == i)
        first[i] = before[i] + own - both
        lengths[i] = first[i] + counts[i]


@compiled()
def _place(rows: Any, columns: Any, values: Any, place: Any, out: Any) -> None:
    """Entries of columns before own ones, in the order in which they come."""
    for k in range(len(rows)):
        at = place[rows[k]]
        place[rows[k]] = at + 1
        out.columns[at] = columns[k]
        out.values[at] = values[k]


@compiled()
def _copy(begin: Any, end: Any, turned: Any, before: Any, below: Any, out: Any) -> None:
    """Entries up to the diagonal, which are rows of what is turned."""
    for i in range(uint64(begin), uint64(end)):
        to = uint64(out.start[i] + before[i])
        for k in range(uint64(turned.start[i]), uint64(turned.start[i + ONE])):
            out.columns[to] = turned.columns[k] + below
            out.values[to] = turned.values[k]
            to += ONE
