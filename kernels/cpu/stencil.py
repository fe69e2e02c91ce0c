"""Table of kernels of constant stencils on a CPU: products, sweeps, and transfers to the next coarser level.

Ranges of loops are counted in lines of points along x, line j + ny * k. Vectors have a guard slice before their first
row. Entries are added in lattice order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from dsolver.kernels.cpu.half_sweeps import gain, half_sweep, inside
from dsolver.kernels.cpu.loops.compiled import compiled, inlined
from dsolver.kernels.cpu.vectors import CpuVectors, Real
from dsolver.kernels.formats.base import Format, SeparateBackward, SeparateDot
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import CENTER
from dsolver.kernels.lattice.star import StarTransfer

GUARD = SLICE
POINTS_WORTH_A_THREAD = 4096  # points of lines, each of them read with its neighbors


@dataclass(frozen=True, kw_only=True)
class CpuStencil(SeparateBackward, SeparateDot, Format):
    """A constant stencil with its kernels."""

    stencil: ConstantStencil
    vectors: CpuVectors

    def compacted(self) -> CpuStencil:
        """The stencil itself: it stores no entries."""
        return self

    def spmv(self, x: Real, y: Real) -> None:
        a = self.stencil
        lines = a.shape[1] * a.shape[2]
        arrays = (self._weights, self._faces, x, y)
        self.vectors.team.run(_spmv, 0, lines, a.shape, a.wraps, *arrays, worth=lines_worth_a_thread(a.shape[0]))

    def forward(self, r: Real, x: Real) -> None:
        self._sweep(upper=False, scale=1.0, solve=True, r=r, x=x, out=x)

    def upper_residual(self, x: Real, y: Real) -> None:
        self._sweep(upper=True, scale=0.0, solve=False, r=x, x=x, out=y)

    def lower_residual(self, r: Real, x: Real, w: Real) -> None:
        self._sweep(upper=False, scale=1.0, solve=False, r=r, x=x, out=w)

    def backward(self, w: Real, x: Real) -> None:
        self._sweep(upper=True, scale=1.0, solve=True, r=w, x=x, out=x)

    def jacobi(self, r: Real, scale: float, z: Real) -> None:
        self._sweep(upper=None, scale=scale, solve=True, r=r, x=r, out=z)

    def _sweep(self, *, upper: bool | None, scale: float, solve: bool, r: Real, x: Real, out: Real) -> None:
        """out = scale r - U x, L x, or nothing, color after color; divided by the diagonal to solve for x."""
        a, dtype = self.stencil, self.vectors.dtype
        nx, ny, nz = a.shape
        center, worth = dtype.type(a.weights[CENTER] if solve else 0.0), lines_worth_a_thread(-(-nx // 2))
        colors = a.colors[::-1] if upper and solve else a.colors
        for number in (n for classes in colors for n in classes):
            start, weights = a.start(number), self._parts[number, upper]
            lines = len(range(start[1], ny, 2)) * len(range(start[2], nz, 2))
            numbers = (weights, self._faces, center, dtype.type(scale))
            self.vectors.team.run(half_sweep, 0, lines, a.shape, a.wraps, start, *numbers, r, x, out, worth=worth)

    @cached_property
    def _weights(self) -> Real:
        return np.array(self.stencil.weights, self.vectors.dtype)

    @cached_property
    def _faces(self) -> Real:
        return np.array(self.stencil.faces, self.vectors.dtype)

    @cached_property
    def _parts(self) -> dict[tuple[int, bool | None], Real]:
        """The weights of a class's entries in earlier, or later, colors."""
        a, dtype = self.stencil, self.vectors.dtype
        keys = [(number, upper) for classes in a.colors for number in classes for upper in (False, True, None)]
        return {(number, upper): np.array(a.part(number, upper=upper), dtype) for number, upper in keys}


