"""Set-up of matrices of slices on a GPU, with what their launches need: no loop over rows on the host."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.foresight import aside, foreseen_numbers, settle
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.schedule import half_sweeps
from dsolver.kernels.cuda.launch.tables import is_kept, kept_at, kept_of, kept_with
from dsolver.kernels.cuda.layout_setup import none_of
from dsolver.kernels.cuda.sell.assembly import kept_shapes, slices
from dsolver.kernels.cuda.sell.matrix import CudaHaloMatrix, CudaMatrix, CudaProduct
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.cuda.vectors.vectors import cast
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.sell import SellMatrix, Slices

T = TypeVar("T")

OF_BOUNDARY = 8  # a kept boundary, or kept shapes of slices, count as the rows of their storage order over this


def matrix(
    where: Layout, rows: CandidateRows, dtype: np.dtype[Any], *, runs: bool = True, swept: bool = True
) -> CudaMatrix:
    """The slices of a chunk; raises ZeroDivisionError for a row without a diagonal.

    Args:
        runs: whether slices may be runs; without, all columns are explicit, as a matrix without structure has them.
        swept: whether half sweeps are wanted.
    """
    known = kept_shapes.known_shape(where, rows, dtype) if runs else None
    if known is not None:
        return kept_shapes.refilled(where, rows, dtype, known, swept=swept)
    order = slices.in_order(where)
    a, _ = square(slices.LOCAL, where, rows, dtype, runs=runs, order=order)
    return with_launches(a, swept=swept, order=order)


def square(
    part: slices.SlicePart,  # which sections there are
    where: Layout,
    rows: CandidateRows,
    dtype: np.dtype[Any],
    *more: Any,
    runs: bool = True,
    order: Array | None = None,  # in which they are visited, int64 (S,); None for their own
) -> tuple[SellMatrix, Array]:
    """The local part of a matrix, and where the sections of its slices end, int32 (S, sections).

    Args:
        more: what the part's kernels must know of the columns.

    Raises:
        ZeroDivisionError: a row has no diagonal entry or a zero one.
        ValueError: a row has too many entries.
    """
    diagonal = cupy.ones(where.size, dtype)
    source, of_rows = slices.source_arguments(rows), (*slices.rows_arguments(where, where.row[SLICE:-SLICE]), *more)
    local, ends, bad = slices.filled(part, dtype, source, of_rows, diagonal, runs=runs, order=order)
    if bad:
        raise ZeroDivisionError(f"row {int(where.row[where.size - bad])} of a chunk has no diagonal entry")
    return SellMatrix(layout=where, diagonal=diagonal, local=local), ends


def halo_matrix(where: Layout, columns: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """The slices of the rows that have entries in the halo of a vector whose own items are those of `columns`."""
    if not rows.halo:
        return CudaHaloMatrix(**_nothing(int(cupy.cuda.runtime.getDevice()), dtype.name))
    source, known, shapes = slices.source_arguments(rows), None, None
    keep = partial(kept_with, where, rows=where.rows // OF_BOUNDARY)
    if (named := _named(rows)) is not None:
        key = *named, columns.rows
        known = keep("boundaries", key=key, make=lambda: _aside(lambda: _boundary(where, columns, source)))
    boundary, wanted = known or _boundary(where, columns, source)
    of_boundary = slices.rows_arguments(columns, wanted, where.color)
    if known is not None and len(wanted):
        measure = partial(slices.measured, slices.HALO, dtype, source, of_boundary)
        shapes = keep("shapes of boundaries", key=(*key, dtype.name), make=lambda: _aside(measure))
    found, _, _ = slices.filled(slices.HALO, dtype, source, of_boundary, shapes=shapes)
    return CudaHaloMatrix(**_of_boundary(boundary, found))


def _named(rows: CandidateRows) -> tuple[Hashable, ...] | None:
    """All that tells where entries of rows are, if their numbering is kept; else None."""
    numbering = kept_at(rows.numbering)
    return None if numbering is None else (numbering, rows.walk, rows.steps().tobytes())


def _aside(make: Callable[[], T]) -> T:
    """Result of `make`, which is to be kept."""
    with aside():
        return make()


def _boundary(where: Layout, columns: Layout, source: tuple[Any, ...]) -> tuple[Array, Array]:
    """The places of rows that read the halo, and these rows, -1 up to whole slices: int32."""
    boundary, stored = cupy.empty(0, dtype=np.int32), where.row[SLICE:-SLICE]
    if len(stored):
        reads_halo = cupy.zeros(where.size, dtype=np.uint8)
        arguments = (*source, stored, np.int32(len(stored)), np.int32(columns.rows), reads_halo)
        for_each(slices.FILE, "find_boundary", len(stored), *arguments)
        boundary = set_places(reads_halo)
    return boundary, _padded(where.row[boundary]) if len(boundary) else boundary


def set_places(flags: Array) -> Array:
    """The places of flags (uint8, 0 or 1) that are set, int32. Their number is foreseen; `flatnonzero` waits for it."""
    total = cupy.zeros(1, dtype=np.int64)
    start = starts_of(flags.view(np.int8), total)
    count = int(foreseen_numbers(total)[0])
    found = cupy.zeros(count, dtype=np.int32)
    if count:
        for_each(slices.FILE, "list_set", len(flags), flags, start, np.int32(len(flags)), np.int32(count), found)
    return found


@cache
def _nothing(device: int, dtype: str) -> dict[str, Any]:
    """The attributes of a `CudaHaloMatrix` without rows on a device: each level of a chunk alone has three of them."""
    with cupy.cuda.Device(device):
        none = cupy.empty(0, dtype=np.int32)
        found, _, _ = slices.filled(slices.HALO, np.dtype(dtype), (), (none, np.int32(0)))
        return _of_boundary(none, found)


def _of_boundary(boundary: Array, found: Slices) -> dict[str, Any]:
    partials = cupy.zeros(len(found.upper))
    return {"boundary": boundary, "slices": found, "by_boundary": slices.packed(found), "partials": partials}


def product(
    where: Layout, columns: Layout, rows: CandidateRows, dtype: np.dtype[Any], *, in_order: bool
) -> CudaProduct:
    """The slices of a rectangular matrix, with values of this type."""
    visit = f"rows to visit, {'lattice' if in_order else 'storage'} order"
    stored, target = kept_of(where, visit, where.rows, lambda: _rows_to_visit(where, in_order=in_order))
    source, of_rows = slices.source_arguments(rows), slices.rows_arguments(columns, stored)
    shapes = None
    if (named := _named(rows)) is not None and is_kept(columns) and len(stored):
        measure = partial(slices.measured, slices.RECTANGLE, dtype, source, of_rows)
        key = *named, id(columns), in_order, dtype.name
        shapes = kept_with(where, "shapes of products", where.rows // OF_BOUNDARY, key, lambda: _aside(measure))
    found, _, _ = slices.filled(slices.RECTANGLE, dtype, source, of_rows, shapes=shapes)
    return CudaProduct(slices=found, target=target, in_order=slices.packed(found))


def _rows_to_visit(where: Layout, *, in_order: bool) -> tuple[Array, Array]:
    """The rows that a product visits, -1 for none, and where their results belong: int32."""
    count = -(-where.rows // SLICE) * SLICE if in_order else where.size - 2 * SLICE
    stored, target = cupy.empty(count, dtype=np.int32), cupy.empty(count, dtype=np.int32)
    numbers = map(np.int32, (where.rows, in_order, count))
    for_each(slices.FILE, "rows_to_visit", count, where.row, where.position, *numbers, stored, target)
    return stored, target


def with_launches(a: SellMatrix, *, swept: bool = True, order: Array | None = None) -> CudaMatrix:
    """The matrix with what its launches need; swept: those of half sweeps too; order: as of `launches`."""
    result = CudaMatrix(**vars(a), **launches(a, swept=swept, order=order))
    settle()  # sweeps read a matrix before they wait for earlier launches
    return result


def launches(a: SellMatrix, *, swept: bool = True, order: Array | None = None) -> dict[str, Any]:
    """Attributes of `CudaMatrix` for launches; swept: those of half sweeps too; order: of its slices, if known."""
    by_color = slices.packed(a.local)
    by_plane = slices.in_order(a.layout) if order is None else order
    return {
        "by_color": by_color,
        "by_plane": slices.packed(a.local, by_plane),
        "partials": cupy.zeros(len(a.local.upper)),
        "halves": half_sweeps(a.layout, by_color, a.local) if swept else None,
    }


def narrowed_halo(h: CudaHaloMatrix, dtype: np.dtype[Any]) -> CudaHaloMatrix:
    """A halo's part of float64 with values of another type; columns and headers are shared."""
    return replace(h, slices=replace(h.slices, values=cast(h.slices.values, dtype)))


def _padded(rows: Array) -> Array:
    """The rows, with -1 up to whole slices."""
    out = none_of(-(-len(rows) // SLICE) * SLICE)
    out[: len(rows)] = rows
    return out
