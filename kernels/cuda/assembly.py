"""Set-up of a chunk's storage order and slices on the device: a handful of launches, no loop over rows on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Entries, StencilRows
from dsolver.kernels.cuda import flow
from dsolver.kernels.cuda.data import CudaHaloMatrix, CudaMatrix, CudaProduct
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.schedule import sweeps, warps
from dsolver.kernels.cuda.tables import table
from dsolver.kernels.layout import SLICE, Array, Layout, Matrix, Slices

KINDS = 3
THREADS = 256
ANY = "float64"
"""The value type with which kernels are compiled that read and write none."""


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
    row = cupy.full(size, -1, dtype=np.int32)
    shift = cupy.asarray(color_slices[:-1] * SLICE - first[:-1])
    if rows:
        kernel("assembly.cu", "storage_order", ANY)(
            *_threads(rows), (order.astype(np.int64, copy=False), color, shift, position, row, np.int32(rows))
        )
    return Layout(rows=rows, size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape)


def plain_layout(shape: tuple[int, int, int]) -> Layout:
    """See `Backend.plain_layout`."""
    rows = shape[0] * shape[1] * shape[2]
    color_slices = _color_slices(np.array([rows]))
    size = int(color_slices[-1] + 1) * SLICE
    position, row = cupy.empty(rows, dtype=np.int32), cupy.empty(size, dtype=np.int32)
    kernel("assembly.cu", "plain_order", ANY)(*_threads(size), (np.int32(rows), np.int32(size), position, row))
    color = cupy.zeros(rows, dtype=np.int32)
    return Layout(rows=rows, size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape)


def lattice_layout(classes: Sequence[Any], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]) -> Layout:
    """See `Backend.lattice_layout`."""
    rows, count, kinds = shape[0] * shape[1] * shape[2], int(colors.max()) + 1, len(colors)
    within = [np.asarray(axis)[:, None] == np.arange(kinds) for axis in classes]  # of each axis, (n, kinds)
    nx, ny, nz = (axis.sum(axis=0) for axis in within)
    lines = (colors == np.arange(count)[:, None, None, None]) @ nx  # (colors, class of z, class of y)
    planes = lines @ ny
    color_slices = _color_slices(planes @ nz)
    size = int(color_slices[-1] + 1) * SLICE
    before = [np.column_stack([axis.argmax(axis=1), axis.cumsum(axis=0) - axis]) for axis in within]
    tables = table(
        np.concatenate([part.ravel() for part in (SLICE * color_slices[:-1], planes, lines, colors, *before)]).astype(
            np.int32
        )
    )
    color, position = cupy.empty(rows, dtype=np.int32), cupy.empty(rows, dtype=np.int32)
    row = cupy.full(size, -1, dtype=np.int32)
    if rows:
        sizes = (np.int32(n) for n in (*shape, kinds, count))
        kernel("assembly.cu", "lattice_order", ANY)(*_threads(rows), (tables, *sizes, color, position, row))
    return Layout(rows=rows, size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape)


def _color_slices(rows: npt.NDArray[np.int_]) -> npt.NDArray[np.int64]:
    """Where the slices of each color begin, from the numbers of their rows."""
    return np.concatenate([[1], 1 + np.cumsum(-(-rows // SLICE))]).astype(np.int64)


def matrix(
    where: Layout, rows: StencilRows | Entries, coarse: Array | None, dtype: np.dtype[Any], *, runs: bool = True
) -> CudaMatrix:
    """The slices of a chunk; raises ZeroDivisionError for a row without a diagonal.

    Args:
        where: the storage order of the rows.
        rows: where the entries come from.
        coarse: bool (rows,), True at coarse points, or None.
        dtype: of the values.
        runs: whether slices may be runs; without, all columns are explicit, as a matrix without structure has them.
    """
    stencil = _table_arguments(rows.columns, rows.values) if isinstance(rows, Entries) else _stencil_arguments(rows)
    coarse = np.uintp(0) if coarse is None else cupy.asarray(coarse).view(np.uint8)
    stored = where.row[SLICE:-SLICE]
    diagonal = cupy.ones(where.size, dtype)
    bad = cupy.full(1, where.size, dtype=np.int32)
    of_rows = _rows_arguments(where, stored, coarse)
    shape = _measure("measure_local", dtype, stencil, of_rows, np.int32(runs), diagonal, bad)
    if (first_bad := int(bad[0])) < where.size:
        raise ZeroDivisionError(f"row {int(where.row[first_bad])} of a chunk has no diagonal entry")
    local = _slices("fill_local", dtype, stencil, of_rows, shape)
    return with_launches(Matrix(layout=where, diagonal=diagonal, local=local))


def halo_matrix(where: Layout, rows: StencilRows, dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """The slices of a chunk's boundary rows, with values of this type."""
    return _halo_part(where, where, _stencil_arguments(rows), dtype) if rows.halo else _no_halo(dtype)


