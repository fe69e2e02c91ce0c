"""Rows of the open cells of a box of a grid on a GPU: the bits of `dsolver.kernels.cpu.amg.open_rows`."""

from collections.abc import Sequence
from typing import Final

import cupy
import numpy as np

from dsolver.kernels.amg import OpenBox, Triple
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.cuda.sparse.starts import add_up, unfilled
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "amg/boxes/open_rows.cu"

_OPEN = np.dtype([(name, np.int32) for name in ("nx", "ny", "rows", "offsets", "center", "cells", "left_out")])


def open_rows(box: OpenBox, offsets: Sequence[Triple], weights: Array) -> Csr:
    """See `dsolver.kernels.cpu.amg.open_rows.open_rows`. It waits once, for the number of entries."""
    rows, weights = len(box.cells), cupy.ascontiguousarray(weights).reshape(len(offsets), -1)
    ahead, slots, center = box.steps(offsets)
    steps = table(np.stack([ahead, slots], axis=1).astype(np.int32))
    numbers = (*box.shape[:2], rows, len(offsets), center, len(box.position), box.left_out)
    columns = cupy.ascontiguousarray(box.numbering), box.position, box.beyond
    given = (np.array([numbers], dtype=_OPEN), *columns, box.cells, steps, weights)
    start, found = cupy.empty(rows + 1, dtype=np.int64), counters(1)
    for_each(FILE, "count_open", rows, *given, start[1:])
    add_up(start, found)
    out = unfilled(start, int(read_back(found)[0]))
    for_each(FILE, "fill_open", rows, *given, *out)
    return out


def raised(rows: Csr, few: Array, factors: Array) -> Array:
    out, count = rows.values.copy(), len(few)
    for_each(FILE, "raise_diagonals", count, rows.start, rows.columns, few, factors, np.int32(count), out)
    return out
