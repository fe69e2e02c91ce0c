"""Shapes of small matrices on a GPU, which are kept: another set-up of the same grid fills in values alone."""

from dataclasses import dataclass, replace
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.foresight import aside, foreseen_numbers, settle
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.schedule import half_sweeps, warps
from dsolver.kernels.cuda.launch.tables import kept_with
from dsolver.kernels.cuda.sell.assembly import slices
from dsolver.kernels.cuda.sell.matrix import CudaMatrix
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.sell import SellMatrix, Slices

KEPT_COLUMNS = 8  # bytes of columns of each row, at most, of what is kept: runs have 3.4 of 27 entries


@dataclass(frozen=True, kw_only=True)
class Shape:
    """All of a small matrix' slices but the values: it follows from a grid, and is kept for its further set-ups."""

    local: Slices
    values: int
    by_color: Array  # headers in storage order, as of `CudaMatrix`
    by_plane: Array  # those in the order of rows


def known_shape(where: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> Shape | None:
    """The shape of rows of a box without neighbors, which their offsets tell; None where it is not kept."""
    offsets = rows.box_offsets
    if offsets is None:
        return None
    (found,) = kept_with(where, "shapes", where.rows, offsets, lambda: (_shape(where, rows, dtype),)) or (None,)
    return found


def _shape(where: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> Shape | None:
    """The shape; None for one that takes too much to be kept."""
    with aside():
        source, of_rows = slices.source_arguments(rows), slices.rows_arguments(where, where.row[SLICE:-SLICE])
        local, _, _ = slices.filled(slices.LOCAL, dtype, source, of_rows, cupy.ones(where.size, dtype))
        if local.columns.nbytes > KEPT_COLUMNS * where.rows:
            return None
        by_color, values = slices.packed(local), len(local.values)
        by_plane = slices.packed(local, slices.in_order(where))
    local = replace(local, values=cupy.empty(0, dtype))
    return Shape(local=local, values=values, by_color=by_color, by_plane=by_plane)


def refilled(where: Layout, rows: CandidateRows, dtype: np.dtype[Any], known: Shape, *, swept: bool) -> CudaMatrix:
    """The matrix of rows of a known shape: one launch."""
    diagonal, values = cupy.ones(where.size, dtype), cupy.empty(known.values, dtype)
    found, count = cupy.zeros(3, dtype=np.int64), len(known.by_color)
    if count:
        of_rows = slices.rows_arguments(where, where.row[SLICE:-SLICE])
        arguments = (*slices.source_arguments(rows), *of_rows, known.by_color, values, diagonal, found)
        kernel(slices.FILE, "refill_local", type_of(values))(*warps(count), arguments)
    bad = int(foreseen_numbers(found)[2:].view(np.int32)[0])
    if bad:
        raise ZeroDivisionError(f"row {int(where.row[where.size - bad])} of a chunk has no diagonal entry")
    a = SellMatrix(layout=where, diagonal=diagonal, local=replace(known.local, values=values))
    result = CudaMatrix(
        **vars(a),
        by_color=known.by_color,
        by_plane=known.by_plane,
        partials=cupy.zeros(count),
        halves=half_sweeps(where, known.by_color, a.local) if swept else None,
    )
    settle()  # sweeps read a matrix before they wait for earlier launches
    return result
