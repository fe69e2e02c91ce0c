"""Smoother of a tentative prolongation on a GPU: the bits of `dsolver.kernels.cpu.amg.aggregation.smoothing`."""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.sparse.starts import add_up
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "amg/aggregation/smoothing.cu", "float64"
THREADS: Final = 256
MANY: Final = 12
"""Entries of a row, on average, from which it has 16 lanes in place of 2."""


def prolongation_smoother(a: Csr, below: int, keep: Any, near: Any, damping: Array, diagonal: Array) -> Csr:
    """See `dsolver.kernels.cpu.amg.aggregation.smoothing.prolongation_smoother`."""
    numbers = np.int32(a.size), np.int32(below)
    if keep is None:
        out, lanes = a._replace(values=cupy.empty(len(a.columns))), 16 if len(a.columns) >= MANY * a.size else 2
        _launch(f"smooth_all_{lanes}", a.size * lanes, (*a, *numbers, damping, diagonal, out.values))
        return out
    start, known = cupy.zeros(a.size + 1, dtype=np.int64), counters(1)
    _launch("count_kept", a.size, (a.start, keep, numbers[0], start[1:]))
    add_up(start, known)
    entries = int(read_back(known)[0])
    out = Csr(start, cupy.empty(entries, dtype=np.int32), cupy.empty(entries))
    _launch("smooth_kept", a.size, (*a, *numbers, keep, near, damping, diagonal, *out))
    return out


def kept_entries(a: Csr, below: int, graph: Csr) -> Array:
    """See `dsolver.kernels.cpu.amg.aggregation.smoothing.kept_entries`."""
    keep = cupy.empty(len(a.columns), dtype=np.bool_)
    _launch("keep_entries", a.size, (*a[:2], np.int32(a.size), np.int32(below), *graph[:2], keep))
    return keep


def _launch(name: str, threads: int, arguments: tuple[Any, ...]) -> None:
    if threads:
        kernel(FILE, name, DTYPE)((-(-threads // THREADS),), (THREADS,), arguments)
