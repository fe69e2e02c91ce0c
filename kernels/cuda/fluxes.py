"""The launch that makes rows of finite volumes."""

from __future__ import annotations

import math

import cupy
import numpy as np

from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.tables import table
from dsolver.kernels.fluxes import Fluxes
from dsolver.kernels.layout import Array

FILE, DTYPE = "fluxes.cu", "float64"
THREADS = 256
AXIS = np.dtype(
    [("kappa", np.uint64), ("ends", np.uint64, 2), ("number", np.float64), ("times", np.float64)], align=True
)


def star(fluxes: Fluxes) -> Array:
    """See `dsolver.kernels.fluxes.star`."""
    nz, ny, nx = fluxes.shape
    ends = {at: cupy.ascontiguousarray(values) for at, values in fluxes.ends.items()}
    out = cupy.empty((7, nz, ny, nx))
    axes = []
    for number, (kappa, doubled) in enumerate(zip(fluxes.kappa, fluxes.doubled, strict=True)):
        axis = np.zeros(1, AXIS)
        axis["times"] = 2.0 if doubled else 1.0
        axis["ends"] = [ends[number, side].data.ptr if (number, side) in ends else 0 for side in (0, 1)]
        if isinstance(kappa, float):
            axis["number"] = kappa
        else:
            axis["kappa"] = kappa.data.ptr
        axes.append(axis)
    sizes = table(np.concatenate(fluxes.sizes))
    blocks = -(-math.prod(fluxes.shape) // THREADS)
    kernel(FILE, "star_rows", DTYPE)((blocks,), (THREADS,), (*axes, sizes, *(np.int32(n) for n in (nx, ny, nz)), out))
    return out
