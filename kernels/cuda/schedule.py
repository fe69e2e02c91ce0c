"""In which order the slices of a half sweep are launched.

Rows of one color do not read each other, and a color reads only colors before it in the walk. So one launch a color,
one after the other, is always right; but if x is larger than the L2 cache, every color reads the x of all colors before
it from memory again: at 256^3 that makes 5.15 GB of the 4.47 GB that a pre-smoother must move.

A large chunk is therefore cut into slabs across the colors, and a slab runs through all its colors before the next but
one begins: x of two slabs stays in L2 (4.5 GB). A slab's boundary is shifted from color to color so that no slice reads
a slab after its own. The even and the odd slabs are two chains of launches on two streams: while the last blocks of one
launch finish, blocks of the other chain fill the device. With one chain, the launches cost what the cache saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.layout import SLICE, Array, Layout, Slices

WIDEST = {8: 4, 4: 8}
"""Most warps of a block that multiplies, by bytes of a value, as slices.cuh says too. Of doubles, sweeps with 8 were 3
% slower, with 16 10 %; of floats, 8 made a V-cycle 0.6 % faster, a level of 64^3 14 %."""
WARPS_TO_FILL = 16
"""Below this many warps a multiprocessor, blocks become narrower: a small level must reach every one of them first."""
CHAINS = 2
SLAB_SHARE = 0.27
"""Share of L2 that x of one slab takes. Measured at 256^3 on an H200: 1.19 ms; half of it 1.30, double 1.26."""
MOST_COLORS = 64
"""Beyond, as in natural order, a color is a thin front already and what it reads is in L2."""

Launch = tuple[tuple[int], tuple[int], tuple[Any, ...]]
"""Grid, block and the last arguments of a kernel."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One launch of a half sweep.

    Attributes:
        launch: the launch.
        chain: which chain it belongs to; launches of a chain run in order.
        after: number of a unit of the other chain that must have run, or None.
        awaited: whether a unit of the other chain waits for this one.
    """

    launch: Launch
    chain: int = 0
    after: int | None = None
    awaited: bool = False


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The launches of a half sweep, in an order in which they may also run one after the other."""

    units: tuple[Unit, ...]

    @property
    def chains(self) -> int:
        """Number of chains."""
        return 1 + max((unit.chain for unit in self.units), default=0)


