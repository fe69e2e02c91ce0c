"""The text-book kernels in NumPy: the specification of the contract.

Rows keep their lattice order, a sweep visits the colors one after the other and every formula reads as in the books:
no half sweeps, no run slices. Slow, and meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels import galerkin
from dsolver.kernels.backend import Backend, Entries, StencilRows, in_range, lossless, narrowed, ratio, scale_of, sound
from dsolver.kernels.coarsening import Coarsening, Triple
from dsolver.kernels.layout import DenseInverse, HaloLayout, Layout, Route, Transfer
from dsolver.kernels.star import AROUND, Around, StarTransfer
from dsolver.kernels.stencil import ConstantStencil

F64 = npt.NDArray[np.float64]
Real = npt.NDArray[Any]
"""Of the backend's value type."""
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TextbookMatrix:
    """Rows in ELL form, split into own columns and halo columns; holes have column 0 and value 0.

    Attributes:
        layout: the storage order, which is the lattice order.
        diagonal: (rows,), in the value type, as all values.
        columns, values: (K, rows), entries off the diagonal in own columns.
        members: the rows of each color.
    """

    layout: Layout
    diagonal: Real
    columns: I64
    values: Real
    members: tuple[I64, ...]


@dataclass(frozen=True, kw_only=True)
class TextbookHalo:
    """The rows that read the halo, in ELL form.

    Attributes:
        boundary: int64 (B,), their row numbers.
        columns, values: (K, B), their entries in the halo; holes have column 0 and value 0.
    """

    boundary: I64
    columns: I64
    values: Real

    @property
    def size(self) -> int:
        """Number of boundary rows."""
        return len(self.boundary)

    def times(self, h: Real) -> Real:
        """The products with a halo."""
        products: Real = (self.values * h[self.columns]).sum(axis=0)
        return products


@dataclass(frozen=True, kw_only=True)
class TextbookProduct:
    """A rectangular matrix in ELL form; holes have column 0 and value 0.

    Attributes:
        columns, values: (K, rows).
    """

    columns: I64
    values: Real


