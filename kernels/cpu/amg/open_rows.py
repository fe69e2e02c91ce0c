"""Rows of the open cells of a box of a grid, from weights offset after offset: cells that are left out have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dsolver.kernels.amg import OpenBox, Triple
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr


def open_rows(box: OpenBox, offsets: Sequence[Triple], weights: Any, team: Team) -> Csr:
    """The rows of a box's open cells, without entries that are zero beside the diagonal, in the order of the offsets.

    Args:
        box: the cells.
        offsets: the K offsets of the columns, (0, 0, 0) among them.
        weights: float64 (K cells,), offset after offset.
        team: shares the rows.
    """
    rows = len(box.cells)
    where = (box.shape[0], box.shape[1], box.numbering.reshape(-1), box.names, box.cells)
    given = (*where, *box.steps(offsets), np.ascontiguousarray(weights).reshape(len(offsets), -1))
    start = np.zeros(rows + 1, dtype=np.int64)
    team.run(_count, 0, rows, *given, start[1:], worth=ROWS_WORTH_A_THREAD)
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    team.run(_fill, 0, rows, *given, out, worth=ROWS_WORTH_A_THREAD)
    return out


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _count(
    first: Any,
    last: Any,
    nx: Any,
    ny: Any,
    numbering: Any,
    names: Any,
    cells: Any,
    ahead: Any,
    slots: Any,
    center: Any,
    weights: Any,
    lengths: Any,
) -> None:
    for row in range(first, last):
        cell, n = cells[row], 0
        place = 1 + cell % nx + (nx + 2) * (1 + cell // nx % ny + (ny + 2) * (1 + cell // (nx * ny)))
        for q in range(len(ahead)):
            seen = numbering[place + ahead[q]]
            if seen >= 0 and names[seen] >= 0 and (q == center or weights[slots[q], cell] != 0.0):
                n += 1
        lengths[row] = n


@compiled()
def _fill(
    first: Any,
    last: Any,
    nx: Any,
    ny: Any,
    numbering: Any,
    names: Any,
    cells: Any,
    ahead: Any,
    slots: Any,
    center: Any,
    weights: Any,
    rows: Any,
) -> None:
    start, columns, values = rows
    for row in range(first, last):
        cell, k = cells[row], start[row]
        place = 1 + cell % nx + (nx + 2) * (1 + cell // nx % ny + (ny + 2) * (1 + cell // (nx * ny)))
        for q in range(len(ahead)):
            seen = numbering[place + ahead[q]]
            if seen < 0 or names[seen] < 0:
                continue
            weight = weights[slots[q], cell]
            if q == center or weight != 0.0:
                columns[k], values[k] = names[seen], weight
                k += 1
