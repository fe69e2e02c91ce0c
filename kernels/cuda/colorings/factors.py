"""Triangular factors of compressed rows on a GPU, with the bits of `dsolver.kernels.cpu.colorings.factors`."""

from typing import Final

import cupy
import numpy as np

from dsolver.kernels.colorings.factors import LOST, BreakdownError, TriangularFactors
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.sparse.products.mirrors import ascending, reordered
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

FILE: Final = "colorings/factors.cu"
WARP: Final = 32
NONE: Final = np.iinfo(np.int32).max  # stands for no row


def sweep_factors(a: Csr, color: Array) -> TriangularFactors:
    diagonal, zero = cupy.empty(a.size), cupy.full(1, NONE, dtype=np.int32)
    values, rows = cupy.empty_like(a.values), np.int32(a.size)
    for_each(FILE, "diagonals", a.size, *a, rows, diagonal, zero, lanes=WARP)
    for_each(FILE, "sweep_factors", a.size, *a, rows, color, diagonal, values, lanes=WARP)
    if (row := int(read_back(zero)[0])) != NONE:
        raise BreakdownError(row, 0.0)
    return TriangularFactors(a._replace(values=values), diagonal)


def incomplete_factors(a: Csr, color: Array, *, shift: float = 0.0, positive: bool = False) -> TriangularFactors:
    """See `SweepSetup.incomplete_factors`: a launch for each color."""
    order = cupy.argsort(color, kind="stable").astype(np.int32)
    place = cupy.empty_like(order)
    place[order] = cupy.arange(a.size, dtype=np.int32)
    # Rows are moved and sorted with the number of each entry for its value: float64 has room for 2^53 of them.
    numbers = cupy.arange(len(a.columns), dtype=np.float64)
    moved = reordered(Csr(a.start, place[a.columns], numbers), order)
    start, columns, numbers = ascending(moved, a.size)
    source = numbers.astype(np.int64)
    values = a.values[source]
    diagonal, pivots = cupy.empty(a.size, dtype=np.int64), cupy.empty(a.size)
    bad = cupy.full(1, NONE, dtype=np.int32)
    limits = np.float64(1.0 + shift), np.int32(positive), np.float64(LOST)
    cuts = read_back(starts_of(cupy.bincount(color).astype(np.int64)))
    for first, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        arguments = start, columns, values, np.int32(first), np.int32(end), *limits, diagonal, pivots, bad
        for_each(FILE, "eliminate_row", end - first, *arguments, lanes=WARP)
    if (row := int(read_back(bad)[0])) != NONE:
        raise BreakdownError(int(order[row]), float(pivots[row]))
    values[diagonal] = 1.0
    factored, found = cupy.empty_like(values), cupy.empty_like(pivots)
    factored[source], found[order] = values, pivots
    return TriangularFactors(a._replace(values=factored), found)