@final
class NumpyBackend(Backend):
    """The NumPy text-book kernels."""

    name = "numpy"
    guard = 0
    xp = np

    def to_host(self, values: Any) -> npt.NDArray[Any]:
        return np.asarray(values)

    def synchronize(self) -> None:
        """Kernels have run when they return."""

    # -- set-up ----------------------------------------------------------------------------------------------------

    def layout(self, color: npt.NDArray[np.int32], colors: int, shape: tuple[int, int, int]) -> Layout:
        rows = np.arange(len(color), dtype=np.int32)
        return Layout(
            rows=len(color),
            size=len(color),
            color_slices=np.zeros(colors + 1, dtype=np.int64),
            position=rows,
            row=rows,
            color=color,
            shape=shape,
        )

    def matrix(
        self, layout: Layout, rows: StencilRows | Entries, coarse: npt.NDArray[np.bool_] | None
    ) -> TextbookMatrix:
        columns, values = _entries(rows)
        index = np.arange(layout.rows, dtype=np.int64)
        own = (columns >= 0) & (columns < layout.rows)
        on_diagonal = own & (columns == index)
        diagonal = np.where(on_diagonal, values, 0.0).sum(axis=0)
        if not diagonal.all():
            raise ZeroDivisionError(f"row {np.flatnonzero(diagonal == 0.0)[0]} of a chunk has no diagonal entry")
        off = own & ~on_diagonal
        return TextbookMatrix(
            layout=layout,
            diagonal=in_range(diagonal, self.dtype),
            columns=np.where(off, columns, 0),
            values=narrowed(np.where(off, values, 0.0), self.dtype),
            members=tuple(np.flatnonzero(layout.color == c) for c in range(layout.colors)),
        )

    def constant_matrix(self, stencil: ConstantStencil) -> ConstantStencil:
        return stencil

    def constant_transfer(self, transfer: StarTransfer) -> StarTransfer:
        return transfer

    def halo_matrix(self, layout: Layout, rows: StencilRows) -> TextbookHalo:
        return self._halo_part(*_entries(rows), layout.rows)

    def scale_diagonal(self, matrix: TextbookMatrix, factors: F64) -> TextbookMatrix:
        scaled = matrix.diagonal * factors.reshape(-1, order="F")
        return replace(matrix, diagonal=in_range(scaled, self.dtype))

    def compacted(self, matrix: TextbookMatrix) -> TextbookMatrix:
        return replace(matrix, values=lossless(matrix.values))

    def transfer(self, fine: Layout, coarse: Layout, fine_row: npt.NDArray[np.int32]) -> Transfer:
        coarse_of = np.full(fine.rows, -1, dtype=np.int32)
        coarse_of[fine_row] = np.arange(coarse.rows)
        return Transfer(coarse_of=coarse_of, fine_of=fine_row, slices=(0, 0))

    def product(self, rows: Layout, columns: Layout, entries: Entries, *, in_order: bool) -> TextbookProduct:
        own = (entries.columns >= 0) & (entries.columns < columns.rows)
        return TextbookProduct(
            columns=np.where(own, entries.columns, 0).astype(np.int64),
            values=narrowed(np.where(own, entries.values, 0.0), self.dtype),
        )

    def halo_product(self, rows: Layout, columns: Layout, entries: Entries) -> TextbookHalo:
        return self._halo_part(entries.columns.astype(np.int64), entries.values, columns.rows)

    def _halo_part(self, columns: I64, values: F64, own: int) -> TextbookHalo:
        """The entries in columns from `own` on."""
        halo = columns >= own
        boundary = np.flatnonzero(halo.any(axis=0))
        return TextbookHalo(
            boundary=boundary,
            columns=np.where(halo, columns - own, 0)[:, boundary],
            values=narrowed(np.where(halo, values, 0.0)[:, boundary], self.dtype),
        )

    def interpolation(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> F64:
        return galerkin.interpolation(coarsening, offsets, weights)

    def galerkin(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64, p: F64) -> F64:
        return galerkin.galerkin(coarsening, offsets, weights, p)

    # -- matrix passes -----------------------------------------------------------------------------------------------

    def spmv(self, a: TextbookMatrix | ConstantStencil, x: Real, y: Real) -> None:
        if isinstance(a, ConstantStencil):
            y[:] = _diagonal(a, x) * x + a.others(a.weights, x).reshape(-1)
            return
        y[:] = a.diagonal * x + (a.values * x[a.columns]).sum(axis=0)

    def spmv_dot(self, a: TextbookMatrix | ConstantStencil, x: Real, y: Real, dot: F64) -> None:
        self.spmv(a, x, y)
        self.dot(x, y, dot)

    def spmv_halo(self, a: TextbookHalo, h: Real, y: Real) -> None:
        y[a.boundary] += a.times(h)

    def times_halo(self, a: TextbookHalo, h: Real, q: Real) -> None:
        q[:] = a.times(h)

    def times_halo_dot(self, a: TextbookHalo, h: Real, x: Real, q: Real, dot: F64) -> None:
        q[:] = a.times(h)
        dot[0] = _dot(x[a.boundary], q)

    def add_halo_dot(self, a: TextbookHalo, q: Real, part: F64, y: Real, dot: F64) -> None:
        y[a.boundary] += q
        dot += part

    def subtract_halo(self, a: TextbookHalo, h: Real, r: Real) -> None:
        r[a.boundary] -= a.times(h)

    def residual_halo(self, a: TextbookHalo, t: Transfer, q: Real, r: Real, rc: Real, kept: Real) -> None:
        kept[:] = r[a.boundary]
        r[a.boundary] -= q
        products = np.zeros_like(r)
        products[a.boundary] = q
        rc -= products[t.fine_of]

    def restore(self, a: TextbookHalo, kept: Real, r: Real) -> None:
        r[a.boundary] = kept

    def symgs(self, a: TextbookMatrix, r: Real, x: Real) -> None:
        x[:] = 0.0
        self._symmetric_sweep(a, r, x)

    def presmooth(self, a: TextbookMatrix, r: Real, x: Real, e: Real) -> None:
        self.symgs(a, r, x)
        e[:] = 0.0  # only the half sweeps of the other backends need it

    def restrict(self, a: TextbookMatrix, t: Transfer, r: Real, x: Real, e: Real, rc: Real) -> None:
        ax = np.empty_like(x)
        self.spmv(a, x, ax)
        rc[:] = (r - ax)[t.fine_of]

    def prolong(self, t: Transfer, xc: Real, c: Real) -> None:
        c[t.fine_of] = xc

    def postsmooth(self, a: TextbookMatrix, r: Real, c: Real, e: Real, x: Real, w: Real) -> None:
        x += c
        self._symmetric_sweep(a, r, x)

    def _symmetric_sweep(self, a: TextbookMatrix, r: Real, x: Real) -> None:
        """One Gauss-Seidel sweep over the colors in order, one in reverse (Saad, Iterative Methods, 4.1)."""
        self._sweep(a, (*a.members, *reversed(a.members)), r, x)

    def _sweep(self, a: TextbookMatrix, order: tuple[I64, ...], r: Real, x: Real) -> None:
        """Each group of rows in its turn: x_i = (r_i - the sum over the others) / d_i."""
        for rows in order:
            others = (a.values[:, rows] * x[a.columns[:, rows]]).sum(axis=0)
            x[rows] = (r[rows] - others) / a.diagonal[rows]

    def forward(self, a: TextbookMatrix | ConstantStencil, r: Real, x: Real) -> None:
        if isinstance(a, ConstantStencil):
            _constant_sweep(a, r, x, upper=False)
            return
        x[:] = 0.0
        self._sweep(a, a.members, r, x)

    def upper_residual(self, a: TextbookMatrix | ConstantStencil, x: Real, y: Real) -> None:
        if isinstance(a, ConstantStencil):
            y[:] = -_constant_sum(a, x, upper=True)
            return
        y[:] = -self._sum(a, x, upper=True)

    def lower_residual(self, a: TextbookMatrix | ConstantStencil, r: Real, x: Real, w: Real) -> None:
        if isinstance(a, ConstantStencil):
            w[:] = r - _constant_sum(a, x, upper=False)
            return
        w[:] = r - self._sum(a, x, upper=False)

    def backward(self, a: TextbookMatrix | ConstantStencil, w: Real, x: Real) -> None:
        if isinstance(a, ConstantStencil):
            _constant_sweep(a, w, x, upper=True)
            return
        x[:] = 0.0
        self._sweep(a, a.members[::-1], w, x)

    def restrict_full(self, a: TextbookProduct, y: Real, rc: Real) -> None:
        rc[:] = (a.values * y[a.columns]).sum(axis=0)

    def prolong_add(self, a: TextbookProduct, xc: Real, x: Real) -> None:
        x += (a.values * xc[a.columns]).sum(axis=0)

    def star_down(self, t: StarTransfer, r: Real, h: Real, rc: Real) -> None:
        a, r = t.extended, t.fine.joined(r, h, 0)
        x, ax = np.empty_like(r), np.empty_like(r)
        self.forward(a, r, x)
        self.spmv(a, x, ax)
        residual = (r - ax).reshape(a.shape[::-1])
        out = np.zeros(t.restricted.shape[::-1], dtype=r.dtype)
        for fine, coarse, weights in _interpolation(t, t.restricted, r.dtype):
            np.add.at(out, coarse, weights * residual[fine])
        rc[t.coarse.position] = out.reshape(-1)

    def star_up(self, t: StarTransfer, r: Real, h: Real, xc: Real, x: Real) -> None:
        a, r = t.extended, t.fine.joined(r, h, 0)
        y, w = np.empty_like(r), np.empty_like(r)
        self.forward(a, r, y)
        for fine, coarse, weights in _interpolation(t, t.corrected, r.dtype):
            y.reshape(a.shape[::-1])[fine] += weights * xc.reshape(t.corrected.extended[::-1])[coarse]
        self.lower_residual(a, r, y, w)
        self.backward(a, w, y)
        x[:] = t.fine.own(y, 0).reshape(-1)

    def move(self, route: Route, x: Real, y: Real) -> None:
        y[route.target] = x[route.source]

    def dense_solve(self, inverse: DenseInverse, r: Real, x: Real) -> None:
        x[inverse.position] = inverse.values @ r[inverse.position]

    def _sum(self, a: TextbookMatrix, x: Real, *, upper: bool) -> Real:
        """U x or L x: the entries whose column is of a later, or an earlier, color."""
        later = a.layout.color[a.columns] > a.layout.color[None, :]
        products: Real = (np.where(later == upper, a.values, 0.0) * x[a.columns]).sum(axis=0)
        return products

    # -- vectors -----------------------------------------------------------------------------------------------------

    def load(self, layout: Layout, block: npt.NDArray[Any], x: Real) -> None:
        x[:] = np.asarray(block, dtype=np.float64).reshape(-1, order="F")

    def unload(self, layout: Layout, x: Real) -> Real:
        return x.reshape(layout.shape, order="F").copy(order="K")

    def copy(self, x: Real, y: Real) -> None:
        y[:] = x

    def fill(self, layout: Layout, value: float, x: Real) -> None:
        x[:] = value

    def pack(self, plan: HaloLayout, x: Real, buffer: Real) -> None:
        buffer[:] = x[plan.send_rows]

    def dot(self, x: Real, y: Real, dot: F64) -> None:
        dot[0] = _dot(x, y)

    def dot_narrowed(self, x: F64, y: Real, dot: F64) -> None:
        dot[0] = _dot(x, y)

    def waxpby(self, a: float, x: Real, b: float, y: Real, w: Real) -> None:
        w[:] = a * x + b * y

    def update_p(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: Real) -> None:
        if sound(rz, pap):
            p[:] = z + ratio(rz, rz_old) * p

    def update_p_narrowed(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: F64) -> None:
        self.update_p(z, rz, rz_old, pap, p)

    def narrow(self, x: F64, xx: F64, y: Real) -> None:
        y[:] = scale_of(xx) * x

    def widen(self, x: Real, xx: F64, y: F64) -> None:
        y[:] = x.astype(np.float64) / scale_of(xx)

    def update_x_r(
        self, p: Real, ap: Real, rz: F64, pap: F64, rr: F64, limit: F64, ceiling: F64, x: Real, r: Real, dot: F64
    ) -> None:
        if limit[0] < rr[0] <= ceiling[0] and sound(rz, pap):
            alpha = ratio(rz, pap)
            x += alpha * p
            r -= alpha * ap
        dot[0] = _dot(r, r)

    def jacobi(self, a: TextbookMatrix, r: Real, scale: float, z: Real) -> None:
        z[:] = scale * r / a.diagonal

    def chebyshev(self, a: TextbookMatrix, r: Real, w: Real, keep: float, gain: float, d: Real, z: Real) -> None:
        d[:] = keep * d + gain * (r - w) / a.diagonal
        z += d


def _dot(x: Real, y: Real) -> float:
    return float(x.astype(np.float64, copy=False) @ y.astype(np.float64, copy=False))


def _entries(rows: StencilRows | Entries) -> tuple[I64, F64]:
    """Columns (or -1) and values (K, rows) of all rows."""
    if isinstance(rows, Entries):
        return rows.columns.astype(np.int64), rows.values
    nx, ny, _ = rows.shape
    index = np.arange(rows.rows, dtype=np.int64)
    center = index % nx + 1 + (nx + 2) * ((index // nx) % ny + 1 + (ny + 2) * (index // (nx * ny) + 1))
    columns = rows.numbering[center[None, :] + rows.steps()[:, None]].astype(np.int64)
    return columns, np.where(columns < 0, 0.0, rows.weights.reshape(len(rows.offsets), -1))


def _diagonal(a: ConstantStencil, x: Real) -> Real:
    values: Real = in_range(a.diagonal, x.dtype).reshape(-1)
    return values


def _constant_sum(a: ConstantStencil, x: Real, *, upper: bool) -> Real:
    """U x or L x."""
    out = np.zeros(a.shape[::-1], dtype=x.dtype)
    for classes in a.colors:
        for number in classes:
            where = a.members(number)
            out[where] = a.others(a.part(number, upper=upper), x)[where]
    return out.reshape(-1)


def _constant_sweep(a: ConstantStencil, r: Real, x: Real, *, upper: bool) -> None:
    """x = (D + L)⁻¹ r, or (D + U)⁻¹ r, color after color."""
    x[:] = 0.0
    shape = a.shape[::-1]
    diagonal = _diagonal(a, x).reshape(shape)
    for classes in reversed(a.colors) if upper else a.colors:
        rest = r.reshape(shape) - a.others(a.weights, x)
        for number in classes:
            where = a.members(number)
            x.reshape(shape)[where] = rest[where] / diagonal[where]


def _interpolation(
    t: StarTransfer, chunk: Around, dtype: np.dtype[Any]
) -> list[tuple[tuple[I64, ...], tuple[I64, ...], Real]]:
    """The interpolation at red points of `t.extended` from a chunk of coarse points with the layers around it.

    Pairs of fine and coarse points, each (z, y, x), by their places in the two, and their weights.
    """
    shape, kinds = t.fine.extended, t.kinds()
    out = []
    for axis, between in ((-1, ()), *enumerate(AROUND)):
        k, j, i = np.meshgrid(
            *(np.arange(0 if a in between else 1, shape[a], 2) for a in (2, 1, 0)),
            indexing="ij",
        )
        for corner in range(4 if between else 1):
            weights = t.table[kinds[2][k], kinds[1][j], kinds[0][i], axis, corner] if between else np.ones(k.shape)
            coarse = [
                (place + first) // 2 - begin
                for place, first, begin in zip((i, j, k), t.fine.first, chunk.first, strict=True)
            ]
            for bit, along in enumerate(between):
                coarse[along] = coarse[along] - 1 + (corner >> bit & 1)
            there = np.ones(weights.shape, dtype=np.bool_)
            for along, (n, closed) in enumerate(zip(chunk.extended, chunk.closed, strict=True)):
                if closed:
                    coarse[along] = coarse[along] % n
                there &= (coarse[along] >= 0) & (coarse[along] < n)
            fine = tuple(place[there] for place in (k, j, i))
            out.append((fine, tuple(c[there] for c in coarse[::-1]), weights[there].astype(dtype)))
    return out
