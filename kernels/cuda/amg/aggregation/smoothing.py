"""Smoother of a tentative prolongation on a GPU: the bits of `dsolver.kernels.cpu.amg.aggregation.smoothing`."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.starts import add_up, unfilled
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "amg/aggregation/smoothing.cu"
MANY: Final = 12  # entries of a row, on average, from which it has 16 lanes in place of 2


def prolongation_smoother(a: Csr, below: int, keep: Any, near: Any, damping: Array, diagonal: Array) -> Csr:
    numbers = np.int32(a.size), np.int32(below)
    if keep is None:
        out, lanes = a._replace(values=cupy.empty(len(a.columns))), 16 if len(a.columns) >= MANY * a.size else 2
        for_each(FILE, f"smooth_all_{lanes}", a.size, *a, *numbers, damping, diagonal, out.values, lanes=lanes)
        return out
    start, known = cupy.zeros(a.size + 1, dtype=np.int64), counters(1)
    for_each(FILE, "count_kept", a.size, a.start, keep, numbers[0], start[1:])
    add_up(start, known)
    out = unfilled(start, int(read_back(known)[0]))
    for_each(FILE, "smooth_kept", a.size, *a, *numbers, keep, near, damping, diagonal, *out)
    return out


def kept_entries(a: Csr, below: int, graph: Csr) -> Array:
    keep = cupy.empty(len(a.columns), dtype=np.bool_)
    for_each(FILE, "keep_entries", a.size, *a[:2], np.int32(a.size), np.int32(below), *graph[:2], keep)
    return keep
