"""Interpolation "extended+i" on a GPU: the bits of `dsolver.kernels.cpu.amg.extended_interpolation`."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.amg import Counted, uncounted
from dsolver.kernels.cuda.amg.interpolation.rows import RowKernels, terms_of, terms_of_coarse
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.sparse.starts import unfilled, without_rows
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.lattice.coarsening import NEGLIGIBLE

FILE: Final = "amg/interpolation/extended_interpolation.cu"


def interpolation(*arguments: Any) -> Csr:
    """The host's `interpolation` of arrays on this device: its arguments but the team, and its bits.

    Columns of a row of `seen` are distinct.
    """
    return begun_interpolation(*arguments)()


def begun_interpolation(
    a: Csr,
    points: Any,
    bits: Any,
    state: Any,
    below: int,
    seen: Csr,
    coarse: Any,
    columns: int,
    most: int,
    counted: Counted = uncounted,
) -> Deferred[Csr]:
    """See `dsolver.kernels.cpu.amg.setup.AmgKernels.begun_interpolation`."""
    sums = cupy.empty(seen.size)
    for_each(FILE, "add_up", seen.size, seen.start, seen.values, np.int64(seen.size), sums)
    size, points = (a.size, np.uintp(0)) if points is None else (len(points), points)
    arguments = points, *a, bits, state, np.int32(below), *seen, sums, coarse, np.float64(NEGLIGIBLE)
    return _kept("interpolate", size, columns, most, a.mean, terms_of_coarse(a), arguments, counted)


def renamed(seen: Csr, names: Any) -> Csr:
    out = unfilled(seen.start, len(seen.columns))
    for_each(FILE, "rename", len(seen.columns), *seen, np.int64(seen.size), names, *out[1:])
    return out


def kept_product(a: Csr, b: Csr, columns: int, most: int) -> Csr:
    """The host's `kept_product` of arrays here, with its bits, without the team; columns of a row of B are distinct."""
    return _kept("multiply", a.size, columns, most, a.mean, terms_of(a, b), (*a, *b))()


def _kept(
    name: str,
    size: int,
    columns: int,
    most: int,
    mean: float,
    terms: float,
    arguments: tuple[Any, ...],
    counted: Counted = uncounted,
) -> Deferred[Csr]:
    """Rows with at most so many entries, made in places of equal size and then compressed: no row is made twice."""
    if not size:
        made = without_rows()
        counted(made.start)
        return Deferred(lambda: made)
    wide = cupy.empty((size, most), dtype=np.int32), cupy.empty((size, most))
    rows = RowKernels(FILE, name, size, columns, mean, terms, most)
    entries = rows.count((rows.start[1:], np.int32(most), *wide, *arguments), counted)

    def compressed() -> Csr:
        out = unfilled(rows.start, entries())
        for_each(FILE, "compress", size * most, *wide, rows.start, np.int64(size), np.int32(most), *out[1:])
        return out

    return Deferred(compressed)
