"""Table of loops over slices of rows: they are made from compressed rows, and multiplied; of blocks they are measured.

Slices are independent, so a range may be cut anywhere without changing a bit. Sums over a row are formed in the value
type.
"""

from typing import Any

import numpy as np
from numba import njit, uint64

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import scratch
from dsolver.kernels.formats.block_slices import NEAR as _NEAR
from dsolver.kernels.formats.block_slices import NEAR_REACH, WIDE
from dsolver.kernels.formats.block_slices import RUN as _RUN
from dsolver.kernels.formats.block_slices import UNIT as _UNIT
from dsolver.kernels.formats.layout import SLICE as _SLICE

SLICE, UNIT, ONE, TWO = uint64(_SLICE), uint64(_UNIT), uint64(1), uint64(2)
NEAR, RUN = uint64(_NEAR), uint64(_RUN)
NONE = 2**31 - 1

# Places in arrays are unsigned where time counts: numba then needs no test for negative ones.


@njit(inline="always")
def _run_columns(acc: Any, v: Any, place: Any, width: Any, wide: Any, values: Any, x: Any) -> None:
    for k in range(width):
        begin = uint64(wide[place + k])
        a, b = values[v : v + SLICE], x[begin : begin + SLICE]
        for lane in range(len(a)):
            acc[lane] += a[lane] * b[lane]
        v += SLICE


@njit(inline="always")
def _other_columns(acc: Any, v: Any, place: Any, width: Any, columns: Any, values: Any, x: Any) -> None:
    for _ in range(width):
        a, c = values[v : v + SLICE], columns[place : place + SLICE]
        for lane in range(len(a)):
            acc[lane] += a[lane] * x[uint64(c[lane])]
        v += SLICE
        place += SLICE


@njit(inline="always")
def _write(acc: Any, s: Any, rows: Any, y: Any) -> None:
    """y of the slice's rows."""
    p = s * SLICE
    for lane in range(min(SLICE, uint64(rows) - p)):
        y[p + lane] = acc[lane]


