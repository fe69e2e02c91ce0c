"""HPCG's matrices on a GPU with their smoothers, and its way to the coarser level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, final

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.hpcg import mixed_colors
from dsolver.kernels.cuda.hpcg.batched import HpcgColumns
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import NARROW, HalfSweep, SweepLaunch, color_launch, warps
from dsolver.kernels.cuda.sell.assembly import assembly
from dsolver.kernels.cuda.sell.assembly.slices import ANY, SlicePart
from dsolver.kernels.cuda.sell.matrix import CudaHaloMatrix, CudaMatrix
from dsolver.kernels.cuda.sell.slice_widths import widths_of
from dsolver.kernels.cuda.vectors.vectors import CudaVectors
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.hpcg import HpcgMatrix, Injection, SeparateSmoothers
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.sell import SellMatrix

FILE, SMOOTHER = "hpcg/assembly.cu", "hpcg/smoother.cu"
SMOOTHED = SlicePart(name="smoothed", file=FILE, sections=3, widest=1023)
NUMBER = 2
"""Word of a header that is the number of its slice."""


@cache
def smoothers(dtype: str) -> dict[str, tuple[Any, Any | None]]:
    """Kernels of smoother.cu for a value type, each with the one for narrow slices or None."""
    narrow = {name: kernel(SMOOTHER, name + NARROW, dtype) for name in ("backward", "backward_keep")}
    names = (*narrow, "forward_corrected", "restrict_residual", "residual_halo")
    return {name: (kernel(SMOOTHER, name, dtype), narrow.get(name)) for name in names}


@final
@dataclass(frozen=True, kw_only=True)
class CudaHpcgMatrix(SeparateSmoothers, CudaMatrix, HpcgMatrix):
    """A chunk's matrix with HPCG's smoothers and their launches; S is the number of its slices."""

    # the launches of a forward half sweep, and of a backward one that changes x; colors without upper entries are left
    # out of that.
    smoothing: tuple[HalfSweep, HalfSweep]
    smoothed: Array  # uint32 (S, 4), the headers of the slices in storage order, `SmoothedHeader` in hpcg/header.cuh
    corrected: HalfSweep

    def batched(self, width: int) -> Columns:
        return HpcgColumns(self, width)

    def symgs(self, r: Array, x: Array) -> None:
        self._half_sweep(self.kernels.pair("forward_from_zero"), self.smoothing[0], self.diagonal, r, x)
        self._half_sweep(self._smoothers["backward"], self.smoothing[1], self.diagonal, x, x)

    def presmooth(self, r: Array, x: Array, e: Array) -> None:
        self._half_sweep(self.kernels.pair("forward_from_zero"), self.smoothing[0], self.diagonal, r, x)
        self._half_sweep(self._smoothers["backward_keep"], self.smoothing[1], self.diagonal, x, e)

    def restrict(self, t: Injection, r: Array, x: Array, e: Array, rc: Array) -> None:
        first, last = t.slices
        if first < last:
            only = SweepLaunch(launch=color_launch(first - 1, last - 1, self.diagonal.dtype.itemsize, reverse=False))
            self._half_sweep(self._smoothers["restrict_residual"], HalfSweep(units=(only,)), t.coarse_of, e, rc)

    def postsmooth(self, r: Array, c: Array, e: Array, x: Array, w: Array) -> None:
        # The forward sweep writes every x before it reads it: x + c is in e and c, and need not be formed.
        self._half_sweep(self._smoothers["forward_corrected"], self.corrected, self.diagonal, r, c, e, x, w)
        self._half_sweep(self._smoothers["backward"], self.smoothing[1], self.diagonal, w, x)

    @cached_property
    def _smoothers(self) -> dict[str, tuple[Any, Any | None]]:
        return smoothers(self.diagonal.dtype.name)


@final
@dataclass(frozen=True, kw_only=True)
class CudaHpcgHalo(CudaHaloMatrix):
    """Entries that multiply a halo, with HPCG's operations at the boundary."""

    def residual_halo(self, t: Injection, q: Array, r: Array, rc: Array, kept: Array) -> None:
        function, _ = smoothers(self.slices.values.dtype.name)["residual_halo"]
        self._rows(function, t.coarse_of, q, r, rc, kept)

    def restore(self, kept: Array, r: Array) -> None:
        self.vectors.items("scatter", self.size, self.boundary, kept, r)


@final
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
    parts = assembly.launches(a, widths_of(a.layout, a.local))
    forward, backward = parts["halves"]
    planned = mixed_colors.plan(a.layout, parts["by_color"], a.local, (forward, backward))
    smoothing = planned or (forward.sweep(), backward.sweep(every=False))
    smoothed = _packed(parts["by_color"], coarse)
    order = smoothing[0].headers
    ordered = smoothed if order is None else smoothed[order[:, NUMBER].astype(np.int32)]
    result = CudaHpcgMatrix(
        **vars(a),
        **parts,
        coarse=coarse,
        smoothing=smoothing,
        smoothed=smoothed,
        corrected=replace(smoothing[0], headers=ordered),
    )
    cupy.cuda.get_current_stream().synchronize()  # sweeps read a matrix before they wait for earlier launches
    return result


def _packed(by_color: Array, coarse: Array) -> Array:
    """The headers of the slices with where the entries at coarse points begin."""
    count = len(by_color)
    out = cupy.empty((count, 4), dtype=np.uint32)
    if count:
        arguments = (by_color, coarse, np.int32(count), out)
        kernel(FILE, "pack_smoothed", ANY)(*warps(-(-count // SLICE)), arguments)
    return out
