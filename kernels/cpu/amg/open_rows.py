"""Rows of the open cells of a box of a grid, from weights offset after offset: cells that are left out have none."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numba import njit, uint64

from dsolver.kernels.amg import OpenBox, Triple
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE

ONE: Final = uint64(1)


def open_rows(box: OpenBox, offsets: Sequence[Triple], weights: Any, team: Team) -> Csr:
    """The rows of a box's open cells, without entries that are zero beside the diagonal, in the order of the offsets.

    Args:
        weights: float64 (K rows,), offset after offset.
    """
    rows = len(box.cells)
    columns = box.position, box.left_out, box.beyond
    where = (box.shape[0], box.shape[1], box.numbering.reshape(-1), columns, box.cells)
    given = (*where, *box.steps(offsets), np.ascontiguousarray(weights).reshape(len(offsets), -1))
    start = np.zeros(rows + 1, dtype=np.int64)
    team.run(_count, 0, rows, *given, start[1:], worth=ROWS_WORTH_A_THREAD)
    np.cumsum(start, out=start)
    out = Csr(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1]))
    team.run(_fill, 0, rows, *given, out, worth=ROWS_WORTH_A_THREAD)
    return out


def raised(rows: Csr, few: Any, factors: Any) -> Any:
    """Values of rows, of which a few, int32, have their diagonals times factors: float64."""
    values = rows.values.copy()
    lengths = rows.start[few + 1] - rows.start[few]
    row = np.repeat(np.arange(len(few)), lengths)
    entries = np.arange(len(row)) + np.repeat(rows.start[few] - np.cumsum(lengths) + lengths, lengths)
    own = rows.columns[entries] == few[row]
    values[entries[own]] *= factors[row[own]]
    return values


@njit(inline="always")
def _to_place(line: Any, nx: Any, ny: Any) -> Any:
    """Steps from the number of a cell in a line of the box to its place in the numbering."""
    return 1 - line * nx + (nx + 2) * (1 + line % ny + (ny + 2) * (1 + line // ny))


@njit(inline="always")
def _column(seen: Any, of: Any) -> Any:
    """The column of a cell by its number, -1 for none."""
    position, left_out, beyond = of
    if seen < 0:
        return np.int32(-1)
    if seen >= len(position):
        return beyond[uint64(seen - len(position))]
    place = position[uint64(seen)]
    return np.int32(-1) if place == left_out else np.int32(place - SLICE)


@compiled()
def _count(first: Any, last: Any, *given: Any) -> None:
    """Entries of each row."""
    nx, ny, numbering, of, cells, ahead, slots, center, weights, lengths = given
    end, to_place, count = np.int64(-1), np.int64(0), uint64(len(ahead))
    for row in range(uint64(first), uint64(last)):
        cell, n = np.int64(cells[row]), 0
        if cell >= end:
            line = cell // nx
            end, to_place = (line + 1) * nx, _to_place(line, nx, ny)
        for q in range(count):
            if _column(numbering[uint64(cell + to_place + ahead[q])], of) >= 0:
                n += int(q == uint64(center) or weights[uint64(slots[q]), row] != 0.0)
        lengths[row] = n


@compiled()
def _fill(first: Any, last: Any, *given: Any) -> None:
    nx, ny, numbering, of, cells, ahead, slots, center, weights, rows = given
    start, columns, values = rows
    end, to_place, k = np.int64(-1), np.int64(0), uint64(start[first])
    for row in range(uint64(first), uint64(last)):
        cell = np.int64(cells[row])
        if cell >= end:
            line = cell // nx
            end, to_place = (line + 1) * nx, _to_place(line, nx, ny)
        for q in range(uint64(len(ahead))):
            column = _column(numbering[uint64(cell + to_place + ahead[q])], of)
            if column < 0:
                continue
            weight = weights[uint64(slots[q]), row]
            if q == uint64(center) or weight != 0.0:
                columns[k], values[k] = column, weight
                k += ONE
