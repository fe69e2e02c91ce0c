"""The contract's kernels on a CPU: loops of this package, cut among a team of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Backend, Entries, StencilRows, in_range, lossless, ratio, scale_of, sound
from dsolver.kernels.coarsening import Coarsening, Triple
from dsolver.kernels.cpu import assembly, galerkin, stencil, sweeps, vectors
from dsolver.kernels.cpu.batched import CpuBatched
from dsolver.kernels.cpu.team import Team
from dsolver.kernels.layout import (
    SLICE,
    DenseInverse,
    HaloLayout,
    HaloMatrix,
    Layout,
    Matrix,
    Product,
    Route,
    Slices,
    Transfer,
)
from dsolver.kernels.star import StarTransfer
from dsolver.kernels.stencil import CENTER, ConstantStencil

F64 = npt.NDArray[np.float64]
Real = npt.NDArray[Any]
"""Of the backend's value type."""
Source = Callable[[npt.NDArray[np.int32]], tuple[npt.NDArray[np.int32], F64]]
"""Columns and values (K, m) of the candidate entries of m rows."""
BATCH = 8192
"""Slices assembled at a time: bounds the temporary entries of 27 points a row to 85 MB."""


@final
class CpuBackend(Backend):
    """Kernels compiled by numba. The bits do not depend on the number of threads.

    Args:
        threads: threads that share the loops of one chunk.
        dtype: the value type, "float64" or "float32".
    """

    name = "cpu"
    guard = SLICE
    xp = np

    def __init__(self, threads: int = 1, dtype: str = "float64") -> None:
        super().__init__(dtype)
        self.threads = threads
        self.team = Team(threads)

    def batched(self, width: int) -> CpuBatched:
        return CpuBatched(self, width)

    def to_host(self, values: Any) -> npt.NDArray[Any]:
        return np.asarray(values)

    def synchronize(self) -> None:
        """Kernels have run when they return."""

    # -- set-up ----------------------------------------------------------------------------------------------------

    def layout(self, color: npt.NDArray[np.int32], colors: int, shape: tuple[int, int, int]) -> Layout:
        color_slices = padded_color_slices(np.bincount(color, minlength=colors))
        size = int(color_slices[-1] + 1) * SLICE
        position = np.empty(len(color), dtype=np.int32)
        row = np.full(size, -1, dtype=np.int32)
        assembly.storage_order(color, color_slices[:-1] * SLICE, position, row)
        return Layout(
            rows=len(color), size=size, color_slices=color_slices, position=position, row=row, color=color, shape=shape
        )

    def matrix(self, layout: Layout, rows: StencilRows | Entries, coarse: npt.NDArray[np.bool_] | None) -> Matrix:
        coarse = np.zeros(layout.rows, dtype=np.bool_) if coarse is None else coarse
        stored = layout.row[SLICE:-SLICE]
        diagonal = np.ones(layout.size)
        self._diagonal(rows, stored, diagonal[SLICE:-SLICE])
        order = (layout.color, coarse, layout.position)
        local = self._slices(partial(self._entries, rows), stored, order, assembly.SQUARE)
        return Matrix(layout=layout, diagonal=in_range(diagonal, self.dtype), local=local)

    def constant_matrix(self, stencil: ConstantStencil) -> ConstantStencil:
        return stencil

    def constant_transfer(self, transfer: StarTransfer) -> StarTransfer:
        return transfer

    def halo_matrix(self, layout: Layout, rows: StencilRows) -> HaloMatrix:
        if int(rows.numbering.max()) < layout.rows:  # a chunk alone: no row needs to be looked at
            return self._halo_matrix(layout, layout, None)
        return self._halo_matrix(layout, layout, partial(self._entries, rows))

    def product(self, rows: Layout, columns: Layout, entries: Entries, *, in_order: bool) -> Product:
        stored = rows.row[SLICE:-SLICE]
        if in_order:
            stored = _padded(np.arange(rows.rows, dtype=np.int32))
        target = np.where(stored >= 0, rows.position[stored], -1).astype(np.int32)
        source = partial(self._candidates, entries)
        return Product(slices=self._slices(source, stored, _unsorted(columns), assembly.RECTANGLE), target=target)

    def halo_product(self, rows: Layout, columns: Layout, entries: Entries) -> HaloMatrix:
        return self._halo_matrix(rows, columns, partial(self._candidates, entries))

    def scale_diagonal(self, matrix: Matrix, factors: F64) -> Matrix:
        diagonal = matrix.diagonal.astype(np.float64)
        diagonal[matrix.layout.position] *= factors.reshape(-1, order="F")
        return replace(matrix, diagonal=in_range(diagonal, self.dtype))

    def compacted(self, matrix: Matrix) -> Matrix:
        return replace(matrix, local=replace(matrix.local, values=lossless(matrix.local.values)))

    def transfer(self, fine: Layout, coarse: Layout, fine_row: npt.NDArray[np.int32]) -> Transfer:
        fine_of = np.full(coarse.size, -1, dtype=np.int32)
        fine_of[coarse.position] = fine.position[fine_row]
        coarse_of = np.full(fine.size, -1, dtype=np.int32)
        coarse_of[fine_of[coarse.position]] = coarse.position
        touched = fine_of[coarse.position] // SLICE
        return Transfer(coarse_of=coarse_of, fine_of=fine_of, slices=(int(touched.min()), int(touched.max()) + 1))

    def _entries(self, rows: StencilRows | Entries, wanted: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], F64]:
        if isinstance(rows, Entries):
            return self._candidates(rows, wanted)
        columns = np.empty((len(rows.offsets), len(wanted)), dtype=np.int32)
        values = np.empty(columns.shape)
        weights = rows.weights.reshape(len(rows.offsets), -1)
        assembly.stencil_entries(wanted, np.array(rows.shape), rows.numbering, rows.steps(), weights, columns, values)
        return columns, values

    def _candidates(self, entries: Entries, wanted: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], F64]:
        columns = np.empty((len(entries.columns), len(wanted)), dtype=np.int32)
        values = np.empty(columns.shape)
        assembly.take_entries(wanted, entries.columns, entries.values, columns, values)
        return columns, values

    def _halo_matrix(self, rows: Layout, columns: Layout, source: Source | None) -> HaloMatrix:
        """The entries in the halo, sought in all rows; without a source there are none."""
        boundary = np.empty(0, dtype=np.int32) if source is None else self._boundary(rows, columns.rows, source)
        wanted = _padded(rows.row[boundary])
        slices = self._slices(source or _nothing, wanted, _unsorted(columns), assembly.HALO)
        return HaloMatrix(boundary=boundary, slices=slices)

    def _boundary(self, layout: Layout, own: int, source: Source) -> npt.NDArray[np.int32]:
        out = []
        for batch in _batches(layout.row):
            columns, _ = source(layout.row[batch])
            reads = np.empty(columns.shape[1], dtype=np.bool_)
            assembly.reads_halo(columns, layout.row[batch], own, reads)
            out.append(np.flatnonzero(reads).astype(np.int32) + np.int32(batch.start))
        return np.concatenate(out)

    def _diagonal(self, rows: StencilRows | Entries, stored: npt.NDArray[np.int32], diagonal: F64) -> None:
        diagonal[stored >= 0] = 0.0
        for batch in _batches(stored):
            columns, values = self._entries(rows, stored[batch])
            assembly.fill_diagonal(stored[batch], columns, values, diagonal[batch])
        if not diagonal.all():
            row = stored[np.flatnonzero(diagonal == 0.0)[0]]
            raise ZeroDivisionError(f"row {row} of a chunk has no diagonal entry")

    def _slices(self, source: Source, wanted: npt.NDArray[np.int32], order: tuple[Any, Any, Any], part: int) -> Slices:
        """The wanted entries of wanted rows; order is (color, coarse, position) of the columns."""
        count = len(wanted) // SLICE
        widths = np.zeros((count, 3), dtype=np.int64)
        runs = np.zeros(count, dtype=np.bool_)
        for batch in _batches(wanted):
            columns, _ = source(wanted[batch])
            s = slice(batch.start // SLICE, batch.stop // SLICE)
            self.team.run(
                assembly.measure, 0, s.stop - s.start, wanted[batch], columns, *order, part, widths[s], runs[s]
            )
        width = widths.sum(axis=1)
        start = _offsets(width * SLICE)
        column_start = _offsets(np.where(runs, width, width * SLICE))
        values = np.zeros(int(start[-1]), self.dtype)
        columns_out = np.zeros(int(column_start[-1]), dtype=np.int32)
        for batch in _batches(wanted):
            columns, entries = source(wanted[batch])
            s = slice(batch.start // SLICE, batch.stop // SLICE)
            shape = (part, widths[s], runs[s], start[s], column_start[s])
            rows_in = (wanted[batch], columns, entries)
            self.team.run(assembly.fill, 0, s.stop - s.start, *rows_in, *order, *shape, values, columns_out)
        upper = widths[:, 0].astype(np.int32)
        return Slices(
            start=start,
            upper=upper,
            coarse=upper + widths[:, 1].astype(np.int32),
            column_start=column_start,
            values=values,
            columns=columns_out,
        )

    def interpolation(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64) -> F64:
        return galerkin.interpolation(self.team, coarsening, offsets, weights)

    def galerkin(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: F64, p: F64) -> F64:
        return galerkin.galerkin(self.team, coarsening, offsets, weights, p)

    # -- matrix passes -----------------------------------------------------------------------------------------------

    def spmv(self, a: Matrix | ConstantStencil, x: Real, y: Real) -> None:
        if isinstance(a, ConstantStencil):
            lines = a.shape[1] * a.shape[2]
            arguments = (a.shape, a.wraps, self._numbers(a.weights), self._numbers(a.faces), x, y)
            self.team.run(stencil.spmv, 0, lines, *arguments)
            return
        self.team.run(sweeps.spmv, 1, _last_slice(a.layout), _slices_of(a.local), a.diagonal, x, y)

    def spmv_dot(self, a: Matrix | ConstantStencil, x: Real, y: Real, dot: F64) -> None:
        self.spmv(a, x, y)
        self.dot(x, y, dot)

    def spmv_halo(self, a: HaloMatrix, h: Real, y: Real) -> None:
        vectors.scatter_add(a.boundary, 1.0, self._products(a, h), y)

    def times_halo(self, a: HaloMatrix, h: Real, q: Real) -> None:
        q[:] = self._products(a, h)[: len(q)]

    def times_halo_dot(self, a: HaloMatrix, h: Real, x: Real, q: Real, dot: F64) -> None:
        self.times_halo(a, h, q)
        dot[0] = vectors.gathered_dot(a.boundary, x, q)

    def add_halo_dot(self, a: HaloMatrix, q: Real, part: F64, y: Real, dot: F64) -> None:
        vectors.scatter_add(a.boundary, 1.0, q, y)
        dot += part

    def subtract_halo(self, a: HaloMatrix, h: Real, r: Real) -> None:
        vectors.scatter_add(a.boundary, -1.0, self._products(a, h), r)

    def residual_halo(self, a: HaloMatrix, t: Transfer, q: Real, r: Real, rc: Real, kept: Real) -> None:
        vectors.gather(a.boundary, r, kept)
        vectors.scatter_add(a.boundary, -1.0, q, r)
        vectors.mapped_subtract(a.boundary, t.coarse_of, q, rc)

    def restore(self, a: HaloMatrix, kept: Real, r: Real) -> None:
        vectors.scatter(a.boundary, kept, r)

    def symgs(self, a: Matrix, r: Real, x: Real) -> None:
        m = _slices_of(a.local)
        self._by_color(a.layout, sweeps.forward_from_zero, m, a.local.upper, a.diagonal, r, x)
        self._by_color(a.layout, sweeps.backward, m, a.local.upper, a.diagonal, x, x, backward=True)

    def presmooth(self, a: Matrix, r: Real, x: Real, e: Real) -> None:
        m = _slices_of(a.local)
        self._by_color(a.layout, sweeps.forward_from_zero, m, a.local.upper, a.diagonal, r, x)
        self._by_color(a.layout, sweeps.backward_keep, m, a.local.upper, a.diagonal, x, e, backward=True)

    def restrict(self, a: Matrix, t: Transfer, r: Real, x: Real, e: Real, rc: Real) -> None:
        self.team.run(sweeps.restrict, *t.slices, _slices_of(a.local), a.local.upper, t.coarse_of, e, rc)

    def prolong(self, t: Transfer, xc: Real, c: Real) -> None:
        vectors.prolong(t.fine_of, xc, c)

    def postsmooth(self, a: Matrix, r: Real, c: Real, e: Real, x: Real, w: Real) -> None:
        m = _slices_of(a.local)
        s = a.local
        self._by_color(a.layout, sweeps.forward_corrected, m, s.upper, s.coarse, a.diagonal, r, c, e, x, w)
        self._by_color(a.layout, sweeps.backward, m, s.upper, a.diagonal, w, x, backward=True)

    def forward(self, a: Matrix | ConstantStencil, r: Real, x: Real) -> None:
        if isinstance(a, ConstantStencil):
            self._classes(a, a.colors, upper=False, scale=1.0, solve=True, r=r, x=x, out=x)
            return
        self._by_color(a.layout, sweeps.forward_from_zero, _slices_of(a.local), a.local.upper, a.diagonal, r, x)

    def upper_residual(self, a: Matrix | ConstantStencil, x: Real, y: Real) -> None:
        if isinstance(a, ConstantStencil):
            self._classes(a, a.colors, upper=True, scale=0.0, solve=False, r=x, x=x, out=y)
            return
        m = _slices_of(a.local)
        self.team.run(sweeps.upper_residual, 1, _last_slice(a.layout), m, a.local.upper, x, y)

    def lower_residual(self, a: Matrix | ConstantStencil, r: Real, x: Real, w: Real) -> None:
        if isinstance(a, ConstantStencil):
            self._classes(a, a.colors, upper=False, scale=1.0, solve=False, r=r, x=x, out=w)
            return
        m = _slices_of(a.local)
        self.team.run(sweeps.lower_residual, 1, _last_slice(a.layout), m, a.local.upper, r, x, w)

    def backward(self, a: Matrix | ConstantStencil, w: Real, x: Real) -> None:
        if isinstance(a, ConstantStencil):
            self._classes(a, a.colors[::-1], upper=True, scale=1.0, solve=True, r=w, x=x, out=x)
            return
        m = _slices_of(a.local)
        self._by_color(a.layout, sweeps.backward_solve, m, a.local.upper, a.diagonal, w, x, backward=True)

    def restrict_full(self, a: Product, y: Real, rc: Real) -> None:
        self.team.run(sweeps.product, 0, len(a.slices.upper), _slices_of(a.slices), a.target, y, 0.0, rc)

    def prolong_add(self, a: Product, xc: Real, x: Real) -> None:
        self.team.run(sweeps.product, 0, len(a.slices.upper), _slices_of(a.slices), a.target, xc, 1.0, x)

    def star_down(self, t: StarTransfer, r: Real, h: Real, rc: Real) -> None:
        a, r = t.extended, t.fine.joined(r, h, self.guard)
        x, y = np.zeros_like(r), np.zeros_like(r)
        self.forward(a, r, x)
        self.upper_residual(a, x, y)
        fine, coarse = (a.shape, a.wraps, t.kinds()), (t.restricted.shape, t.fine.below)
        arguments = (*fine, *coarse, t.table.astype(self.dtype), t.coarse.position, y, rc)
        self.team.run(stencil.restrict, 0, t.restricted.shape[1] * t.restricted.shape[2], *arguments)

    def star_up(self, t: StarTransfer, r: Real, h: Real, xc: Real, x: Real) -> None:
        a, r, c = t.extended, t.fine.joined(r, h, self.guard), t.corrected
        y, w = (np.zeros_like(r), np.zeros_like(r)) if t.fine.pieces else (x, np.zeros_like(r))
        self.forward(a, r, y)
        begin = tuple(first // 2 - below for first, below in zip(t.fine.first, c.first, strict=True))
        coarse = (c.extended, c.closed, begin)
        arguments = (a.shape, t.kinds(), *coarse, t.table.astype(self.dtype), xc, y)
        self.team.run(stencil.prolong, 0, a.shape[1] * a.shape[2], *arguments)
        self.lower_residual(a, r, y, w)
        self.backward(a, w, y)
        if t.fine.pieces:
            own = t.fine.own(y, self.guard)
            x[self.guard : self.guard + own.size] = own.reshape(-1)

    def move(self, route: Route, x: Real, y: Real) -> None:
        vectors.move(route.source, route.target, x, y)

    def dense_solve(self, inverse: DenseInverse, r: Real, x: Real) -> None:
        sweeps.dense_product(inverse.position, inverse.values, r, x)

    def _classes(
        self,
        a: ConstantStencil,
        colors: tuple[tuple[int, ...], ...],
        *,
        upper: bool,
        scale: float,
        solve: bool,
        r: Real,
        x: Real,
        out: Real,
    ) -> None:
        """out = scale r - U x, or L x, color after color; divided by the diagonal if that is what solves for x."""
        _, ny, nz = a.shape
        faces, center = self._numbers(a.faces), self.dtype.type(a.weights[CENTER] if solve else 0.0)
        for number in (n for classes in colors for n in classes):
            start, weights = a.start(number), self._numbers(a.part(number, upper=upper))
            lines = len(range(start[1], ny, 2)) * len(range(start[2], nz, 2))
            place = (a.shape, a.wraps, start)
            values = (weights, faces, center, self.dtype.type(scale))
            self.team.run(stencil.sweep, 0, lines, *place, *values, r, x, out)

    def _numbers(self, values: tuple[float, ...]) -> Real:
        return np.array(values, self.dtype)

    def _products(self, a: HaloMatrix, h: Real) -> Real:
        """H h, one item for each boundary row."""
        count = len(a.slices.start) - 1
        out = np.empty(count * SLICE, self.dtype)
        self.team.run(sweeps.halo_products, 0, count, _slices_of(a.slices), h, out)
        return out[: len(a.boundary)]

    def _by_color(self, layout: Layout, loop: Any, *args: Any, backward: bool = False) -> None:
        """The loop over all slices in color order; threads share a color when its slices are many enough."""
        cuts = layout.color_slices
        if backward:
            args = (cuts, *args)
        few = (cuts[-1] - cuts[0]) < 2 * self.team.SLICES_WORTH_A_THREAD * layout.colors
        if self.team.threads == 1 or few:
            loop(int(cuts[0]), int(cuts[-1]), *args)
            return
        colors = range(layout.colors)
        for color in reversed(colors) if backward else colors:
            self.team.run(loop, int(cuts[color]), int(cuts[color + 1]), *args)

    # -- vectors -----------------------------------------------------------------------------------------------------

    def load(self, layout: Layout, block: npt.NDArray[Any], x: Real) -> None:
        x[layout.position] = np.asarray(block, dtype=np.float64).reshape(-1, order="F")

    def unload(self, layout: Layout, x: Real) -> Real:
        return x[layout.position].reshape(layout.shape, order="F")

    def copy(self, x: Real, y: Real) -> None:
        y[:] = x

    def fill(self, layout: Layout, value: float, x: Real) -> None:
        x[layout.position] = value

    def pack(self, plan: HaloLayout, x: Real, buffer: Real) -> None:
        vectors.gather(plan.send_rows, x, buffer)

    def dot(self, x: Real, y: Real, dot: F64) -> None:
        if not x.dtype == y.dtype == self.dtype:  # a GPU would take the bits for those of its type, and say nothing
            raise TypeError(f"dot of {x.dtype} and {y.dtype} by kernels of {self.dtype}")
        self._dot(x, y, dot)

    def _dot(self, x: Real, y: Real, dot: F64) -> None:
        parts = np.empty(_blocks(x))
        self.team.run(vectors.block_dots, 0, len(parts), x, y, parts)
        dot[0] = vectors.in_order(parts)

    def dot_narrowed(self, x: F64, y: Real, dot: F64) -> None:
        self._dot(x, y, dot)

    def waxpby(self, a: float, x: Real, b: float, y: Real, w: Real) -> None:
        self.team.run(vectors.waxpby, 0, _blocks(x), a, x, b, y, w)

    def update_p(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: Real) -> None:
        if sound(rz, pap):
            self.team.run(vectors.update_p, 0, _blocks(p), z, ratio(rz, rz_old), p)

    def update_p_narrowed(self, z: Real, rz: F64, rz_old: F64, pap: F64, p: F64) -> None:
        self.update_p(z, rz, rz_old, pap, p)

    def narrow(self, x: F64, xx: F64, y: Real) -> None:
        self.team.run(vectors.scaled, 0, _blocks(x), scale_of(xx), x, y)

    def widen(self, x: Real, xx: F64, y: F64) -> None:
        self.team.run(vectors.scaled, 0, _blocks(x), 1.0 / scale_of(xx), x, y)

    def update_x_r(
        self, p: Real, ap: Real, rz: F64, pap: F64, rr: F64, limit: F64, ceiling: F64, x: Real, r: Real, dot: F64
    ) -> None:
        active = bool(limit[0] < rr[0] <= ceiling[0]) and sound(rz, pap)
        alpha = ratio(rz, pap) if active else 0.0
        parts = np.empty(_blocks(x))
        self.team.run(vectors.update_x_r, 0, len(parts), p, ap, alpha, active, x, r, parts)
        dot[0] = vectors.in_order(parts)

    def jacobi(self, a: Matrix, r: Real, scale: float, z: Real) -> None:
        self.team.run(vectors.jacobi, 0, _blocks(z), a.diagonal, r, scale, z)

    def chebyshev(self, a: Matrix, r: Real, w: Real, keep: float, gain: float, d: Real, z: Real) -> None:
        self.team.run(vectors.chebyshev, 0, _blocks(z), a.diagonal, r, w, keep, gain, d, z)


def padded_color_slices(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """First slice of each color and one past the last, for the numbers of rows of each color; slice 0 is the guard."""
    slices = -(-counts.astype(np.int64) // SLICE)
    return np.concatenate([[1], 1 + np.cumsum(slices)]).astype(np.int64)


def _slices_of(s: Slices) -> tuple[Any, Any, Any, Any]:
    return s.start, s.column_start, s.values, s.columns


def _last_slice(layout: Layout) -> int:
    return int(layout.color_slices[-1])


def _blocks(x: Real) -> int:
    return -(-len(x) // vectors.BLOCK)


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _padded(rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The rows, with -1 up to whole slices."""
    out = np.full(-(-len(rows) // SLICE) * SLICE, -1, dtype=np.int32)
    out[: len(rows)] = rows
    return out


def _unsorted(columns: Layout) -> tuple[Any, Any, Any]:
    """(color, coarse, position) where entries are not sorted by color."""
    return columns.color, np.zeros(columns.rows, dtype=np.bool_), columns.position


def _nothing(rows: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], F64]:
    return np.empty((0, len(rows)), dtype=np.int32), np.empty((0, len(rows)))


def _batches(rows: npt.NDArray[np.int32]) -> list[slice]:
    step = BATCH * SLICE
    return [slice(i, min(i + step, len(rows))) for i in range(0, len(rows), step)]
