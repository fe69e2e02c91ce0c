"""Inverses of small matrices on the device."""

from __future__ import annotations

import cupy
import numpy as np

from dsolver.kernels.backend import RANK_TOLERANCE, StencilRows
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.tables import table
from dsolver.kernels.layout import Array

FILE, DTYPE = "dense.cu", "float64"
BLOCK, LINES = 32, 8
"""As in dense.cu."""
THREADS = 128


def dense_matrix(rows: StencilRows) -> Array:
    """See `Backend.dense_matrix`."""
    n = rows.rows
    weights = cupy.ascontiguousarray(cupy.asarray(rows.weights, dtype=np.float64).reshape(len(rows.offsets), -1))
    stride = weights.shape[1]
    out = cupy.zeros((n, n))
    nx, ny, _ = (np.int32(size) for size in rows.shape)
    arguments = (cupy.asarray(rows.numbering, dtype=np.int32), table(rows.steps()), weights, np.int64(stride))
    sizes = (np.int32(stride > 1), np.int32(len(rows.offsets)), nx, ny, np.int32(n))
    kernel(FILE, "dense_matrix", DTYPE)((-(-n // THREADS),), (THREADS,), (*arguments, *sizes, out))
    return (out + out.T) / 2


def semidefinite_inverse(matrix: Array) -> Array:
    """See `dsolver.kernels.backend.semidefinite_inverse`."""
    a, n = matrix.copy(), len(matrix)
    diagonal, kept = cupy.ascontiguousarray(matrix.diagonal()), cupy.empty(n, dtype=np.bool_)
    inverse, left, right = cupy.empty((BLOCK, BLOCK)), cupy.empty((n, BLOCK)), cupy.empty((BLOCK, n))
    pivot, panels, eliminate = (kernel(FILE, name, DTYPE) for name in ("pivot_block", "panels", "eliminate"))
    size, tiles = np.int32(n), -(-n // BLOCK)
    for first in map(np.int32, range(0, n, BLOCK)):
        pivot((1,), (BLOCK, BLOCK), (a, diagonal, size, first, np.float64(RANK_TOLERANCE), inverse, kept))
        panels((tiles,), (BLOCK, LINES), (a, inverse, size, first, left, right))
        eliminate((tiles, tiles), (BLOCK, LINES), (a, inverse, left, right, size, first))
    a = cupy.where(kept[:, None] & kept[None, :], a, 0.0)
    return (a + a.T) / 2
