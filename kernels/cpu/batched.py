"""Matrix passes on several vectors at once: a slice's entries come from memory once and serve every column.

The loops are those of `sweeps`, around a loop over columns for each entry column: sums are added in the same order, so
every column has the bits that it gets there.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numba import njit, uint64

from dsolver.kernels.batched import Batched
from dsolver.kernels.cpu.compiled import compiled
from dsolver.kernels.layout import SLICE as _SLICE
from dsolver.kernels.layout import DenseInverse, Matrix, Product
from dsolver.kernels.stencil import ConstantStencil

SLICE = uint64(_SLICE)
ONE = uint64(1)


@njit(inline="always")
def _add_products(acc: Any, s: Any, first: Any, last: Any, m: Any, x: Any) -> None:
    """acc[c] += entry columns [first, last) of local slice s times x[c]; m as in `sweeps`."""
    start, column_start, values, columns = m
    value_base = uint64(start[s])
    column_base = uint64(column_start[s])
    width = (uint64(start[s + ONE]) - value_base) // SLICE
    if uint64(column_start[s + ONE]) - column_base == width:
        for k in range(first, last):
            v = value_base + k * SLICE
            base = uint64(columns[column_base + k])
            for c in range(len(acc)):
                for lane in range(SLICE):
                    acc[c, lane] += values[v + lane] * x[c, base + lane]
    else:
        for k in range(first, last):
            v = value_base + k * SLICE
            place = column_base + k * SLICE
            for c in range(len(acc)):
                for lane in range(SLICE):
                    acc[c, lane] += values[v + lane] * x[c, uint64(columns[place + lane])]


@njit(inline="always")
def _width(s: Any, m: Any) -> Any:
    return (uint64(m[0][s + ONE]) - uint64(m[0][s])) // SLICE


@compiled(fastmath={"contract"})
def spmv(first: Any, last: Any, m: Any, diagonal: Any, x: Any, y: Any) -> None:
    """y = A_local x on storage slices [first, last)."""
    acc = np.empty((len(x), _SLICE), x.dtype)
    for s in range(uint64(first), uint64(last)):
        p = s * SLICE
        for c in range(len(acc)):
            for lane in range(SLICE):
                acc[c, lane] = diagonal[p + lane] * x[c, p + lane]
        _add_products(acc, s - ONE, uint64(0), _width(s - ONE, m), m, x)
        for c in range(len(acc)):
            for lane in range(SLICE):
                y[c, p + lane] = acc[c, lane]


@compiled(fastmath={"contract"})
def forward_from_zero(first: Any, last: Any, m: Any, upper: Any, diagonal: Any, r: Any, x: Any) -> None:
    """x = (r - L x)/d, color after color."""
    acc = np.empty((len(x), _SLICE), m[2].dtype)
    for s in range(uint64(first), uint64(last)):
        p = s * SLICE
        acc[:] = 0.0
        _add_products(acc, s - ONE, uint64(0), uint64(upper[s - ONE]), m, x)
        for c in range(len(acc)):
            for lane in range(SLICE):
                x[c, p + lane] = (r[c, p + lane] - acc[c, lane]) / diagonal[p + lane]


@compiled(fastmath={"contract"})
def backward_solve(first: Any, last: Any, m: Any, upper: Any, diagonal: Any, w: Any, x: Any) -> None:
    """x = (w - U x)/d, last slice first."""
    acc = np.empty((len(x), _SLICE), m[2].dtype)
    for i in range(uint64(last) - uint64(first)):
        s = uint64(last) - ONE - i
        p = s * SLICE
        acc[:] = 0.0
        _add_products(acc, s - ONE, uint64(upper[s - ONE]), _width(s - ONE, m), m, x)
        for c in range(len(acc)):
            for lane in range(SLICE):
                x[c, p + lane] = (w[c, p + lane] - acc[c, lane]) / diagonal[p + lane]


@compiled(fastmath={"contract"})
def upper_residual(first: Any, last: Any, m: Any, upper: Any, x: Any, y: Any) -> None:
    """y = -(U x)."""
    acc = np.empty((len(x), _SLICE), m[2].dtype)
    for s in range(uint64(first), uint64(last)):
        p = s * SLICE
        acc[:] = 0.0
        _add_products(acc, s - ONE, uint64(upper[s - ONE]), _width(s - ONE, m), m, x)
        for c in range(len(acc)):
            for lane in range(SLICE):
                y[c, p + lane] = -acc[c, lane]


@compiled(fastmath={"contract"})
def lower_residual(first: Any, last: Any, m: Any, upper: Any, r: Any, x: Any, w: Any) -> None:
    """w = r - L x."""
    acc = np.empty((len(x), _SLICE), m[2].dtype)
    for s in range(uint64(first), uint64(last)):
        p = s * SLICE
        acc[:] = 0.0
        _add_products(acc, s - ONE, uint64(0), uint64(upper[s - ONE]), m, x)
        for c in range(len(acc)):
            for lane in range(SLICE):
                w[c, p + lane] = r[c, p + lane] - acc[c, lane]


@compiled(fastmath={"contract"})
def product(first: Any, last: Any, m: Any, target: Any, x: Any, keep: Any, y: Any) -> None:
    """y[target] = keep y[target] + (A x) on slices [first, last) of a rectangular matrix; keep is 0 or 1."""
    acc = np.empty((len(x), _SLICE), m[2].dtype)
    for s in range(uint64(first), uint64(last)):
        acc[:] = 0.0
        _add_products(acc, s, uint64(0), _width(s, m), m, x)
        for c in range(len(acc)):
            for lane in range(SLICE):
                q = target[s * SLICE + lane]
                if q >= 0:
                    y[c, q] = acc[c, lane] if keep == 0.0 else y[c, q] + acc[c, lane]


@compiled()
def dense_product(position: Any, values: Any, r: Any, x: Any) -> None:
    """x = values r, both at these positions; each row is added first to last."""
    for i in range(len(position)):
        for c in range(len(x)):
            total = 0.0
            for j in range(len(position)):
                total += values[i, j] * r[c, position[j]]
            x[c, position[i]] = total


@final
class CpuBatched(Batched):
    """The kernels of `CpuBackend` that read a stored matrix, for several vectors; see there."""

    backend: Any

    def spmv(self, a: Matrix | ConstantStencil, x: Any, y: Any) -> None:
        """y = A_local x."""
        if isinstance(a, ConstantStencil):
            self.one_by_one("spmv")(a, x, y)
            return
        self.backend.team.run(spmv, 1, int(a.layout.color_slices[-1]), _slices(a.local), a.diagonal, x, y)

    def spmv_dot(self, a: Matrix | ConstantStencil, x: Any, y: Any, dot: Any) -> None:
        """y = A_local x, dot = x . y."""
        self.spmv(a, x, y)
        self.one_by_one("dot")(x, y, dot)

    def forward(self, a: Matrix | ConstantStencil, r: Any, x: Any) -> None:
        """x = (D + L)⁻¹ r."""
        if isinstance(a, ConstantStencil):
            self.one_by_one("forward")(a, r, x)
            return
        self.backend.by_color(a.layout, forward_from_zero, _slices(a.local), a.local.upper, a.diagonal, r, x)

    def upper_residual(self, a: Matrix | ConstantStencil, x: Any, y: Any) -> None:
        """y = -(U x)."""
        if isinstance(a, ConstantStencil):
            self.one_by_one("upper_residual")(a, x, y)
            return
        last = int(a.layout.color_slices[-1])
        self.backend.team.run(upper_residual, 1, last, _slices(a.local), a.local.upper, x, y)

    def lower_residual(self, a: Matrix | ConstantStencil, r: Any, x: Any, w: Any) -> None:
        """w = r - L x."""
        if isinstance(a, ConstantStencil):
            self.one_by_one("lower_residual")(a, r, x, w)
            return
        last = int(a.layout.color_slices[-1])
        self.backend.team.run(lower_residual, 1, last, _slices(a.local), a.local.upper, r, x, w)

    def backward(self, a: Matrix | ConstantStencil, w: Any, x: Any) -> None:
        """x = (D + U)⁻¹ w."""
        if isinstance(a, ConstantStencil):
            self.one_by_one("backward")(a, w, x)
            return
        m = _slices(a.local)
        self.backend.by_color(a.layout, backward_solve, m, a.local.upper, a.diagonal, w, x, backward=True)

    def restrict_full(self, a: Product, y: Any, rc: Any) -> None:
        """rc = R y."""
        self.backend.team.run(product, 0, len(a.slices.upper), _slices(a.slices), a.target, y, 0.0, rc)

    def prolong_add(self, a: Product, xc: Any, x: Any) -> None:
        """x += P xc."""
        self.backend.team.run(product, 0, len(a.slices.upper), _slices(a.slices), a.target, xc, 1.0, x)

    def dense_solve(self, inverse: DenseInverse, r: Any, x: Any) -> None:
        """x = A⁻¹ r."""
        dense_product(inverse.position, inverse.values, r, x)


def _slices(s: Any) -> tuple[Any, Any, Any, Any]:
    return s.start, s.column_start, s.values, s.columns
