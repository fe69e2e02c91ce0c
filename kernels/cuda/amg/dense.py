"""Inverses of small matrices on a GPU: see `dsolver.kernels.formats.dense`."""

from dataclasses import dataclass

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.batched import BatchedLaunches, length
from dsolver.kernels.cuda.launch.loader import for_each, kernel
from dsolver.kernels.cuda.launch.schedule import warps
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.cuda.vectors.vectors import CudaVectors, narrowed
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.dense import RANK_TOLERANCE, DenseInverse, DenseSetup
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.stencil.rows import StencilRows

FILE, DTYPE = "amg/dense.cu", "float64"
BLOCK, LINES = 32, 8  # as in dense.cu
THREADS = 128


@dataclass(frozen=True, kw_only=True)
class CudaInverse(DenseInverse):
    """An inverse with its kernel."""

    vectors: CudaVectors

    def batched(self, width: int) -> Columns:
        return _InverseColumns(self, width)

    def dense_solve(self, r: Array, x: Array) -> None:
        rows = len(self.position)
        function = kernel("sell/multigrid.cu", "dense_product", self.vectors.type_name)
        launch_early(function, *warps(rows), (self.position, self.values, r, x, np.int32(rows)))


class _InverseColumns(BatchedLaunches):
    """An inverse for several columns."""

    def dense_solve(self, r: Array, x: Array) -> None:
        a = self.one
        rows = len(a.position)
        self.launch_early("dense_product", *warps(rows), (a.position, a.values, r, x, length(r), np.int32(rows)))


class CudaDense(DenseSetup):
    """Set-up of inverses."""

    def __init__(self, vectors: CudaVectors) -> None:
        self._vectors = vectors

    def matrix(self, rows: StencilRows) -> Array:
        return dense_matrix(rows)

    def of_rows(self, rows: Csr) -> Array:
        if not rows.size:
            return super().of_rows(rows)
        out = cupy.empty((rows.size, rows.size))
        kernel(FILE, "dense_rows", DTYPE)((rows.size,), (THREADS,), (*rows, np.int32(rows.size), out))
        return out

    def product(self, a: Array, b: Array) -> Array:
        return a @ b

    def stored(self, layout: Layout, values: Array) -> CudaInverse:
        values = narrowed(cupy.ascontiguousarray(values), self._vectors.dtype)
        return CudaInverse(position=layout.position, values=values, vectors=self._vectors)

    def inverse(self, layout: Layout, matrix: Array, *, symmetric: bool = True) -> CudaInverse:
        return self.stored(layout, semidefinite_inverse(cupy.asarray(matrix), symmetric=symmetric))


def dense_matrix(rows: StencilRows) -> Array:
    n = rows.rows
    weights = cupy.ascontiguousarray(cupy.asarray(rows.weights, dtype=np.float64).reshape(len(rows.offsets), -1))
    stride = weights.shape[1]
    out = cupy.zeros((n, n))
    nx, ny, _ = (np.int32(size) for size in rows.shape)
    arguments = (cupy.asarray(rows.numbering, dtype=np.int32), table(rows.steps()), weights, np.int64(stride))
    sizes = (np.int32(stride > 1), np.int32(len(rows.offsets)), nx, ny, np.int32(n))
    for_each(FILE, "dense_matrix", n, *arguments, *sizes, out)
    return _kept(out, np.uintp(0), symmetric=True)


def semidefinite_inverse(matrix: Array, *, symmetric: bool = True) -> Array:
    matrix = cupy.ascontiguousarray(matrix)
    a, n = matrix.copy(), len(matrix)
    kept = cupy.empty(n, dtype=np.uint8)
    inverses, left, right = cupy.empty((2, BLOCK, BLOCK)), cupy.empty((n, BLOCK)), cupy.empty((BLOCK, n))
    pivot, panels, eliminate = (kernel(FILE, name, DTYPE) for name in ("pivot_block", "panels", "eliminate"))
    size, tiles, block, least = np.int32(n), -(-n // BLOCK), (BLOCK, LINES), np.float64(RANK_TOLERANCE)
    pivot((1,), block, (a, matrix, size, least, inverses, kept))
    for first in map(np.int32, range(0, n, BLOCK)):
        panels((tiles,), block, (a, inverses, size, first, left, right))
        eliminate((tiles, tiles), block, (a, matrix, inverses, left, right, size, first, least, kept))
    return _kept(a, kept, symmetric=symmetric)


def _kept(a: Array, kept: Array | np.uintp, *, symmetric: bool) -> Array:
    """A matrix (n, n) or its symmetric part, zero in rows and columns that are not kept (uint8 (n,); NULL for all)."""
    out, size = cupy.empty_like(a), np.int32(len(a))
    for_each(FILE, "keep", a.size, a, kept, np.int32(symmetric), size, out)
    return out
