"""Interpolation and Galerkin operators on the device, a few launches a level: see `LatticeSetup`."""

from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.lattice import semicoarsening
from dsolver.kernels.cuda.lattice.halving import halving
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.coarsening import (
    COARSE_OFFSETS,
    CORNERS,
    Coarsening,
    Triple,
    lattice_weights,
    offsets_below,
)

FILE, DTYPE = "lattice/galerkin.cu", "float64"
BLOCK = (32, 8, 1)
GALERKIN_THREADS = 128


def interpolation(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> Array:
    if halving.serves(coarsening, offsets):
        return halving.interpolation(coarsening, offsets, weights)
    if semicoarsening.serves(coarsening, offsets):
        return semicoarsening.interpolation(coarsening, offsets, weights)
    p = cupy.zeros((len(CORNERS), *coarsening.ghosted))
    lattice = _lattice_arguments(coarsening, offsets, weights)
    nz, ny, nx = coarsening.ghosted
    grid = (-(-nx // BLOCK[0]), -(-ny // BLOCK[1]), nz)
    for between in range(1 + sum(factor == 2 for factor in coarsening.factors)):
        kernel(FILE, "interpolate", DTYPE)(grid, BLOCK, (*lattice, np.int32(between), p))
    return p


def galerkin(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array, p: Array) -> Array:
    if halving.serves(coarsening, offsets):
        return halving.galerkin(coarsening, offsets, weights, p)
    if semicoarsening.serves(coarsening, offsets):
        return semicoarsening.galerkin(coarsening, offsets, weights, p)
    rows = int(np.prod(coarsening.coarse_shape))
    kept = offsets_below(coarsening.factors, offsets)
    out = cupy.empty((len(kept), rows))
    if rows:
        steps = np.zeros((len(offsets), 4), dtype=np.int32)
        steps[:, :3] = offsets
        numbers = [
            (axis.first, axis.reach, not axis.folded, points)
            for axis, points in zip(coarsening.axes, coarsening.coarse_shape, strict=True)
        ]
        arguments = (
            *_lattice_arguments(coarsening, offsets, weights),
            np.int32(len(offsets)),
            table(steps),
            table(np.array(numbers, dtype=np.int32)),
            cupy.ascontiguousarray(p),
            np.int32(sum(1 << COARSE_OFFSETS.index(o) for o in kept)),
            out,
        )
        kernel(FILE, "coarse_weights", DTYPE)((-(-rows // GALERKIN_THREADS),), (GALERKIN_THREADS,), arguments)
    return out


def _lattice_arguments(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> tuple[Any, ...]:
    """The arguments called LATTICE in galerkin.cu."""
    w = cupy.ascontiguousarray(lattice_weights(coarsening, offsets, cupy.asarray(weights, dtype=np.float64)))
    stride = w[0].size
    slots = np.array([offsets.index(o) if o in offsets else -1 for o in COARSE_OFFSETS], dtype=np.int32)
    nz, ny, nx = (np.int32(n) for n in coarsening.ghosted)
    constant = weights.ndim == 1
    return (nx, ny, nz, table(slots), w, np.int64(stride), np.int32(not constant), halving.places(coarsening))
