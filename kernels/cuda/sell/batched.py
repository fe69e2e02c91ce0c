"""Matrix passes on several vectors at once: launches of batched.cu."""

from collections.abc import Container

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.batched import BatchedLaunches, length
from dsolver.kernels.cuda.launch.schedule import HalfSweep, half_sweeps
from dsolver.kernels.cuda.matrix_passes import MatrixPasses
from dsolver.kernels.formats.base import SeparateBackward, SweepColumns
from dsolver.kernels.formats.layout import SLICE, Array

HALO_WARPS = 4  # warps of a block, as for one vector: the bits of a dot product depend on them


class CudaMatrixColumns(SeparateBackward, MatrixPasses, BatchedLaunches, SweepColumns):
    """A `CudaMatrix` for several columns."""

    @property
    def stored(self) -> str:
        """As of the matrix."""
        return self.one.stored

    @property
    def partials(self) -> Array:
        """Room for the partial dot products of each column: float64 (width, slices)."""
        return self.kept("partials", lambda: cupy.empty((self.width, len(self.one.by_plane))))

    def forward(self, r: Array, x: Array) -> None:
        self._half_sweep("forward_from_zero", self._sweeps()[0], r, x)

    def backward(self, w: Array, x: Array) -> None:
        self._half_sweep("backward_solve", self._sweeps()[1], w, x)

    def upper_residual(self, x: Array, y: Array) -> None:
        self._listed("upper_residual", x, y)

    def lower_residual(self, r: Array, x: Array, w: Array) -> None:
        self._listed("lower_residual", r, x, w)

    def _half_sweep(self, name: str, sweep: HalfSweep, *vectors: Array, headers: Array | None = None) -> None:
        a = self.one
        headers = a.by_color if headers is None else headers
        head = (headers, *a.color_arguments[1:], a.diagonal, *vectors, length(vectors[0]))
        a.kernels.launch_sweep(self.function(name), sweep, head)

    def _sweeps(self, only: Container[int] | None = None) -> tuple[HalfSweep, HalfSweep]:
        """The half sweeps in slabs for so many columns; only: colors of the one that goes back."""
        a = self.one

        def make() -> tuple[HalfSweep, HalfSweep]:
            forward, backward = half_sweeps(a.layout, a.by_color, a.local, columns=self.width)
            return forward.sweep(), backward.sweep(only)

        return self.kept("sweeps of all" if only is None else "sweeps of some", make)

    def run_pass(self, name: str, *vectors: Array) -> None:
        a = self.one
        grid, block, tail = a.all_slices
        sizes = (np.int64(len(a.diagonal)), *([np.int32(vectors[-1].shape[1])] if "dot" in name else []))
        self.launch_early(name, grid, block, (*a.plane_arguments, *vectors, *sizes, *tail))

    def _add_up(self, dot: Array) -> None:
        for number, own in enumerate(self.partials):
            self.one.vectors.sum(own, len(own), dot[number])

    def _listed(self, name: str, *vectors: Array) -> None:
        a = self.one
        grid, block, tail = a.all_slices
        head = (a.by_plane, a.local.values, a.local.columns)
        self.launch_early(name, grid, block, (*head, *vectors, length(vectors[0]), *tail))


class ProductColumns(BatchedLaunches):
    """A `CudaProduct` for several columns."""

    def restrict_full(self, y: Array, rc: Array) -> None:
        self._product("product", y, rc)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self._product("product_add", xc, x)

    def _product(self, name: str, x: Array, y: Array) -> None:
        a = self.one
        if a.launch:
            grid, block, tail = a.launch
            self.launch_early(name, grid, block, (*a.arguments, x, y, length(x), length(y), *tail))


class HaloColumns(BatchedLaunches):
    """A `CudaHaloMatrix` for several columns: those of an item of the halo lie side by side."""

    def spmv_halo(self, h: Array, y: Array) -> None:
        self._halo("spmv_halo", h, y)

    def subtract_halo(self, h: Array, r: Array) -> None:
        self._halo("subtract_halo", h, r)

    def times_halo(self, h: Array, q: Array) -> None:
        self._halo("times_halo", h, q)

    def times_halo_dot(self, h: Array, x: Array, q: Array, dot: Array) -> None:
        a = self.one
        if a.size:
            blocks = -(-len(a.partials) // HALO_WARPS)
            partials = self.kept("partials", lambda: cupy.empty((self.width, blocks)))
            ticket = self.kept("ticket", _ticket)
            apart = np.int64(dot.strides[0] // dot.itemsize)
            sizes = (length(x), length(q), apart, np.int32(a.size))
            arguments = (*a.arguments, h, x, q, partials, ticket, dot, *sizes)
            self.launch_early("times_halo_dot", (blocks,), (HALO_WARPS * SLICE,), arguments)

    def _halo(self, name: str, h: Array, y: Array) -> None:
        a = self.one
        if a.launch:
            grid, block, tail = a.launch
            self.launch_early(name, grid, block, (*a.arguments, h, y, length(y), *tail))


def _ticket() -> Array:
    ticket = cupy.zeros(1, dtype=np.uint32)
    cupy.cuda.get_current_stream().synchronize()
    return ticket
