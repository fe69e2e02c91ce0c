"""The contract's kernels on a GPU: launches of this package's CUDA kernels on CuPy's current stream.

A kernel that runs in every iteration allocates nothing, waits for nothing and copies nothing to the host once it has
run on its device, so iterations can be captured in a CUDA graph.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Backend, Entries, StencilRows, lossless
from dsolver.kernels.coarsening import Coarsening, Triple
from dsolver.kernels.cuda import assembly, dense, galerkin, transfers
from dsolver.kernels.cuda.batched import CudaBatched
from dsolver.kernels.cuda.data import CudaHaloMatrix, CudaMatrix, CudaProduct, stored
from dsolver.kernels.cuda.fluxes import star
from dsolver.kernels.cuda.launching import Forks, follow
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.schedule import NARROW, Sweep, Unit, color_launch, warps
from dsolver.kernels.cuda.scratch import Scratch
from dsolver.kernels.cuda.stencil import CudaStencil, CudaTransfer, StencilKernels
from dsolver.kernels.fluxes import Fluxes
from dsolver.kernels.layout import SLICE, Array, DenseInverse, HaloLayout, Layout, Route, Transfer
from dsolver.kernels.star import StarTransfer
from dsolver.kernels.stencil import ConstantStencil

if TYPE_CHECKING:
    from dsolver.kernels.algebraic.rows import Rows
    from dsolver.kernels.cpu.team import Team

THREADS = 256
MOST_BLOCKS = 2048
"""Blocks of a vector kernel: two waves on a large device, and as many partial sums as one block adds quickly."""
ITEMS_OF_BLOCK = THREADS * 4
ROWS_OF_BLOCK = 128
"""Boundary rows of a block where each has a thread: a face of 256² reaches every multiprocessor of a large device."""
HALO_WARPS = 4
"""Warps of a block that adds up a dot product's boundary rows: the same everywhere, since the bits depend on it."""
HOST_THREADS = 16
"""Threads of the host at most that help a GPU's set-up, and no more than its part of the host's cores."""
PINNED = 1 << 20
"""Bytes from where on values come to the host by way of page-locked memory: at 50 GB/s instead of 5."""
IDLE = 0.5
"""Bytes that CuPy's pool may hold for nobody during set-up, over those that are free beside it."""


