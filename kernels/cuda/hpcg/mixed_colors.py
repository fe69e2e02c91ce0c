"""Half sweeps of float32 whose launches have slices of all colors.

A launch of one color is as long as what that color waits for: with two entry columns a warp has hardly anything on its
way. Here launch 2 i + k of a half sweep has slab k of color i, of all colors together, a few slices of each in turn, so
that all launches are alike. What a slice reads belongs to launches before the last one, so that neighboring launches
may run side by side, in two chains as in launch/schedule.py, whose slabs these are.

Between the first and the last color of a slab there are launches with x of 2 (colors - 1) slabs, which L2 must keep: of
256^3 points in float32 32 slabs are enough, and a pre-smoother takes 5 % less on an H200. Of doubles it takes more than
50, and as many launches cost what they bring; their kernels do not read the order either (OWN_ITEM in passes.cuh).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.config import CONFIGS
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import (
    CHAINS,
    MOST_COLORS,
    Color,
    HalfSweep,
    HalfSweepCuts,
    SweepLaunch,
    color_launch,
    cuts_of,
    device_property,
)
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.sell import Slices

THREADS = 128
MIXED_BYTES = 4
"""Bytes of a value for which there are mixed launches: kernels of others go through the slices in storage order."""
MOST_LAUNCHES = 2048
"""Launches that a key of mixed_order in assembly.cu can tell apart."""


def plan(
    layout: Layout, headers: Array, local: Slices, halves: tuple[HalfSweepCuts, HalfSweepCuts]
) -> tuple[HalfSweep, HalfSweep] | None:
    """Mixed launches of the forward half sweep, and of the backward one where it changes x; None if `slabs_of` is 0."""
    slabs = slabs_of(layout, int(local.values.itemsize))
    if not slabs:
        return None

    def sweep(half: HalfSweepCuts) -> HalfSweep:
        colors = [color for color in half.colors if color.columns > 0 or not half.back]
        if not colors:
            return HalfSweep(units=(), headers=headers[:0])
        cuts = cuts_of(layout, colors, slabs, headers, local, back=half.back)
        return replace(_launched(cuts, half.itemsize), headers=headers[_ordered(colors, cuts, back=half.back)])

    forward, backward = halves
    return sweep(forward), sweep(backward)


def slabs_of(layout: Layout, itemsize: int) -> int:
    """Number of slabs of a chunk; 0 where x fits in L2, or mixed launches are not chosen."""
    size, cache = layout.size * itemsize, device_property("l2CacheSize")
    share = CONFIGS[itemsize].mixed_share if itemsize == MIXED_BYTES else 0.0
    if share == 0.0 or size <= cache or not 1 < layout.colors <= MOST_COLORS:
        return 0
    between = CHAINS * (layout.colors - 1)
    return min(max(1, round(between * size / (share * cache))), MOST_LAUNCHES - between)


def _launched(cuts: npt.NDArray[np.int64], itemsize: int) -> HalfSweep:
    """Launches: CHAINS * i + k has slab k of color i; cuts[i, k] is where that begins in the walk through the color.

    Slab k of a color needs slabs up to k of the colors before it: launches up to the last but one. That one is in the
    same chain; of the other chain, the last but one of its launches must have run.
    """
    colors, slabs = cuts.shape[0], cuts.shape[1] - 1
    counts = np.zeros(CHAINS * (colors - 1) + slabs, dtype=np.int64)
    for i, lengths in enumerate(np.diff(cuts)):
        counts[CHAINS * i : CHAINS * i + slabs] += lengths
    units: list[SweepLaunch] = []
    newest: dict[int, int | None] = {}  # launch number: the last unit of its chain up to there
    begin = 0
    for number, count in enumerate(counts.tolist()):
        newest[number] = newest.get(number - CHAINS)
        if count:
            newest[number] = len(units)
            launch = color_launch(begin, begin + count, itemsize, reverse=False)
            units.append(SweepLaunch(launch=launch, chain=number % CHAINS, after=newest.get(number - CHAINS - 1)))
            begin += count
    awaited = {unit.after for unit in units}
    return HalfSweep(units=tuple(replace(unit, awaited=number in awaited) for number, unit in enumerate(units)))


def _ordered(colors: Sequence[Color], cuts: npt.NDArray[np.int64], *, back: bool) -> Array:
    """Numbers of the slices of all launches, one launch after the other: int32."""
    lengths = cuts[:, -1]
    count = int(lengths.sum())
    starts = [color.last - 1 if back else color.first for color in colors]
    described = np.stack([starts, np.cumsum(lengths) - lengths], axis=1)
    key, slices = cupy.empty(count, dtype=np.int32), cupy.empty(count, dtype=np.int32)
    numbers = (np.int32(n) for n in (len(colors), cuts.shape[1] - 1, CHAINS, -1 if back else 1, count))
    tables = (table(values.astype(np.int32)) for values in (described, cuts))
    grid = (-(-count // THREADS),)
    kernel("hpcg/assembly.cu", "mixed_order", "float64")(grid, (THREADS,), (*tables, *numbers, key, slices))
    return slices[cupy.argsort(key, kind="stable")]
