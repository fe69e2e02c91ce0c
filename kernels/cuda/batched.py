"""Launches of batched.cu: matrix passes on several vectors at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, final

import cupy
import numpy as np

from dsolver.kernels.batched import Batched
from dsolver.kernels.cuda.data import CudaHaloMatrix, CudaMatrix, CudaProduct, stored
from dsolver.kernels.cuda.launching import follow
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.schedule import Sweep, color_launch, sweeps, warps
from dsolver.kernels.cuda.stencil import CudaStencil
from dsolver.kernels.cuda.widths import widths_of
from dsolver.kernels.layout import SLICE, Array, DenseInverse, Route, Transfer

THREADS = 256
HALO_WARPS = 4
"""As in the backend for one vector: the bits of a dot depend on it."""

T = TypeVar("T")


@final
class CudaBatched(Batched):
    """The kernels of `CudaBackend` that read a stored matrix, indices or a halo, for several vectors.

    What launches need beside a matrix is made at the first launch, which is not to be captured in a graph, and kept
    with the matrix.
    """

    backend: Any

    def spmv(self, a: CudaMatrix | CudaStencil, x: Array, y: Array) -> None:
        """y = A_local x."""
        if isinstance(a, CudaStencil):
            self.one_by_one("spmv")(a, x, y)
            return
        grid, block, tail = a.all_slices
        self._follow("spmv" + stored(a, self.backend.dtype), grid, block, (*a.plane_arguments, x, y, _length(x), *tail))

    def spmv_dot(self, a: CudaMatrix | CudaStencil, x: Array, y: Array, dot: Array) -> None:
        """y = A_local x, dot = x . y."""
        if isinstance(a, CudaStencil):
            self.one_by_one("spmv_dot")(a, x, y, dot)
            return
        grid, block, tail = a.all_slices
        count = len(a.by_plane)
        partials = self._kept(a, "partials", lambda: cupy.empty((self.width, count)))
        arguments = (*a.plane_arguments, x, y, partials, _length(x), np.int32(count), *tail)
        self._follow("spmv_dot" + stored(a, self.backend.dtype), grid, block, arguments)
        for number in range(self.width):
            self.backend.sum(partials[number], count, dot[number])

    def forward(self, a: CudaMatrix | CudaStencil, r: Array, x: Array) -> None:
        """x = (D + L)⁻¹ r."""
        if isinstance(a, CudaStencil):
            self.one_by_one("forward")(a, r, x)
            return
        self._half_sweep("forward_from_zero", self._sweeps(a)[0], a, r, x)

    def backward(self, a: CudaMatrix | CudaStencil, w: Array, x: Array) -> None:
        """x = (D + U)⁻¹ w."""
        if isinstance(a, CudaStencil):
            self.one_by_one("backward")(a, w, x)
            return
        self._half_sweep("backward_solve", self._sweeps(a)[1], a, w, x)

    def symgs(self, a: CudaMatrix, r: Array, x: Array) -> None:
        """One symmetric Gauss-Seidel sweep from x = 0."""
        self._half_sweep("forward_from_zero", self._sweeps(a)[0], a, r, x)
        self._half_sweep("backward", self._sweeps(a, every=False)[1], a, x, x)

    def presmooth(self, a: CudaMatrix, r: Array, x: Array, e: Array) -> None:
        """The same, keeping e = (U x)/d."""
        self._half_sweep("forward_from_zero", self._sweeps(a)[0], a, r, x)
        self._half_sweep("backward_keep", self._sweeps(a, every=False)[1], a, x, e)

    def restrict(self, a: CudaMatrix, t: Transfer, r: Array, x: Array, e: Array, rc: Array) -> None:
        """rc = (L e) at the coarse points."""
        first, last = t.slices
        if first < last:
            grid, block, tail = color_launch(first - 1, last - 1, self.backend.dtype.itemsize, reverse=False)
            arguments = (*a.color_arguments, t.coarse_of, e, rc, _length(e), _length(rc), *tail)
            self._follow("restrict_residual", grid, block, arguments)

    def postsmooth(self, a: CudaMatrix, r: Array, c: Array, e: Array, x: Array, w: Array) -> None:
        """A symmetric sweep from x + c."""
        self._half_sweep("forward_corrected", self._sweeps(a)[0], a, r, c, e, x, w)
        self._half_sweep("backward", self._sweeps(a, every=False)[1], a, w, x)

    def upper_residual(self, a: CudaMatrix | CudaStencil, x: Array, y: Array) -> None:
        """y = -(U x)."""
        if isinstance(a, CudaStencil):
            self.one_by_one("upper_residual")(a, x, y)
            return
        self._listed("upper_residual", a, x, y)

    def lower_residual(self, a: CudaMatrix | CudaStencil, r: Array, x: Array, w: Array) -> None:
        """w = r - L x."""
        if isinstance(a, CudaStencil):
            self.one_by_one("lower_residual")(a, r, x, w)
            return
        self._listed("lower_residual", a, r, x, w)

    def restrict_full(self, a: CudaProduct, y: Array, rc: Array) -> None:
        """rc = R y."""
        self._product("product", a, y, rc)

    def prolong_add(self, a: CudaProduct, xc: Array, x: Array) -> None:
        """x += P xc."""
        self._product("product_add", a, xc, x)

    def move(self, route: Route, x: Array, y: Array) -> None:
        """y[target] = x[source]."""
        if size := len(route.source):
            apart = (np.int64(stride // x.itemsize) for stride in x.strides)
            arguments = (route.source, route.target, x, y, *apart, _length(y), np.int64(size))
            self._follow("move", (-(-size // THREADS),), (THREADS,), arguments)

    def dense_solve(self, inverse: DenseInverse, r: Array, x: Array) -> None:
        """x = A⁻¹ r."""
        rows = len(inverse.position)
        self._follow(
            "dense_product", *warps(rows), (inverse.position, inverse.values, r, x, _length(r), np.int32(rows))
        )

    # -- halos: the columns of an item lie side by side --------------------------------------------------------------

    def spmv_halo(self, a: CudaHaloMatrix, h: Array, y: Array) -> None:
        """y += H h."""
        self._halo("spmv_halo", a, h, y)

    def subtract_halo(self, a: CudaHaloMatrix, h: Array, r: Array) -> None:
        """r -= H h."""
        self._halo("subtract_halo", a, h, r)

    def times_halo(self, a: CudaHaloMatrix, h: Array, q: Array) -> None:
        """q = H h."""
        self._halo("times_halo", a, h, q)

    def times_halo_dot(self, a: CudaHaloMatrix, h: Array, x: Array, q: Array, dot: Array) -> None:
        """q = H h, dot = x . q."""
        if a.size:
            blocks = -(-len(a.partials) // HALO_WARPS)
            partials = self._kept(a, "partials", lambda: cupy.empty((self.width, blocks)))
            ticket = self._kept(a, "ticket", _ticket)
            apart = np.int64(dot.strides[0] // dot.itemsize)
            sizes = (_length(x), _length(q), apart, np.int32(a.size))
            arguments = (*a.arguments, h, x, q, partials, ticket, dot, *sizes)
            self._follow("times_halo_dot", (blocks,), (HALO_WARPS * SLICE,), arguments)

    # -- launches ----------------------------------------------------------------------------------------------------

    def _follow(self, name: str, grid: Any, block: Any, arguments: tuple[Any, ...]) -> None:
        follow(self._function(name), grid, block, arguments)

    def _function(self, name: str) -> Any:
        return kernel("batched.cu", name, self.backend.dtype.name, self.width)

    def _half_sweep(self, name: str, sweep: Sweep, a: CudaMatrix, *vectors: Array) -> None:
        head = (*a.color_arguments, a.diagonal, *vectors, _length(vectors[0]))
        self.backend.launch_sweep((self._function(name), None), sweep, head)

    def _sweeps(self, a: CudaMatrix, *, every: bool = True) -> tuple[Sweep, Sweep]:
        """The half sweeps in slabs for so many columns."""

        def make() -> tuple[Sweep, Sweep]:
            forward, backward = sweeps(a.layout, a.by_color, a.local, widths_of(a.layout, a.local), columns=self.width)
            return forward.sweep(), backward.sweep(every=every)

        return self._kept(a, f"sweeps of {'all' if every else 'some'}", make)

    def _listed(self, name: str, a: CudaMatrix, *vectors: Array) -> None:
        grid, block, tail = a.all_slices
        head = (a.by_plane, a.local.values, a.local.columns)
        self._follow(name, grid, block, (*head, *vectors, _length(vectors[0]), *tail))

    def _product(self, name: str, a: CudaProduct, x: Array, y: Array) -> None:
        if a.launch:
            grid, block, tail = a.launch
            self._follow(name, grid, block, (*a.arguments, x, y, _length(x), _length(y), *tail))

    def _halo(self, name: str, a: CudaHaloMatrix, h: Array, y: Array) -> None:
        if a.launch:
            grid, block, tail = a.launch
            self._follow(name, grid, block, (*a.arguments, h, y, _length(y), *tail))

    def _kept(self, a: CudaMatrix | CudaHaloMatrix, name: str, make: Callable[[], T]) -> T:
        """What is made once for a matrix and this number of columns."""
        known = a.__dict__.setdefault("batched", {})  # as functools.cached_property keeps it
        key = (self.width, name)
        if key not in known:
            known[key] = make()
        found: T = known[key]
        return found


def _length(x: Array) -> np.int64:
    """Items of a column."""
    return np.int64(x.shape[1])


def _ticket() -> Array:
    ticket = cupy.zeros(1, dtype=np.uint32)
    cupy.cuda.get_current_stream().synchronize()
    return ticket
