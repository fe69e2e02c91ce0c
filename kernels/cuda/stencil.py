"""Launches of constant stencils' kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import cupy
import numpy as np

from dsolver.kernels.cuda import tensors
from dsolver.kernels.cuda.launching import follow
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.tensors import MOST
from dsolver.kernels.layout import SLICE, Array
from dsolver.kernels.star import Around, StarTransfer
from dsolver.kernels.stencil import CENTER, ConstantStencil, Triple

BX, BY, ROWS, SLOTS = 64, 8, 2, 3
"""A block's threads along x and along y, lines of a thread, planes in shared memory: as in stencil.cu."""
VECTOR = 16
"""Bytes of a thread's values in a line, where lines begin at multiples of it."""
MARCH_SLOTS, MARCH_UNIT = 3, 128
"""Planes in shared memory, and what begins there does so at multiples of so many bytes: as in march.cu."""
MARCH_ROWS = {"star": 4, "box": 6}
"""Lines of a thread: as in march.cu."""
LONG_WALK = 24
"""Planes of a part of the grid at most."""
SHORT_WALKS = {("star", "float64"): 6, ("star", "float32"): 6, ("box", "float64"): 7}
"""The same where tiles are as wide as can be and a part's planes stay in L2 until the next part reads two of them. 27
points of float32 wait for arithmetic, of which long parts need less. Measured on several grids (docs/decisions.md)."""
LARGE_PLANE = 512 << 10
"""Points of a plane from which on they do not stay."""
LEAST_LINE = 1040
"""Bytes along x from which on march.cu was the faster one."""
BULK_COPIES = 90
"""The compute capability, times ten, of the first devices that have them."""
STAR_LANES, STAR_LINES, STAR_PLANES, STAR_THREADS = 32, 32, 6, 512
"""A block's pairs along x, lines, planes in shared memory and threads: as in star.cu."""
THREADS = (32, 8)
"""A block of a color's pass, along x and y."""


@final
@dataclass(frozen=True, kw_only=True)
class Products:
    """How a constant stencil is multiplied with a vector.

    Attributes:
        name: the kernel.
        grid: its blocks.
        threads: of a block.
        shared: bytes of a block.
        cut: how the grid of points is cut among blocks, as the kernel wants to know it.
        boxes: what the kernel copies of x at a time: lines and their ends; none where it reads x itself.
        partials: float64, room for the partial dot products.
    """

    name: str
    grid: Triple
    threads: int
    shared: int
    cut: Any
    boxes: tuple[Triple, ...]
    partials: Array


@final
@dataclass(frozen=True, kw_only=True)
class CudaStencil:
    """A constant stencil with its launches.

    Attributes:
        stencil: its numbers.
        argument: the same as `Stencil` in stencil.cuh.
        products: the launch of its products.
    """

    stencil: ConstantStencil
    argument: Any
    products: Products


@final
@dataclass(frozen=True, kw_only=True)
class CudaTransfer:
    """The way between a star and the next coarser level, with its launches.

    Attributes:
        transfer: its numbers.
        arguments: `Stencil`, `Corners` and the weights of corners, as in star.cu.
        around: `Vector` of r in star.cu without its addresses; None where there are no neighbors.
        down: grid and planes of a block going down.
        up: the same going up.
    """

    transfer: StarTransfer
    arguments: tuple[Any, Any, Any]
    around: Any | None
    down: tuple[Triple, Any]
    up: tuple[Triple, Any]


