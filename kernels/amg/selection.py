"""Some rows of a matrix, with their entries in some columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

EVERY: Final = (-1, 2**62)
"""A range of all columns."""


def selected(a: Csr, rows: Any, columns: tuple[int, int], team: Team) -> Csr:
    """Some rows of a matrix, in this order, with their entries in columns columns[0] .. columns[1].

    Args:
        a: the matrix; columns of any integer type, which they keep.
        rows: int64; None for all.
        columns: the first one that is taken, and the one behind the last.
        team: shares the rows.
    """
    count, wanted = (a.size, np.zeros(0, dtype=np.int64)) if rows is None else (len(rows), rows)
    start = np.zeros(count + 1, dtype=np.int64)
    low, high = map(np.int64, columns)
    team.run(_count, 0, count, a.start, a.columns, wanted, low, high, start[1:])
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=a.columns.dtype), np.empty(start[-1]))
    team.run(_take, 0, count, *a, wanted, low, high, *out)
    return out


@compiled()
def _count(begin: Any, end: Any, start: Any, columns: Any, rows: Any, low: Any, high: Any, lengths: Any) -> None:
    for i in range(begin, end):
        row = rows[i] if len(rows) else i
        found = 0
        for k in range(start[row], start[row + 1]):
            found += int((columns[k] >= low) & (columns[k] < high))
        lengths[i] = found


@compiled()
def _take(
    begin: Any,
    end: Any,
    start: Any,
    columns: Any,
    values: Any,
    rows: Any,
    low: Any,
    high: Any,
    begins: Any,
    out_columns: Any,
    out_values: Any,
) -> None:
    for i in range(begin, end):
        row, at = rows[i] if len(rows) else i, begins[i]
        for k in range(start[row], start[row + 1]):
            if (columns[k] >= low) & (columns[k] < high):
                out_columns[at] = columns[k]
                out_values[at] = values[k]
                at += 1
