"""Set-up of a chunk's storage order and slices on the device: a handful of launches, no loop over rows on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.foresight import aside, settle
from dsolver.kernels.cuda.launch.foresight import numbers as told
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.schedule import sweeps, warps
from dsolver.kernels.cuda.launch.tables import kept, kept_of, kept_with, table
from dsolver.kernels.cuda.launch.widths import Widths, widths_of
from dsolver.kernels.cuda.sell.data import CudaHaloMatrix, CudaMatrix, CudaProduct
from dsolver.kernels.cuda.vectors import cast
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.rows import CandidateRows
from dsolver.kernels.formats.sell import WIDEST, Matrix, Slices, checked_width

FILE = "sell/assembly.cu"
THREADS = 256
SCANNED = 1024
"""Threads of a block that adds up slices' lengths, as assembly.cu says too."""
KEPT_COLUMNS = 8
"""Bytes of columns of each row, at most, of what is kept: runs have 3.4 of 27 entries."""
ANY = "float64"
"""The value type with which kernels are compiled that read and write none."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A kind of entries: those of a square matrix beside its diagonal, of a halo, or of a rectangular matrix.

    Attributes:
        name: how the names of its kernels end.
        file: where they are.
        sections: of a slice.
        widest: entry columns of a slice at most.
        ordered: whether its kernels visit slices in an order that they are told.
    """

    name: str
    file: str = FILE
    sections: int = 1
    widest: int = WIDEST
    ordered: bool = False


LOCAL, HALO, RECTANGLE = Part(name="local", sections=2, ordered=True), Part(name="halo"), Part(name="rectangle")


def layout(color: Array, colors: int, shape: tuple[int, int, int]) -> Layout:
    """The storage order of rows with these colors."""
    rows = len(color)
    if colors == 1:
        return plain_layout(shape)
    narrow = color.astype(np.uint8) if colors < 256 else color  # a radix sort takes a pass for each byte
    order = cupy.argsort(narrow, kind="stable")
    first = cupy.searchsorted(narrow[order], cupy.arange(colors + 1, dtype=narrow.dtype)).get()
    color_slices = _color_slices(np.diff(first))
    size = int(color_slices[-1] + 1) * SLICE
    position = cupy.empty(rows, dtype=np.int32)
    row = none_of(size)
    shift = cupy.asarray(color_slices[:-1] * SLICE - first[:-1])
    if rows:
        kernel(FILE, "storage_order", ANY)(
            *_threads(rows), (order.astype(np.int64, copy=False), color, shift, position, row, np.int32(rows))
        )
    return Layout(rows=rows, size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape)


def plain_layout(shape: tuple[int, int, int]) -> Layout:
    """See `Layouts.plain`."""
    return kept("plain order", math.prod(shape), shape, lambda: _plain_layout(shape))


def _plain_layout(shape: tuple[int, int, int]) -> Layout:
    rows = math.prod(shape)
    color_slices = _color_slices(np.array([rows]))
    size = int(color_slices[-1] + 1) * SLICE
    position, row = cupy.empty(rows, dtype=np.int32), cupy.empty(size, dtype=np.int32)
    kernel(FILE, "plain_order", ANY)(*_threads(size), (np.int32(rows), np.int32(size), position, row))
    return Layout(
        rows=rows,
        size=size,
        color_slices=color_slices,
        position=position,
        row=row,
        color=cupy.zeros(rows, dtype=np.int32),
        shape=shape,
        in_order=True,
    )


def lattice_layout(classes: Sequence[Any], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]) -> Layout:
    """See `Layouts.lattice`."""
    of_axes = tuple(np.asarray(axis, dtype=np.int64).tobytes() for axis in classes)
    of_classes = np.asarray(colors, dtype=np.int32).tobytes()
    key = of_axes, of_classes
    return kept(
        "lattice order", math.prod(shape), key, lambda: _lattice_layout(of_axes, of_classes, len(colors), shape)
    )


