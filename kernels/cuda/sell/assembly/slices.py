"""Slices of the parts of matrices on a GPU: measured, placed and filled, with their headers."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.foresight import foreseen_numbers
from dsolver.kernels.cuda.launch.loader import for_each, kernel
from dsolver.kernels.cuda.launch.schedule import warps
from dsolver.kernels.cuda.launch.tables import kept_of, table
from dsolver.kernels.cuda.sparse.starts import starts_of_lists
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.sell import WIDEST, Slices, checked_width

FILE = "sell/assembly/assembly.cu"
ANY = "float64"  # the value type with which kernels are compiled that read and write none


@dataclass(frozen=True, kw_only=True)
class SlicePart:
    """A kind of entries: those of a square matrix beside its diagonal, of a halo, or of a rectangular matrix."""

    name: str  # how the names of its kernels end
    file: str = FILE  # where they are
    sections: int = 1  # of a slice
    widest: int = WIDEST  # entry columns of a slice at most
    ordered: bool = False  # whether its kernels visit slices in an order that they are told


LOCAL, HALO, RECTANGLE = (
    SlicePart(name="local", sections=2, ordered=True),
    SlicePart(name="halo"),
    SlicePart(name="rectangle"),
)


@dataclass(frozen=True, kw_only=True)
class SliceShapes:
    """Shapes of the slices of a part: all that follows from where entries are."""

    ends: Array  # where sections end, int32 (S, sections)
    runs: Array  # uint8 (S,)
    upper: Array
    start: Array
    column_start: Array
    found: Array  # int64 (3,), as `Found` in assembly.cuh
    counted: npt.NDArray[np.int64]  # that on the host


def measured(
    part: SlicePart,
    dtype: np.dtype[Any],
    source: tuple[Any, ...],
    of_rows: tuple[Any, ...],
    *more: Any,
    runs: bool = True,
    order: Array | None = None,
) -> SliceShapes:
    """The shapes of one or more slices; arguments as of `filled`."""
    count = int(of_rows[1])
    ends, is_run = cupy.empty((count, part.sections), dtype=np.int32), cupy.empty(count, dtype=np.uint8)
    found = cupy.zeros(3, dtype=np.int64)
    measure, _ = _of_part(part, dtype)
    last = _ordered(part, order)
    measure(*warps(count), (*source, *of_rows, ends, is_run, np.int32(runs), found, *more, *last))
    upper, sizes = cupy.empty(count, dtype=np.int32), cupy.empty((count, 2), dtype=np.int32)
    for_each(FILE, "shapes", count, ends, is_run, np.int32(part.sections), np.int32(count), upper, sizes, found)
    column_start, start = starts_of_lists(sizes, found[:2])
    return SliceShapes(
        ends=ends,
        runs=is_run,
        upper=upper,
        start=start,
        column_start=column_start,
        found=found,
        counted=foreseen_numbers(found),
    )


def filled(
    part: SlicePart,
    dtype: np.dtype[Any],
    source: tuple[Any, ...],
    of_rows: tuple[Any, ...],
    *more: Any,
    runs: bool = True,
    order: Array | None = None,  # in which they are visited, of a part that is told; None for their own
    shapes: SliceShapes | None = None,  # where they are known
) -> tuple[Slices, Array, int]:
    """The filled slices of a part of a matrix, with where their sections end, int32 (S, sections).

    Last how far from a vector's end a row is without diagonal; 0 for none.
    """
    count = int(of_rows[1])
    if not count:
        starts, none = cupy.zeros(1, dtype=np.int64), cupy.empty(0, dtype=np.int32)
        nothing = Slices(start=starts, upper=none, column_start=starts, values=cupy.empty(0, dtype), columns=none)
        return nothing, cupy.empty((0, part.sections), dtype=np.int32), 0
    found = shapes or measured(part, dtype, source, of_rows, *more, runs=runs, order=order)
    length, size = (int(number) for number in found.counted[:2])
    bad, widest = (int(number) for number in found.counted[2:].view(np.int32))
    checked_width(widest, part.widest)
    if length >= 2**32:  # `Header` in slices.cuh counts columns in 32 bits
        raise ValueError(f"a chunk of {int(of_rows[2])} rows has too many entries for one GPU: cut the grid further")
    values, columns = cupy.empty(size, dtype), cupy.empty(length, dtype=np.int32)
    room = (found.found, np.int64(size), np.int64(length))
    places = (found.ends, found.runs, found.start, found.column_start, values, columns, *room)
    _, fill = _of_part(part, dtype)
    fill(*warps(count), (*source, *of_rows, *places, *_ordered(part, order)))
    made = Slices(start=found.start, upper=found.upper, column_start=found.column_start, values=values, columns=columns)
    return made, found.ends, bad


def _ordered(part: SlicePart, order: Array | None) -> tuple[Any, ...]:
    """The order in which a part's kernels visit slices, if they are told."""
    return (np.uintp(0) if order is None else order,) if part.ordered else ()


@cache
def _of_part(part: SlicePart, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The kernels that measure and fill the slices of a part. NumPy takes 7 us for the name of a type."""
    measure, fill = (kernel(part.file, f"{name}_{part.name}", dtype.name) for name in ("measure", "fill"))
    return measure, fill


def source_arguments(rows: CandidateRows) -> tuple[Any, ...]:
    """The arguments called SOURCE in assembly.cuh."""
    nx, ny, first, line, lines = rows.walk
    steps = rows.steps()
    weights = cupy.ascontiguousarray(cupy.asarray(rows.weights, dtype=np.float64).reshape(len(steps), -1))
    stride = weights.shape[1]
    return (
        np.int32(nx),
        np.int32(ny),
        np.int64(first),
        np.int32(line),
        np.int32(lines),
        np.int32(len(steps)),
        cupy.ascontiguousarray(cupy.asarray(rows.numbering, dtype=np.int32)),
        table(steps),
        weights,
        np.int64(stride),
        np.int32(stride > 1),
    )


def rows_arguments(columns: Layout, wanted: Array, color: Array | None = None) -> tuple[Any, ...]:
    """The arguments called ROWS in assembly.cuh: wanted rows, whose colors may be those of another layout."""
    color = columns.color if color is None else color
    return wanted, np.int32(len(wanted) // SLICE), np.int32(columns.rows), color, columns.position


def packed(s: Slices, order: Array | None = None) -> Array:
    """The headers of the slices in this order, or their own: uint32 (S, 4), `Header` in slices.cuh."""
    count = len(s.upper)
    out = cupy.empty((count, 4), dtype=np.uint32)
    listed = np.uintp(0) if order is None else order
    for_each(FILE, "pack_headers", count, listed, s.start, s.column_start, s.upper, np.int32(count), out)
    return out


def in_order(where: Layout) -> Array:
    """The slices in the order of their first rows: int64 (S,)."""
    return kept_of(where, "slices", where.rows, lambda: cupy.argsort(where.row[SLICE:-SLICE:SLICE], kind="stable"))
