"""Set-up of faces on a GPU."""

from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.faces.matrix import CudaFaces, board_of, launches
from dsolver.kernels.cuda.launch.foresight import foreseen_numbers, settle
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.checkered.faces import wraps_of
from dsolver.kernels.formats.layout import SLICE, Layout


def faces(where: Layout, rows: CandidateRows, dtype: np.dtype[Any]) -> CudaFaces | None:
    """Rows as faces, if they are such and symmetric to the bit; else None. ZeroDivisionError: no diagonal entry."""
    wraps = wraps_of(where, rows)
    if wraps is None or not launches(where.shape):
        return None
    weights = cupy.ascontiguousarray(cupy.asarray(rows.weights, dtype=np.float64))
    nx, ny, nz = where.shape
    parts = nz * ny * -(-nx // (2 * SLICE))
    made = CudaFaces(
        layout=where,
        diagonal=cupy.empty(where.size, dtype),
        values=cupy.empty((3, where.size), dtype),
        wraps=wraps,
        partials=cupy.empty(parts),
    )
    found = cupy.zeros(2, dtype=np.int32)
    arguments = (
        *board_of(made),
        weights,
        np.int64(where.rows),
        np.int64(where.size),
        made.values,
        made.diagonal,
        found,
    )
    for_each("faces/assembly.cu", "fill", where.rows, *arguments, dtype=dtype.name)
    asymmetric, from_end = (int(number) for number in foreseen_numbers(found))
    if asymmetric:
        return None
    if from_end:
        raise ZeroDivisionError(f"row {int(where.row[where.size - from_end])} of a chunk has no diagonal entry")
    settle()  # passes read a matrix before they wait for earlier launches
    return made
