"""Rows of a box of a grid on a GPU: the same bits as on the host."""

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import LatticeBox, Triple, ascending
from dsolver.kernels.cpu.amg.box_rows import MOST_POINTS
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.cuda.sparse.starts import add_up, unfilled
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/boxes/box_rows.cu", "float64"
CAPACITY: Final = 2048  # entries of a block's rows at most, as in box_rows.cu
WARP, THREADS = 32, 256

_BOX = np.dtype([(name, np.int32, 3) for name in ("grid", "lower", "shape", "low", "high")] + [("rest", np.int32, 3)])


def box_rows(box: LatticeBox, offsets: Sequence[Triple], weights: Array) -> tuple[Csr, Array]:
    """`cpu.amg.box_rows`, with one wait for the number of entries. ValueError: 2³¹ points, or more than 64 offsets."""
    rows, threads = prod(box.shape), min(THREADS, CAPACITY // len(offsets) // WARP * WARP)
    if prod(box.grid) > MOST_POINTS or not threads:
        raise ValueError(f"no kernel makes rows of a grid {box.grid} with {len(offsets)} offsets")
    weights = cupy.ascontiguousarray(cupy.asarray(weights, dtype=np.float64).reshape(len(offsets), -1))
    order = ascending(offsets)
    steps = table(np.array([[*offsets[k], k] for k in order], dtype=np.int32))
    start, share = cupy.empty(rows + 1, dtype=np.int64), cupy.empty(rows)
    arguments = (_packed(box, offsets, constant=weights.shape[1] == 1), steps, weights, np.int32(rows))
    grid = (-(-rows // threads),)
    found = counters(1)
    if rows:
        kernel(FILE, "count_entries", DTYPE)(grid, (threads,), (*arguments, start[1:]))
    add_up(start, found)
    out = unfilled(start, int(read_back(found)[0]))
    if rows:
        kernel(FILE, "fill_entries", DTYPE)(grid, (threads,), (*arguments, *out, share))
    return out, share


def _packed(box: LatticeBox, offsets: Sequence[Triple], *, constant: bool) -> Any:
    """`Box` of box_rows.cu."""
    reach = np.array(offsets)
    wraps = sum(1 << axis for axis, around in enumerate(box.periodic) if around)
    rest = (wraps, len(offsets), int(constant))
    fields = (box.grid, box.lower, box.shape, tuple(reach.min(axis=0)), tuple(reach.max(axis=0)), rest)
    return np.array([fields], dtype=_BOX)
