"""A look at all entries of a matrix on a CPU."""

from collections.abc import Sequence
from math import fsum
from typing import Any

import numpy as np
from numba import njit, uint64

from dsolver.kernels.cpu.csr.loops import ONE
from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.general.look import CANCELED, Faults, Look, counted

ROWS_WORTH_A_THREAD = 8192
LARGEST = np.finfo(np.float64).max


def look(rows: Csr, allowed: float, team: Team) -> Look:
    """Findings about the entries of a square matrix: 12 bytes of each are read once, twice if it is not symmetric.

    Mirror images are not searched where sums of mixed entries, of those above the diagonal and of those below, are
    equal: see `look.cu` of the kernels for GPUs.

    `rows`: they may have any faults, which are told, but as many pointers as there are rows and one. `allowed`:
    difference of mirrored entries up to which its place is not asked for, as a part of the largest entry.
    """
    start, columns, values = (np.require(part, requirements="W") for part in rows)  # loops are compiled for such
    bits = values.view(np.uint64)
    found = team.run(_look_at_rows, 0, rows.size, start, columns, values, bits, CANCELED, worth=ROWS_WORTH_A_THREAD)
    empty, hollow, negative, opened, largest, least, squares, sums, mirrors, faults = zip(*found, strict=True)
    told = _faults(faults, late=bool(start[0] != 0))
    if told.some:
        return Look(faults=told)
    unmatched, difference, i, j, skewness = 0, 0.0, 0, 0, 0.0
    if any(sum(int(of[part]) for of in mirrors) % 2**64 for part in range(3)):
        unmatched, (difference, i, j, skewness) = _compare_with_transpose(start, columns, values)
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
        least=min(least),
        unmatched=int(unmatched),
        difference=difference,
        skewness=skewness,
        place=(int(i), int(j)) if difference > allowed * max(largest) else None,
        positive=fsum(number for of in sums for number in of[:2]),
        dominance=fsum(number for of in sums for number in of[2:]),
        squares=sum(map(int, squares)),
    )


def _faults(parts: Sequence[Any], *, late: bool) -> Faults:
    """Faults of ranges of rows together; late: whether the first row does not begin at 0."""
    pointers, of_entries = zip(*parts, strict=True)
    outside, descending, repeated, infinite, first_infinite = zip(*of_entries, strict=True)
    return Faults(
        pointers=sum(pointers) + late,
        outside=next((place for place in outside if place >= 0), -1),
        descending=sum(descending),
        repeated=sum(repeated),
        infinite=counted(list(zip(infinite, first_infinite, strict=True))),
    )


def columns_cancel(rows: Csr) -> bool:
    """Whether the entries of each column add up to zero."""
    start, columns, values = (np.require(part, requirements="W") for part in rows)
    return bool(_do_columns_cancel(start, columns, values, CANCELED))


@inlined()
def _added(high: Any, low: Any, value: Any) -> Any:
    """A sum and what rounding took from it, and a value more."""
    total = high + value
    part = total - high
    return total, low + ((high - (total - part)) + (value - part))


@njit(inline="always")
def _mixed(bits: Any) -> Any:
    """64 bits of which each one turns half of the result (Steele et al., SplitMix, 2014): a bijection."""
    bits = (bits ^ (bits >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> uint64(27))) * uint64(0x94D049BB133111EB)
    return bits ^ (bits >> uint64(31))


@njit(inline="always")
def _with_pair(mirrors: Any, row: Any, column: Any, bits: Any) -> Any:
    """Sums with an entry more: mirror images are mixed to the same, and other values at their places to others."""
    above, one, other = mirrors
    pair = uint64(min(column, row)) << uint64(32) | uint64(max(column, row))
    mixed = _mixed(bits ^ pair * uint64(0x9E3779B97F4A7C15))
    again = (mixed ^ (mixed >> uint64(29))) * uint64(0xD6E8FEB86659FD93)
    if column > row:
        return above + ONE, one + mixed, other + again
    return above - ONE, one - mixed, other - again


@njit
def _with_fault(faults: Any, k: Any, rows: Any, before: Any, column: Any, value: Any) -> Any:
    """Faults of entries, with those of one more; `before` is the column of the entry before it, or -1."""
    outside, descending, repeated, infinite, first_infinite = faults
    if not 0 <= column < rows:
        outside = k if outside < 0 else outside
    else:
        descending += column < before
        repeated += column == before
    if not abs(value) <= LARGEST:
        first_infinite = k if infinite == 0 else first_infinite
        infinite += 1
    return outside, descending, repeated, infinite, first_infinite


