"""Interpolation and Galerkin operators where one axis alone is halved, by kernels that ask no tables."""

from functools import lru_cache
from math import prod
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.lattice.halving.halving import STAR, places, stored
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.coarsening import CORNERS, Coarsening, Triple, offsets_below

FILE, DTYPE = "lattice/semicoarsening.cu", "float64"
WIDE, HIGH, WALK = 32, 4, 8
"""Threads of a block along x and y, and coarse rows of a thread along y or z, as semicoarsening.cu says too."""


def serves(coarsening: Coarsening, offsets: tuple[Triple, ...]) -> bool:
    """Whether a level can be made coarser here; all its chunks get the same answer."""
    if coarsening.factors.count(2) != 1 or any(axis.folded for axis in coarsening.axes):
        return False
    along = coarsening.factors.index(2)
    n = coarsening.grid[along]
    seam = coarsening.periodic[along] and (n % 2 == 1 or n == 2)
    return not seam and offsets in (STAR, _slab(coarsening.factors))


def frameless(factors: Triple, offsets: tuple[Triple, ...]) -> bool:
    return factors.count(2) == 1 and offsets in (STAR, _slab(factors))


def interpolation(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> Array:
    p = cupy.empty((len(CORNERS), *coarsening.ghosted))  # of eight corners two are written, and read
    nz, ny, nx = coarsening.ghosted
    _launch("interpolate", coarsening, offsets, weights, (nx, ny, nz), p)
    return p


def galerkin(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array, p: Array) -> Array:
    shape, axis = coarsening.coarse_shape, coarsening.factors.index(2)
    out = cupy.empty((len(_slab(coarsening.factors)), prod(shape)))
    if out.size:
        firsts = (np.int32(axis.first) for axis in coarsening.axes)
        x, y, z = (-(-n // WALK) if along == axis and axis else n for along, n in enumerate(shape))
        arguments = *firsts, *map(np.int32, shape), cupy.ascontiguousarray(p), out
        _launch("galerkin", coarsening, offsets, weights, (x, y, z), *arguments)
    return out


@lru_cache(maxsize=8)
def _slab(factors: Triple) -> tuple[Triple, ...]:
    """The offsets below stars."""
    return offsets_below(factors, STAR)


def _launch(
    name: str, coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array, items: Triple, *arguments: Any
) -> None:
    """Launch a kernel for so many items along x, y and z."""
    w, bare, constant = stored(coarsening, offsets, weights)
    nz, ny, nx = (np.int32(n) for n in coarsening.ghosted)
    head = (nx, ny, nz, np.int32(bare), w, np.int64(w.shape[1]), np.int32(not constant), places(coarsening))
    kind, axis = "star" if offsets == STAR else "slab", "xyz"[coarsening.factors.index(2)]
    grid = (-(-items[0] // WIDE), -(-items[1] // HIGH), items[2])
    kernel(FILE, f"{name}_{kind}_{axis}", DTYPE)(grid, (WIDE * HIGH,), (*head, *arguments))
