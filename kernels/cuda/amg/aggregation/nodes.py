"""Couplings of nodes on a GPU: the bits of `dsolver.kernels.amg.aggregation.nodes`."""

from __future__ import annotations

from typing import Final

import cupy
import numpy as np

from dsolver.kernels.cuda.amg.mirrors import ascending
from dsolver.kernels.cuda.csr.starts import add_up
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.told import counters, told
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/aggregation/nodes.cu", "float64"
THREADS: Final = 256
MANY: Final = 32
"""Entries of a node, on average, from which it has 16 lanes in place of 4."""


def strong_nodes(a: Csr, below: int, scale: Array, size: int, node: Array, nodes: int, theta: float) -> Csr:
    """See `dsolver.kernels.amg.aggregation.nodes.strong_nodes`. It waits for the number of couplings."""
    own = a.size // size
    start, known = cupy.empty(own + 1, dtype=np.int64), counters(2)
    if not own:
        return Csr(cupy.zeros(1, dtype=np.int64), cupy.empty(0, dtype=np.int32), cupy.empty(0))
    lanes = 16 if len(a.columns) >= MANY * own else 4
    grid = (-(-own * lanes // THREADS),)
    numbers = np.int32(own), np.int32(below), np.int32(size)
    rows = (*a, node, *numbers, scale, np.float64(theta * theta * size))
    kernel(FILE, f"count_strong_{lanes}", DTYPE)(grid, (THREADS,), (*rows, start[1:], known[1:]))
    add_up(start, known)
    entries, late = map(int, told(known))
    out = Csr(start, cupy.empty(entries, dtype=np.int32), cupy.empty(entries))
    if entries:
        kernel(FILE, f"fill_strong_{lanes}", DTYPE)(grid, (THREADS,), (*rows, *out))
    return ascending(out, nodes) if late else out