def warps(count: int, itemsize: int = 8) -> tuple[tuple[int], tuple[int]]:
    """Grid and block for a number of warps, at least one, that work on values of so many bytes."""
    widest = WIDEST[itemsize]
    width, enough = widest, WARPS_TO_FILL * _property("multiProcessorCount")
    while width > 1 and count < enough // widest * width:
        width //= 2
    return (-(-count // width),), (width * SLICE,)


def color_launch(first: int, last: int, itemsize: int, *, reverse: bool) -> Launch:
    """A launch over slices [first, last) of a matrix, front to back or back to front."""
    start, step = (last - 1, -1) if reverse else (first, 1)
    return *warps(last - first, itemsize), (np.int32(start), np.int32(step), np.int32(last - first))


def slabs_of(layout: Layout, itemsize: int) -> int:
    """How many slabs a chunk is cut into: an even number, or one where x fits in L2 or colors are many.

    Args:
        layout: the rows.
        itemsize: bytes of an item of x.
    """
    size, cache = layout.size * itemsize, _property("l2CacheSize")
    if size <= cache or layout.colors > MOST_COLORS:
        return 1
    return max(1, CHAINS * round(size / (CHAINS * SLAB_SHARE * cache)))


def sweeps(layout: Layout, has_upper: npt.NDArray[np.bool_], entries: Array, local: Slices) -> tuple[Sweep, Sweep]:
    """The forward and the backward half sweep.

    Colors without rows are left out, and going back those without upper entries: they would change nothing.

    Args:
        layout: the rows.
        has_upper: bool (colors,), whether a color has upper entries.
        entries: the slices in storage order, as `Entries` of slices.cuh.
        local: the slices.
    """
    ranges = [(int(first) - 1, int(last) - 1) for first, last in pairwise(layout.color_slices)]
    forward = [c for c, (first, last) in enumerate(ranges) if first < last]
    backward = [c for c in reversed(forward) if has_upper[c]]
    itemsize = int(local.values.itemsize)
    slabs = slabs_of(layout, itemsize)
    if slabs == 1:
        return _plain(forward, ranges, itemsize), _plain(backward, ranges, itemsize)
    return (
        _in_slabs(forward, ranges, _cuts(layout, forward, slabs, entries, local, back=False), itemsize, back=False),
        _in_slabs(backward, ranges, _cuts(layout, backward, slabs, entries, local, back=True), itemsize, back=True),
    )


def _plain(colors: Sequence[int], ranges: list[tuple[int, int]], itemsize: int) -> Sweep:
    """One launch a color.

    Neighboring colors walk in opposite directions, so that each launch starts where the one before it ended, in what
    L2 still holds.
    """
    return Sweep(units=tuple(Unit(launch=color_launch(*ranges[c], itemsize, reverse=c % 2 == 1)) for c in colors))


def _in_slabs(
    colors: Sequence[int], ranges: list[tuple[int, int]], cuts: npt.NDArray[np.int64], itemsize: int, *, back: bool
) -> Sweep:
    """Two slabs at a time, color after color; cuts[i, j] is where slab j of the i-th color begins in the walk."""
    slabs = cuts.shape[1] - 1
    units: list[Unit] = []
    newest: dict[tuple[int, int], int | None] = {}  # (slab, i): the last unit of the slab's chain up to there
    last: list[int | None] = [None] * CHAINS
    for begin in range(0, slabs, CHAINS):
        for i, color in enumerate(colors):
            for slab in range(begin, min(begin + CHAINS, slabs)):
                chain, (low, high) = slab % CHAINS, cuts[i, slab : slab + 2]
                if low < high:
                    first, end = ranges[color]
                    span = (end - int(high), end - int(low)) if back else (first + int(low), first + int(high))
                    launch = color_launch(*span, itemsize, reverse=(color % 2 == 1) != back)
                    units.append(Unit(launch=launch, chain=chain, after=newest.get((slab - 1, i - 1))))
                    last[chain] = len(units) - 1
                newest[slab, i] = last[chain]
    awaited = {unit.after for unit in units}
    return Sweep(
        units=tuple(
            Unit(launch=unit.launch, chain=unit.chain, after=unit.after, awaited=number in awaited)
            for number, unit in enumerate(units)
        )
    )


def _cuts(
    layout: Layout, colors: Sequence[int], slabs: int, entries: Array, local: Slices, *, back: bool
) -> npt.NDArray[np.int64]:
    """Where each slab begins in the walk through each color's slices: int64 (colors, slabs + 1).

    A slice belongs to the slab where its first row lies in the lattice, or to the last slab that it reads, or that a
    slice before it in the walk belongs to. Then slab j of a color reads slabs 0 to j of the colors before it.
    """
    count = len(entries)
    slab = cupy.empty(count, dtype=np.int32)
    begins = cupy.full((len(colors), slabs), count, dtype=np.int32)
    dtype = local.values.dtype.name
    kernel("assembly.cu", "lattice_slabs", dtype)(
        *warps(-(-count // SLICE)),
        (layout.row, slab, np.int32(count), np.int64(layout.rows), np.int32(slabs), np.int32(back)),
    )
    lengths = []
    for i, color in enumerate(colors):
        first, last = (int(s) - 1 for s in layout.color_slices[color : color + 2])
        walk = (np.int32(last - 1 if back else first), np.int32(-1 if back else 1), np.int32(last - first))
        kernel("assembly.cu", "reached_slabs", dtype)(
            *warps(last - first),
            (entries, local.values, local.columns, slab, begins[i], np.int32(count), np.int32(back), *walk),
        )
        kernel("assembly.cu", "settle_slabs", dtype)(
            *warps(-(-(last - first) // SLICE)), (slab, begins[i], np.int32(slabs), *walk)
        )
        lengths.append(last - first)
    length = np.array(lengths, dtype=np.int64)[:, None]
    found = np.minimum(cupy.asnumpy(begins).astype(np.int64), length)
    found = np.minimum.accumulate(found[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([found, length], axis=1)


def _property(name: str) -> int:
    return int(_properties(cupy.cuda.runtime.getDevice())[name])


_known: dict[int, Any] = {}


def _properties(device: int) -> Any:
    if device not in _known:
        _known[device] = cupy.cuda.runtime.getDeviceProperties(device)
    return _known[device]
