"""R A P on a GPU, with a single wait after the size of its rows was guessed.

A P has no begins of rows that anybody would wait for: its rows stay in rooms of equal size, where the second product
reads them. The rows of R A P are sorted from their rooms to their places.
"""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.amg.mirrors import (
    begun_transpose,
    fill_lost,
    mirror,
    mirrored_means,
    sort_rooms,
    transposed,
)
from dsolver.kernels.cuda.amg.products import expected_of, in_rooms, mean_of, move, product
from dsolver.kernels.cuda.amg.stages import COUNTERS, Rooms, Stages
from dsolver.kernels.cuda.csr.starts import starts_of
from dsolver.kernels.cuda.launch.told import counters, told
from dsolver.kernels.formats.csr import Csr

PASSED: Final = COUNTERS // 2
"""Numbers of 8 bytes that hold the counters of stages."""


def galerkin(a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False) -> tuple[Csr, Csr, int]:
    """See `dsolver.kernels.amg.setup.AlgebraicSetup.galerkin`."""
    if made := _in_rooms(a, p, columns, diagonal, symmetric):
        # Where entries of A have mirror images, so have those of R A P: nobody counts those without.
        return *made, 0
    r = transposed(p, columns)
    coarse = product(r, product(a, p, columns, ascending=False), columns, ascending=False)
    fill_lost(coarse, 0, r, diagonal)
    return (r, *mirrored_means(coarse)) if symmetric else (r, coarse, 0)


def _in_rooms(a: Csr, p: Csr, columns: int, diagonal: Any, symmetric: bool) -> tuple[Csr, Csr] | None:
    """R and R A P, whose columns ascend where it is symmetric; None where rows found no room."""
    if not len(p.columns):
        return None
    known = counters(1 + 3 * PASSED)  # entries of R A P, and rows that stages have passed on
    of_ap, of_coarse, of_r = (known[1:].view(np.int32)[n * COUNTERS : (n + 1) * COUNTERS] for n in range(3))
    stages = Stages(columns, of_r)
    r = begun_transpose(p, columns, stages)
    first = expected_of(a, Rooms(*p), mean_of(p))
    ap = in_rooms(a, Rooms(*p), mean_of(p), first, Stages(a.size, of_ap))
    if ap is None:
        return None
    second = expected_of(r, ap, first.mean)
    rooms = in_rooms(r, ap, first.mean, second, Stages(columns, of_coarse))
    if rooms is None:
        return None
    start = starts_of(rooms.lengths, known)
    found = told(known, patiently=True)
    passed = found[1:].view(np.int32).reshape(3, COUNTERS)
    if passed[0, 1] or passed[1, 1] or passed[2, stages.last]:
        return None
    coarse = Csr(start, cupy.empty(int(found[0]), dtype=np.int32), cupy.empty(int(found[0])))
    if symmetric:
        sort_rooms(rooms, coarse)
    else:
        move(rooms, second.mean, coarse)
    fill_lost(coarse, 0, r, diagonal)
    if symmetric:
        mirror(coarse)
    return r, coarse
