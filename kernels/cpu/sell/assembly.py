"""Table of loops that make a chunk's slices of its rows' candidate entries, and their calls.

Every candidate belongs to a section of its slice, or to none: entries of the halo and of rectangular matrices are all
in the first one, those of a square matrix lower or upper ones. Upper ones at late columns may have a third section (see
`formats.hpcg`). A first pass finds each slice's shape, a second one fills it; where there are several batches both look
for their candidates. Candidates of one offset whose columns rise with the lane make a run.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, uint64

from dsolver.kernels.casts import in_range
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import fill, scratch
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
BATCH = 8192  # slices assembled at a time: bounds the temporary entries of 27 points a row to 35 MB
NEVER = np.empty(0, dtype=np.bool_)  # no column is late


def square(
    vectors: CpuVectors, where: Layout, rows: CandidateRows, late: npt.NDArray[np.bool_] = NEVER
) -> tuple[Slices, npt.NDArray[np.int64]]:
    """Entries off the diagonal in own columns, widths (S, 2 or 3) of sections; late: bool (rows,), last columns."""
    return _slices(vectors, rows, where.row[SLICE:-SLICE], where, SQUARE, late)


def diagonal(dtype: np.dtype[Any], where: Layout, rows: CandidateRows) -> npt.NDArray[Any]:
    """The diagonal, (size,), 1 on padding and guards; raises ZeroDivisionError where it is zero or missing."""
    out, steps = np.where(where.row >= 0, 0.0, 1.0), rows.steps()
    weights = rows.weights.reshape(len(steps), -1)
    for batch in _batches(where.row):
        _fill_diagonal(where.row[batch], rows.walk, rows.numbering, steps, weights, out[batch])
    if not out.all():
        raise ZeroDivisionError(f"row {where.row[np.flatnonzero(out == 0.0)[0]]} of a chunk has no diagonal entry")
    return in_range(out, dtype)


def halo(vectors: CpuVectors, where: Layout, columns: Layout, rows: CandidateRows) -> tuple[I32, Slices]:
    """The rows with entries in the halo of a vector whose own items are those of `columns`, and these entries."""
    boundary = [np.empty(0, dtype=np.int32)]
    if int(rows.numbering.max(initial=-1)) >= columns.rows:  # else no row needs to be looked at
        for batch in _batches(where.row):
            reads = np.zeros(batch.stop - batch.start, dtype=np.bool_)
            _reads_halo(where.row[batch], rows.walk, rows.numbering, rows.steps(), columns.rows, reads)
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
    widths = np.zeros((count, 3 if len(late) else 2), dtype=np.int64)
    runs = np.zeros(count, dtype=np.bool_)
    batches, order = _batches(wanted), (columns.color, late, columns.position, part)
    steps = rows.steps()
    weights = rows.weights.reshape(len(steps), -1)

    def entries(batch: slice) -> _Entries:
        among, shape = wanted[batch], (len(steps), batch.stop - batch.start)
        made = _Entries(np.empty(shape, dtype=np.int8), np.empty(shape, dtype=np.int32))
        team.run(_take, 0, len(among) // SLICE, among, rows.walk, rows.numbering, steps, *order, *made, worth=worth)
        return made

    for batch in batches:
        found, s = entries(batch), slice(batch.start // SLICE, batch.stop // SLICE)
        team.run(_measure, 0, s.stop - s.start, *found, widths[s], runs[s], worth=worth)
    width = widths.sum(axis=1)
    checked_width(int(width.max(initial=0)))
    start, column_start = _offsets(width * SLICE), _offsets(np.where(runs, width, width * SLICE))
    values, out = np.zeros(int(start[-1]), dtype), np.zeros(int(column_start[-1]), dtype=np.int32)
    for batch in batches:
        found = found if len(batches) == 1 else entries(batch)
        s = slice(batch.start // SLICE, batch.stop // SLICE)
        shape = (widths[s], runs[s], start[s], column_start[s])
        team.run(_fill, 0, s.stop - s.start, wanted[batch], weights, *found, *shape, values, out, worth=worth)
    upper = widths[:, 0].astype(np.int32)
    return Slices(start=start, upper=upper, column_start=column_start, values=values, columns=out), widths


class _Entries(NamedTuple):
    """Candidate entries (K, m) of m rows."""

    section: npt.NDArray[np.int8]  # int8, of their slices; `NONE` for those that are not wanted
    place: I32  # int32, the item of the vector that they multiply


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


@njit(inline="always")
def _start(row: Any, walk: Any) -> Any:
    """The place in the numbering from which the candidates of a row are counted."""
    nx, ny, first, line, lines = walk
    return first + row % nx + line * (row // nx % ny + lines * (row // (nx * ny)))


@compiled()
def _take(first: Any, last: Any, *given: Any) -> None:
    """The candidates of the rows of slices [first, last)."""
    rows, walk, numbering, steps, color, late, position, part, sections, places = given
    own = len(position)
    start, among = scratch(SLICE, np.int64), scratch(SLICE, np.int32)
    for s in range(first, last):
        begin = uint64(s * SLICE)
        for lane in range(uint64(SLICE)):
            row = rows[begin + lane]
            among[lane], start[lane] = row, _start(row, walk) if row >= 0 else -1
        for k in range(uint64(len(steps))):
            step, section, place = steps[k], sections[k, begin : begin + SLICE], places[k, begin : begin + SLICE]
            for lane in range(uint64(SLICE)):
                section[lane] = NONE
                if start[lane] < 0:
                    continue
                column = numbering[uint64(start[lane] + step)]
                if column < 0 or (column >= own) != (part == HALO):
                    continue
                if part == SQUARE:
                    row = among[lane]
                    if column == row:
                        continue
                    if color[uint64(column)] >= color[uint64(row)]:
                        section[lane] = LATE if len(late) > 0 and late[uint64(column)] else UPPER
                    else:
                        section[lane] = LOWER
                else:
                    section[lane] = LOWER
                place[lane] = position[uint64(column)] if part != HALO else column - own + SLICE


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


@njit(inline="always")
def _begin(widths: Any, used: Any) -> None:
    """used (sections, SLICE) = entry columns of the slice before each section."""
    before = 0
    for section in range(len(widths)):
        for lane in range(SLICE):
            used[section, lane] = before
        before += widths[section]


@njit(inline="always")
def _go_on(seen: Any, used: Any) -> None:
    """used += 1 in the sections that are seen."""
    for section in range(len(seen)):
        for lane in range(SLICE):
            used[section, lane] += seen[section]


@compiled()
def _measure(first: Any, last: Any, *given: Any) -> None:
    """widths (m / SLICE, sections) and runs (m / SLICE,): the shape of each slice of the m rows."""
    kinds, places, widths, runs = given
    offsets, sections = kinds.shape[0], widths.shape[1]
    base, seen = scratch(sections, np.int64), scratch(sections, np.bool_)
    run_width, count = scratch(sections, np.int64), scratch((sections, SLICE), np.int64)
    for s in range(first, last):
        run = True
        fill(run_width, 0)
        for section in range(sections):
            fill(count[section], 0)
        begin = uint64(s * SLICE)
        for k in range(uint64(offsets)):
            fill(seen, False)
            kind, place = kinds[k, begin : begin + SLICE], places[k, begin : begin + SLICE]
            for lane in range(uint64(SLICE)):
                if kind[lane] == NONE:
                    continue
                section = uint64(kind[lane])
                count[section, lane] += 1
                here = place[lane] - np.int64(lane)
                if not seen[section]:
                    seen[section] = True
                    base[section] = here
                elif base[section] != here:
                    run = False
            _add(seen, run_width)
        _widest(count, widths[s])
        runs[s] = run and _total(run_width) * RUN_BYTES <= _total(widths[s]) * EXPLICIT_BYTES
        if runs[s]:
            fill(widths[s], 0)
            _add(run_width, widths[s])


@compiled()
def _fill(first: Any, last: Any, *given: Any) -> None:
    """Write the entries of slices [first, last); the outputs were zero. start is local to these slices."""
    rows, weights, kinds, places, widths, runs, start, column_start, out_values, out_columns = given
    offsets, sections, per_row = kinds.shape[0], widths.shape[1], weights.shape[1] > 1
    used, seen = scratch((sections, SLICE), np.int64), scratch(sections, np.bool_)
    for s in range(first, last):
        _begin(widths[s], used)
        begin, run = uint64(s * SLICE), runs[s]
        into, into_columns = out_values[start[s] :], out_columns[column_start[s] :]
        for k in range(uint64(offsets)):
            fill(seen, False)
            kind, place, weight = kinds[k, begin : begin + SLICE], places[k, begin : begin + SLICE], weights[k]
            for lane in range(uint64(SLICE)):
                if kind[lane] == NONE:
                    continue
                section = uint64(kind[lane])
                column = uint64(used[section, lane])
                if run:
                    seen[section] = True
                    into_columns[column] = place[lane] - np.int64(lane)
                else:
                    used[section, lane] += 1
                    into_columns[column * SLICE + lane] = place[lane]
                into[column * SLICE + lane] = weight[uint64(rows[begin + lane]) if per_row else uint64(0)]
            if run:
                _go_on(seen, used)


@compiled()
def _fill_diagonal(rows: Any, walk: Any, numbering: Any, steps: Any, weights: Any, diagonal: Any) -> None:
    """diagonal[i] = the entry of row i in its own column."""
    per_row = weights.shape[1] > 1
    for i in range(len(rows)):
        row = rows[i]
        if row >= 0:
            start = _start(row, walk)
            for k in range(len(steps)):
                if numbering[start + steps[k]] == row:
                    diagonal[i] = weights[k, row if per_row else 0]


@compiled()
def storage_order(color: Any, next_position: Any, position: Any, row: Any) -> None:
    """position and row from the first position of each color; rows keep their order inside a color."""
    for i in range(len(color)):
        p = next_position[color[i]]
        next_position[color[i]] += 1
        position[i] = p
        row[p] = i


@compiled()
def _reads_halo(rows: Any, walk: Any, numbering: Any, steps: Any, count: Any, out: Any) -> None:
    """out[i] = row i has an entry in the halo; out was false."""
    for i in range(len(rows)):
        if rows[i] >= 0:
            start = _start(rows[i], walk)
            for k in range(len(steps)):
                if numbering[start + steps[k]] >= count:
                    out[i] = True