@compiled()
def _look_at_rows(first: Any, last: Any, start: Any, columns: Any, values: Any, bits: Any, canceled: Any) -> Any:
    """Counts and sums over rows [first, last), as `Look` has them: counts come with the first row.

    Before the faults come, modulo 2^64, the entries above the diagonal less those below, and two sums of them mixed.
    """
    rows, entries = len(start) - 1, len(columns)
    empty, first_empty, hollow, first_hollow, negative, open_rows, squares = 0, -1, 0, -1, 0, 0, np.int64(0)
    largest, positive, positive_low, dominance, dominance_low, least = 0.0, 0.0, 0.0, 0.0, 0.0, np.inf
    none, some = np.int64(0), np.int64(-1)  # no literals, whose types would have a function of their own
    mirrors, pointers, faults = (uint64(0), uint64(0), uint64(0)), 0, (some, none, none, none, some)
    for row in range(first, last):
        begin, end = start[uint64(row)], start[uint64(row) + ONE]
        if not 0 <= begin <= end <= entries:
            pointers += 1
            continue
        total, total_low, size, size_low, diagonal, before = 0.0, 0.0, 0.0, 0.0, 0.0, np.int64(-1)
        for k in range(uint64(begin), uint64(end)):
            value, column = values[k], np.int64(columns[k])
            total, total_low = _added(total, total_low, value)
            size, size_low = _added(size, size_low, abs(value))
            largest = max(largest, abs(value))
            if not (before < column < rows and abs(value) <= LARGEST):  # hardly ever
                faults = _with_fault(faults, np.int64(k), rows, before, column, value)
            before = column
            if column == row:
                diagonal = value
            else:
                mirrors = _with_pair(mirrors, row, column, bits[k])
        total, size = total + total_low, size + size_low
        squares += np.int64(end - begin) * np.int64(end - begin)
        if end == begin:
            first_empty = row if empty == 0 else first_empty
            empty += 1
        if diagonal == 0.0:
            first_hollow = row if hollow == 0 else first_hollow
            hollow += 1
        else:
            least = min(least, abs(diagonal))
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
    counts = (empty, first_empty), (hollow, first_hollow), negative, open_rows, largest, least, squares
    return *counts, sums, mirrors, (pointers, faults)


@njit
def _wider(found: Any, difference: Any, i: Any, j: Any, size: Any) -> Any:
    """The larger difference with its place, of equal ones the first, row after row; the largest part of both sizes."""
    known, row, column, skewness = found
    skewness = max(skewness, difference / size) if size > 0.0 else skewness
    first = i < row or (i == row and j < column)
    larger = difference > known or (difference == known and first)
    return (difference, i, j, skewness) if larger else (known, row, column, skewness)


@compiled()
def _compare_with_transpose(start: Any, columns: Any, values: Any) -> Any:
    """Entries without a mirror image, and the largest difference with its place (i, j), i < j, and `skewness`.

    Rows come in ascending order, so each row's entries below the diagonal are met in the order in which they lie.
    """
    rows = len(start) - 1
    left = start[:-1].copy()  # of each row, the first entry that has not been met yet
    unmatched, found = 0, (0.0, rows, rows, 0.0)
    for i in range(rows):
        for k in range(uint64(left[uint64(i)]), uint64(start[uint64(i) + ONE])):
            j = np.int64(columns[k])
            at = left[uint64(j)]
            if j > i and at < start[uint64(j) + ONE] and columns[uint64(at)] == i and values[uint64(at)] == values[k]:
                left[uint64(j)] = at + 1  # nearly always, and no difference is less
                continue
            if j < i:
                unmatched, found = unmatched + 1, _wider(found, abs(values[k]), j, i, 0.0)
            if j <= i:
                continue
            while at < start[j + 1] and columns[at] < i:
                unmatched, found = unmatched + 1, _wider(found, abs(values[at]), np.int64(columns[at]), j, 0.0)
                at += 1
            if at < start[j + 1] and columns[at] == i:
                size = abs(values[k]) + abs(values[at])
                found = _wider(found, abs(values[k] - values[at]), i, j, size)
                at += 1
            else:
                unmatched, found = unmatched + 1, _wider(found, abs(values[k]), i, j, 0.0)
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
