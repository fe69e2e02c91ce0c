"""What is made on a device of matrices whose rows come from the host."""

from __future__ import annotations

import math

import cupy
import numpy as np

from dsolver.kernels.algebraic.rows import Rows
from dsolver.kernels.algebraic.spectrum import STEPS
from dsolver.kernels.backend import Entries
from dsolver.kernels.cuda.loader import kernel

FILE, DTYPE = "sparse.cu", "float64"
THREADS = 256
WARPS = 8
"""Of a block that multiplies, as sparse.cu says too."""


def on_device(rows: Rows) -> Rows:
    """The same there."""
    return Rows(*(cupy.asarray(part) for part in rows))


def tabulated(rows: Rows, width: int) -> Entries:
    """See `Backend.tabulated`."""
    columns, values = cupy.empty((width, rows.size), dtype=np.int32), cupy.empty((width, rows.size))
    grid = (-(-rows.size // THREADS),)
    kernel(FILE, "tabulate", DTYPE)(grid, (THREADS,), (*rows, np.int32(rows.size), np.int32(width), columns, values))
    return Entries(columns=columns, values=values, halo=False)


def largest_eigenvalue(rows: Rows) -> float:
    """See `Backend.largest_eigenvalue`."""
    size, blocks = np.int32(rows.size), -(-rows.size // WARPS)
    x, y, diagonal = (cupy.empty(rows.size) for _ in range(3))
    parts = cupy.empty((2, blocks))
    kernel(FILE, "rough", DTYPE)((-(-rows.size // THREADS),), (THREADS,), (*rows, size, x, diagonal))
    step = kernel(FILE, "power_step", DTYPE)
    for _ in range(STEPS):
        step((blocks,), (WARPS * 32,), (*rows, size, diagonal, x, y, parts))
        x, y = y, x
    before, after = parts.get().sum(axis=1)
    return math.sqrt(after / before)
