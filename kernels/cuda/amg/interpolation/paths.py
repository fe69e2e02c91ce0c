"""Couplings of coarse points by paths, on a GPU: the same as of kernels/cpu/amg/couplings.py."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.amg.interpolation.rows import ALONE, RowKernels, terms_of_coarse
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.sparse.starts import unfilled, without_rows
from dsolver.kernels.formats.csr import Csr

FILE: Final = "amg/interpolation/paths.cu"


def paths(a: Csr, points: Any, below: int, bits: Any, coarse: Any, seen: Csr, columns: int, least: int) -> Csr:
    """`dsolver.kernels.cpu.amg.couplings.paths` of arrays on this device: its arguments but the team, and its result.

    Rows are counted first, and then made a second time, but for those of a thread: what is kept of these is few.
    """
    if not len(points):
        return without_rows()
    rows = RowKernels(FILE, "paths", len(points), columns, a.mean, terms_of_coarse(a))
    short = cupy.empty((len(points), ALONE) if rows.alone else (1, 1), dtype=np.uint32)
    graph = points, a.start, a.columns, bits, np.int32(below), coarse, *seen, np.int32(least)
    nothing = np.uintp(0)
    out = unfilled(rows.start, rows.count((rows.start[1:], short, nothing, nothing, nothing, *graph))())
    if rows.alone:
        for_each(FILE, "unpack", short.size, short, out.start, np.int64(len(points)), *out[1:])
    rows.fill((rows.start[1:], short, *out, *graph))
    return out
