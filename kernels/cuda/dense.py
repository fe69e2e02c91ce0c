"""Inverses of small matrices on the device."""

from __future__ import annotations

from typing import Any

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


def semidefinite_inverse(matrix: Array, *, singular: bool) -> Array:
    """See `dsolver.kernels.backend.semidefinite_inverse`."""
    diagonal = cupy.ascontiguousarray(matrix.diagonal())
    dependent = -1
    if singular:
        _, pivots, _ = _eliminated(matrix, diagonal, 0.0, -1)
        dependent = int((pivots / diagonal).argmin())
    a, _, kept = _eliminated(matrix, diagonal, RANK_TOLERANCE, dependent)
    a = cupy.where(kept[:, None] & kept[None, :], a, 0.0)
    return (a + a.T) / 2


def _eliminated(matrix: Array, diagonal: Array, tolerance: float, dependent: int) -> tuple[Any, Array, Array]:
    """The matrix after all pivots, the pivots, and bool, which were used."""
    a, n = matrix.copy(), len(matrix)
    pivots, kept = cupy.empty(n), cupy.empty(n, dtype=np.bool_)
    inverse, left, right = cupy.empty((BLOCK, BLOCK)), cupy.empty((n, BLOCK)), cupy.empty((BLOCK, n))
    pivot, panels, eliminate = (kernel(FILE, name, DTYPE) for name in ("pivot_block", "panels", "eliminate"))
    size, tiles = np.int32(n), -(-n // BLOCK)
    for first in map(np.int32, range(0, n, BLOCK)):
        arguments = (a, diagonal, size, first, np.float64(tolerance), np.int32(dependent), inverse, pivots, kept)
        pivot((1,), (BLOCK, BLOCK), arguments)
        panels((-(-n // THREADS),), (THREADS,), (a, inverse, size, first, left, right))
        eliminate((tiles, tiles), (BLOCK, LINES), (a, inverse, left, right, size, first))
    return a, pivots, kept
