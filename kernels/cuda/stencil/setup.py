"""Set-up of constant stencils on a GPU: how products and sweeps are cut among blocks."""

from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.launch import tma
from dsolver.kernels.cuda.launch.tma import MOST
from dsolver.kernels.cuda.stencil.matrix import (
    STAR_KERNELS,
    STAR_LANES,
    STAR_LINES,
    CudaStencil,
    CudaTransfer,
    StencilProducts,
    function,
    star_bytes,
)
from dsolver.kernels.cuda.vectors.vectors import CudaVectors
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.formats.stencil.constant import ConstantStencil, StencilSetup
from dsolver.kernels.formats.stencil.rows import CENTER
from dsolver.kernels.lattice.star import Around, StarTransfer

BX, BY, ROWS, SLOTS = 64, 8, 2, 3
"""A block's threads along x and along y, lines of a thread, planes in shared memory: as in stencil.cu."""
VECTOR = 16  # bytes of a thread's values in a line, where lines begin at multiples of it
MARCH_SLOTS, MARCH_UNIT = 3, 128
"""Planes in shared memory, and what begins there does so at multiples of so many bytes: as in march.cu."""
MARCH_ROWS = {"star": 4, "box": 6}  # lines of a thread: as in march.cu
LONG_WALK = 24  # most planes of a part of the grid
SHORT_WALKS = {("star", "float64"): 6, ("star", "float32"): 6, ("box", "float64"): 7}
"""Most planes of a part where tiles are as wide as can be and its planes stay in L2 until the next part reads two of
them. 27 points of float32 wait for arithmetic, of which long parts need less. Measured on several grids
(bench/stencil.py)."""
LARGE_PLANE = 512 << 10  # points of a plane from which on they do not stay
LEAST_LINE = 1040  # bytes along x from which on march.cu was the faster one
BULK_COPIES = 90  # the compute capability, times ten, of the first devices that have them


class CudaStencils(StencilSetup):
    """Set-up of constant stencils on the current device."""

    def __init__(self, vectors: CudaVectors) -> None:
        self._vectors, self._dtype = vectors, vectors.dtype

    def matrix(self, stencil: ConstantStencil) -> CudaStencil:
        products = self._marching(stencil) if self._marches(stencil) else self._walking(stencil)
        function(products.name, self._vectors.type_name).max_dynamic_shared_size_bytes = products.shared
        made = CudaStencil(
            stencil=stencil, argument=_argument(stencil, self._dtype), products=products, vectors=self._vectors
        )
        cupy.cuda.get_current_stream().synchronize()
        return made

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
        able = int(device.compute_capability) >= BULK_COPIES and tma.available() and room >= self._ring_bytes
        fits = nx % self._width == 0 and not stencil.wraps[1]  # a copy cannot take a line from the other side
        return able and fits and nx * self._dtype.itemsize >= LEAST_LINE

    def _marching(self, stencil: ConstantStencil) -> StencilProducts:
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
        return StencilProducts(
            name=f"{kind}_march",
            grid=(min(parts, device["MultiProcessorCount"]), 1, 1),
            threads=adding + SLICE,
            # More than half of a multiprocessor's, so that no two blocks share one while the launch before still runs.
            shared=max(self._ring_bytes, device["MaxSharedMemoryPerMultiprocessor"] // 2),
            cut=cut,
            boxes=((width, self._lines + 2, 1), (self._width, self._lines + 2, 1)),
            partials=cupy.zeros(parts * (adding // SLICE)),
        )

    def _walking(self, stencil: ConstantStencil) -> StencilProducts:
        """stencil.cu: a block for each of some tiles."""
        nx, ny, nz = stencil.shape
        wide = nx % self._width == 0
        width = self._width if wide else 1
        across, along = -(-nx // (BX * width)), -(-ny // (BY * ROWS))
        planes = _planes(across * along, nz, cupy.cuda.Device().attributes["MultiProcessorCount"])
        grid = (across, along, -(-nz // planes))
        return StencilProducts(
            name=("star" if stencil.star else "box") + ("_wide" if wide else "_narrow"),
            grid=grid,
            threads=BX * BY,
            shared=SLOTS * (BX + 2) * (BY * ROWS + 2) * width * self._dtype.itemsize,
            cut=np.int32(planes),
            boxes=(),
            partials=cupy.zeros(grid[0] * grid[1] * grid[2]),
        )

    def transfer(self, transfer: StarTransfer) -> CudaTransfer:
        t = transfer
        for name in STAR_KERNELS[bool(t.fine.pieces)]:
            function(name, self._vectors.type_name).max_dynamic_shared_size_bytes = star_bytes(self._dtype)
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
        made = CudaTransfer(
            transfer=t,
            arguments=(_argument(t.stencil, self._dtype), corners, cupy.asarray(t.table.astype(self._dtype))),
            around=_vector(t.fine) if t.fine.pieces else None,
            down=down,
            up=((across, along, -(-nz // planes)), np.int32(planes)),
            vectors=self._vectors,
        )
        cupy.cuda.get_current_stream().synchronize()
        return made


def _planes(tiles: int, nz: int, processors: int, frame: int = 2) -> int:
    """Number of planes that a block walks, so that multiprocessors are busy for the shortest time.

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


def _vector(chunk: Around) -> Any:
    """`Vector` in star.cuh, a structure of one item, without its addresses."""
    fields: list[Any] = [("lo", np.int32, 3), ("n", np.int32, 3), ("grid", np.int32, 3), ("wraps", np.int32)]
    fields += [("first", np.int32, 27), ("apart", np.int64), ("values", np.uint64), ("halo", np.uint64)]
    out = np.zeros(1, np.dtype(fields, align=True))
    out["lo"], out["n"], out["grid"] = chunk.lo, chunk.shape, chunk.grid
    out["wraps"] = sum(wraps << axis for axis, wraps in enumerate(chunk.wraps))
    for (x, y, z), first in chunk.pieces:
        out["first"][0, x + 1 + 3 * (y + 1) + 9 * (z + 1)] = first
    return out
