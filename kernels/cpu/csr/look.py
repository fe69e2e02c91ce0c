"""A look at all entries of a matrix on a CPU."""

from __future__ import annotations

from itertools import chain
from math import fsum
from typing import Any

import numpy as np
from numba import njit, uint64

from dsolver.kernels.cpu.csr.loops import ONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.look import CANCELED, Look, counted

ROWS_WORTH_A_THREAD = 8192
COMPARISON = 0.5
"""Time of the comparison with the transpose, which one thread makes, as a part of that of all rows."""


def look(rows: Csr, allowed: float, team: Team) -> Look:
    """Findings about the entries of a square matrix: 12 bytes of each are read twice.

    Args:
        rows: real and finite; their columns ascend.
        allowed: difference of mirrored entries up to which nobody asks for its place, as a part of the largest entry.
        team: threads that share the rows.
    """
    start, columns, values = (np.require(part, requirements="W") for part in rows)  # loops are compiled for such
    threads = max(1, min(team.threads, rows.size // ROWS_WORTH_A_THREAD))
    each = (1.0 + COMPARISON) / threads  # of the time of all rows; the first thread has fewer of these, if any
    cuts = [0, *(round(rows.size * max(0.0, each * (part + 1) - COMPARISON)) for part in range(threads))]

    def part(number: int) -> list[Any]:
        compared = [] if number else [_compare_with_transpose(start, columns, values)]
        return [*compared, _look_at_rows(cuts[number], cuts[number + 1], start, columns, values, CANCELED)]

    (unmatched, (difference, i, j)), *parts = chain(*team.each(part, threads))
    empty, hollow, negative, opened, largest, sums = zip(*parts, strict=True)
    rows_cancel = not any(opened)
    return Look(
        empty=counted(empty),
        hollow=counted(hollow),
        negative=sum(negative),
        opened=sum(opened),
        rows_cancel=rows_cancel,
        # Of a symmetric matrix they have the same entries as the rows.
        columns_cancel=rows_cancel and (difference == 0.0 or columns_cancel(rows)),
        largest=max(largest),
        unmatched=int(unmatched),
        difference=difference,
        place=(int(i), int(j)) if difference > allowed * max(largest) else None,
        positive=fsum(number for of in sums for number in of[:2]),
        dominance=fsum(number for of in sums for number in of[2:]),
    )


def columns_cancel(rows: Csr) -> bool:
    """Whether the entries of each column add up to zero."""
    start, columns, values = (np.require(part, requirements="W") for part in rows)
    return bool(_do_columns_cancel(start, columns, values, CANCELED))


# -- loops -------------------------------------------------------------------------------------------------------------


@njit
def _added(high: Any, low: Any, value: Any) -> Any:
    """A sum and what rounding took from it, and a value more."""
    total = high + value
    part = total - high
    return total, low + ((high - (total - part)) + (value - part))


@compiled()
def _look_at_rows(first: Any, last: Any, start: Any, columns: Any, values: Any, canceled: Any) -> Any:
    """Counts and sums over rows [first, last), as `Look` has them: counts come with the first row."""
    empty, first_empty, hollow, first_hollow, negative, open_rows = 0, -1, 0, -1, 0, 0
    largest, positive, positive_low, dominance, dominance_low = 0.0, 0.0, 0.0, 0.0, 0.0
    for row in range(first, last):
        total, total_low, size, size_low, diagonal = 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(uint64(start[uint64(row)]), uint64(start[uint64(row) + ONE])):
            value = values[k]
            total, total_low = _added(total, total_low, value)
            size, size_low = _added(size, size_low, abs(value))
            largest = max(largest, abs(value))
            if columns[k] == row:
                diagonal = value
        total, size = total + total_low, size + size_low
        if start[row + 1] == start[row]:
            first_empty = row if empty == 0 else first_empty
            empty += 1
        if diagonal == 0.0:
            first_hollow = row if hollow == 0 else first_hollow
            hollow += 1
        negative += diagonal <= 0.0
        open_rows += not (abs(total) <= canceled * size)
        around = size - abs(diagonal)
        excess = 1.0
        if around > 0.0 and diagonal > 0.0:
            part = ((size + total) / 2.0 - diagonal) / around
            positive, positive_low = _added(positive, positive_low, part)
            excess = 1.0 - around / diagonal
        dominance, dominance_low = _added(dominance, dominance_low, excess)
    sums = (positive, positive_low, dominance, dominance_low)
    return (empty, first_empty), (hollow, first_hollow), negative, open_rows, largest, sums


@njit
def _wider(found: Any, difference: Any, i: Any, j: Any) -> Any:
    """The larger difference with its place; of equal ones the first, row after row."""
    known, row, column = found
    first = i < row or (i == row and j < column)
    return (difference, i, j) if difference > known or (difference == known and first) else found


@compiled()
def _compare_with_transpose(start: Any, columns: Any, values: Any) -> Any:
    """Number of entries without a mirror image, and the largest difference with its place (i, j), i < j.

    Rows come in ascending order, so each row's entries below the diagonal are met in the order in which they lie.
    """
    rows = len(start) - 1
    left = start[:-1].copy()  # of each row, the first entry that has not been met yet
    unmatched, found = 0, (0.0, rows, rows)
    for i in range(rows):
        for k in range(uint64(left[uint64(i)]), uint64(start[uint64(i) + ONE])):
            j = np.int64(columns[k])
            at = left[uint64(j)]
            if j > i and at < start[uint64(j) + ONE] and columns[uint64(at)] == i and values[uint64(at)] == values[k]:
                left[uint64(j)] = at + 1  # nearly always, and no difference is less
                continue
            if j < i:
                unmatched, found = unmatched + 1, _wider(found, abs(values[k]), j, i)
            if j <= i:
                continue
            while at < start[j + 1] and columns[at] < i:
                unmatched, found = unmatched + 1, _wider(found, abs(values[at]), np.int64(columns[at]), j)
                at += 1
            if at < start[j + 1] and columns[at] == i:
                found = _wider(found, abs(values[k] - values[at]), i, j)
                at += 1
            else:
                unmatched, found = unmatched + 1, _wider(found, abs(values[k]), i, j)
            left[j] = at
    return unmatched, found


@compiled()
def _do_columns_cancel(start: Any, columns: Any, values: Any, canceled: Any) -> Any:
    """Whether the entries of each column add up to zero."""
    rows = len(start) - 1
    sums = np.zeros((rows, 4))
    for k in range(start[rows]):
        of = sums[columns[k]]
        of[0], of[1] = _added(of[0], of[1], values[k])
        of[2], of[3] = _added(of[2], of[3], abs(values[k]))
    return np.all(np.abs(sums[:, 0] + sums[:, 1]) <= canceled * (sums[:, 2] + sums[:, 3]))