@compiled(fastmath={"contract"})
def spmv(first: Any, last: Any, slices: Any, words: Any, wide: Any, values: Any, rows: Any, x: Any, y: Any) -> None:
    """y = A x on slices [first, last) of single entries. `wide` are the same words as int32."""
    acc = scratch(_SLICE, values.dtype)
    for s in range(uint64(first), uint64(last)):
        v, width, kind = uint64(slices[s, 0]) * SLICE, uint64(slices[s, 2] >> 2), slices[s, 2] & 3
        place = uint64(slices[s, 1]) * UNIT
        acc[:] = 0.0
        if kind == RUN:
            _run_columns(acc, v, place // TWO, width, wide, values, x)
        elif kind == NEAR:
            _other_columns(acc, v, place, width, words, values, x[uint64(slices[s, 3]) :])
        else:
            _other_columns(acc, v, place // TWO, width, wide, values, x)
        _write(acc, s, rows, y)


@njit
def _next(start: Any, columns: Any, block: Any, row: Any, at: Any) -> Any:
    """Column of a block row's next block, or NONE; `at` are the entries of its rows that are left."""
    found = NONE
    for i in range(block):
        if at[i] < start[row * block + i + 1]:
            found = min(found, columns[at[i]] // block)
    return found


@njit
def _pass(start: Any, columns: Any, block: Any, row: Any, at: Any, column: Any) -> None:
    """Leave the entries of a block behind."""
    for i in range(block):
        while at[i] < start[row * block + i + 1] and columns[at[i]] // block == column:
            at[i] += 1


@njit
def _begin(start: Any, block: Any, rows: Any, s: Any, own: Any, at: Any) -> None:
    """The block row of each lane, -1 for none, and where its rows begin."""
    for lane in range(_SLICE):
        row = s * _SLICE + lane
        own[lane] = row if row < rows else -1
        for i in range(block):
            at[lane, i] = start[own[lane] * block + i] if own[lane] >= 0 else 0


@compiled()
def count_blocks(first: Any, last: Any, start: Any, columns: Any, block: Any, length: Any) -> None:
    """Blocks of block rows [first, last)."""
    at = scratch(block, np.int64)
    for row in range(first, last):
        for lane in range(block):  # a statement that copies them all takes two seconds to compile
            at[lane] = start[row * block + lane]
        length[row] = 0
        column = _next(start, columns, block, row, at)
        while column != NONE:
            length[row] += 1
            _pass(start, columns, block, row, at, column)
            column = _next(start, columns, block, row, at)


@njit
def _distances(start: Any, columns: Any, block: Any, own: Any, at: Any, most: Any) -> Any:
    """Number of distances of columns from lanes, `most` + 1 if more; the smallest and the largest."""
    low = high = count = 0
    while count <= most:
        smallest = NONE
        for lane in range(_SLICE):
            if own[lane] >= 0:
                column = _next(start, columns, block, own[lane], at[lane])
                if column != NONE:
                    smallest = min(smallest, column - lane)
        if smallest == NONE:
            break
        for lane in range(_SLICE):
            if own[lane] >= 0 and _next(start, columns, block, own[lane], at[lane]) == smallest + lane:
                _pass(start, columns, block, own[lane], at[lane], smallest + lane)
        low, high, count = (smallest if count == 0 else low), smallest, count + 1
    return count, low, high


@compiled()
def measure(first: Any, last: Any, *given: Any) -> None:
    """Entry columns, how columns are stored, and the base of slices [first, last): found (slices, 3)."""
    start, columns, block, rows, wide, length, block_bytes, found = given
    own, at = scratch(_SLICE, np.int64), scratch((_SLICE, block), np.int64)
    for s in range(first, last):
        _begin(start, block, rows, s, own, at)
        width, low, high = 0, NONE, -1
        for lane in range(_SLICE):
            row = own[lane]
            if row >= 0 and length[row] > 0:
                width = max(width, length[row])
                for i in range(block):
                    begin, end = start[row * block + i], start[row * block + i + 1]
                    if end > begin:
                        low, high = min(low, columns[begin] // block), max(high, columns[end - 1] // block)
        kind = _NEAR if width > 0 and high - low <= NEAR_REACH else WIDE
        base = low if width > 0 else 0
        if width > 0:
            of_values = _SLICE * block_bytes
            most = width * (of_values + (64 if kind == _NEAR else 128)) // of_values
            count, lowest, highest = _distances(start, columns, block, own, at, most)
            if count <= most and lowest >= 0 and highest + _SLICE <= wide:
                width, kind = count, _RUN
        found[s, 0], found[s, 1], found[s, 2] = width, kind, base


@compiled()
def measure_rows(first: Any, last: Any, *given: Any) -> None:
    """Shapes of slices [first, last) of single entries, as `measure` finds them, in a tenth of the time.

    Of slices in stretches of `together`, which begin `apart` from one another.
    """
    together, apart, start, columns, rows, wide, entry_bytes, found = given
    known = scratch(64, np.int64)
    for n in range(first, last):
        s = uint64(n // together * apart + n % together)
        width, low, high = 0, NONE, -1
        for lane in range(SLICE):
            row = s * SLICE + lane
            if row < uint64(rows) and start[row + ONE] > start[row]:
                begin, end = uint64(start[row]), uint64(start[row + ONE])
                length: Any = np.int64(end - begin)
                width = max(width, length)
                low, high = min(low, columns[begin]), max(high, columns[end - ONE])
        kind = _NEAR if width > 0 and high - low <= NEAR_REACH else WIDE
        base = low if width > 0 else 0
        if width > 0:
            of_values = _SLICE * entry_bytes
            most = width * (of_values + (64 if kind == _NEAR else 128)) // of_values
            if most > len(known):
                known = scratch(2 * most, np.int64)
            count = _run_distances(start, columns, rows, s, uint64(most), known)
            if count <= most and known[0] >= 0 and known[count - 1] + _SLICE <= wide:
                width, kind = count, _RUN
        found[n, 0], found[n, 1], found[n, 2] = width, kind, base


@compiled()
def fill_rows(first: Any, last: Any, *given: Any) -> None:
    """Columns and values of slices [first, last) of single entries; values (K, SLICE) are zero before.

    A row that has all of its slice's runs has them in their order, so none looks for the run of an entry.
    """
    start, columns, entries, rows, slices, words, wide, values = given
    known = scratch(64, np.int64)
    for s in range(uint64(first), uint64(last)):
        v, place = uint64(slices[s, 0]), uint64(slices[s, 1]) * UNIT
        width, kind, base = uint64(slices[s, 2] >> 2), np.int64(slices[s, 2] & 3), np.int64(slices[s, 3])
        if kind == _RUN:
            if width > uint64(len(known)):
                known = scratch(np.int64(2 * width), np.int64)
            _run_distances(start, columns, rows, s, width, known)
            for k in range(width):
                wide[place // TWO + k] = known[k]
        for lane in range(SLICE):
            row, begin, end = s * SLICE + lane, uint64(0), uint64(0)
            if row < uint64(rows):
                begin, end = uint64(start[row]), uint64(start[row + ONE])
            if kind != _RUN or end - begin == width:
                for k in range(end - begin):
                    values[v + k, lane] = entries[begin + k]
            else:
                _fill_holed(columns, entries, begin, end, v, lane, known, values)
            if kind != _RUN:
                _fill_columns(columns, begin, end, kind, base, place, width, lane, words, wide)


@njit(inline="always")
def _fill_holed(columns: Any, entries: Any, begin: Any, end: Any, v: Any, lane: Any, known: Any, values: Any) -> None:
    """Values of a row that has not all of its slice's runs."""
    k = uint64(0)
    for i in range(begin, end):
        while known[k] != np.int64(columns[i]) - np.int64(lane):
            k += ONE
        values[v + k, lane] = entries[i]


@njit(inline="always")
def _fill_columns(
    columns: Any, begin: Any, end: Any, kind: Any, base: Any, place: Any, width: Any, lane: Any, words: Any, wide: Any
) -> None:
    """Columns of a row's entries, and of holes behind them that of the last one."""
    held = base
    for k in range(width):
        held = np.int64(columns[begin + k]) if begin + k < end else held
        if kind == _NEAR:
            words[place + k * SLICE + lane] = held - base
        else:
            wide[place // TWO + k * SLICE + lane] = held


@njit
def _run_distances(start: Any, columns: Any, rows: Any, s: Any, most: Any, known: Any) -> Any:
    """The distances of a slice's columns from their lanes, ascending, into `known`; returns how many, or `most` + 1."""
    count, begin = uint64(0), s * SLICE
    for lane in range(min(SLICE, uint64(rows) - begin)):
        first, last = uint64(start[begin + lane]), uint64(start[begin + lane + ONE])
        if last - first == count and _same(columns, first, np.int64(lane), count, known):
            continue
        k = uint64(0)
        for i in range(first, last):
            distance = np.int64(columns[i]) - np.int64(lane)
            while k < count and known[k] < distance:
                k += ONE
            if k < count and known[k] == distance:
                continue
            if count == most:
                return np.int64(most) + 1
            m = count
            while m > k:
                known[m] = known[m - ONE]
                m -= ONE
            known[k] = distance
            count += ONE
    return np.int64(count)


@njit(inline="always")
def _same(columns: Any, first: Any, lane: Any, count: Any, known: Any) -> Any:
    """Whether a row's distances are those that are known: as a rule those of the row before."""
    same = True
    for k in range(count):
        same &= known[k] == np.int64(columns[first + k]) - lane
    return same
