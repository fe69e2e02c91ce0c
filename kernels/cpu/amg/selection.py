"""Some rows of a matrix, with their entries in some columns."""

from typing import Any, Final

import numpy as np
from numba import uint64

from dsolver.kernels.amg import EVERY
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr

MOST: Final = 2**62
ONE: Final = uint64(1)
# Places in arrays are unsigned: numba then needs no test for negative ones.


def selected(a: Csr, rows: Any = None, columns: tuple[int, int] = EVERY, *, team: Team) -> Csr:
    """Some rows of a matrix, in this order, with their entries in columns columns[0] .. columns[1].

    `rows`: int64; None for all. `columns`: the first one that is taken, and the one behind the last.
    """
    if rows is None and columns == EVERY:
        return a
    count, wanted = (a.size, np.zeros(0, dtype=np.int64)) if rows is None else (len(rows), rows)
    start = np.zeros(count + 1, dtype=np.int64)
    low, high = (np.int64(min(max(end, 0), MOST)) for end in columns)
    where = a.start, a.columns, wanted, low, high, columns == EVERY
    team.run(_count, 0, count, *where, start[1:], worth=ROWS_WORTH_A_THREAD)
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=a.columns.dtype), np.empty(start[-1]))
    team.run(_take, 0, count, *where, a.values, *out, worth=ROWS_WORTH_A_THREAD)
    return out


def nonempty(start: Any) -> tuple[Any, Any]:
    """Rows that have entries, int64, and where these rows begin."""
    found = np.flatnonzero(start[1:] > start[:-1])
    return found, np.append(start[:1], start[1:][found])


@compiled()
def _count(
    begin: Any, end: Any, start: Any, columns: Any, rows: Any, low: Any, high: Any, every: Any, lengths: Any
) -> None:
    for i in range(uint64(begin), uint64(end)):
        row = uint64(rows[i] if len(rows) else i)
        first, last = uint64(start[row]), uint64(start[row + ONE])
        found = 0
        if every:
            found = last - first
        else:
            for k in range(first, last):
                found += int((columns[k] >= low) & (columns[k] < high))
        lengths[i] = found


@compiled()
def _take(*given: Any) -> None:
    """Entries that are not taken are written, too, where the next one comes, as long as the row has room for one."""
    begin, end, start, columns, rows, low, high, every, values, begins, out_columns, out_values = given
    for i in range(uint64(begin), uint64(end)):
        row, at, full = uint64(rows[i] if len(rows) else i), uint64(begins[i]), uint64(begins[i + ONE])
        first, last = uint64(start[row]), uint64(start[row + ONE])
        if every or full - at == last - first:
            for k in range(first, last):
                out_columns[at + k - first] = columns[k]
                out_values[at + k - first] = values[k]
            continue
        k = first
        while at < full:
            out_columns[at] = columns[k]
            out_values[at] = values[k]
            at += uint64((columns[k] >= low) & (columns[k] < high))
            k += ONE