@final
class StencilKernels:
    """The kernels of constant stencils in a value type.

    Args:
        dtype: the value type.
        add: adds partial sums: add(parts, how many, out).
        ticket: a number on the device for the current stream, zero between kernels.
    """

    def __init__(
        self, dtype: np.dtype[Any], add: Callable[[Array, int, Array], None], ticket: Callable[[], Array]
    ) -> None:
        self._dtype = dtype
        self._add = add
        self._ticket = ticket
        self._kernels = {name: kernel(file, name, dtype.name) for file, names in _KERNELS.items() for name in names}

    def make(self, stencil: ConstantStencil) -> CudaStencil:
        """A stencil's launches on the current device."""
        products = self._marching(stencil) if self._marches(stencil) else self._walking(stencil)
        self._kernels[products.name].max_dynamic_shared_size_bytes = products.shared
        return CudaStencil(stencil=stencil, argument=_argument(stencil, self._dtype), products=products)

    @property
    def _width(self) -> int:
        return VECTOR // self._dtype.itemsize

    @property
    def _lines(self) -> int:
        """Lines of a tile of march.cu."""
        return 6 * self._width

    @property
    def _ring_bytes(self) -> int:
        """The planes of march.cu, with the vectors at both ends of their lines."""
        framed = self._lines + 2
        ends = -(-framed * VECTOR // MARCH_UNIT) * MARCH_UNIT
        return MARCH_SLOTS * (framed * MOST * self._dtype.itemsize + 2 * ends)

    def _marches(self, stencil: ConstantStencil) -> bool:
        """Whether march.cu is for this stencil on the current device."""
        device, nx = cupy.cuda.Device(), stencil.shape[0]
        room = int(device.attributes["MaxSharedMemoryPerBlockOptin"])
        able = int(device.compute_capability) >= BULK_COPIES and tensors.available() and room >= self._ring_bytes
        fits = nx % self._width == 0 and not stencil.wraps[1]  # a copy cannot take a line from the other side
        return able and fits and nx * self._dtype.itemsize >= LEAST_LINE

    def _marching(self, stencil: ConstantStencil) -> Products:
        """march.cu: one block a multiprocessor, which draws parts of the grid."""
        nx, ny, nz = stencil.shape
        device = cupy.cuda.Device().attributes
        unit = MARCH_UNIT // self._dtype.itemsize
        width = -(-nx // (-(-nx // MOST) * unit)) * unit
        across, along = -(-nx // width), -(-ny // self._lines)
        kind = "star" if stencil.star else "box"
        short = width == MOST and nx * ny < LARGE_PLANE
        most = SHORT_WALKS.get((kind, self._dtype.name), LONG_WALK) if short else LONG_WALK
        walk = min(most, _planes(across * along, nz, device["MultiProcessorCount"]))  # few parts: enough for all
        cut = np.zeros(1, [(name, np.int32) for name in ("width", "walk", "across", "along")])
        cut[0] = width, walk, across, along
        parts = across * along * -(-nz // walk)
        adding = MOST // self._width * self._lines // MARCH_ROWS[kind]
        return Products(
            name=f"{kind}_march",
            grid=(min(parts, device["MultiProcessorCount"]), 1, 1),
            threads=adding + SLICE,
            # More than half of a multiprocessor's, so that no two blocks share one while the launch before still runs.
            shared=max(self._ring_bytes, device["MaxSharedMemoryPerMultiprocessor"] // 2),
            cut=cut,
            boxes=((width, self._lines + 2, 1), (self._width, self._lines + 2, 1)),
            partials=cupy.zeros(parts * (adding // SLICE)),
        )

    def _walking(self, stencil: ConstantStencil) -> Products:
        """stencil.cu: a block for each of some tiles."""
        nx, ny, nz = stencil.shape
        wide = nx % self._width == 0
        width = self._width if wide else 1
        across, along = -(-nx // (BX * width)), -(-ny // (BY * ROWS))
        planes = _planes(across * along, nz, cupy.cuda.Device().attributes["MultiProcessorCount"])
        grid = (across, along, -(-nz // planes))
        return Products(
            name=("star" if stencil.star else "box") + ("_wide" if wide else "_narrow"),
            grid=grid,
            threads=BX * BY,
            shared=SLOTS * (BX + 2) * (BY * ROWS + 2) * width * self._dtype.itemsize,
            cut=np.int32(planes),
            boxes=(),
            partials=cupy.zeros(grid[0] * grid[1] * grid[2]),
        )

    def spmv(self, a: CudaStencil, x: Array, y: Array, dot: Array | None = None) -> None:
        """y = A x and, if wanted, dot = x . y."""
        p = a.products
        partials = np.uint64(0) if dot is None else p.partials
        arguments: tuple[Any, ...] = (a.argument, p.cut, x[SLICE:], y[SLICE:], partials)
        if p.boxes:
            start = int(x[SLICE:].data.ptr)
            maps = (tensors.tensor_map(start, self._dtype.name, a.stencil.shape, box) for box in p.boxes)
            arguments = (a.argument, p.cut, *maps, y[SLICE:], self._ticket(), partials)
        follow(self._kernels[p.name], p.grid, (p.threads,), arguments, p.shared)
        if dot is not None:
            self._add(p.partials, len(p.partials), dot)

    def make_transfer(self, t: StarTransfer) -> CudaTransfer:
        """A transfer's launches on the current device."""
        for name in _KERNELS["star.cu"]:
            self._kernels[name].max_dynamic_shared_size_bytes = self._star_bytes
        fields: list[Any] = [("inside", self._dtype, 3), ("lo", np.int32, 3), ("n", np.int32, 3), ("closed", np.int32)]
        corners = np.zeros(1, np.dtype(fields, align=True))
        corners["inside"] = t.table[1, 1, 1, :, 0]
        corners["lo"], corners["n"] = t.corrected.first, t.corrected.extended
        corners["closed"] = sum(closed << axis for axis, closed in enumerate(t.corrected.closed))
        (cx, cy, cz), (nx, ny, nz) = t.restricted.shape, t.fine.shape
        processors = 2 * cupy.cuda.Device().attributes["MultiProcessorCount"]
        across, along = -(-cx // (STAR_LANES - 3)), -(-cy // ((STAR_LINES - 5) // 2))
        planes = _planes(across * along, cz, processors, frame=3)
        down = (across, along, -(-cz // planes)), np.int32(2 * planes)
        across, along = -(-(nx + 1) // 2 // (STAR_LANES - 2)), -(-ny // (STAR_LINES - 4))
        planes = _planes(across * along, nz, processors, frame=4)
        return CudaTransfer(
            transfer=t,
            arguments=(_argument(t.stencil, self._dtype), corners, cupy.asarray(t.table.astype(self._dtype))),
            around=_vector(t.fine) if t.fine.pieces else None,
            down=down,
            up=((across, along, -(-nz // planes)), np.int32(planes)),
        )

    @property
    def _star_bytes(self) -> int:
        return STAR_PLANES * 2 * STAR_LINES * STAR_LANES * self._dtype.itemsize

    def star_down(self, t: CudaTransfer, r: Array, h: Array, rc: Array) -> None:
        """rc = R (r - A x) with x = (D + L)^-1 r; h: r of the neighbors."""
        grid, planes = t.down
        arguments = (*t.arguments, _beside(t, r, h), t.transfer.coarse.position, rc, planes)
        name = "star_down" if t.around is None else "star_down_beside"
        follow(self._kernels[name], grid, (STAR_THREADS,), arguments, self._star_bytes)

    def star_up(self, t: CudaTransfer, r: Array, h: Array, xc: Array, x: Array) -> None:
        """One backward sweep from x = (D + L)^-1 r + P xc; h: r of the neighbors."""
        grid, planes = t.up
        arguments = (*t.arguments, _beside(t, r, h), xc[SLICE:], x[SLICE:], planes)
        name = "star_up" if t.around is None else "star_up_beside"
        follow(self._kernels[name], grid, (STAR_THREADS,), arguments, self._star_bytes)

    def forward(self, a: CudaStencil, r: Array, x: Array) -> None:
        """x = (D + L)^-1 r."""
        self._colors(a, a.stencil.colors, upper=False, scale=1.0, solve=True, arrays=(r, x, x))

    def upper_residual(self, a: CudaStencil, x: Array, y: Array) -> None:
        """y = -(U x)."""
        self._colors(a, a.stencil.colors, upper=True, scale=0.0, solve=False, arrays=(x, x, y))

    def lower_residual(self, a: CudaStencil, r: Array, x: Array, w: Array) -> None:
        """w = r - L x."""
        self._colors(a, a.stencil.colors, upper=False, scale=1.0, solve=False, arrays=(r, x, w))

    def backward(self, a: CudaStencil, w: Array, x: Array) -> None:
        """x = (D + U)^-1 w."""
        self._colors(a, a.stencil.colors[::-1], upper=True, scale=1.0, solve=True, arrays=(w, x, x))

    def _colors(
        self,
        a: CudaStencil,
        colors: tuple[tuple[int, ...], ...],
        *,
        upper: bool,
        scale: float,
        solve: bool,
        arrays: tuple[Array, Array, Array],
    ) -> None:
        nx, ny, nz = ((n + 1) // 2 for n in a.stencil.shape)
        function = self._kernels["star_color" if a.stencil.star else "box_color"]
        places = tuple(array[SLICE:] for array in arrays)
        for classes in colors:
            part = _part(a.stencil, classes, upper=upper)
            grid = (-(-nx // THREADS[0]), -(-ny // THREADS[1]), nz * len(classes))
            follow(function, grid, THREADS, (a.argument, part, np.float64(scale), np.int32(solve), *places))


_KERNELS = {
    "stencil.cu": ("star_wide", "star_narrow", "box_wide", "box_narrow", "star_color", "box_color"),
    "march.cu": ("star_march", "box_march"),
    "star.cu": ("star_down", "star_up", "star_down_beside", "star_up_beside"),
}


def _planes(tiles: int, nz: int, processors: int, frame: int = 2) -> int:
    """How many planes a block walks, so that multiprocessors are busy for the shortest time.

    A block reads `frame` planes more than it writes. Few long walks are better than many short ones: what neighbors
    read at the same time then lies close together.
    """
    cuts = range(1, nz + 1)
    best = min(cuts, key=lambda c: (-(-tiles * c // processors)) * (-(-nz // c) + frame))
    return -(-nz // best)


def _argument(stencil: ConstantStencil, dtype: np.dtype[Any]) -> Any:
    """`Stencil` in stencil.cuh: a structure of one item."""
    fields = np.dtype(
        [
            ("weights", dtype, 27),
            ("faces", dtype, 6),
            ("inverse", dtype),
            ("shape", np.int32, 3),
            ("wraps", np.int32),
            ("odd", np.int32),
            ("changed", np.int32),
        ],
        align=True,
    )
    out = np.zeros(1, fields)
    out["weights"] = stencil.weights
    out["faces"] = stencil.faces
    out["inverse"] = 1.0 / stencil.weights[CENTER]
    out["shape"] = stencil.shape
    out["wraps"] = sum(wraps << axis for axis, wraps in enumerate(stencil.wraps))
    out["odd"] = (1 + sum(stencil.lo)) % 2
    out["changed"] = any(stencil.faces)
    return out


def _part(stencil: ConstantStencil, classes: tuple[int, ...], *, upper: bool) -> Any:
    """`Part` in stencil.cu: a structure of one item."""
    out = np.zeros(1, [("kept", np.uint32, 4), ("classes", np.int32, 4), ("count", np.int32)])
    out["count"] = len(classes)
    for place, number in enumerate(classes):
        weights = stencil.part(number, upper=upper)
        out["kept"][0, place] = sum(1 << q for q, weight in enumerate(weights) if weight != 0.0)
        x, y, z = stencil.start(number)
        out["classes"][0, place] = x + 2 * y + 4 * z
    return out


def _vector(chunk: Around) -> Any:
    """`Vector` in star.cu, a structure of one item, without its addresses."""
    fields: list[Any] = [("lo", np.int32, 3), ("n", np.int32, 3), ("grid", np.int32, 3), ("wraps", np.int32)]
    fields += [("first", np.int32, 27), ("apart", np.int64), ("values", np.uint64), ("halo", np.uint64)]
    out = np.zeros(1, np.dtype(fields, align=True))
    out["lo"], out["n"], out["grid"] = chunk.lo, chunk.shape, chunk.grid
    out["wraps"] = sum(wraps << axis for axis, wraps in enumerate(chunk.wraps))
    for (x, y, z), first in chunk.pieces:
        out["first"][0, x + 1 + 3 * (y + 1) + 9 * (z + 1)] = first
    return out


def _beside(t: CudaTransfer, r: Array, h: Array) -> Any:
    """r as the kernels take it: with its halo, whose items may lie apart, where there are neighbors."""
    if t.around is None:
        return r[SLICE:]
    out = t.around.copy()
    out["values"], out["halo"], out["apart"] = r[SLICE:].data.ptr, h.data.ptr, h.strides[0] // h.itemsize
    return out
