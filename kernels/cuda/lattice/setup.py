"""Set-up of lattices on a GPU: launches of one kernel each, where an array library takes dozens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.lattice import galerkin, look, semicoarsening
from dsolver.kernels.cuda.lattice.components import least_of_connected
from dsolver.kernels.cuda.lattice.halving import halving
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.tables import kept, table
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.stencil.alike import Alike
from dsolver.kernels.formats.stencil.rows import StencilRows
from dsolver.kernels.lattice.coarsening import Coarsening, Triple
from dsolver.kernels.lattice.fluxes import Fluxes
from dsolver.kernels.lattice.setup import LatticeSetup
from dsolver.kernels.lattice.statistics import pairs

FILE, DTYPE = "lattice/transfers.cu", "float64"
THREADS = 256
LINES = (64, 4)
"""Threads of a block along a line, and lines of a block, where each line has its own."""
MOST_BLOCKS = 2048
AXIS = np.dtype(
    [
        ("kappa", np.uint64),
        ("ends", np.uint64, 2),
        ("number", np.float64),
        ("times", np.float64),
        ("parts", np.float64, 2),
    ],
    align=True,
)


@final
class CudaLattice(LatticeSetup):
    """Launches of set-up's lattice kernels."""

    def frameless(self, factors: Triple, offsets: tuple[Triple, ...]) -> bool:
        return semicoarsening.frameless(factors, offsets) or halving.frameless(factors, offsets)

    interpolation = staticmethod(galerkin.interpolation)
    galerkin = staticmethod(galerkin.galerkin)

    def restriction(self, coarsening: Coarsening, p: Array, around: Array) -> Ell:
        rows = math.prod(coarsening.coarse_shape)
        count = math.prod(1 + 2 * axis.reach for axis in coarsening.axes)
        columns, values = cupy.empty((count, rows), dtype=np.int32), cupy.empty((count, rows))
        _launch(
            "restriction", rows, _lattice(coarsening, (0, 0, 0)), cupy.ascontiguousarray(p), around, columns, values
        )
        return Ell(columns=columns, values=values)

    def prolongation(self, coarsening: Coarsening, p: Array, around: Array, base: Triple) -> Ell:
        rows = math.prod(coarsening.shape)
        count = math.prod(1 + axis.reach for axis in coarsening.axes)
        columns, values = cupy.empty((count, rows), dtype=np.int32), cupy.empty((count, rows))
        _, ny, nx = (np.int32(n) for n in around.shape)
        _launch(
            "prolongation", rows, _lattice(coarsening, base), cupy.ascontiguousarray(p), around, nx, ny, columns, values
        )
        return Ell(columns=columns, values=values)

    def numbers(self, shape: Triple) -> Array:
        return kept("numbers", math.prod(shape), shape, lambda: _numbers(shape))

    def framed(self, values: Array, width: int) -> Array:
        count, nz, ny, nx = values.shape
        out = cupy.empty((count, nz + 2 * width, ny + 2 * width, nx + 2 * width))
        lines = out.size // out.shape[3]
        sizes = (np.int32(n) for n in (nx, ny, nz, width, lines))
        if lines:
            kernel(FILE, "framed", DTYPE)(
                (-(-lines // LINES[1]),), LINES, (cupy.ascontiguousarray(values), *sizes, out)
            )
        return out

    def spread(self, values: Array, like: Sequence[Any]) -> Array:
        count, *small = values.shape
        large = [len(places) for places in like]
        out = cupy.empty((count, *large[::-1]))
        places = table(np.concatenate(like).astype(np.int32))
        mx, my, mz = (np.int32(n) for n in small[::-1])
        nx, ny, nz = (np.int32(n) for n in large)
        _launch(
            "spread", out.size, cupy.ascontiguousarray(values), mx, my, mz, places, nx, ny, nz, np.int64(out.size), out
        )
        return out

    def couplings(self, offsets: tuple[Triple, ...], weights: Array) -> Array:
        weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
        rows = weights.shape[1]
        blocks = min(MOST_BLOCKS, max(1, -(-rows // THREADS)))
        parts, out = cupy.empty((3, blocks)), cupy.empty(3)
        center = np.int32(offsets.index((0, 0, 0)))
        arguments = (weights, table(_steps(offsets)), np.int32(len(offsets)), center, np.int64(rows), parts)
        kernel(FILE, "couplings", DTYPE)((blocks,), (THREADS,), arguments)
        kernel(FILE, "couplings_total", DTYPE)((1,), (THREADS,), (parts, np.int32(blocks), out))
        return out

    def jumps(self, offsets: tuple[Triple, ...], weights: Array, ratio: float) -> Array:
        weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
        rows, out = weights.shape[1], cupy.zeros(3)
        both = table(np.array(pairs(offsets), dtype=np.int32))
        _launch("jumps", rows, weights, both, np.int64(rows), np.float64(ratio), out)
        return out

    leanings = staticmethod(look.leanings)
    turns = staticmethod(look.turns)
    outweighed = staticmethod(look.outweighed)

    def alike(self, rows: StencilRows) -> Alike | None:
        return super().alike(rows) if rows.weights.ndim == 1 else look.alike(rows)

    unfit = staticmethod(look.unfit)

    def star(self, fluxes: Fluxes) -> Array:
        nz, ny, nx = fluxes.shape
        ends = {at: end if isinstance(end, float) else cupy.ascontiguousarray(end) for at, end in fluxes.ends.items()}
        out = cupy.empty((7, nz, ny, nx))
        axes = []
        for number, (kappa, doubled) in enumerate(zip(fluxes.kappa, fluxes.doubled, strict=True)):
            axis = np.zeros(1, AXIS)
            axis["times"] = 2.0 if doubled else 1.0
            both = [ends.get((number, side)) for side in (0, 1)]
            axis["ends"] = [0 if end is None or isinstance(end, float) else end.data.ptr for end in both]
            axis["parts"] = [end if isinstance(end, float) else -1.0 for end in both]
            if isinstance(kappa, float):
                axis["number"] = kappa
            else:
                axis["kappa"] = kappa.data.ptr
            axes.append(axis)
        sizes = table(np.concatenate(fluxes.sizes))
        blocks = -(-math.prod(fluxes.shape) // THREADS)
        kernel("lattice/fluxes.cu", "star_rows", DTYPE)(
            (blocks,), (THREADS,), (*axes, sizes, *(np.int32(n) for n in (nx, ny, nz)), out)
        )
        return out

    def scale(self, f: Array, sizes: tuple[Array, Array, Array]) -> None:
        if not f.flags.c_contiguous or f.dtype != DTYPE:
            raise ValueError("this kernel takes float64 in C order")
        _, ny, nx = f.shape
        blocks = -(-f.size // THREADS)
        kernel("lattice/fluxes.cu", "scale", DTYPE)(
            (blocks,), (THREADS,), (f, *sizes, np.int32(nx), np.int32(ny), np.int64(f.size))
        )

    least_of_connected = staticmethod(least_of_connected)


def _numbers(shape: Triple) -> Array:
    nx, ny, nz = shape
    out = cupy.empty((nz + 2, ny + 2, nx + 2), dtype=np.int32)
    _launch("numbers", out.size, np.int32(nx), np.int32(ny), np.int32(nz), np.int64(out.size), out)
    return out


@lru_cache(maxsize=16)
def _steps(offsets: tuple[Triple, ...]) -> npt.NDArray[np.int32]:
    """Bit a of each number tells whether the offset steps along axis a."""
    return np.array([sum((step != 0) << axis for axis, step in enumerate(o)) for o in offsets], dtype=np.int32)


def _lattice(made: Coarsening, base: Triple) -> Array:
    """LATTICE of transfers.cu: int32."""
    return table(_lattice_numbers(made, base))


@lru_cache(maxsize=256)
def _lattice_numbers(made: Coarsening, base: Triple) -> npt.NDArray[np.int32]:
    numbers: list[int] = []
    places: list[Any] = []
    along = zip(made.axes, made.factors, made.coarse_shape, made.shape, base, strict=True)
    for axis, factor, points, fine, start in along:
        numbers += [
            axis.first,
            factor,
            axis.reach,
            points,
            fine,
            sum(len(place) for place in places),
            axis.folded,
            start,
        ]
        places.append(axis.base)
    return np.concatenate([np.array(numbers, dtype=np.int32), *places])


def _launch(name: str, count: int, *arguments: Any) -> None:
    if count:
        kernel(FILE, name, DTYPE)((-(-count // THREADS),), (THREADS,), arguments)