@dataclass(frozen=True, kw_only=True)
class CpuTransfer(Format):
    """A star between two levels, with its kernels."""

    transfer: StarTransfer
    vectors: CpuVectors

    @cached_property
    def _star(self) -> CpuStencil:
        """The star on the chunk and the layers around it."""
        return CpuStencil(stencil=self.transfer.extended, vectors=self.vectors)

    @cached_property
    def _table(self) -> Real:
        return self.transfer.table.astype(self.vectors.dtype)

    def star_down(self, r: Real, h: Real, rc: Real) -> None:
        t, a = self.transfer, self._star
        r = t.fine.joined(r, h, GUARD)
        x, y = np.zeros_like(r), np.zeros_like(r)
        a.forward(r, x)
        a.upper_residual(x, y)
        fine, coarse = (a.stencil.shape, a.stencil.wraps, t.kinds), (t.restricted.shape, t.fine.below)
        lines = t.restricted.shape[1] * t.restricted.shape[2]
        worth = lines_worth_a_thread(a.stencil.shape[0])
        self.vectors.team.run(_restrict, 0, lines, *fine, *coarse, self._table, t.coarse.position, y, rc, worth=worth)

    def star_up(self, r: Real, h: Real, xc: Real, x: Real) -> None:
        t, a = self.transfer, self._star
        r, c, shape = t.fine.joined(r, h, GUARD), t.corrected, a.stencil.shape
        y, w = (np.zeros_like(r), np.zeros_like(r)) if t.fine.pieces else (x, np.zeros_like(r))
        a.forward(r, y)
        begin = tuple(first // 2 - below for first, below in zip(t.fine.first, c.first, strict=True))
        coarse, worth = (c.extended, c.closed, begin, self._table), lines_worth_a_thread(shape[0])
        self.vectors.team.run(_prolong, 0, shape[1] * shape[2], shape, t.kinds, *coarse, xc, y, worth=worth)
        a.lower_residual(r, y, w)
        a.backward(w, y)
        if t.fine.pieces:
            own = t.fine.own(y, GUARD)
            x[GUARD : GUARD + own.size] = own.reshape(-1)


def lines_worth_a_thread(points: int) -> int:
    """Lines of so many points that are worth a thread."""
    return -(-POINTS_WORTH_A_THREAD // points)


@njit(inline="always")
def _add_line(left: Any, here: Any, right: Any, wraps: Any, source: Any, out: Any) -> None:
    """out += the products of three entries of every point with a line."""
    nx = len(out)
    if left == 0 and right == 0:
        if here != 0:
            for i in range(nx):
                out[i] += here * source[i]
        return
    for i in range(1, nx - 1):
        out[i] += left * source[i - 1] + here * source[i] + right * source[i + 1]
    out[0] += here * source[0]
    if nx > 1:
        out[0] += right * source[1]
        out[nx - 1] += left * source[nx - 2] + here * source[nx - 1]
    if wraps:
        out[0] += left * source[nx - 1]
        out[nx - 1] += right * source[0]


@compiled()
def _spmv(first: Any, last: Any, shape: Any, wraps: Any, weights: Any, faces: Any, x: Any, y: Any) -> None:
    """y = A x on lines [first, last)."""
    nx, ny, nz = shape
    for line in range(first, last):
        j, k = line % ny, line // ny
        begin = SLICE + line * nx
        out, own = y[begin : begin + nx], x[begin : begin + nx]
        out[:] = 0
        for at in range(9):
            jj, kk = inside(j + at % 3 - 1, ny, wraps[1]), inside(k + at // 3 - 1, nz, wraps[2])
            if jj >= 0 and kk >= 0:
                other = SLICE + (kk * ny + jj) * nx
                left, here, right = weights[3 * at], weights[3 * at + 1], weights[3 * at + 2]
                if at == 4:
                    here += gain(k, nz, faces[4], faces[5]) + gain(j, ny, faces[2], faces[3])
                _add_line(left, here, right, wraps[0], x[other : other + nx], out)
        out[0] += faces[0] * own[0]
        out[nx - 1] += faces[1] * own[nx - 1]


@inlined()
def _corner(corner: Any, axis: Any, along: Any) -> Any:
    """Distance from coarse point i // 2 of a corner of a point between coarse ones along the axes other than `axis`."""
    if along == axis:
        return 0
    first = 1 if axis == 0 else 0
    return (corner if along == first else corner >> 1) % 2 - 1


@compiled()
def _restrict(first: Any, last: Any, *given: Any) -> None:
    """rc = R y for y that is zero off the red points, on coarse lines [first, last).

    Coarse point 0 is the one after point `begin`. `kinds`: of points along x, y, z, see `star.KINDS`.
    """
    shape, wraps, kinds, coarse, begin, table, place, y, rc = given
    nx, ny, nz = shape
    cx, cy, _ = coarse
    for line in range(first, last):
        j, k = begin[1] + 2 * (line % cy) + 1, begin[2] + 2 * (line // cy) + 1
        for column in range(cx):
            i = begin[0] + 2 * column + 1
            total = y[SLICE + (k * ny + j) * nx + i]
            for axis in range(3):
                for corner in range(4):
                    ii = inside(i - 2 * _corner(corner, axis, 0) - 1 if axis != 0 else i, nx, wraps[0])
                    jj = inside(j - 2 * _corner(corner, axis, 1) - 1 if axis != 1 else j, ny, wraps[1])
                    kk = inside(k - 2 * _corner(corner, axis, 2) - 1 if axis != 2 else k, nz, wraps[2])
                    if ii >= 0 and jj >= 0 and kk >= 0:
                        weight = table[kinds[2][kk], kinds[1][jj], kinds[0][ii], axis, corner]
                        total += weight * y[SLICE + (kk * ny + jj) * nx + ii]
            rc[place[line * cx + column]] = total


@compiled()
def _prolong(
    first: Any, last: Any, shape: Any, kinds: Any, coarse: Any, wraps: Any, begin: Any, table: Any, xc: Any, x: Any
) -> None:
    """x += P xc at the red points of lines [first, last).

    Point 0 is the one before coarse point `begin`, and `wraps` is of the coarse points.
    """
    nx, ny, _ = shape
    cx, cy, cz = coarse
    for line in range(first, last):
        j, k = line % ny, line // ny
        for i in range((j + k + 1) % 2, nx, 2):
            here = SLICE + line * nx + i
            i0, j0, k0 = begin[0] + i // 2, begin[1] + j // 2, begin[2] + k // 2
            if i % 2 == 1 and j % 2 == 1:
                ii, jj, kk = inside(i0, cx, wraps[0]), inside(j0, cy, wraps[1]), inside(k0, cz, wraps[2])
                if ii >= 0 and jj >= 0 and kk >= 0:
                    x[here] += xc[SLICE + (kk * cy + jj) * cx + ii]
                continue
            axis = 0 if i % 2 == 1 else 1 if j % 2 == 1 else 2
            for corner in range(4):
                ii = inside(i0 + _corner(corner, axis, 0), cx, wraps[0])
                jj = inside(j0 + _corner(corner, axis, 1), cy, wraps[1])
                kk = inside(k0 + _corner(corner, axis, 2), cz, wraps[2])
                if ii >= 0 and jj >= 0 and kk >= 0:
                    weight = table[kinds[2][k], kinds[1][j], kinds[0][i], axis, corner]
                    x[here] += weight * xc[SLICE + (kk * cy + jj) * cx + ii]
