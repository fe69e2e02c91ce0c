"""Constant stencils on a GPU: products, sweeps and the way between a star and the next coarser level."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dsolver.kernels.cuda.launch import tma
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.vectors.vectors import CudaVectors
from dsolver.kernels.formats.base import Format, SeparateBackward
from dsolver.kernels.formats.layout import SLICE, Array
from dsolver.kernels.formats.stencil.constant import ConstantStencil
from dsolver.kernels.formats.stencil.rows import Triple
from dsolver.kernels.lattice.star import StarTransfer

STAR_LANES, STAR_LINES, STAR_PLANES, STAR_THREADS = 32, 32, 6, 512
"""A block's pairs along x, lines, planes in shared memory and threads: as in star.cuh."""
THREADS = (32, 8)  # a block of a color's pass, along x and y
STAR_KERNELS = (("star_down", "star_up"), ("star_down_beside", "star_up_beside"))  # without neighbors, and beside some
_FILES = {"star_march": "march", "box_march": "march"} | {
    name: name.removesuffix("_beside") for names in STAR_KERNELS for name in names
}


def function(name: str, dtype: str) -> Any:
    """A kernel for a value type."""
    return kernel(f"stencil/{_FILES.get(name, 'stencil')}.cu", name, dtype)


def star_bytes(dtype: np.dtype[Any]) -> int:
    """Shared memory of a block of star.cuh."""
    return STAR_PLANES * 2 * STAR_LINES * STAR_LANES * dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class StencilProducts:
    """The kernel that multiplies a constant stencil with a vector, and its launch."""

    name: str
    grid: Triple
    threads: int
    shared: int  # bytes of a block
    cut: Any  # how the grid of points is cut among blocks, as the kernel wants to know it
    # what the kernel copies of x at a time: lines and their ends; none where it reads x itself.
    boxes: tuple[Triple, ...]
    partials: Array  # float64, room for the partial dot products


@dataclass(frozen=True, kw_only=True)
class CudaStencil(SeparateBackward, Format):
    """A constant stencil with its kernels and their launches."""

    stencil: ConstantStencil
    argument: Any  # the same as `Stencil` in stencil.cuh
    products: StencilProducts
    vectors: CudaVectors

    @property
    def nbytes(self) -> int:
        return int(self.products.partials.nbytes)

    def compacted(self) -> Self:
        """The stencil itself: it stores no entries."""
        return self

    def spmv(self, x: Array, y: Array) -> None:
        self._multiply(x, y)

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        self._multiply(x, y, dot)

    def forward(self, r: Array, x: Array) -> None:
        self._colors(self.stencil.colors, upper=False, scale=1.0, solve=True, arrays=(r, x, x))

    def upper_residual(self, x: Array, y: Array) -> None:
        self._colors(self.stencil.colors, upper=True, scale=0.0, solve=False, arrays=(x, x, y))

    def lower_residual(self, r: Array, x: Array, w: Array) -> None:
        self._colors(self.stencil.colors, upper=False, scale=1.0, solve=False, arrays=(r, x, w))

    def backward(self, w: Array, x: Array) -> None:
        self._colors(self.stencil.colors[::-1], upper=True, scale=1.0, solve=True, arrays=(w, x, x))

    def jacobi(self, r: Array, scale: float, z: Array) -> None:
        self._colors(self.stencil.colors, upper=None, scale=scale, solve=True, arrays=(r, r, z))

    def _multiply(self, x: Array, y: Array, dot: Array | None = None) -> None:
        """y = A x and, if wanted, dot = x . y."""
        p = self.products
        partials = np.uint64(0) if dot is None else p.partials
        arguments: tuple[Any, ...] = (self.argument, p.cut, x[SLICE:], y[SLICE:], partials)
        if p.boxes:
            start = int(x[SLICE:].data.ptr)
            maps = (tma.tensor_map(start, self.vectors.type_name, self.stencil.shape, box) for box in p.boxes)
            arguments = (self.argument, p.cut, *maps, y[SLICE:], self.vectors.scratch.here()[1], partials)
        launch_early(function(p.name, self.vectors.type_name), p.grid, (p.threads,), arguments, p.shared)
        if dot is not None:
            self.vectors.sum(p.partials, len(p.partials), dot)

    def _colors(
        self,
        colors: tuple[tuple[int, ...], ...],
        *,
        upper: bool | None,
        scale: float,
        solve: bool,
        arrays: tuple[Array, Array, Array],
    ) -> None:
        nx, ny, nz = ((n + 1) // 2 for n in self.stencil.shape)
        sweep = function("star_color" if self.stencil.star else "box_color", self.vectors.type_name)
        places = tuple(array[SLICE:] for array in arrays)
        for classes in colors:
            part = _part(self.stencil, classes, upper=upper)
            grid = (-(-nx // THREADS[0]), -(-ny // THREADS[1]), nz * len(classes))
            launch_early(sweep, grid, THREADS, (self.argument, part, np.float64(scale), np.int32(solve), *places))


@dataclass(frozen=True, kw_only=True)
class CudaTransfer(Format):
    """A star between two levels, with its kernels and their launches."""

    transfer: StarTransfer
    arguments: tuple[Any, Any, Any]  # `Stencil`, `Corners` and the weights of corners, as in star.cuh
    around: Any | None  # `Vector` of r in star.cuh without its addresses; None where there are no neighbors
    down: tuple[Triple, Any]  # grid and planes of a block going down
    up: tuple[Triple, Any]
    vectors: CudaVectors

    def star_down(self, r: Array, h: Array, rc: Array) -> None:
        grid, planes = self.down
        arguments = (*self.arguments, self._beside(r, h), self.transfer.coarse.position, rc, planes)
        name, _ = STAR_KERNELS[self.around is not None]
        run, dtype = function(name, self.vectors.type_name), self.vectors.dtype
        launch_early(run, grid, (STAR_THREADS,), arguments, star_bytes(dtype))

    def star_up(self, r: Array, h: Array, xc: Array, x: Array) -> None:
        grid, planes = self.up
        arguments = (*self.arguments, self._beside(r, h), xc[SLICE:], x[SLICE:], planes)
        _, name = STAR_KERNELS[self.around is not None]
        run, dtype = function(name, self.vectors.type_name), self.vectors.dtype
        launch_early(run, grid, (STAR_THREADS,), arguments, star_bytes(dtype))

    def _beside(self, r: Array, h: Array) -> Any:
        """r as the kernels take it: with its halo, whose items may lie apart, where there are neighbors."""
        if self.around is None:
            return r[SLICE:]
        out = self.around.copy()
        out["values"], out["halo"], out["apart"] = r[SLICE:].data.ptr, h.data.ptr, h.strides[0] // h.itemsize
        return out


def _part(stencil: ConstantStencil, classes: tuple[int, ...], *, upper: bool | None) -> Any:
    """`Part` in stencil.cu: a structure of one item."""
    out = np.zeros(1, [("kept", np.uint32, 4), ("classes", np.int32, 4), ("count", np.int32)])
    out["count"] = len(classes)
    for place, number in enumerate(classes):
        weights = stencil.part(number, upper=upper)
        out["kept"][0, place] = sum(1 << q for q, weight in enumerate(weights) if weight != 0.0)
        x, y, z = stencil.start(number)
        out["classes"][0, place] = x + 2 * y + 4 * z
    return out
