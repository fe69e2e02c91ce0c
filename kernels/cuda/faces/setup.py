"""Set-up of faces on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.faces.matrix import CudaFaces, board_of
from dsolver.kernels.cuda.launch.foresight import numbers as told
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.sell.assembly import cast
from dsolver.kernels.formats.faces import may_be_faces
from dsolver.kernels.formats.layout import SLICE, Layout
from dsolver.kernels.formats.rows import CandidateRows
from dsolver.kernels.formats.stencil import StencilRows

THREADS = 256


def faces(where: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> CudaFaces | None:
    """The rows as faces, where they are of that kind and their matrix is symmetric to the bit; else None.

    Raises:
        ZeroDivisionError: a row has no diagonal entry.
    """
    if not may_be_faces(where, rows):
        return None
    assert isinstance(rows, StencilRows)
    assert rows.wraps is not None
    weights = cupy.ascontiguousarray(cupy.asarray(rows.weights, dtype=np.float64))
    nx, ny, nz = where.shape
    parts = nz * ny * -(-nx // (2 * SLICE))
    made = CudaFaces(
        layout=where,
        diagonal=cupy.empty(where.size, dtype),
        values=cupy.empty((3, where.size), dtype),
        wraps=rows.wraps,
        partials=cupy.empty(parts),
    )
    found = cupy.zeros(2, dtype=np.int32)
    head = (*board_of(made), weights, np.int64(where.rows), np.int64(where.size))
    fill = kernel("faces/assembly.cu", "fill", dtype.name)
    fill((-(-where.rows // THREADS),), (THREADS,), (*head, made.values, made.diagonal, found))
    asymmetric, from_end = (int(number) for number in told(found))
    if asymmetric:
        return None
    if from_end:
        raise ZeroDivisionError(f"row {int(where.row[where.size - from_end])} of a chunk has no diagonal entry")
    settle()  # passes read a matrix before they wait for earlier launches
    return made


def narrowed(a: CudaFaces, dtype: np.dtype[Any]) -> CudaFaces:
    """A matrix of float64 with values of another type."""
    values = cast(a.values.reshape(-1), dtype).reshape(a.values.shape)
    made = replace(a, diagonal=cast(a.diagonal, dtype, checked=True), values=values)
    settle()  # as above
    return made