def _lattice_layout(of_axes: tuple[bytes, ...], colors: bytes, kinds: int, shape: tuple[int, int, int]) -> Layout:
    rows = math.prod(shape)
    numbers, color_slices = _lattice_tables(of_axes, colors, kinds)
    count = len(color_slices) - 1
    size = int(color_slices[-1] + 1) * SLICE
    tables = table(numbers)
    color, position = cupy.empty(rows, dtype=np.int32), cupy.empty(rows, dtype=np.int32)
    row = none_of(size)
    if rows:
        sizes = (np.int32(n) for n in (*shape, kinds, count))
        kernel(FILE, "lattice_order", ANY)(*_threads(rows), (tables, *sizes, color, position, row))
    return Layout(
        rows=rows,
        size=size,
        color_slices=color_slices,
        position=position,
        row=row,
        color=color,
        shape=shape,
        checkered=_checkered(of_axes, colors, kinds),
        parities=_parities(of_axes, colors, kinds),
    )


def _checkered(classes: tuple[bytes, ...], colors: bytes, kinds: int) -> int | None:
    """See `Layout.checkered`; classes, colors and kinds as of `_lattice_tables`."""
    of_class = np.frombuffer(colors, dtype=np.int32)
    if kinds != 2 or of_class.tolist() not in ([0, 1, 1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1, 1, 0]):
        return None
    along = [np.frombuffer(axis, dtype=np.int64) for axis in classes]
    if not all(len(axis) and (np.diff(axis) != 0).all() for axis in along):
        return None
    x, y, z = (int(axis[0]) for axis in along)
    return int(of_class.reshape(2, 2, 2)[z, y, x])


def _parities(classes: tuple[bytes, ...], colors: bytes, kinds: int) -> tuple[int, ...] | None:
    """See `Layout.parities`; classes, colors and kinds as of `_lattice_tables`."""
    of_class = np.frombuffer(colors, dtype=np.int32)
    if kinds != 2 or sorted(of_class.tolist()) != list(range(8)):
        return None
    along = [np.frombuffer(axis, dtype=np.int64) for axis in classes]
    if not all(len(axis) and (axis == np.arange(len(axis)) % 2).all() for axis in along):
        return None
    return tuple(of_class.tolist())