@final
class CudaBackend(Backend):
    """Kernels compiled by NVRTC, for the current device of the calling thread. Dot products repeat to the last bit.

    Args:
        dtype: the value type, "float64" or "float32".

    Raises:
        ImportError: CuPy finds no driver or no device.
    """

    name = "cuda"
    guard = SLICE
    xp = cupy

    def __init__(self, dtype: str = "float64") -> None:
        super().__init__(dtype)
        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise ImportError(f"the cuda kernels need a GPU: {error}") from error
        self._scratch = Scratch(MOST_BLOCKS)
        self._forks = Forks()
        self._sweeps = {name: kernel("sweeps.cu", name, dtype) for name in _SWEEPS}
        self._narrow = {name: kernel("sweeps.cu", name + NARROW, dtype) for name in _NARROW}
        self._cycle = {name: kernel("cycle.cu", name, dtype) for name in _CYCLE}
        self._coarse_change = kernel("flow.cu", "coarse_change", dtype)
        self._vectors = {name: kernel("vectors.cu", name, dtype) for name in _VECTORS}

        self._stencils = StencilKernels(self.dtype, self.sum, lambda: self._scratch.here()[1])

    def batched(self, width: int) -> CudaBatched:
        return CudaBatched(self, width)

    @property
    def host_threads(self) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        return max(1, min(HOST_THREADS, cores // int(cupy.cuda.runtime.getDeviceCount())))

    def to_host(self, values: Any) -> npt.NDArray[Any]:
        if values.nbytes < PINNED:
            host: npt.NDArray[Any] = cupy.asnumpy(values)
            return host
        memory = cupy.cuda.alloc_pinned_memory(values.nbytes)
        pinned = np.frombuffer(memory, values.dtype, values.size).reshape(values.shape)
        cupy.ascontiguousarray(values).get(out=pinned)
        return pinned

    def synchronize(self) -> None:
        cupy.cuda.get_current_stream().synchronize()

    def tidy(self) -> None:
        pool = cupy.get_default_memory_pool()
        if pool.free_bytes() > IDLE * cupy.cuda.runtime.memGetInfo()[0]:
            pool.free_all_blocks()

    # -- set-up ----------------------------------------------------------------------------------------------------

    def layout(self, color: Array, colors: int, shape: tuple[int, int, int]) -> Layout:
        return assembly.layout(cupy.asarray(color, dtype=np.int32), colors, shape)

    def plain_layout(self, shape: tuple[int, int, int]) -> Layout:
        return assembly.plain_layout(shape)

    def lattice_layout(
        self, classes: Sequence[npt.NDArray[np.int_]], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]
    ) -> Layout:
        return assembly.lattice_layout(classes, colors, shape)

    def numbers(self, shape: tuple[int, int, int]) -> Array:
        return transfers.numbers(shape)

    def star(self, fluxes: Fluxes) -> Array:
        return star(fluxes)

    def matrix(self, layout: Layout, rows: StencilRows | Entries, coarse: Array | None) -> CudaMatrix:
        return assembly.matrix(layout, rows, coarse, self.dtype)

    def constant_matrix(self, stencil: ConstantStencil) -> CudaStencil:
        made = self._stencils.make(stencil)
        self.synchronize()
        return made

    def constant_transfer(self, transfer: StarTransfer) -> CudaTransfer:
        made = self._stencils.make_transfer(transfer)
        self.synchronize()
        return made

    def halo_matrix(self, layout: Layout, rows: StencilRows) -> CudaHaloMatrix:
        return assembly.halo_matrix(layout, rows, self.dtype)

    def product(self, rows: Layout, columns: Layout, entries: Entries, *, in_order: bool) -> CudaProduct:
        return assembly.product(rows, columns, entries, self.dtype, in_order=in_order)

    def halo_product(self, rows: Layout, columns: Layout, entries: Entries) -> CudaHaloMatrix:
        return assembly.halo_product(rows, columns, entries, self.dtype)

    def scale_diagonal(self, matrix: CudaMatrix, factors: Array) -> CudaMatrix:
        diagonal = matrix.diagonal.copy()
        diagonal[matrix.layout.position] *= cupy.asarray(factors).reshape(-1, order="F")
        self.synchronize()  # sweeps read a matrix before they wait for earlier launches
        return replace(matrix, diagonal=diagonal)

    def compacted(self, matrix: CudaMatrix | CudaStencil) -> CudaMatrix | CudaStencil:
        if isinstance(matrix, CudaStencil):  # stores no entries
            return matrix
        values = lossless(matrix.local.values)
        self.synchronize()  # as above
        return replace(matrix, local=replace(matrix.local, values=values))

    def transfer(self, fine: Layout, coarse: Layout, fine_row: Array) -> Transfer:
        places = fine.position[cupy.asarray(fine_row)]
        fine_of = cupy.full(coarse.size, -1, dtype=np.int32)
        fine_of[coarse.position] = places
        coarse_of = cupy.full(fine.size, -1, dtype=np.int32)
        coarse_of[places] = coarse.position
        first, last = (int(places.min()), int(places.max())) if len(places) else (SLICE, SLICE - 1)
        return Transfer(coarse_of=coarse_of, fine_of=fine_of, slices=(first // SLICE, last // SLICE + 1))

    def interpolation(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> Array:
        return galerkin.interpolation(coarsening, offsets, weights)

    def galerkin(self, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array, p: Array) -> Array:
        return galerkin.galerkin(coarsening, offsets, weights, p)

    def restriction(self, coarsening: Coarsening, p: Array, around: Array) -> Entries:
        columns, values = transfers.restriction(coarsening, p, around)
        return Entries(columns=columns, values=values)

    def prolongation(self, coarsening: Coarsening, p: Array, around: Array, base: Triple) -> Entries:
        columns, values = transfers.prolongation(coarsening, p, around, base)
        return Entries(columns=columns, values=values)

    def framed(self, values: Array, width: int) -> Array:
        return transfers.framed(values, width)

    def spread(self, values: Array, like: Sequence[Any]) -> Array:
        return transfers.spread(values, like)

    def dense_matrix(self, rows: StencilRows) -> Array:
        return dense.dense_matrix(rows)

    def dense_inverse(self, layout: Layout, matrix: Array) -> DenseInverse:
        inverse = dense.semidefinite_inverse(cupy.asarray(matrix))
        return DenseInverse(position=layout.position, values=inverse.astype(self.dtype, copy=False))

    def couplings(self, offsets: tuple[Triple, ...], weights: Array) -> Array:
        return transfers.couplings(offsets, weights)

    def jumps(self, offsets: tuple[Triple, ...], weights: Array, ratio: float) -> Array:
        return transfers.jumps(offsets, weights, ratio)

    def sparse(self, rows: Rows) -> Rows:
        from dsolver.kernels.cuda import sparse  # where numba is

        return sparse.on_device(rows)

    def table(self, rows: Rows, width: int, team: Team) -> Entries:  # nothing is left to the host
        from dsolver.kernels.cuda import sparse

        return sparse.tabulated(rows, width)

    def largest_eigenvalue(self, rows: Rows, team: Team) -> float:
        from dsolver.kernels.cuda import sparse

        return sparse.largest_eigenvalue(rows)

    # -- matrix passes -----------------------------------------------------------------------------------------------

    def spmv(self, a: CudaMatrix | CudaStencil, x: Array, y: Array) -> None:
        if isinstance(a, CudaStencil):
            self._stencils.spmv(a, x, y)
            return
        grid, block, tail = a.all_slices
        follow(self._sweeps["spmv" + stored(a, self.dtype)], grid, block, (*a.plane_arguments, x, y, *tail))

    def spmv_dot(self, a: CudaMatrix | CudaStencil, x: Array, y: Array, dot: Array) -> None:
        if isinstance(a, CudaStencil):
            self._stencils.spmv(a, x, y, dot)
            return
        grid, block, tail = a.all_slices
        follow(
            self._sweeps["spmv_dot" + stored(a, self.dtype)],
            grid,
            block,
            (*a.plane_arguments, x, y, a.partials, *tail),
        )
        self.sum(a.partials, len(a.by_plane), dot)

    def spmv_halo(self, a: CudaHaloMatrix, h: Array, y: Array) -> None:
        self._halo("spmv_halo", a, h, y)

    def times_halo(self, a: CudaHaloMatrix, h: Array, q: Array) -> None:
        self._halo("times_halo", a, h, q)

    def times_halo_dot(self, a: CudaHaloMatrix, h: Array, x: Array, q: Array, dot: Array) -> None:
        if a.size:
            _, ticket = self._scratch.here()
            arguments = (*a.arguments, h, x, q, a.partials, ticket, dot, np.int32(a.size))
            blocks = -(-len(a.partials) // HALO_WARPS)
            follow(self._sweeps["times_halo_dot"], (blocks,), (HALO_WARPS * SLICE,), arguments)

    def add_halo_dot(self, a: CudaHaloMatrix, q: Array, part: Array, y: Array, dot: Array) -> None:
        self._rows("add_halo_dot", a, q, part, y, dot)

    def subtract_halo(self, a: CudaHaloMatrix, h: Array, r: Array) -> None:
        self._halo("subtract_halo", a, h, r)

    def residual_halo(self, a: CudaHaloMatrix, t: Transfer, q: Array, r: Array, rc: Array, kept: Array) -> None:
        self._rows("residual_halo", a, t.coarse_of, q, r, rc, kept)

    def restore(self, a: CudaHaloMatrix, kept: Array, r: Array) -> None:
        self._items("scatter", a.size, a.boundary, kept, r)

    def symgs(self, a: CudaMatrix, r: Array, x: Array) -> None:
        if self._in_one(a, (r, None, None, None, None, x)):
            return
        self._half_sweep("forward_from_zero", a.forward, a, a.diagonal, r, x)
        self._half_sweep("backward", a.backward, a, a.diagonal, x, x)

    def presmooth(self, a: CudaMatrix, r: Array, x: Array, e: Array) -> None:
        if self._in_one(a, (r, None, None, None, e, x)):
            return
        self._half_sweep("forward_from_zero", a.forward, a, a.diagonal, r, x)
        self._half_sweep("backward_keep", a.backward, a, a.diagonal, x, e)

    def restrict(self, a: CudaMatrix, t: Transfer, r: Array, x: Array, e: Array, rc: Array) -> None:
        first, last = t.slices
        if first < last:
            only = Unit(launch=color_launch(first - 1, last - 1, self.dtype.itemsize, reverse=False))
            self._half_sweep("restrict_residual", Sweep(units=(only,)), a, t.coarse_of, e, rc)

    def prolong(self, t: Transfer, xc: Array, c: Array) -> None:
        self._items("prolong", len(t.fine_of), t.fine_of, xc, c)

    def postsmooth(self, a: CudaMatrix, r: Array, c: Array, e: Array, x: Array, w: Array) -> None:
        if a.flow and (place := a.flow.here()):
            # What c changes is no part of the order of the sweep. It waits in x, which gets its values at the very end.
            grid, block, tail = a.all_slices
            head = (*a.color_arguments, a.diagonal)
            follow(self._coarse_change, grid, block, (*head, c, x, *tail))
            a.flow.launch(head, place, (r, e, x, w, None, x))
            return
        # The forward sweep writes every x before it reads it: x + c is in e and c, and need not be formed.
        self._half_sweep("forward_corrected", a.forward, a, a.diagonal, r, c, e, x, w)
        self._half_sweep("backward", a.backward, a, a.diagonal, w, x)

    def forward(self, a: CudaMatrix | CudaStencil, r: Array, x: Array) -> None:
        if isinstance(a, CudaStencil):
            self._stencils.forward(a, r, x)
            return
        self._half_sweep("forward_from_zero", a.forward, a, a.diagonal, r, x)

    def upper_residual(self, a: CudaMatrix | CudaStencil, x: Array, y: Array) -> None:
        if isinstance(a, CudaStencil):
            self._stencils.upper_residual(a, x, y)
            return
        self._listed("upper_residual", a, x, y)

    def lower_residual(self, a: CudaMatrix | CudaStencil, r: Array, x: Array, w: Array) -> None:
        if isinstance(a, CudaStencil):
            self._stencils.lower_residual(a, r, x, w)
            return
        self._listed("lower_residual", a, r, x, w)

    def backward(self, a: CudaMatrix | CudaStencil, w: Array, x: Array) -> None:
        if isinstance(a, CudaStencil):
            self._stencils.backward(a, w, x)
            return
        self._half_sweep("backward_solve", a.backward_all, a, a.diagonal, w, x)

    def restrict_full(self, a: CudaProduct, y: Array, rc: Array) -> None:
        self._product("product", a, y, rc)

    def prolong_add(self, a: CudaProduct, xc: Array, x: Array) -> None:
        self._product("product_add", a, xc, x)

    def star_down(self, t: CudaTransfer, r: Array, h: Array, rc: Array) -> None:
        self._stencils.star_down(t, r, h, rc)

    def star_up(self, t: CudaTransfer, r: Array, h: Array, xc: Array, x: Array) -> None:
        self._stencils.star_up(t, r, h, xc, x)

    def move(self, route: Route, x: Array, y: Array) -> None:
        if size := len(route.source):
            grid = (-(-size // THREADS),)
            follow(self._cycle["move"], grid, (THREADS,), (route.source, route.target, x, y, np.int64(size)))

    def dense_solve(self, inverse: DenseInverse, r: Array, x: Array) -> None:
        rows = len(inverse.position)
        follow(self._cycle["dense_product"], *warps(rows), (inverse.position, inverse.values, r, x, np.int32(rows)))

    # -- vectors -----------------------------------------------------------------------------------------------------

    def load(self, layout: Layout, block: Any, x: Array) -> None:
        values = cupy.asarray(block, dtype=np.float64).reshape(layout.shape)
        strides = (np.int64(stride // values.itemsize) for stride in values.strides)
        nx, ny, _ = layout.shape
        self._items("load", layout.size, layout.row, values, np.int64(nx), np.int64(ny), *strides, x)

    def unload(self, layout: Layout, x: Array) -> Array:
        return x[layout.position].reshape(layout.shape, order="F")

    def copy(self, x: Array, y: Array) -> None:
        self._items("copy", len(x), x, y)

    def fill(self, layout: Layout, value: float, x: Array) -> None:
        self._items("fill", layout.size, layout.row, np.float64(value), x)

    def pack(self, plan: HaloLayout, x: Array, buffer: Array) -> None:
        self._items("gather", len(plan.send_rows), plan.send_rows, x, buffer)

    def dot(self, x: Array, y: Array, dot: Array) -> None:
        size = len(x)
        follow(self._vectors["dot"], *_grid(size), (x, y, np.int64(size), *self._scratch.here(), dot))

    def dot_narrowed(self, x: Array, y: Array, dot: Array) -> None:
        size = len(x)
        follow(self._vectors["dot_narrowed"], *_grid(size), (x, y, np.int64(size), *self._scratch.here(), dot))

    def total(self, parts: Array, total: Array) -> None:
        follow(self._vectors["total"], (1,), (1,), (parts, total, np.int32(len(parts))))

    def waxpby(self, a: float, x: Array, b: float, y: Array, w: Array) -> None:
        self._items("waxpby", len(w), np.float64(a), x, np.float64(b), y, w)

    def update_p(self, z: Array, rz: Array, rz_old: Array, pap: Array, p: Array) -> None:
        self._items("update_p", len(p), z, rz, rz_old, pap, p)

    def update_p_narrowed(self, z: Array, rz: Array, rz_old: Array, pap: Array, p: Array) -> None:
        self._items("update_p_narrowed", len(p), z, rz, rz_old, pap, p)

    def narrow(self, x: Array, xx: Array, y: Array) -> None:
        self._items("narrow", len(x), x, xx, y)

    def widen(self, x: Array, xx: Array, y: Array) -> None:
        self._items("widen", len(x), x, xx, y)

    def update_x_r(
        self,
        p: Array,
        ap: Array,
        rz: Array,
        pap: Array,
        rr: Array,
        limit: Array,
        ceiling: Array,
        x: Array,
        r: Array,
        dot: Array,
    ) -> None:
        size = len(x)
        arguments = (p, ap, rz, pap, rr, limit, ceiling, x, r, dot, np.int64(size), *self._scratch.here())
        follow(self._vectors["update_x_r"], *_grid(size), arguments)

    def jacobi(self, a: CudaMatrix, r: Array, scale: float, z: Array) -> None:
        self._items("jacobi", len(z), a.diagonal, r, np.float64(scale), z)

    def chebyshev(self, a: CudaMatrix, r: Array, w: Array, keep: float, gain: float, d: Array, z: Array) -> None:
        self._items("chebyshev", len(z), a.diagonal, r, w, np.float64(keep), np.float64(gain), d, z)

    # -- launches ----------------------------------------------------------------------------------------------------

    def _in_one(self, a: CudaMatrix, vectors: tuple[Array | None, ...]) -> bool:
        """Both half sweeps in one launch, if the level is small; whether they were."""
        place = a.flow.here() if a.flow else None
        if a.flow is None or place is None:
            return False
        a.flow.launch((*a.color_arguments, a.diagonal), place, vectors)
        return True

    def _half_sweep(self, name: str, sweep: Sweep, a: CudaMatrix, *arguments: Any) -> None:
        functions = self._sweeps.get(name) or self._cycle[name], self._narrow.get(name)
        slices = a.by_color if sweep.entries is None else sweep.entries
        self.launch_sweep(functions, sweep, (slices, a.local.values, a.local.columns, *arguments))

    def launch_sweep(self, functions: tuple[Any, Any | None], sweep: Sweep, head: tuple[Any, ...]) -> None:
        """The launches of a half sweep; head: their first arguments; functions: also one for narrow slices, or None."""
        if sweep.chains > 1:
            self._in_chains(functions, head, sweep)
            return
        for unit in sweep.units:
            function, (grid, block, tail) = unit.of(*functions)
            follow(function, grid, block, head + tail)

    def _listed(self, name: str, a: CudaMatrix, *vectors: Array) -> None:
        """A pass over all slices, plane by plane."""
        grid, block, tail = a.all_slices
        follow(self._cycle[name], grid, block, (a.by_plane, a.local.values, a.local.columns, *vectors, *tail))

    def _product(self, name: str, a: CudaProduct, x: Array, y: Array) -> None:
        if a.launch:
            grid, block, tail = a.launch
            follow(self._cycle[name], grid, block, (*a.arguments, x, y, *tail))

    def _in_chains(self, functions: tuple[Any, Any], head: tuple[Any, ...], sweep: Sweep) -> None:
        """The chains of a sweep on the current stream and others beside it; all have run when the stream goes on."""
        fork, main = self._forks.here(), cupy.cuda.get_current_stream()
        sides = fork.sides(sweep.chains - 1)
        streams = main, *sides
        count = len(sweep.units)
        fork.event(count).record(main)
        for side in sides:
            side.wait_event(fork.event(count))
        for number, unit in enumerate(sweep.units):
            stream = streams[unit.chain]
            if unit.after is not None:
                stream.wait_event(fork.event(unit.after))
            function, (grid, block, tail) = unit.of(*functions)
            with stream:
                function(grid, block, head + tail)
            if unit.awaited:
                fork.event(number).record(stream)
        for number, side in enumerate(sides, count + 1):
            fork.event(number).record(side)
            main.wait_event(fork.event(number))

    def _halo(self, name: str, a: CudaHaloMatrix, *arguments: Any) -> None:
        if a.launch:
            grid, block, tail = a.launch
            follow(self._sweeps[name], grid, block, (*a.arguments, *arguments, *tail))

    def _rows(self, name: str, a: CudaHaloMatrix, *arguments: Any) -> None:
        """A thread for each boundary row."""
        if a.size:
            blocks = -(-a.size // ROWS_OF_BLOCK)
            follow(self._sweeps[name], (blocks,), (ROWS_OF_BLOCK,), (a.boundary, *arguments, np.int32(a.size)))

    def _items(self, name: str, size: int, *arguments: Any) -> None:
        if size:
            follow(self._vectors[name], *_grid(size), (*arguments, np.int64(size)))

    def sum(self, parts: Array, size: int, dot: Array) -> None:
        arguments = (parts, np.int64(size), *self._scratch.here(), dot)
        follow(self._vectors["sum"], *_grid(size), arguments)


_NARROW = ("forward_from_zero", "backward", "backward_keep")
_SWEEPS = (
    "spmv",
    "spmv_dot",
    "spmv_compact",
    "spmv_dot_compact",
    "spmv_halo",
    "times_halo",
    "times_halo_dot",
    "add_halo_dot",
    "subtract_halo",
    "residual_halo",
    *_NARROW,
    "forward_corrected",
    "restrict_residual",
)
_CYCLE = (
    "upper_residual",
    "lower_residual",
    "backward_solve",
    "product",
    "product_add",
    "move",
    "dense_product",
)
_VECTORS = (
    "dot",
    "dot_narrowed",
    "narrow",
    "widen",
    "update_p_narrowed",
    "sum",
    "waxpby",
    "update_p",
    "update_x_r",
    "jacobi",
    "chebyshev",
    "copy",
    "gather",
    "scatter",
    "prolong",
    "fill",
    "load",
    "total",
)


def _grid(size: int) -> tuple[tuple[int], tuple[int]]:
    """Grid and block of a vector kernel. They follow from the length alone, since the bits of a dot depend on them."""
    return (min(MOST_BLOCKS, max(1, -(-size // ITEMS_OF_BLOCK))),), (THREADS,)
