"""Set-up of a chunk's storage order and slices on the device: a handful of launches, no loop over rows on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Entries, StencilRows
from dsolver.kernels.cuda import flow, mixed
from dsolver.kernels.cuda.data import CudaHaloMatrix, CudaMatrix, CudaProduct
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.schedule import sweeps, warps
from dsolver.kernels.cuda.tables import table
from dsolver.kernels.cuda.widths import widths_of
from dsolver.kernels.layout import SLICE, Array, Layout, Matrix, Slices

FILE = "assembly.cu"
KINDS = 3
THREADS = 256
SCANNED = 1024
"""Threads of a block that adds up slices' lengths, as assembly.cu says too."""
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
        kernel(FILE, "storage_order", ANY)(
            *_threads(rows), (order.astype(np.int64, copy=False), color, shift, position, row, np.int32(rows))
        )
    return Layout(rows=rows, size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape)


def plain_layout(shape: tuple[int, int, int]) -> Layout:
    """See `Backend.plain_layout`."""
    rows = shape[0] * shape[1] * shape[2]
    color_slices = _color_slices(np.array([rows]))
    size = int(color_slices[-1] + 1) * SLICE
    position, row = cupy.empty(rows, dtype=np.int32), cupy.empty(size, dtype=np.int32)
    kernel(FILE, "plain_order", ANY)(*_threads(size), (np.int32(rows), np.int32(size), position, row))
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
        kernel(FILE, "lattice_order", ANY)(*_threads(rows), (tables, *sizes, color, position, row))
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
    smoothed = coarse is not None
    coarse = cupy.asarray(coarse).view(np.uint8) if smoothed else np.uintp(0)
    diagonal = cupy.ones(where.size, dtype)
    of_rows = _rows_arguments(where, where.row[SLICE:-SLICE], coarse)
    local, bad = _slices("local", dtype, stencil, of_rows, diagonal, runs=runs)
    if bad:
        raise ZeroDivisionError(f"row {int(where.row[where.size - bad])} of a chunk has no diagonal entry")
    return with_launches(Matrix(layout=where, diagonal=diagonal, local=local), smoothed=smoothed)


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
        kernel(FILE, "rows_to_visit", ANY)(*_threads(count), (*arguments, stored, target))
    candidates = _table_arguments(entries.columns, entries.values)
    slices, _ = _slices("rectangle", dtype, candidates, _rows_arguments(columns, stored, np.uintp(0)))
    return CudaProduct(slices=slices, target=target, in_order=_packed(slices))


def _halo_part(where: Layout, columns: Layout, stencil: tuple[Any, ...], dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """The slices of the rows that have candidates in the halo of a vector with these own columns."""
    stored = where.row[SLICE:-SLICE]
    reads_halo = cupy.zeros(where.size, dtype=np.uint8)
    if count := len(stored):
        arguments = (*stencil, stored, np.int32(count), np.int32(columns.rows), reads_halo)
        kernel(FILE, "find_boundary", ANY)(*_threads(count), arguments)
    boundary = cupy.flatnonzero(reads_halo).astype(np.int32)
    if not len(boundary):
        return _no_halo(dtype)
    of_boundary = _rows_arguments(columns, _padded(where.row[boundary]), np.uintp(0), where.color)
    slices, _ = _slices("halo", dtype, stencil, of_boundary)
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
        partials=cupy.empty(0),
    )


def with_launches(a: Matrix, *, smoothed: bool = True) -> CudaMatrix:
    """The matrix with what its launches need.

    Args:
        a: the matrix.
        smoothed: whether it has a pre- and a post-smoother.
    """
    by_color = _packed(a.local)
    widths = widths_of(a.layout, a.local)
    forward, backward = sweeps(a.layout, by_color, a.local, widths)
    planned = mixed.plan(a.layout, by_color, a.local, (forward, backward)) if smoothed else None
    forth, back = planned or (forward.sweep(), backward.sweep(every=False))
    by_plane = cupy.argsort(a.layout.row[SLICE:-SLICE:SLICE], kind="stable")
    result = CudaMatrix(
        **vars(a),
        by_color=by_color,
        by_plane=_packed(a.local, by_plane),
        partials=cupy.zeros(len(a.local.upper)),
        forward=forth,
        backward=back,
        half=backward,
        flow=flow.plan(a.layout, a.local.values.dtype, widths),
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
        kernel(FILE, "pack_entries", ANY)(*_threads(count), arguments)
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


def _slices(
    part: str, dtype: np.dtype[Any], stencil: tuple[Any, ...], of_rows: tuple[Any, ...], *more: Any, runs: bool = True
) -> tuple[Slices, int]:
    """The filled slices of a part of a matrix, and how far from a vector's end a row is without diagonal; 0 for none.

    Args:
        part: "local", "halo" or "rectangle".
        dtype: of the values.
        stencil: where entries come from.
        of_rows: which rows.
        more: what else is measured.
        runs: whether slices may be runs.
    """
    count = int(of_rows[1])
    if not count:
        return _nothing(dtype), 0
    widths, is_run = cupy.empty((count, KINDS), dtype=np.int32), cupy.empty(count, dtype=np.uint8)
    found = cupy.zeros(3, dtype=np.int64)
    head, counted = (*stencil, *of_rows), (widths, is_run)
    kernel(FILE, f"measure_{part}", dtype.name)(*warps(count), (*head, *counted, np.int32(runs), found, *more))
    upper, coarse = cupy.empty((2, count), dtype=np.int32)
    start, column_start = cupy.empty((2, count + 1), dtype=np.int64)
    scanned = (-(-count // SCANNED),), (SCANNED,)
    blocks = cupy.empty((*scanned[0], 2), dtype=np.int64)
    kernel(FILE, "shapes", ANY)(*scanned, (*counted, np.int32(count), upper, coarse, blocks))
    kernel(FILE, "begins", ANY)(*scanned, (*counted, blocks, np.int32(count), start, column_start, found))
    length, values_of_lane, bad = (int(number) for number in found.get())
    if length >= 2**32:  # `Entries` in slices.cuh counts columns in 32 bits
        raise ValueError(f"a chunk of {int(of_rows[2])} rows has too many entries for one GPU: cut the grid further")
    values, columns = cupy.empty(values_of_lane * SLICE, dtype), cupy.empty(length, dtype=np.int32)
    kernel(FILE, f"fill_{part}", dtype.name)(*warps(count), (*head, *counted, start, column_start, values, columns))
    made = Slices(start=start, upper=upper, coarse=coarse, column_start=column_start, values=values, columns=columns)
    return made, bad


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
