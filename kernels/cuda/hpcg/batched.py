"""HPCG's smoothers on several vectors at once: launches of hpcg/batched.cu."""

from typing import Any

from dsolver.kernels.cuda.launch.batched import length
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import color_launch
from dsolver.kernels.cuda.sell.batched import CudaMatrixColumns
from dsolver.kernels.formats.hpcg import Injection, SeparateColumns
from dsolver.kernels.formats.layout import Array

OWN = frozenset({"backward", "backward_keep", "forward_corrected", "restrict_residual"})
"""Kernels that are in hpcg/batched.cu."""


class HpcgColumns(SeparateColumns, CudaMatrixColumns):
    """A `CudaHpcgMatrix` for several columns."""

    def function(self, name: str) -> Any:
        return kernel("hpcg/batched.cu", name, self.dtype, self.width) if name in OWN else super().function(name)

    def symgs(self, r: Array, x: Array) -> None:
        self._half_sweep("forward_from_zero", self._sweeps()[0], r, x)
        self._half_sweep("backward", self._sweeps(self.one.filled)[1], x, x)

    def presmooth(self, r: Array, x: Array, e: Array) -> None:
        self._half_sweep("forward_from_zero", self._sweeps()[0], r, x)
        self._half_sweep("backward_keep", self._sweeps(self.one.filled)[1], x, e)

    def restrict(self, t: Injection, r: Array, x: Array, e: Array, rc: Array) -> None:
        a = self.one
        first, last = t.slices
        if first < last:
            grid, block, tail = color_launch(first - 1, last - 1, a.diagonal.dtype.itemsize, reverse=False)
            arguments = (*a.color_arguments, t.coarse_of, e, rc, length(e), length(rc), *tail)
            self.launch_early("restrict_residual", grid, block, arguments)

    def postsmooth(self, r: Array, c: Array, e: Array, x: Array, w: Array) -> None:
        self._half_sweep("forward_corrected", self._sweeps()[0], r, c, e, x, w, headers=self.one.smoothed)
        self._half_sweep("backward", self._sweeps(self.one.filled)[1], w, x)