@lru_cache(maxsize=64)
def _lattice_tables(
    classes: tuple[bytes, ...], colors: bytes, kinds: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The numbers that `lattice_order` reads, and the first slices of the colors: the same for every set-up of a grid.

    Args:
        classes: int64, of the places along x, y, z.
        colors: int32 (kinds, kinds, kinds), of classes along z, y, x.
        kinds: how many classes there are along an axis.
    """
    of_class = np.frombuffer(colors, dtype=np.int32).reshape(kinds, kinds, kinds)
    along = [np.frombuffer(axis, dtype=np.int64) for axis in classes]
    within = [axis[:, None] == np.arange(kinds) for axis in along]  # of each axis, (n, kinds)
    nx, ny, nz = (axis.sum(axis=0) for axis in within)
    count = int(of_class.max()) + 1
    lines = (of_class == np.arange(count)[:, None, None, None]) @ nx  # (colors, class of z, class of y)
    planes = lines @ ny
    color_slices = _color_slices(planes @ nz)
    before = [np.column_stack([axis.argmax(axis=1), axis.cumsum(axis=0) - axis]) for axis in within]
    parts = (SLICE * color_slices[:-1], planes, lines, of_class, *before)
    return np.concatenate([part.ravel() for part in parts]).astype(np.int32), color_slices


def _color_slices(rows: npt.NDArray[np.int_]) -> npt.NDArray[np.int64]:
    """First slices of the colors, from the numbers of their rows."""
    return np.concatenate([[1], 1 + np.cumsum(-(-rows // SLICE))]).astype(np.int64)


def matrix(
    where: Layout, rows: CandidateRows, dtype: np.dtype[Any], *, runs: bool = True, swept: bool = True
) -> CudaMatrix:
    """The slices of a chunk; raises ZeroDivisionError for a row without a diagonal.

    Args:
        where: the storage order of the rows.
        rows: where the entries come from.
        dtype: of the values.
        runs: whether slices may be runs; without, all columns are explicit, as a matrix without structure has them.
        swept: whether half sweeps are wanted.
    """
    known = _known_shape(where, rows, dtype) if runs else None
    if known is not None:
        return _refilled(where, rows, dtype, known, swept=swept)
    order = _slices_in_order(where)
    a, _ = square(LOCAL, where, rows, dtype, runs=runs, order=order)
    return with_launches(a, swept=swept, order=order)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """All of a small matrix' slices but the values: it follows from a grid, and is kept for set-ups of the same grid.

    Attributes:
        local: the slices, without values.
        values: how many there are.
        by_color: headers in storage order, as of `CudaMatrix`.
        by_plane: those in the order of rows.
        widths: of the slices.
    """

    local: Slices
    values: int
    by_color: Array
    by_plane: Array
    widths: Widths


def _known_shape(where: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> Shape | None:
    """The shape of rows of a box without neighbors, which their offsets tell; None where it is not kept."""
    offsets = rows.box_offsets
    if offsets is None:
        return None
    (found,) = kept_with(where, "shapes", where.rows, offsets, lambda: (_shape(where, rows, dtype),)) or (None,)
    return found


def _shape(where: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> Shape | None:
    """The shape; None for one that takes too much to be kept."""
    with aside():
        of_rows = _rows_arguments(where, where.row[SLICE:-SLICE])
        local, _, _ = _slices(LOCAL, dtype, _source_arguments(rows), of_rows, cupy.ones(where.size, dtype))
        if local.columns.nbytes > KEPT_COLUMNS * where.rows:
            return None
        by_color, values = packed(local), len(local.values)
        by_plane, widths = packed(local, _slices_in_order(where)), widths_of(where, local)
    local = replace(local, values=cupy.empty(0, dtype))
    return Shape(local=local, values=values, by_color=by_color, by_plane=by_plane, widths=widths)


def _refilled(where: Layout, rows: CandidateRows, dtype: np.dtype[Any], known: Shape, *, swept: bool) -> CudaMatrix:
    """The matrix of rows of a known shape: one launch."""
    diagonal, values = cupy.ones(where.size, dtype), cupy.empty(known.values, dtype)
    found, count = cupy.zeros(3, dtype=np.int64), len(known.by_color)
    if count:
        of_rows = _rows_arguments(where, where.row[SLICE:-SLICE])
        arguments = (*_source_arguments(rows), *of_rows, known.by_color, values, diagonal, found)
        kernel(FILE, "refill_local", type_of(values))(*warps(count), arguments)
    bad = int(told(found)[2:].view(np.int32)[0])
    if bad:
        raise ZeroDivisionError(f"row {int(where.row[where.size - bad])} of a chunk has no diagonal entry")
    a = Matrix(layout=where, diagonal=diagonal, local=replace(known.local, values=values))
    result = CudaMatrix(
        **vars(a),
        by_color=known.by_color,
        by_plane=known.by_plane,
        partials=cupy.zeros(count),
        halves=sweeps(where, known.by_color, a.local, known.widths) if swept else None,
    )
    settle()  # sweeps read a matrix before they wait for earlier launches
    return result


def square(
    part: Part,
    where: Layout,
    rows: CandidateRows,
    dtype: np.dtype[Any],
    *more: Any,
    runs: bool = True,
    order: Array | None = None,
) -> tuple[Matrix, Array]:
    """The local part of a matrix, and where the sections of its slices end, int32 (S, sections).

    Args:
        part: which sections there are.
        where: the storage order of the rows.
        rows: where the entries come from.
        dtype: of the values.
        more: what the part's kernels must know of the columns.
        runs: whether slices may be runs.
        order: in which they are visited, int64 (S,); None for their own.

    Raises:
        ZeroDivisionError: a row has no diagonal entry or a zero one.
        ValueError: a row has too many entries.
    """
    diagonal = cupy.ones(where.size, dtype)
    of_rows = (*_rows_arguments(where, where.row[SLICE:-SLICE]), *more)
    local, ends, bad = _slices(part, dtype, _source_arguments(rows), of_rows, diagonal, runs=runs, order=order)
    if bad:
        raise ZeroDivisionError(f"row {int(where.row[where.size - bad])} of a chunk has no diagonal entry")
    return Matrix(layout=where, diagonal=diagonal, local=local), ends


def halo_matrix(where: Layout, columns: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """The slices of the rows that have entries in the halo of a vector whose own items are those of `columns`."""
    if not rows.halo:
        return CudaHaloMatrix(**_nothing(int(cupy.cuda.runtime.getDevice()), dtype.name))
    boundary = cupy.empty(0, dtype=np.int32)
    source, stored = _source_arguments(rows), where.row[SLICE:-SLICE]
    if len(stored):
        reads_halo = cupy.zeros(where.size, dtype=np.uint8)
        arguments = (*source, stored, np.int32(len(stored)), np.int32(columns.rows), reads_halo)
        kernel(FILE, "find_boundary", ANY)(*_threads(len(stored)), arguments)
        boundary = cupy.flatnonzero(reads_halo).astype(np.int32)
    wanted = _padded(where.row[boundary]) if len(boundary) else boundary
    of_boundary = _rows_arguments(columns, wanted, where.color)
    slices, _, _ = _slices(HALO, dtype, source, of_boundary)
    return CudaHaloMatrix(**_of_boundary(boundary, slices))


@cache
def _nothing(device: int, dtype: str) -> dict[str, Any]:
    """The attributes of a `CudaHaloMatrix` without rows on a device: each level of a chunk alone has three of them."""
    with cupy.cuda.Device(device):
        none = cupy.empty(0, dtype=np.int32)
        slices, _, _ = _slices(HALO, np.dtype(dtype), (), (none, np.int32(0)))
        return _of_boundary(none, slices)


def _of_boundary(boundary: Array, slices: Slices) -> dict[str, Any]:
    partials = cupy.zeros(len(slices.upper))
    return {"boundary": boundary, "slices": slices, "by_boundary": packed(slices), "partials": partials}


def product(
    where: Layout, columns: Layout, rows: CandidateRows, dtype: np.dtype[Any], *, in_order: bool
) -> CudaProduct:
    """The slices of a rectangular matrix, with values of this type."""
    visit = f"rows to visit, {'lattice' if in_order else 'storage'} order"
    stored, target = kept_of(where, visit, where.rows, lambda: _rows_to_visit(where, in_order=in_order))
    slices, _, _ = _slices(RECTANGLE, dtype, _source_arguments(rows), _rows_arguments(columns, stored))
    return CudaProduct(slices=slices, target=target, in_order=packed(slices))


def _rows_to_visit(where: Layout, *, in_order: bool) -> tuple[Array, Array]:
    """The rows that a product visits, -1 for none, and where their results belong: int32."""
    count = -(-where.rows // SLICE) * SLICE if in_order else where.size - 2 * SLICE
    stored, target = cupy.empty(count, dtype=np.int32), cupy.empty(count, dtype=np.int32)
    if count:
        arguments = (where.row, where.position, np.int32(where.rows), np.int32(in_order), np.int32(count))
        kernel(FILE, "rows_to_visit", ANY)(*_threads(count), (*arguments, stored, target))
    return stored, target


def with_launches(a: Matrix, *, swept: bool = True, order: Array | None = None) -> CudaMatrix:
    """The matrix with what its launches need; swept: those of half sweeps too; order: as of `launches`."""
    result = CudaMatrix(**vars(a), **launches(a, widths_of(a.layout, a.local) if swept else None, order))
    settle()  # sweeps read a matrix before they wait for earlier launches
    return result


def launches(a: Matrix, widths: Widths | None, order: Array | None = None) -> dict[str, Any]:
    """The attributes of `CudaMatrix` that launches need.

    Args:
        a: the matrix.
        widths: those of its slices, None for no half sweeps.
        order: its slices in the order of their first rows, if that is known.
    """
    by_color = packed(a.local)
    by_plane = _slices_in_order(a.layout) if order is None else order
    return {
        "by_color": by_color,
        "by_plane": packed(a.local, by_plane),
        "partials": cupy.zeros(len(a.local.upper)),
        "halves": None if widths is None else sweeps(a.layout, by_color, a.local, widths),
    }


def _slices_in_order(where: Layout) -> Array:
    """The slices in the order of their first rows: int64 (S,)."""
    made: Array = kept_of(
        where, "slices", where.rows, lambda: cupy.argsort(where.row[SLICE:-SLICE:SLICE], kind="stable")
    )
    return made


def narrowed_halo(h: CudaHaloMatrix, dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """A halo's part of float64 with values of another type; columns and headers are shared."""
    return replace(h, slices=replace(h.slices, values=cast(h.slices.values, dtype)))


def packed(s: Slices, order: Array | None = None) -> Array:
    """The headers of the slices in this order, or their own: uint32 (S, 4), `Header` in slices.cuh."""
    count = len(s.upper)
    out = cupy.empty((count, 4), dtype=np.uint32)
    if count:
        listed = np.uintp(0) if order is None else order
        arguments = (listed, s.start, s.column_start, s.upper, np.int32(count), out)
        kernel(FILE, "pack_headers", ANY)(*_threads(count), arguments)
    return out


def _source_arguments(rows: CandidateRows) -> tuple[Any, ...]:
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


def _rows_arguments(columns: Layout, wanted: Array, color: Array | None = None) -> tuple[Any, ...]:
    """The arguments called ROWS in assembly.cuh: wanted rows, whose colors may be those of another layout."""
    color = columns.color if color is None else color
    return wanted, np.int32(len(wanted) // SLICE), np.int32(columns.rows), color, columns.position


def _slices(
    part: Part,
    dtype: np.dtype[Any],
    source: tuple[Any, ...],
    of_rows: tuple[Any, ...],
    *more: Any,
    runs: bool = True,
    order: Array | None = None,
) -> tuple[Slices, Array, int]:
    """The filled slices of a part of a matrix, with where their sections end, int32 (S, sections).

    Last how far from a vector's end a row is without diagonal; 0 for none.

    Args:
        part: of the matrix.
        dtype: of the values.
        source: where entries come from.
        of_rows: which rows.
        more: what else is measured.
        runs: whether slices may be runs.
        order: in which they are visited, of a part that is told; None for their own.
    """
    count = int(of_rows[1])
    ends, is_run = cupy.empty((count, part.sections), dtype=np.int32), cupy.empty(count, dtype=np.uint8)
    if not count:
        starts, none = cupy.zeros(1, dtype=np.int64), cupy.empty(0, dtype=np.int32)
        return Slices(start=starts, upper=none, column_start=starts, values=cupy.empty(0, dtype), columns=none), ends, 0
    found = cupy.zeros(3, dtype=np.int64)
    head, measured = (*source, *of_rows), (ends, is_run)
    last = (np.uintp(0) if order is None else order,) if part.ordered else ()
    measure, fill = _of_part(part, dtype)
    measure(*warps(count), (*head, *measured, np.int32(runs), found, *more, *last))
    upper = cupy.empty(count, dtype=np.int32)
    start, column_start = cupy.empty((2, count + 1), dtype=np.int64)
    scanned, numbers = ((-(-count // SCANNED),), (SCANNED,)), (np.int32(part.sections), np.int32(count))
    blocks = cupy.empty((*scanned[0], 2), dtype=np.int64)
    kernel(FILE, "shapes", ANY)(*scanned, (*measured, *numbers, upper, blocks, found))
    kernel(FILE, "begins", ANY)(*scanned, (*measured, blocks, *numbers, start, column_start, found))
    counted = told(found)
    length, values_of_lane = (int(number) for number in counted[:2])
    bad, widest = (int(number) for number in counted[2:].view(np.int32))
    checked_width(widest, part.widest)
    if length >= 2**32:  # `Header` in slices.cuh counts columns in 32 bits
        raise ValueError(f"a chunk of {int(of_rows[2])} rows has too many entries for one GPU: cut the grid further")
    values, columns = cupy.empty(values_of_lane * SLICE, dtype), cupy.empty(length, dtype=np.int32)
    room = (found, np.int64(values_of_lane), np.int64(length))
    places = (*measured, start, column_start, values, columns, *room)
    fill(*warps(count), (*head, *places, *last))
    return Slices(start=start, upper=upper, column_start=column_start, values=values, columns=columns), ends, bad


@cache
def _of_part(part: Part, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The kernels that measure and fill the slices of a part. NumPy takes 7 us for the name of a type."""
    measure, fill = (kernel(part.file, f"{name}_{part.name}", dtype.name) for name in ("measure", "fill"))
    return measure, fill


def none_of(size: int) -> Array:
    """int32 (size,), all -1: bytes that the driver sets, where CuPy would compile a kernel."""
    out = cupy.empty(size, dtype=np.int32)
    cupy.cuda.runtime.memsetAsync(out.data.ptr, 0xFF, out.nbytes, cupy.cuda.get_current_stream().ptr)
    return out


def _padded(rows: Array) -> Array:
    """The rows, with -1 up to whole slices."""
    out = none_of(-(-len(rows) // SLICE) * SLICE)
    out[: len(rows)] = rows
    return out


def _threads(count: int) -> tuple[tuple[int], tuple[int]]:
    return (-(-count // THREADS),), (THREADS,)
