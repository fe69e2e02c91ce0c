"""Set-up of lattices on a GPU: launches of one kernel each, where an array library takes dozens."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.amg import with_functions_of
from dsolver.kernels.cuda.lattice import components, galerkin, look, semicoarsening
from dsolver.kernels.cuda.lattice.halving import halving
from dsolver.kernels.cuda.launch.loader import NOTHING, for_each, kernel
from dsolver.kernels.cuda.launch.tables import kept, table
from dsolver.kernels.cuda.sparse.starts import places_of
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.stencil.alike import Alike
from dsolver.kernels.formats.stencil.rows import StencilRows
from dsolver.kernels.lattice.coarsening import Coarsening, Triple
from dsolver.kernels.lattice.fluxes import Fluxes
from dsolver.kernels.lattice.setup import LatticeSetup
from dsolver.kernels.lattice.statistics import pairs

FILE, FLUXES, DTYPE = "lattice/transfers.cu", "lattice/fluxes.cu", "float64"
LINES = (64, 4)  # threads of a block along a line, and lines of a block, where each line has its own
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


@with_functions_of(components, galerkin, look)
class CudaLattice(LatticeSetup):
    """Launches of set-up's lattice kernels."""

    def frameless(self, factors: Triple, offsets: tuple[Triple, ...]) -> bool:
        return semicoarsening.frameless(factors, offsets) or halving.frameless(factors, offsets)

    def restriction(self, coarsening: Coarsening, p: Array, around: Array) -> Ell:
        rows = math.prod(coarsening.coarse_shape)
        count = math.prod(1 + 2 * axis.reach for axis in coarsening.axes)
        columns, values = cupy.empty((count, rows), dtype=np.int32), cupy.empty((count, rows))
        places = _lattice(coarsening, (0, 0, 0)), cupy.ascontiguousarray(p), around
        for_each(FILE, "restriction", rows, *places, columns, values)
        return Ell(columns=columns, values=values)

    def prolongation(self, coarsening: Coarsening, p: Array, around: Array, base: Triple) -> Ell:
        rows = math.prod(coarsening.shape)
        count = math.prod(1 + axis.reach for axis in coarsening.axes)
        columns, values = cupy.empty((count, rows), dtype=np.int32), cupy.empty((count, rows))
        _, ny, nx = (np.int32(n) for n in around.shape)
        places = _lattice(coarsening, base), cupy.ascontiguousarray(p), around, nx, ny
        for_each(FILE, "prolongation", rows, *places, columns, values)
        return Ell(columns=columns, values=values)

    def numbers(self, shape: Triple) -> Array:
        return kept("numbers", math.prod(shape), shape, lambda: _numbers(shape))

    def framed(self, values: Array, width: int) -> Array:
        count, nz, ny, nx = values.shape
        out = cupy.empty((count, nz + 2 * width, ny + 2 * width, nx + 2 * width))
        lines = out.size // out.shape[3]
        size = (np.int32(n) for n in (nx, ny, nz, width, lines))
        if lines:
            kernel(FILE, "framed", DTYPE)((-(-lines // LINES[1]),), LINES, (cupy.ascontiguousarray(values), *size, out))
        return out

    def spread(self, values: Array, like: Sequence[Any]) -> Array:
        count, *small = values.shape
        large = [len(places) for places in like]
        out = cupy.empty((count, *large[::-1]))
        places = table(np.concatenate(like).astype(np.int32))
        sizes = *map(np.int32, small[::-1]), places, *map(np.int32, large), np.int64(out.size)
        for_each(FILE, "spread", out.size, cupy.ascontiguousarray(values), *sizes, out)
        return out

    def jumps(self, offsets: tuple[Triple, ...], weights: Array, ratio: float) -> Array:
        weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
        rows, out = weights.shape[1], cupy.zeros(3)
        both = table(np.array(pairs(offsets), dtype=np.int32))
        for_each(FILE, "jumps", rows, weights, both, np.int64(rows), np.float64(ratio), out)
        return out

    def alike(self, rows: StencilRows) -> Alike | None:
        return super().alike(rows) if rows.weights.ndim == 1 else look.alike(rows)

    def star(self, fluxes: Fluxes, cells: Array | None = None) -> Array:
        nz, ny, nx = fluxes.shape
        shape = fluxes.shape if cells is None else cells.shape
        ends = {at: end if isinstance(end, float) else cupy.ascontiguousarray(end) for at, end in fluxes.ends.items()}
        out = cupy.empty((7, *shape))
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
        sizes, rows = (table(np.concatenate(fluxes.sizes)), *map(np.int32, (nx, ny, nz))), math.prod(shape)
        for_each(FLUXES, "star_rows", rows, *axes, *sizes, NOTHING if cells is None else cells, np.int64(rows), out)
        return out

    places = staticmethod(places_of)


def _numbers(shape: Triple) -> Array:
    nx, ny, nz = shape
    out = cupy.empty((nz + 2, ny + 2, nx + 2), dtype=np.int32)
    for_each(FILE, "numbers", out.size, *map(np.int32, shape), np.int64(out.size), out)
    return out


def _lattice(made: Coarsening, base: Triple) -> Array:
    """LATTICE of transfers.cu: int32."""
    return table(_lattice_numbers(made, base))


@lru_cache(maxsize=256)
def _lattice_numbers(made: Coarsening, base: Triple) -> npt.NDArray[np.int32]:
    numbers: list[int] = []
    places: list[Any] = []
    along = zip(made.axes, made.factors, made.coarse_shape, made.shape, base, strict=True)
    for axis, factor, points, fine, start in along:
        numbers += (axis.first, factor, axis.reach, points, fine, sum(map(len, places)), axis.folded, start)
        places.append(axis.base)
    return np.concatenate([np.array(numbers, dtype=np.int32), *places])