def halo_product(where: Layout, columns: Layout, entries: Entries, dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """The slices of the rows that have entries in the halo of another vector, with values of this type."""
    if not entries.halo:
        return _no_halo(dtype)
    return _halo_part(where, columns, _table_arguments(entries.columns, entries.values), dtype)


def product(where: Layout, columns: Layout, entries: Entries, dtype: np.dtype[Any], *, in_order: bool) -> CudaProduct:
    """The slices of a rectangular matrix, with values of this type."""
    count = -(-where.rows // SLICE) * SLICE if in_order else where.size - 2 * SLICE
    stored, target = cupy.empty(count, dtype=np.int32), cupy.empty(count, dtype=np.int32)
    if count:
        arguments = (where.row, where.position, np.int32(where.rows), np.int32(in_order), np.int32(count))
        kernel("assembly.cu", "rows_to_visit", ANY)(*_threads(count), (*arguments, stored, target))
    candidates = _table_arguments(entries.columns, entries.values)
    of_rows = _rows_arguments(columns, stored, np.uintp(0))
    shape = _measure("measure_rectangle", dtype, candidates, of_rows, np.int32(1))
    slices = _slices("fill_rectangle", dtype, candidates, of_rows, shape)
    return CudaProduct(slices=slices, target=target, in_order=_packed(slices))


def _halo_part(where: Layout, columns: Layout, stencil: tuple[Any, ...], dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """The slices of the rows that have candidates in the halo of a vector with these own columns."""
    stored = where.row[SLICE:-SLICE]
    reads_halo = cupy.zeros(where.size, dtype=np.uint8)
    if count := len(stored):
        arguments = (*stencil, stored, np.int32(count), np.int32(columns.rows), reads_halo)
        kernel("assembly.cu", "find_boundary", ANY)(*_threads(count), arguments)
    boundary = cupy.flatnonzero(reads_halo).astype(np.int32)
    if not len(boundary):
        return _no_halo(dtype)
    of_boundary = _rows_arguments(columns, _padded(where.row[boundary]), np.uintp(0), where.color)
    shape = _measure("measure_halo", dtype, stencil, of_boundary, np.int32(1))
    slices = _slices("fill_halo", dtype, stencil, of_boundary, shape)
    return CudaHaloMatrix(
        boundary=boundary,
        slices=slices,
        by_boundary=_packed(slices),
        partials=cupy.zeros(len(slices.upper)),
    )


def _no_halo(dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """What no row reads."""
    return CudaHaloMatrix(
        boundary=cupy.empty(0, dtype=np.int32),
        slices=_nothing(dtype),
        by_boundary=cupy.empty((0, 4), dtype=np.uint32),
        partials=cupy.zeros(0),
    )


def with_launches(a: Matrix) -> CudaMatrix:
    """The matrix with what its launches need."""
    by_color = _packed(a.local)
    forward, backward = sweeps(a.layout, by_color, a.local)
    by_plane = cupy.argsort(a.layout.row[SLICE:-SLICE:SLICE], kind="stable").astype(np.int32)
    result = CudaMatrix(
        **vars(a),
        by_color=by_color,
        by_plane=_packed(a.local, by_plane),
        partials=cupy.zeros(len(a.local.upper)),
        forward=forward.sweep(),
        backward=backward.sweep(every=False),
        half=backward,
        flow=flow.plan(a.layout, a.local),
    )
    cupy.cuda.get_current_stream().synchronize()  # sweeps read a matrix before they wait for earlier launches
    return result


def _packed(s: Slices, order: Array | None = None) -> Array:
    """The slices in this order, or their own, each as the `Entries` of slices.cuh."""
    count = len(s.upper)
    out = cupy.empty((count, 4), dtype=np.uint32)
    if count:
        listed = np.uintp(0) if order is None else order
        arguments = (listed, s.start, s.column_start, s.upper, s.coarse, np.int32(count), out)
        kernel("assembly.cu", "pack_entries", ANY)(*_threads(count), arguments)
    return out


def _stencil_arguments(rows: StencilRows) -> tuple[Any, ...]:
    """The arguments called STENCIL in assembly.cu."""
    weights = cupy.ascontiguousarray(cupy.asarray(rows.weights, dtype=np.float64).reshape(len(rows.offsets), -1))
    stride = weights.shape[1]
    return (
        np.int32(rows.shape[0]),
        np.int32(rows.shape[1]),
        np.int32(len(rows.offsets)),
        cupy.ascontiguousarray(cupy.asarray(rows.numbering, dtype=np.int32)),
        table(rows.steps()),
        weights,
        np.int64(stride),
        np.int32(stride > 1),
    )


def _table_arguments(columns: Array, values: Array) -> tuple[Any, ...]:
    """The arguments called STENCIL for a table (K, rows): one line of rows, in which step k leads to line k of it.

    The kernels look for row i of a line of `rows` points at place i + rows + 3, behind the layers around a box. With
    ny = -2 the layers along y and z have no extent.
    """
    count, rows = columns.shape
    steps = np.arange(count, dtype=np.int64) * rows - (rows + 3)
    places = cupy.ascontiguousarray(cupy.asarray(columns, dtype=np.int32))
    weights = cupy.ascontiguousarray(cupy.asarray(values, dtype=np.float64))
    return (
        np.int32(rows),
        np.int32(-2),
        np.int32(count),
        places,
        table(steps),
        weights,
        np.int64(rows),
        np.int32(1),
    )


def _rows_arguments(columns: Layout, wanted: Array, coarse: Any, color: Array | None = None) -> tuple[Any, ...]:
    """The arguments called ROWS in assembly.cu: wanted rows, whose colors may be those of another layout."""
    color = columns.color if color is None else color
    return wanted, np.int32(len(wanted) // SLICE), np.int32(columns.rows), color, columns.position, coarse


def _measure(
    name: str, dtype: np.dtype[Any], stencil: tuple[Any, ...], of_rows: tuple[Any, ...], *more: Any
) -> tuple[Array, Array]:
    """widths and runs of the slices."""
    count = int(of_rows[1])
    widths, runs = cupy.empty((count, KINDS), dtype=np.int32), cupy.empty(count, dtype=np.uint8)
    if count:
        kernel("assembly.cu", name, dtype.name)(*warps(count), (*stencil, *of_rows, widths, runs, *more))
    return widths, runs


def _slices(
    name: str, dtype: np.dtype[Any], stencil: tuple[Any, ...], of_rows: tuple[Any, ...], shape: tuple[Array, Array]
) -> Slices:
    """The filled slices."""
    widths, runs = shape
    count = len(runs)
    upper, coarse = cupy.empty((2, count), dtype=np.int32)
    start, column_start = starts = cupy.zeros((2, count + 1), dtype=np.int64)
    if count:
        lengths = cupy.empty((2, count), dtype=np.int64)
        kernel("assembly.cu", "shapes", ANY)(*_threads(count), (widths, runs, np.int32(count), upper, coarse, *lengths))
        for begins, each in zip(starts, lengths, strict=True):
            cupy.cumsum(each, out=begins[1:])
    totals = starts[:, -1].get()
    if int(totals[1]) >= 2**32:  # `Entries` in slices.cuh counts columns in 32 bits
        raise ValueError(f"a chunk of {int(of_rows[2])} rows has too many entries for one GPU: cut the grid further")
    values = cupy.empty(int(totals[0]), dtype)
    columns = cupy.empty(int(totals[1]), dtype=np.int32)
    if count:
        arguments = (*stencil, *of_rows, widths, runs, start, column_start, values, columns)
        kernel("assembly.cu", name, dtype.name)(*warps(count), arguments)
    return Slices(start=start, upper=upper, coarse=coarse, column_start=column_start, values=values, columns=columns)


def _nothing(dtype: np.dtype[Any]) -> Slices:
    """No slices."""
    starts, counts = cupy.zeros(1, dtype=np.int64), cupy.empty(0, dtype=np.int32)
    values = cupy.empty(0, dtype)
    return Slices(start=starts, upper=counts, coarse=counts, column_start=starts, values=values, columns=counts)


def _padded(rows: Array) -> Array:
    """The rows, with -1 up to whole slices."""
    out = cupy.full(-(-len(rows) // SLICE) * SLICE, -1, dtype=np.int32)
    out[: len(rows)] = rows
    return out


def _threads(count: int) -> tuple[tuple[int], tuple[int]]:
    return (-(-count // THREADS),), (THREADS,)
