"""Set-up of a chunk's slices from its rows' candidate entries.

Every candidate belongs to a section of its slice, or to none: entries of the halo and of rectangular matrices are all
in the first one, those of a square matrix lower or upper ones. Upper ones at late columns may have a third section (see
`formats.hpcg`). A first pass finds each slice's shape, a second one fills it. Candidates of one offset whose columns
rise with the lane make a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dsolver.kernels.casts import in_range
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import SLICES_WORTH_A_THREAD
from dsolver.kernels.cpu.vectors import CpuVectors
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import SLICE, Layout
from dsolver.kernels.formats.sell import Slices, checked_width

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]
NONE, LOWER, UPPER, LATE = -1, 0, 1, 2
SQUARE, HALO, RECTANGLE = 0, 1, 2
"""Kinds of entries that are wanted: own columns sorted by color, halo columns, or own columns as they are."""
RUN_BYTES = SLICE * 8 + 4
EXPLICIT_BYTES = SLICE * 12
BATCH = 8192
"""Slices assembled at a time: bounds the temporary entries of 27 points a row to 85 MB."""
NEVER = np.empty(0, dtype=np.bool_)
"""No column is late."""


def square(
    vectors: CpuVectors, where: Layout, rows: CandidateRows, late: npt.NDArray[np.bool_] = NEVER
) -> tuple[Slices, npt.NDArray[np.int64]]:
    """The entries off the diagonal in own columns, and the widths (S, 2 or 3) of the slices' sections.

    Args:
        vectors: of the value type, and the threads.
        where: the storage order.
        rows: where entries come from.
        late: bool (rows,), the columns of upper entries that come last; empty for none.
    """
    return _slices(vectors, rows, where.row[SLICE:-SLICE], where, SQUARE, late)


def diagonal(dtype: np.dtype[Any], where: Layout, rows: CandidateRows) -> npt.NDArray[Any]:
    """The diagonal, (size,), 1 on padding and guards; raises ZeroDivisionError where it is zero or missing."""
    out = np.where(where.row >= 0, 0.0, 1.0)
    for batch in _batches(where.row):
        _fill_diagonal(where.row[batch], *_candidates(rows, where.row[batch]), out[batch])
    if not out.all():
        raise ZeroDivisionError(f"row {where.row[np.flatnonzero(out == 0.0)[0]]} of a chunk has no diagonal entry")
    return in_range(out, dtype)


def halo(vectors: CpuVectors, where: Layout, columns: Layout, rows: CandidateRows) -> tuple[I32, Slices]:
    """The rows with entries in the halo of a vector whose own items are those of `columns`, and these entries."""
    boundary = [np.empty(0, dtype=np.int32)]
    if int(rows.numbering.max(initial=-1)) >= columns.rows:  # else no row needs to be looked at
        for batch in _batches(where.row):
            numbers, _ = _candidates(rows, where.row[batch])
            reads = np.empty(numbers.shape[1], dtype=np.bool_)
            _reads_halo(numbers, where.row[batch], columns.rows, reads)
            boundary.append(np.flatnonzero(reads).astype(np.int32) + np.int32(batch.start))
    found = np.concatenate(boundary)
    slices, _ = _slices(vectors, rows, _padded(where.row[found]), columns, HALO)
    return found, slices


def rectangle(
    vectors: CpuVectors, where: Layout, columns: Layout, rows: CandidateRows, *, in_order: bool
) -> tuple[Slices, I32]:
    """The entries of a rectangular matrix in own columns, and where each row's result belongs."""
    stored = _padded(np.arange(where.rows, dtype=np.int32)) if in_order else where.row[SLICE:-SLICE]
    target = np.where(stored >= 0, where.position[stored], -1).astype(np.int32)
    slices, _ = _slices(vectors, rows, stored, columns, RECTANGLE)
    return slices, target


