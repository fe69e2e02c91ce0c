"""HPCG's matrices on a GPU with their smoothers, and its way to the coarser level."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.batched import length
from dsolver.kernels.cuda.launch.foresight import foreseen_numbers
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import HalfSweep, SweepLaunch, color_launch, warps
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.cuda.sell.assembly import assembly
from dsolver.kernels.cuda.sell.assembly.slices import ANY, SlicePart
from dsolver.kernels.cuda.sell.batched import CudaMatrixColumns
from dsolver.kernels.cuda.sell.matrix import CudaHaloMatrix, CudaMatrix
from dsolver.kernels.cuda.vectors.vectors import CudaVectors
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.hpcg import HpcgMatrix, Injection, SeparateColumns, SeparateSmoothers
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.sell import SellMatrix

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


FILE, SMOOTHER = "hpcg/assembly.cu", "hpcg/smoother.cu"
SMOOTHED = SlicePart(name="smoothed", file=FILE, sections=3, widest=1023)


@dataclass(frozen=True, kw_only=True)
class CudaHpcgMatrix(SeparateSmoothers, CudaMatrix, HpcgMatrix):
    """A chunk's matrix with HPCG's smoothers and their launches; S is the number of its slices."""

    filled: frozenset[int]  # colors with upper entries
    smoothed: Array  # uint32 (S, 4), the headers of the slices in storage order, `SmoothedHeader` in hpcg/header.cuh

    @cached_property
    def changing_sweep(self) -> HalfSweep:
        """The launches of a backward half sweep that changes x."""
        assert self.halves is not None
        return self.halves[1].sweep(self.filled)

    def batched(self, width: int) -> Columns:
        return HpcgColumns(self, width)

    def symgs(self, r: Array, x: Array) -> None:
        self._half_sweep(self.kernels.function("forward_from_zero"), self.forward_sweep, self.diagonal, r, x)
        self._half_sweep(self._smoother("backward"), self.changing_sweep, self.diagonal, x, x)

    def presmooth(self, r: Array, x: Array, e: Array) -> None:
        self._half_sweep(self.kernels.function("forward_from_zero"), self.forward_sweep, self.diagonal, r, x)
        self._half_sweep(self._smoother("backward_keep"), self.changing_sweep, self.diagonal, x, e)

    def restrict(self, t: Injection, r: Array, x: Array, e: Array, rc: Array) -> None:
        first, last = t.slices
        if first < last:
            only = SweepLaunch(launch=color_launch(first - 1, last - 1, self.diagonal.dtype.itemsize, reverse=False))
            self._half_sweep(self._smoother("restrict_residual"), HalfSweep(units=(only,)), t.coarse_of, e, rc)

    def postsmooth(self, r: Array, c: Array, e: Array, x: Array, w: Array) -> None:
        # The forward sweep writes every x before it reads it: x + c is in e and c, and need not be formed.
        head = (self.smoothed, *self.color_arguments[1:], self.diagonal, r, c, e, x, w)
        self.kernels.launch_sweep(self._smoother("forward_corrected"), self.forward_sweep, head)
        self._half_sweep(self._smoother("backward"), self.changing_sweep, self.diagonal, w, x)

    def _smoother(self, name: str) -> Any:
        return kernel(SMOOTHER, name, self.value_type)


@dataclass(frozen=True, kw_only=True)
class CudaHpcgHalo(CudaHaloMatrix):
    """Entries that multiply a halo, with HPCG's operations at the boundary."""

    def residual_halo(self, t: Injection, q: Array, r: Array, rc: Array, kept: Array) -> None:
        self._rows(kernel(SMOOTHER, "residual_halo", self.value_type), t.coarse_of, q, r, rc, kept)

    def restore(self, kept: Array, r: Array) -> None:
        self.vectors.items("scatter", self.size, self.boundary, kept, r)


@dataclass(frozen=True, kw_only=True)
class CudaInjection(Injection):
    """Injection between two levels."""

    vectors: CudaVectors

    def prolong(self, xc: Array, c: Array) -> None:
        self.vectors.items("prolong", len(self.fine_of), self.fine_of, xc, c)


def matrix(
    where: Layout, rows: CandidateRows, coarse: Array, dtype: np.dtype[Any], *, runs: bool = True
) -> CudaHpcgMatrix:
    """The matrix of a level; raises ZeroDivisionError for a row without a diagonal.

    Args:
        coarse: bool (rows,), True at coarse points.
        runs: whether slices may be runs.
    """
    late = cupy.asarray(coarse).view(np.uint8)
    a, ends = assembly.square(SMOOTHED, where, rows, dtype, late, runs=runs)
    return with_launches(a, cupy.ascontiguousarray(ends[:, 1]))


def with_launches(a: SellMatrix, coarse: Array) -> CudaHpcgMatrix:
    """The matrix with what its launches need; `coarse` as in `CudaHpcgMatrix`."""
    parts = assembly.launches(a)
    filled, smoothed = _filled(a.layout, parts["by_color"]), _packed(parts["by_color"], coarse)
    result = CudaHpcgMatrix(**vars(a), **parts, coarse=coarse, filled=filled, smoothed=smoothed)
    cupy.cuda.get_current_stream().synchronize()  # sweeps read a matrix before they wait for earlier launches
    return result


def _filled(layout: Layout, by_color: Array) -> frozenset[int]:
    """The colors with upper entries."""
    flags, count = cupy.zeros(layout.colors, dtype=np.int32), len(by_color)
    if count:
        begins = table(np.asarray(layout.color_slices, dtype=np.int64))
        arguments = (by_color, begins, np.int32(layout.colors), np.int32(count), flags)
        kernel(FILE, "mark_filled", ANY)(*warps(-(-count // SLICE)), arguments)
    return frozenset(np.flatnonzero(foreseen_numbers(flags)).tolist())


def _packed(by_color: Array, coarse: Array) -> Array:
    """The headers of the slices with where the entries at coarse points begin."""
    count = len(by_color)
    out = cupy.empty((count, 4), dtype=np.uint32)
    if count:
        arguments = (by_color, coarse, np.int32(count), out)
        kernel(FILE, "pack_smoothed", ANY)(*warps(-(-count // SLICE)), arguments)
    return out
