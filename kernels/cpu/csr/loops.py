"""Loops over compressed rows, as they are or in chunks.

How many sums a row's entries are added in depends on the registers, and in chunks on how far apart columns lie. So bits
differ between kinds of processors, but not with the number of threads: rows and chunks are independent.
"""

from typing import Any

import numpy as np
from numba import njit, uint64

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.formats.compressed import NEAR_REACH, NO_BASE, STEP

ONE, TWO = uint64(1), uint64(2)
WIDE = uint64(NO_BASE)
SHORT = uint64(8)  # mean entries of a chunk's rows below which they do not fill a vector register
FAST = {"contract", "reassoc", "nsz"}

# Indices are unsigned on purpose: numba then needs no test for negative ones.


@compiled(fastmath=FAST)
def spmv_rows(first: Any, last: Any, start: Any, columns: Any, values: Any, x: Any, y: Any) -> None:
    """y = A x on rows [first, last)."""
    for row in range(uint64(first), uint64(last)):
        total = values.dtype.type(0)
        for i in range(uint64(start[row]), uint64(start[row + ONE])):
            total += values[i] * x[uint64(columns[i])]
        y[row] = total


@compiled(fastmath={"contract"})
def transfer(
    first: Any, last: Any, start: Any, columns: Any, values: Any, x: Any, keep: Any, begin: Any, y: Any
) -> None:
    """y = keep begin + A x on rows [first, last); keep is 0 or 1."""
    for row in range(uint64(first), uint64(last)):
        total = values.dtype.type(0)
        for i in range(uint64(start[row]), uint64(start[row + ONE])):
            total += values[i] * x[uint64(columns[i])]
        y[row] = total if keep == 0.0 else begin[row] + total


# A chunk's rows are a function: called for each row, it would count references to its arrays there.


@njit(fastmath=FAST)
def _far_rows(row: Any, stop: Any, i: Any, past: Any, ends: Any, columns: Any, values: Any, x: Any, y: Any) -> Any:
    """y of rows [row, stop) of a chunk, and the sum of what it has of the next one: entries [i, past).

    x comes from far away: vector instructions request many items of it at once.
    """
    begin, total = i, values.dtype.type(0)
    for r in range(row, stop + ONE):
        end = begin + uint64(ends[r]) if r < stop else past
        total = values.dtype.type(0)
        for k in range(i, end):
            total += values[k] * x[uint64(columns[k])]
        i = end
        if r < stop:
            y[r] = total
    return total


@njit(fastmath={"contract"})
def _near_rows(row: Any, stop: Any, i: Any, past: Any, ends: Any, columns: Any, values: Any, x: Any, y: Any) -> Any:
    """As `_far_rows`, for x that a cache holds, or short rows: two sums, as vectors take long to fill."""
    begin, total = i, values.dtype.type(0)
    for r in range(row, stop + ONE):
        end = begin + uint64(ends[r]) if r < stop else past
        total = other = values.dtype.type(0)
        while i + ONE < end:
            total += values[i] * x[uint64(columns[i])]
            other += values[i + ONE] * x[uint64(columns[i + ONE])]
            i += TWO
        if i < end:
            total += values[i] * x[uint64(columns[i])]
            i += ONE
        total += other
        if r < stop:
            y[r] = total
    return total


@compiled()
def spmv(
    first: Any, last: Any, chunks: Any, ends: Any, near: Any, columns: Any, values: Any, x: Any, y: Any, carry: Any
) -> None:
    """y = A x on the rows that end in chunks [first, last); carry gets what else they have."""
    for b in range(uint64(first), uint64(last)):
        begin = uint64(chunks[b, 0]) + (uint64(chunks[b, 1]) << uint64(32))
        row, stop, base = uint64(chunks[b, 2]), uint64(chunks[b + ONE, 2]), uint64(chunks[b, 3])
        past = uint64(chunks[b + ONE, 0]) + (uint64(chunks[b + ONE, 1]) << uint64(32))
        if base == WIDE and past - begin < SHORT * (stop - row):
            carry[b] = _near_rows(row, stop, begin, past, ends, columns, values, x, y)
        elif base == WIDE:
            carry[b] = _far_rows(row, stop, begin, past, ends, columns, values, x, y)
        else:
            carry[b] = _near_rows(row, stop, begin, past, ends, near, values, x[base:], y)


@compiled()
def add_carries(chunks: Any, carry: Any, y: Any) -> None:
    """y of rows that go on over the end of a chunk += what chunks before the last one have of them, in order."""
    total, of = 0.0, uint64(0)
    for b in range(uint64(len(carry))):
        if uint64(chunks[b, 2]) != of:
            total, of = 0.0, uint64(chunks[b, 2])
        if uint64(chunks[b + ONE, 2]) != of:
            if total != 0.0:
                y[of] += total
            total, of = 0.0, uint64(chunks[b + ONE, 2])
        total += carry[b]


@compiled()
def find_chunks(start: Any, whole: Any, chunks: Any) -> None:
    """First entry and first row of each chunk."""
    rows, row = len(start) - 1, 0
    path = start[rows] + rows
    for b in range(len(chunks)):
        step = b * STEP
        while row < rows and start[row + 1] + row < step:
            row += 1
        first = start[row] if whole else min(step, path) - row
        chunks[b, 0], chunks[b, 1], chunks[b, 2], chunks[b, 3] = first & 0xFFFFFFFF, first >> 32, row, 0


@compiled()
def fill_chunks(first: Any, last: Any, start: Any, columns: Any, chunks: Any, ends: Any, near: Any) -> None:
    """Ends of rows, bases and 16-bit columns of chunks [first, last)."""
    for b in range(first, last):
        begin = np.int64(chunks[b, 0]) + (np.int64(chunks[b, 1]) << 32)
        past = np.int64(chunks[b + 1, 0]) + (np.int64(chunks[b + 1, 1]) << 32)
        for row in range(np.int64(chunks[b, 2]), np.int64(chunks[b + 1, 2])):
            ends[row] = start[row + 1] - begin
        if past == begin:
            continue
        low, high = columns[begin], columns[begin]
        for i in range(begin, past):
            low, high = min(low, columns[i]), max(high, columns[i])
        if high - low > NEAR_REACH:
            chunks[b, 3] = NO_BASE
            continue
        chunks[b, 3] = low
        for i in range(begin, past):
            near[i] = columns[i] - low


@compiled()
def find_diagonal(first: Any, last: Any, start: Any, columns: Any, values: Any, out: Any) -> None:
    """The diagonal of rows [first, last), 0 where a row has no such entry."""
    for row in range(first, last):
        out[row] = 0
        for i in range(uint64(start[row]), uint64(start[row + 1])):
            if columns[i] == row:
                out[row] = values[i]
                break
