"""Interpolation and Galerkin operators where every axis is halved, by kernels that ask no tables (beside it)."""

from functools import lru_cache
from math import prod
from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.coarsening import COARSE_OFFSETS, CORNERS, GHOST, Coarsening, Triple, offsets_below

INTERPOLATION, BELOW_SLABS = "lattice/halving/interpolation.cu", "lattice/halving/slabs.cu"
OF_STARS, IN_TILES = "lattice/halving/star.cu", "lattice/halving/tiles.cu"
DTYPE: Final = "float64"
STAR: Final = tuple(o for o in COARSE_OFFSETS if sum(map(abs, o)) <= 1)
KINDS: Final = {
    STAR: "star",
    COARSE_OFFSETS: "box",
    **{
        offsets_below((1 + (axis == 0), 1 + (axis == 1), 1 + (axis == 2)), STAR): f"slab_{name}"
        for axis, name in enumerate("xyz")
    },
}
"""Names of kernels by the offsets of rows: stars, all, and what is below stars that are made coarser along one axis."""
CELLS, LINES, ROWS = (8, 8, 4), (32, 2, 2), (16, 2, 1)
"""Cells, or coarse rows, along x, y, z that a block works on, as in the sources beside it."""
CELL_THREADS, LINE_THREADS, ROW_THREADS = 256, 128, 288


def serves(coarsening: Coarsening, offsets: tuple[Triple, ...]) -> bool:
    """Whether a level can be made coarser here: the same answer for all its chunks, whose bits are to be the same."""
    return coarsening.halved and offsets == tuple(o for o in COARSE_OFFSETS if o in offsets)


def frameless(factors: Triple, offsets: tuple[Triple, ...]) -> bool:
    return factors == (2, 2, 2) and offsets in KINDS


def interpolation(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> Array:
    p = cupy.empty((len(CORNERS), *coarsening.ghosted))
    # The first cell's point between: at place 0 where coarse points have odd places, else just before the array.
    starts = [axis.first % 2 - 1 for axis in coarsening.axes]
    cells = [-(-(len(axis.kind) - start) // 2) for axis, start in zip(coarsening.axes, starts, strict=True)]
    arguments = (*_lattice(coarsening, offsets, weights), places(coarsening), *map(np.int32, starts), p)
    kind = KINDS.get(offsets, "box")
    file = BELOW_SLABS if kind.startswith("slab") else INTERPOLATION
    kernel(file, f"interpolate_{kind}", DTYPE)(_blocks(cells, CELLS), (CELL_THREADS,), arguments)
    return p


def galerkin(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array, p: Array) -> Array:
    shape = coarsening.coarse_shape
    out = cupy.empty((len(COARSE_OFFSETS), prod(shape)))
    firsts = (np.int32(axis.first) for axis in coarsening.axes)
    lattice = _lattice(coarsening, offsets, weights)
    arguments = (*lattice, *firsts, *map(np.int32, shape), cupy.ascontiguousarray(p), out)
    if not out.size:
        return out
    if offsets == STAR and weights.size > len(offsets):
        kernel(OF_STARS, "galerkin_star", DTYPE)(_blocks(shape, LINES), (LINE_THREADS,), arguments)
    else:
        kernel(IN_TILES, "tile_" + KINDS.get(offsets, "box"), DTYPE)(_blocks(shape, ROWS), (ROW_THREADS,), arguments)
    return out


def places(coarsening: Coarsening) -> Array:
    """`Place` of lattice.cuh for every place of x, then y, then z: int32 (places, 4)."""
    return table(_places(coarsening))


@lru_cache(maxsize=256)
def _places(coarsening: Coarsening) -> npt.NDArray[np.int32]:
    along = [np.stack([axis.kind, axis.base, axis.open, axis.open], axis=1) for axis in coarsening.axes]
    return np.concatenate(along).astype(np.int32)


def _lattice(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> tuple[Any, ...]:
    """The arguments called HALVED in halving.cuh: rows that it has no kernels for get zeros for their other entries."""
    w, bare, constant = stored(coarsening, offsets, weights)
    if offsets not in KINDS:
        some, w = w, cupy.zeros((len(COARSE_OFFSETS), *w.shape[1:]))
        for offset, values in zip(offsets, some, strict=True):
            w[COARSE_OFFSETS.index(offset)] = values
    nz, ny, nx = (np.int32(n) for n in coarsening.ghosted)
    return nx, ny, nz, w, np.int64(w.shape[1]), np.int32(not constant), np.int32(bare)


def stored(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> tuple[Array, int, bool]:
    """The weights, (K, points), how many ghost layers they lack, whether they are one row. ValueError: wrong size."""
    count, points = len(offsets), weights.size // len(offsets)
    constant = weights.ndim == 1 and points == 1
    framed, own = prod(coarsening.ghosted), prod(coarsening.shape)
    if weights.size != count * points or not (constant or points in (framed, own)):
        raise ValueError(f"{weights.shape} weights for {count} offsets on {coarsening.ghosted} points")
    bare = 0 if constant or points == framed else GHOST
    w = cupy.ascontiguousarray(cupy.asarray(weights, dtype=np.float64)).reshape(count, points)
    return w, bare, constant


def _blocks(items: Any, tile: Triple) -> tuple[int]:
    return (prod(-(-n // size) for n, size in zip(items, tile, strict=True)),)
