"""Set-up of a chunk's slices from its rows' entries.

Every candidate entry of a row is lower, upper or coarse (upper, at a coarse point), or belongs to the halo. Rows of a
rectangular matrix have lower ones alone. A first
pass finds each slice's shape, a second one fills it. Entries of one offset whose columns rise with the lane make a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dsolver.kernels.cpu.compiled import compiled
from dsolver.kernels.layout import SLICE

NONE, LOWER, UPPER, COARSE = -1, 0, 1, 2
SQUARE, HALO, RECTANGLE = 0, 1, 2
"""Which entries are wanted: own columns sorted by color, halo columns, or own columns as they are."""
RUN_BYTES = SLICE * 8 + 4
EXPLICIT_BYTES = SLICE * 12


@compiled()
def stencil_entries(rows: Any, shape: Any, numbering: Any, steps: Any, weights: Any, columns: Any, values: Any) -> None:
    """columns, values (K, m): the entries of m rows of a stencil; column -1 and value 0 where there is none."""
    nx, ny = shape[0], shape[1]
    per_row = weights.shape[1] > 1
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            columns[:, i] = -1
            values[:, i] = 0.0
            continue
        x, y, z = row % nx, (row // nx) % ny, row // (nx * ny)
        center = x + 1 + (nx + 2) * (y + 1 + (ny + 2) * (z + 1))
        for k in range(len(steps)):
            column = numbering[center + steps[k]]
            columns[k, i] = column
            values[k, i] = 0.0 if column < 0 else weights[k, row if per_row else 0]


@njit(inline="always")
def _kind(row: Any, column: Any, color: Any, coarse: Any, own: Any, wanted: Any) -> Any:
    """Which part of the slice an entry belongs to; `own` is the number of own columns."""
    if column < 0 or row < 0:
        return NONE
    if column >= own:
        return LOWER if wanted == HALO else NONE
    if wanted == RECTANGLE:
        return LOWER
    if wanted == HALO or column == row:
        return NONE
    if color[column] < color[row]:
        return LOWER
    return COARSE if coarse[column] else UPPER


@njit(inline="always")
def _target(column: Any, position: Any, guard: Any) -> Any:
    """Where an entry's column lies in the vector that it multiplies."""
    return position[column] if column < len(position) else column - len(position) + guard


@compiled()
def take_entries(rows: Any, all_columns: Any, all_values: Any, columns: Any, values: Any) -> None:
    """columns, values (K, m): the entries of m rows of a table (K, rows); column -1 and value 0 where there is none."""
    for k in range(len(columns)):
        for i in range(len(rows)):
            row = rows[i]
            columns[k, i] = -1 if row < 0 else all_columns[k, row]
            values[k, i] = 0.0 if columns[k, i] < 0 else all_values[k, row]


@compiled()
def measure(
    first: Any,
    last: Any,
    rows: Any,
    columns: Any,
    color: Any,
    coarse: Any,
    position: Any,
    part: Any,
    widths: Any,
    runs: Any,
) -> None:
    """widths (m / SLICE, 3) and runs (m / SLICE,): the shape of each slice of the m rows; part says what is wanted."""
    offsets = columns.shape[0]
    base = np.empty(3, np.int64)
    for s in range(first, last):
        run = True
        run_width = np.zeros(3, np.int64)
        count = np.zeros((3, SLICE), np.int64)
        for k in range(offsets):
            seen = np.zeros(3, np.bool_)
            for lane in range(SLICE):
                i = s * SLICE + lane
                kind = _kind(rows[i], columns[k, i], color, coarse, len(position), part)
                if kind == NONE:
                    continue
                count[kind, lane] += 1
                here = _target(columns[k, i], position, SLICE) - lane
                if not seen[kind]:
                    seen[kind] = True
                    base[kind] = here
                elif base[kind] != here:
                    run = False
            run_width += seen
        explicit = 0
        for kind in range(3):
            widths[s, kind] = count[kind].max()
            explicit += widths[s, kind]
        runs[s] = run and run_width.sum() * RUN_BYTES <= explicit * EXPLICIT_BYTES
        if runs[s]:
            widths[s] = run_width


@compiled()
def fill(
    first: Any,
    last: Any,
    rows: Any,
    columns: Any,
    values: Any,
    color: Any,
    coarse: Any,
    position: Any,
    part: Any,
    widths: Any,
    runs: Any,
    start: Any,
    column_start: Any,
    out_values: Any,
    out_columns: Any,
) -> None:
    """Write the entries of slices [first, last); the outputs were zero. start is local to these slices."""
    offsets = columns.shape[0]
    for s in range(first, last):
        begin = np.zeros(3, np.int64)
        begin[1] = widths[s, 0]
        begin[2] = widths[s, 0] + widths[s, 1]
        used = np.zeros((3, SLICE), np.int64)
        run_used = np.zeros(3, np.int64)
        for k in range(offsets):
            seen = np.zeros(3, np.bool_)
            for lane in range(SLICE):
                i = s * SLICE + lane
                kind = _kind(rows[i], columns[k, i], color, coarse, len(position), part)
                if kind == NONE:
                    continue
                here = _target(columns[k, i], position, SLICE)
                if runs[s]:
                    column = begin[kind] + run_used[kind]
                    seen[kind] = True
                    out_columns[column_start[s] + column] = here - lane
                else:
                    column = begin[kind] + used[kind, lane]
                    used[kind, lane] += 1
                    out_columns[column_start[s] + column * SLICE + lane] = here
                out_values[start[s] + column * SLICE + lane] = values[k, i]
            run_used += seen


@compiled()
def fill_diagonal(rows: Any, columns: Any, values: Any, diagonal: Any) -> None:
    """diagonal[i] = the entry of row i in its own column."""
    for k in range(columns.shape[0]):
        for i in range(len(rows)):
            if rows[i] >= 0 and columns[k, i] == rows[i]:
                diagonal[i] = values[k, i]


@compiled()
def storage_order(color: Any, next_position: Any, position: Any, row: Any) -> None:
    """position and row from the first position of each color; rows keep their order inside a color."""
    for i in range(len(color)):
        p = next_position[color[i]]
        next_position[color[i]] += 1
        position[i] = p
        row[p] = i


@compiled()
def reads_halo(columns: Any, rows: Any, count: Any, out: Any) -> None:
    """out[i] = row i has an entry in the halo."""
    for i in range(len(rows)):
        out[i] = False
        for k in range(columns.shape[0]):
            if rows[i] >= 0 and columns[k, i] >= count:
                out[i] = True
