"""A look at the entries of a complex matrix on a CPU: mirror images, and both parts of its rows."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import njit, uint64

from dsolver.kernels.cpu.csr.loops import ONE
from dsolver.kernels.cpu.csr.rows import ALONE
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

ROWS_WORTH_A_THREAD: Final = 8192


@dataclass(frozen=True, kw_only=True)
class MirrorImages:
    """The entries of a matrix beside those of its transpose."""

    largest: float  # of the magnitudes of entries
    difference: float  # the largest |a_ij - a_ji|
    place: tuple[int, int]  # (i, j) of such an entry, i < j
    conjugate: float  # the largest |a_ij - conj(a_ji)|


@dataclass(frozen=True, kw_only=True)
class RowSums:
    """Diagonals and sums of rows."""

    places: Array  # int64 (rows,), the place of a row's diagonal entry, or -1
    diagonal: Array  # complex128 (rows,), 0 where there is none
    sums: Array  # complex128 (rows,)


@dataclass(frozen=True, kw_only=True)
class RowParts:
    """Re A + Im A off the diagonal, each turned where both diagonals are negative in it, and sums of rows."""

    values: Array  # float64 (entries,); 0 on the diagonal
    sums: Array  # float64 (rows,), of real parts, that of the diagonal by its magnitude
    around: Array  # float64 (rows,), of the magnitudes of `values`
    mixed: Array  # bool (rows,), whether a part couples rows whose diagonals have different signs in it


def mirrors(rows: Csr, team: Team = ALONE) -> MirrorImages:
    """The entries beside those of the transpose; columns ascend, values are complex128."""
    given = writable(rows)
    found = team.run(_mirrors, 0, given.size, *given, worth=ROWS_WORTH_A_THREAD)
    largest, difference, _, _, conjugate = map(max, zip(*found, strict=True))
    i, j = next(part[2:4] for part in found if part[1] == difference)
    return MirrorImages(largest=largest, difference=difference, place=(int(i), int(j)), conjugate=conjugate)


def row_sums(rows: Csr, team: Team = ALONE) -> RowSums:
    """Diagonals and sums of rows."""
    own, sums = np.empty((2, rows.size), dtype=np.complex128)
    out = RowSums(places=np.empty(rows.size, dtype=np.int64), diagonal=own, sums=sums)
    given = writable(rows)
    team.run(_row_sums, 0, rows.size, *given, out.places, own, sums, worth=ROWS_WORTH_A_THREAD)
    return out


def row_parts(rows: Csr, diagonal: Array, team: Team = ALONE) -> RowParts:
    """Parts of rows with this diagonal, complex128 (rows,)."""
    out = RowParts(
        values=np.empty(len(rows.columns)),
        sums=np.empty(rows.size),
        around=np.empty(rows.size),
        mixed=np.empty(rows.size, dtype=np.bool_),
    )
    made = out.values, out.sums, out.around, out.mixed
    team.run(_row_parts, 0, rows.size, *writable(rows), diagonal, *made, worth=ROWS_WORTH_A_THREAD)
    return out


def real_part(rows: Csr, *, imaginary: bool) -> Csr:
    """Real or imaginary parts without zeros, but for the first entry of each row."""
    begin, places, entries = writable(rows)
    kept = np.zeros(len(begin), dtype=np.int64)
    _count(begin, entries, imaginary, kept)
    made = Csr(kept, np.empty(kept[-1], dtype=np.int32), np.empty(kept[-1]))
    _take(begin, places, entries, imaginary, made.columns, made.values)
    return made


def writable(rows: Csr) -> Csr:
    """Rows in the types that loops are compiled for."""
    kinds = zip(rows, (np.int64, np.int32, np.complex128), strict=True)
    return Csr(*(np.require(part, dtype=kind, requirements=("C", "W")) for part, kind in kinds))


@njit
def _find(start: Any, columns: Any, row: Any, column: Any) -> Any:
    """The place of an entry, or -1."""
    low, high = start[row], start[row + 1]
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < start[row + 1] and columns[low] == column else np.int64(-1)


@njit
def _size(value: Any) -> Any:
    """A number that is not less than the magnitude."""
    return abs(value.real) + abs(value.imag)


@compiled()
def _mirrors(first: Any, last: Any, start: Any, columns: Any, values: Any) -> Any:
    largest, difference, conjugate = 0.0, 0.0, 0.0
    i: Any = 0
    j: Any = 0
    for row in range(first, last):
        for k in range(start[row], start[row + 1]):
            value, column = values[k], np.int64(columns[k])
            if _size(value) > largest:  # seldom: a magnitude takes longer than all else
                largest = max(largest, abs(value))
            if column == row:
                conjugate = max(conjugate, 2.0 * abs(value.imag))
                continue
            at = _find(start, columns, column, row)
            other = values[at] if at >= 0 else 0.0j
            if _size(value - other) > difference:
                apart = abs(value - other)
                if apart > difference:
                    difference, i, j = apart, min(row, column), max(row, column)
            if _size(value - other.conjugate()) > conjugate:
                conjugate = max(conjugate, abs(value - other.conjugate()))
    return largest, difference, i, j, conjugate


@compiled()
def _row_sums(first: Any, last: Any, start: Any, columns: Any, values: Any, places: Any, own: Any, sums: Any) -> None:
    for row in range(first, last):
        places[row], own[row], total = -1, 0.0j, 0.0j
        for k in range(start[row], start[row + 1]):
            total += values[k]
            if columns[k] == row:
                places[row], own[row] = k, values[k]
        sums[row] = total


@njit
def _signed(part: Any, here: Any, there: Any) -> Any:
    """A part of an entry, turned where the diagonals of both rows are negative together."""
    return -part if here + there < 0.0 else part


@compiled()
def _row_parts(first: Any, last: Any, *arrays: Any) -> None:
    start, columns, values, own, out, sums, around, mixed = arrays
    for row in range(first, last):
        total, size, apart = 0.0, 0.0, False
        for k in range(uint64(start[row]), uint64(start[uint64(row) + ONE])):
            column, re, im = np.int64(columns[k]), values[k].real, values[k].imag
            if column == row:
                total, out[k] = total + abs(re), 0.0
                continue
            signed = _signed(re, own[row].real, own[column].real)
            out[k] = signed + _signed(im, own[row].imag, own[column].imag)
            total, size = total + signed, size + abs(out[k])
            apart |= re != 0.0 and own[row].real * own[column].real < 0.0
            apart |= im != 0.0 and own[row].imag * own[column].imag < 0.0
        sums[row], around[row], mixed[row] = total, size, apart


@compiled()
def _count(start: Any, values: Any, imaginary: Any, out: Any) -> None:
    """Starts of rows without entries whose part is zero."""
    total = 0
    for row in range(len(start) - 1):
        for k in range(start[row], start[row + 1]):
            part = values[k].imag if imaginary else values[k].real
            total += part != 0.0 or k == start[row]
        out[row + 1] = total


@compiled()
def _take(start: Any, columns: Any, values: Any, imaginary: Any, out_columns: Any, out: Any) -> None:
    at = 0
    for row in range(len(start) - 1):
        for k in range(start[row], start[row + 1]):
            part = values[k].imag if imaginary else values[k].real
            if part != 0.0 or k == start[row]:
                out_columns[at], out[at] = columns[k], part
                at += 1
