"""HPCG's levels on a CPU: half sweeps that keep what the next one needs. Loops are as in `cpu.sell.loops`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import uint64

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import SLICES_WORTH_A_THREAD
from dsolver.kernels.cpu.sell.loops import BLOCK, ONE, SLICE, add_products, column, count, width_of
from dsolver.kernels.cpu.sell.matrix import CpuHaloMatrix, CpuMatrix, CpuMatrixColumns
from dsolver.kernels.cpu.vectors import Real, gather, mapped_subtract, scatter, scatter_add
from dsolver.kernels.formats.hpcg import HpcgMatrix, Injection, SeparateColumns, SeparateSmoothers
from dsolver.kernels.formats.layout import SLICE as _SLICE


@dataclass(frozen=True, kw_only=True)
class CpuHpcgMatrix(SeparateSmoothers, CpuMatrix, HpcgMatrix):
    """A chunk's matrix with HPCG's smoothers."""

    together = CpuMatrix.together | {"symgs", "presmooth", "restrict", "postsmooth"}

    def batched(self, width: int) -> Columns:
        return _HpcgColumns(self, width)

    def symgs(self, r: Real, x: Real) -> None:
        self.forward(r, x)
        self._by_color(_backward, *self._half, x, x, backward=True)

    def presmooth(self, r: Real, x: Real, e: Real) -> None:
        self.forward(r, x)
        self._by_color(_backward_keep, *self._half, x, e, backward=True)

    def restrict(self, t: Injection, r: Real, x: Real, e: Real, rc: Real) -> None:
        arrays = (self._slices, self.local.upper, t.coarse_of)
        self.vectors.team.run(_restrict, *t.slices, *arrays, e, rc, worth=SLICES_WORTH_A_THREAD)

    def postsmooth(self, r: Real, c: Real, e: Real, x: Real, w: Real) -> None:
        head = (self._slices, self.local.upper, self.coarse, self.diagonal)
        self._by_color(_forward_corrected, *head, r, c, e, x, w)
        self._by_color(_backward, *self._half, w, x, backward=True)


class _HpcgColumns(SeparateColumns, CpuMatrixColumns):
    """A `CpuHpcgMatrix` for several columns."""


@dataclass(frozen=True, kw_only=True)
class CpuHpcgHalo(CpuHaloMatrix):
    """Entries that multiply a halo, with HPCG's operations at the boundary."""

    def residual_halo(self, t: Injection, q: Real, r: Real, rc: Real, kept: Real) -> None:
        gather(0, len(self.boundary), self.boundary, r, kept)
        scatter_add(self.boundary, -1.0, q, r)
        mapped_subtract(self.boundary, t.coarse_of, q, rc)

    def restore(self, kept: Real, r: Real) -> None:
        scatter(self.boundary, kept, r)


@dataclass(frozen=True, kw_only=True)
class CpuInjection(Injection):
    """Injection between two levels."""

    def prolong(self, xc: Real, c: Real) -> None:
        _prolong(self.fine_of, xc, c)


@compiled(fastmath={"contract"})
def _backward(first: Any, last: Any, cuts: Any, m: Any, upper: Any, diagonal: Any, w: Any, x: Any) -> None:
    """x = w - (U x)/d, last color first: the backward sweep. w may be x."""
    acc = np.empty(_SLICE, m[2].dtype)
    for color in range(len(cuts) - 1, 0, -1):
        low, high = max(uint64(first), uint64(cuts[color - 1])), min(uint64(last), uint64(cuts[color]))
        for begin in range(low, high, BLOCK):
            for n in range(count(w)):
                wn, xn = column(w, n), column(x, n)
                for s in range(begin, min(begin + BLOCK, high)):
                    p = s * SLICE
                    acc[:] = 0.0
                    add_products(acc, s - ONE, uint64(upper[s - ONE]), width_of(s - ONE, m), m, xn)
                    for lane in range(SLICE):
                        xn[p + lane] = wn[p + lane] - acc[lane] / diagonal[p + lane]


@compiled(fastmath={"contract"})
def _backward_keep(first: Any, last: Any, cuts: Any, m: Any, upper: Any, diagonal: Any, x: Any, e: Any) -> None:
    """e = (U x)/d, x -= e, last color first: the backward sweep that keeps what it subtracts."""
    acc = np.empty(_SLICE, m[2].dtype)
    for color in range(len(cuts) - 1, 0, -1):
        low, high = max(uint64(first), uint64(cuts[color - 1])), min(uint64(last), uint64(cuts[color]))
        for begin in range(low, high, BLOCK):
            for n in range(count(x)):
                xn, en = column(x, n), column(e, n)
                for s in range(begin, min(begin + BLOCK, high)):
                    p = s * SLICE
                    acc[:] = 0.0
                    add_products(acc, s - ONE, uint64(upper[s - ONE]), width_of(s - ONE, m), m, xn)
                    for lane in range(SLICE):
                        en[p + lane] = acc[lane] / diagonal[p + lane]
                        xn[p + lane] -= en[p + lane]


@compiled(fastmath={"contract"})
def _forward_corrected(
    first: Any, last: Any, m: Any, upper: Any, coarse: Any, diagonal: Any, r: Any, c: Any, e: Any, x: Any, w: Any
) -> None:
    """w = (r - L x)/d, x = w - e - (U c)/d: the forward sweep after the coarse correction c.

    The old upper sum U x is d e + U c, and c is zero but at coarse points: only the tail of each slice is read.
    """
    acc = np.empty(_SLICE, m[2].dtype)
    tail = np.empty(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(r)):
            rn, cn, en, xn, wn = column(r, n), column(c, n), column(e, n), column(x, n), column(w, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                p = s * SLICE
                acc[:] = 0.0
                tail[:] = 0.0
                add_products(acc, s - ONE, uint64(0), uint64(upper[s - ONE]), m, xn)
                add_products(tail, s - ONE, uint64(coarse[s - ONE]), width_of(s - ONE, m), m, cn)
                for lane in range(SLICE):
                    new = (rn[p + lane] - acc[lane]) / diagonal[p + lane]
                    wn[p + lane] = new
                    xn[p + lane] = new - en[p + lane] - tail[lane] / diagonal[p + lane]


@compiled(fastmath={"contract"})
def _restrict(first: Any, last: Any, m: Any, upper: Any, coarse_of: Any, e: Any, rc: Any) -> None:
    """rc = (L e) at the coarse points of storage slices [first, last)."""
    acc = np.empty(_SLICE, m[2].dtype)
    for begin in range(uint64(first), uint64(last), BLOCK):
        for n in range(count(e)):
            en, rcn = column(e, n), column(rc, n)
            for s in range(begin, min(begin + BLOCK, uint64(last))):
                p = s * SLICE
                any_coarse = False
                for lane in range(SLICE):
                    any_coarse |= coarse_of[p + lane] >= 0
                if not any_coarse:
                    continue
                acc[:] = 0.0
                add_products(acc, s - ONE, uint64(0), uint64(upper[s - ONE]), m, en)
                for lane in range(SLICE):
                    q = coarse_of[p + lane]
                    if q >= 0:
                        rcn[q] = acc[lane]


@compiled()
def _prolong(fine_of: Any, xc: Any, c: Any) -> None:
    """c = P xc at the coarse points."""
    for q in range(len(fine_of)):
        p = fine_of[q]
        if p >= 0:
            c[p] = xc[q]
