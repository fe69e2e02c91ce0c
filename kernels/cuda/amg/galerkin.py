"""R A P on a GPU: where it is small, from R to the sums without a look at how many entries there are.

A wait for such a number costs the host and the device 50 us each, and a level had seven. So there is room for more
entries than are expected, and whether that was enough is looked at in the end: if a row found no room or is not sorted,
all are made again with waits.
"""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.amg.mirrors import (
    MOST_SORTED,
    begun_transpose,
    fill_lost,
    mirrored,
    mirrored_means,
    transposing,
)
from dsolver.kernels.cuda.amg.products import Expected, ample_of, mean_of, move, product, rooms_of
from dsolver.kernels.cuda.amg.stages import COUNTERS, Stages
from dsolver.kernels.cuda.csr.starts import starts_of
from dsolver.kernels.cuda.launch.told import counters, told
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Array

PASSED: Final = COUNTERS // 2
"""Numbers of 8 bytes that hold the counters of stages."""
MOST_ROOM: Final = 1 << 23
"""Entries for which there is room, 100 MB."""


def galerkin(a: Csr, p: Csr, columns: int, diagonal: Any, *, symmetric: bool = False) -> tuple[Csr, Csr, int]:
    """See `dsolver.kernels.amg.setup.AlgebraicSetup.galerkin`."""
    if made := _without_waits(a, p, columns, diagonal):
        r, coarse, longest = made
        # Where entries of A have mirror images, so have those of R A P: nobody waits for the number of those without.
        return r, (mirrored(coarse, longest) if symmetric else coarse), 0
    r, finish = transposing(p, columns)
    ap = product(a, p, columns, ascending=False, begun=finish)
    coarse = product(r, ap, columns, ascending=False)
    del ap
    fill_lost(coarse, 0, r, diagonal)
    return (r, *mirrored_means(coarse)) if symmetric else (r, coarse, 0)


def _without_waits(a: Csr, p: Csr, columns: int, diagonal: Any) -> tuple[Csr, Csr, int] | None:
    """R, R A P and most entries of its rows, with a single wait; None where they are large, or not as expected."""
    if not len(p.columns):
        return None
    first = ample_of(a.size, mean_of(a) * mean_of(p))
    second = first and ample_of(columns, len(p.columns) / columns * first.mean)
    if first is None or second is None or second.slots > MOST_SORTED:
        return None
    if max(first.most * a.size, second.most * columns) > MOST_ROOM:
        return None
    room = counters(2 + 3 * PASSED)  # entries and rows passed on of A P, of R A P, and rows of R that are not sorted
    ap, _ = _loose(a, p, mean_of(p), first, room[: 1 + PASSED])
    stages = Stages(columns, room[2 + 2 * PASSED :].view(np.int32))
    r = begun_transpose(p, columns, stages)
    coarse, longest = _loose(r, ap, first.mean, second, room[1 + PASSED : 2 + 2 * PASSED])
    fill_lost(coarse, 0, r, diagonal)
    known = told(room, patiently=True)
    counts = known.view(np.int32)
    if counts[2] or counts[4 + COUNTERS] or counts[4 + 2 * COUNTERS + stages.last]:
        return None
    entries = int(known[1 + PASSED])
    return r, Csr(coarse.start, coarse.columns[:entries], coarse.values[:entries]), longest


def _loose(a: Csr, b: Csr, mean: float, expected: Expected, room: Array) -> tuple[Csr, int]:
    """A B in arrays that are longer than its rows together, and most entries of a row; mean: entries of a row of B."""
    lengths = cupy.empty(a.size, dtype=np.int64)
    columns, values = rooms_of(a, b, mean, expected, False, Stages(a.size, room[1:].view(np.int32)), lengths)
    start = starts_of(lengths, room)
    out = Csr(start, cupy.empty(columns.size, dtype=np.int32), cupy.empty(columns.size))
    move(columns, values, expected.mean, out)
    return out, columns.shape[1]