def _slices(
    vectors: CpuVectors,
    rows: CandidateRows,
    wanted: I32,
    columns: Layout,
    part: int,
    late: npt.NDArray[np.bool_] = NEVER,
) -> tuple[Slices, npt.NDArray[np.int64]]:
    """The wanted entries of wanted rows, and the widths (S, 2 or 3) of the slices' sections."""
    count, team, dtype, worth = len(wanted) // SLICE, vectors.team, vectors.dtype, SLICES_WORTH_A_THREAD
    order = (columns.color, late, columns.position)
    widths = np.zeros((count, 3 if len(late) else 2), dtype=np.int64)
    runs = np.zeros(count, dtype=np.bool_)
    for batch in _batches(wanted):
        numbers, _ = _candidates(rows, wanted[batch])
        s = slice(batch.start // SLICE, batch.stop // SLICE)
        found = (widths[s], runs[s])
        team.run(_measure, 0, s.stop - s.start, wanted[batch], numbers, *order, part, *found, worth=worth)
    width = widths.sum(axis=1)
    checked_width(int(width.max(initial=0)))
    start, column_start = _offsets(width * SLICE), _offsets(np.where(runs, width, width * SLICE))
    values, out = np.zeros(int(start[-1]), dtype), np.zeros(int(column_start[-1]), dtype=np.int32)
    for batch in _batches(wanted):
        entries = _candidates(rows, wanted[batch])
        s = slice(batch.start // SLICE, batch.stop // SLICE)
        shape = (part, widths[s], runs[s], start[s], column_start[s])
        team.run(_fill, 0, s.stop - s.start, wanted[batch], *entries, *order, *shape, values, out, worth=worth)
    upper = widths[:, 0].astype(np.int32)
    return Slices(start=start, upper=upper, column_start=column_start, values=values, columns=out), widths


def _candidates(rows: CandidateRows, wanted: I32) -> tuple[I32, F64]:
    """Columns (or -1) and values (K, m) of the candidate entries of m rows."""
    steps = rows.steps()
    columns = np.empty((len(steps), len(wanted)), dtype=np.int32)
    values = np.empty(columns.shape)
    _take(wanted, rows.walk, rows.numbering, steps, rows.weights.reshape(len(steps), -1), columns, values)
    return columns, values


def _padded(rows: I32) -> I32:
    """The rows, with -1 up to whole slices."""
    out = np.full(-(-len(rows) // SLICE) * SLICE, -1, dtype=np.int32)
    out[: len(rows)] = rows
    return out


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _batches(rows: I32) -> list[slice]:
    step = BATCH * SLICE
    return [slice(i, min(i + step, len(rows))) for i in range(0, len(rows), step)]


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _take(rows: Any, walk: Any, numbering: Any, steps: Any, weights: Any, columns: Any, values: Any) -> None:
    """columns, values (K, m): the candidates of m rows; column -1 and value 0 where there is none."""
    nx, ny, first, line, lines = walk
    per_row = weights.shape[1] > 1
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            columns[:, i] = -1
            values[:, i] = 0.0
            continue
        place = first + row % nx + line * (row // nx % ny + lines * (row // (nx * ny)))
        for k in range(len(steps)):
            column = numbering[place + steps[k]]
            columns[k, i] = column
            values[k, i] = 0.0 if column < 0 else weights[k, row if per_row else 0]


@njit(inline="always")
def _section(row: Any, column: Any, color: Any, late: Any, own: Any, wanted: Any) -> Any:
    """The section of the slice that an entry belongs to; `own` is the number of own columns."""
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
    return LATE if len(late) > 0 and late[column] else UPPER


@njit(inline="always")
def _target(column: Any, position: Any, guard: Any) -> Any:
    """Index of an entry's column in the vector that it multiplies."""
    return position[column] if column < len(position) else column - len(position) + guard


# Sums, largest items and copies of whole arrays by loops: those of numba's own take a second to compile, most of it for
# the text of an error that says which shapes do not fit.


@njit(inline="always")
def _add(x: Any, y: Any) -> None:
    """y += x."""
    for i in range(len(x)):
        y[i] += x[i]


@njit(inline="always")
def _total(x: Any) -> Any:
    total = 0
    for item in x:
        total += item
    return total


@njit(inline="always")
def _widest(counts: Any, out: Any) -> None:
    """out[i] = the largest of counts[i, :]."""
    for i in range(len(out)):
        out[i] = 0
        for count in counts[i]:
            out[i] = max(out[i], count)


@compiled()
def _measure(
    first: Any,
    last: Any,
    rows: Any,
    columns: Any,
    color: Any,
    late: Any,
    position: Any,
    part: Any,
    widths: Any,
    runs: Any,
) -> None:
    """widths (m / SLICE, sections) and runs (m / SLICE,): the shape of each slice of the m rows."""
    offsets, sections = columns.shape[0], widths.shape[1]
    base = np.empty(sections, np.int64)
    for s in range(first, last):
        run = True
        run_width = np.zeros(sections, np.int64)
        count = np.zeros((sections, SLICE), np.int64)
        for k in range(offsets):
            seen = np.zeros(sections, np.bool_)
            for lane in range(SLICE):
                i = s * SLICE + lane
                section = _section(rows[i], columns[k, i], color, late, len(position), part)
                if section == NONE:
                    continue
                count[section, lane] += 1
                here = _target(columns[k, i], position, SLICE) - lane
                if not seen[section]:
                    seen[section] = True
                    base[section] = here
                elif base[section] != here:
                    run = False
            _add(seen, run_width)
        _widest(count, widths[s])
        runs[s] = run and _total(run_width) * RUN_BYTES <= _total(widths[s]) * EXPLICIT_BYTES
        if runs[s]:
            widths[s] = 0
            _add(run_width, widths[s])


@compiled()
def _fill(
    first: Any,
    last: Any,
    rows: Any,
    columns: Any,
    values: Any,
    color: Any,
    late: Any,
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
    offsets, sections = columns.shape[0], widths.shape[1]
    for s in range(first, last):
        begin = np.zeros(sections, np.int64)
        for section in range(1, sections):
            begin[section] = begin[section - 1] + widths[s, section - 1]
        used = np.zeros((sections, SLICE), np.int64)
        run_used = np.zeros(sections, np.int64)
        for k in range(offsets):
            seen = np.zeros(sections, np.bool_)
            for lane in range(SLICE):
                i = s * SLICE + lane
                section = _section(rows[i], columns[k, i], color, late, len(position), part)
                if section == NONE:
                    continue
                here = _target(columns[k, i], position, SLICE)
                if runs[s]:
                    column = begin[section] + run_used[section]
                    seen[section] = True
                    out_columns[column_start[s] + column] = here - lane
                else:
                    column = begin[section] + used[section, lane]
                    used[section, lane] += 1
                    out_columns[column_start[s] + column * SLICE + lane] = here
                out_values[start[s] + column * SLICE + lane] = values[k, i]
            _add(seen, run_used)


@compiled()
def _fill_diagonal(rows: Any, columns: Any, values: Any, diagonal: Any) -> None:
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
def _reads_halo(columns: Any, rows: Any, count: Any, out: Any) -> None:
    """out[i] = row i has an entry in the halo."""
    for i in range(len(rows)):
        out[i] = False
        for k in range(columns.shape[0]):
            if rows[i] >= 0 and columns[k, i] >= count:
                out[i] = True
