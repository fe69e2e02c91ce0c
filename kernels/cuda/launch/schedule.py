"""Launches of a half sweep: slices color after color, or in slabs across the colors.

Rows of one color do not read each other, and a color reads only colors before it in the walk. So one launch a color,
one after the other, is always right; but if x is larger than the L2 cache, every color reads the x of all colors before
it from memory again: at 256^3 that makes 5.15 GB of the 4.47 GB that a pre-smoother must move.

A large chunk is therefore cut into slabs across the colors, and a slab runs through all its colors before the next but
one begins: x of two slabs stays in L2 (4.5 GB). A slab's boundary is shifted from color to color so that no slice reads
a slab after its own. The even and the odd slabs are two chains of launches on two streams: while the last blocks of one
launch finish, blocks of the other chain fill the device. With one chain, the launches cost what the cache saves.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.cuda.launch.foresight import foreseen_numbers
from dsolver.kernels.cuda.launch.loader import device_property, kernel
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.formats.sell import Slices


@dataclass(frozen=True, kw_only=True)
class LaunchConfig:
    """Launch configuration of passes over a matrix."""

    # most warps of a block that multiplies, one slice each: 1, 2, 4 or, of float32, 8, the kernels' launch bounds
    # (`WIDEST` in slices.cuh).
    warps: int
    slab_share: float = 0.27  # share of L2 that x of one slab takes where x of a level does not fit there
    cached_slabs: int  # slabs of a large level whose x does fit


CONFIGS = {8: LaunchConfig(warps=4, cached_slabs=2), 4: LaunchConfig(warps=8, cached_slabs=1)}
"""The configuration by bytes of a value. On an H200:

Sweeps of doubles with 8 warps a block were 3 % slower, with 16 10 %; of floats, 8 made a V-cycle 0.6 % faster.

Launches of one chain start early, and of floats all entries are then on their way before the launch before is over: a
float32 V-cycle from 128³ on took 0.311 ms with one slab where x fits in L2, and 0.346 with two.
"""


WARPS_TO_FILL = 16
"""Warps a multiprocessor, below which blocks become narrower: a small level must reach every one of them first."""
CHAINS = 2  # streams that share a half sweep in slabs
MOST_COLUMNS = 2
"""Vectors at most that count when a sweep of several is cut: slabs for the x of eight take 1.2 times as long."""
MOST_COLORS = 64
"""Most colors that are cut: beyond, as in natural order, a color is a thin front and what it reads is in L2."""

Launch = tuple[tuple[int], tuple[int], tuple[Any, ...]]  # grid, block and the last arguments of a kernel


@dataclass(frozen=True, kw_only=True)
class SweepLaunch:
    """One launch of a half sweep."""

    launch: Launch  # with a slice a warp
    chain: int = 0  # which chain it belongs to; launches of a chain run in order
    after: int | None = None  # number of a unit of the other chain that must have run, or None
    awaited: bool = False  # whether a unit of the other chain waits for this one


@dataclass(frozen=True, kw_only=True)
class HalfSweep:
    """The launches of a half sweep, in an order in which they may also run one after the other."""

    units: tuple[SweepLaunch, ...]

    @property
    def chains(self) -> int:
        """Number of chains."""
        return 1 + max((unit.chain for unit in self.units), default=0)


def warps(count: int, itemsize: int = 8) -> tuple[tuple[int], tuple[int]]:
    """Grid and block for a number of warps, at least one, that work on values of so many bytes."""
    widest = CONFIGS[itemsize].warps
    width, enough = widest, WARPS_TO_FILL * device_property("multiProcessorCount")
    while width > 1 and count < enough // widest * width:
        width //= 2
    return (-(-count // width),), (width * SLICE,)


def color_launch(first: int, last: int, itemsize: int, *, reverse: bool) -> Launch:
    """A launch over slices [first, last) of a matrix, front to back or back to front."""
    start, step = (last - 1, -1) if reverse else (first, 1)
    count = last - first
    return *warps(count, itemsize), (np.int32(start), np.int32(step), np.int32(count))


@dataclass(frozen=True, kw_only=True)
class Color:
    """A color of a half sweep: its slices first .. last."""

    number: int
    first: int
    last: int


def slabs_of(layout: Layout, itemsize: int, columns: int = 1) -> int:
    """Number of slabs of a chunk: a multiple of the chains, or one.

    Where x fits in L2, what slabs bring is the other chain: it fills the device while a launch ends. A color must then
    be enough work for both of them.
    """
    size, cache = layout.size * itemsize * min(columns, MOST_COLUMNS), device_property("l2CacheSize")
    if layout.colors > MOST_COLORS:
        return 1
    if size <= cache:
        fill = CHAINS * WARPS_TO_FILL * device_property("multiProcessorCount")
        return CONFIGS[itemsize].cached_slabs if layout.size >= fill * SLICE * layout.colors else 1
    return max(1, CHAINS * round(size / (CHAINS * CONFIGS[itemsize].slab_share * cache)))


@dataclass(frozen=True, kw_only=True)
class HalfSweepCuts:
    """Cuts of a half sweep, from which its launches follow."""

    colors: Sequence[Color]  # in the order of the walk
    # int64 (colors, slabs + 1), where each slab begins in the walk through each color's slices; None for one.
    cuts: npt.NDArray[np.int64] | None
    itemsize: int
    back: bool

    def sweep(self, only: Container[int] | None = None) -> HalfSweep:
        """The launches, of every color or of these numbers alone, as the others read nothing and would change nothing.

        A color that reads nothing reads no slab, so the cuts of the others are the same without it.
        """
        kept = [i for i, color in enumerate(self.colors) if only is None or color.number in only]
        colors = [self.colors[i] for i in kept]
        if self.cuts is None:
            return _plain(colors, self.itemsize)
        return _in_slabs(colors, self.cuts[kept], self.itemsize, back=self.back)


def half_sweeps(
    layout: Layout, headers: Array, local: Slices, *, columns: int = 1
) -> tuple[HalfSweepCuts, HalfSweepCuts]:
    """The forward and the backward half sweep over the colors that have rows, of so many vectors at once."""
    ranges = enumerate(pairwise(layout.color_slices))
    colors = [Color(number=c, first=int(a) - 1, last=int(b) - 1) for c, (a, b) in ranges if a < b]
    itemsize = int(local.values.itemsize)
    slabs = slabs_of(layout, itemsize, columns)

    def half(colors: Sequence[Color], *, back: bool) -> HalfSweepCuts:
        cuts = None if slabs == 1 else cuts_of(layout, colors, slabs, headers, local, back=back)
        return HalfSweepCuts(colors=colors, cuts=cuts, itemsize=itemsize, back=back)

    return half(colors, back=False), half(colors[::-1], back=True)


def _plain(colors: Sequence[Color], itemsize: int) -> HalfSweep:
    """One launch a color.

    Neighboring colors walk in opposite directions, so that each launch starts where the one before it ended, in what
    L2 still holds.
    """
    launches = (color_launch(c.first, c.last, itemsize, reverse=c.number % 2 == 1) for c in colors)
    return HalfSweep(units=tuple(SweepLaunch(launch=launch) for launch in launches))


def _in_slabs(colors: Sequence[Color], cuts: npt.NDArray[np.int64], itemsize: int, *, back: bool) -> HalfSweep:
    """Two slabs at a time, color after color; cuts[i, j] is where slab j of the i-th color begins in the walk."""
    slabs = cuts.shape[1] - 1
    units: list[SweepLaunch] = []
    newest: dict[tuple[int, int], int | None] = {}  # (slab, i): the last unit of the slab's chain up to there
    last: list[int | None] = [None] * CHAINS
    for begin in range(0, slabs, CHAINS):
        for i, color in enumerate(colors):
            for slab in range(begin, min(begin + CHAINS, slabs)):
                chain, (low, high) = slab % CHAINS, cuts[i, slab : slab + 2]
                if low < high:
                    first, end = color.first, color.last
                    span = (end - int(high), end - int(low)) if back else (first + int(low), first + int(high))
                    launch = color_launch(*span, itemsize, reverse=(color.number % 2 == 1) != back)
                    units.append(SweepLaunch(launch=launch, chain=chain, after=newest.get((slab - 1, i - 1))))
                    last[chain] = len(units) - 1
                newest[slab, i] = last[chain]
    awaited = {unit.after for unit in units}
    return HalfSweep(units=tuple(replace(unit, awaited=number in awaited) for number, unit in enumerate(units)))


def cuts_of(
    layout: Layout, colors: Sequence[Color], slabs: int, headers: Array, local: Slices, *, back: bool
) -> npt.NDArray[np.int64]:
    """First item of each slab in the walk through each color's slices: int64 (colors, slabs + 1).

    A slice belongs to the slab where its first row lies in the lattice, or to the last slab that it reads, or that a
    slice before it in the walk belongs to. Then slab j of a color reads slabs 0 to j of the colors before it.
    """
    count = len(headers)
    slab = cupy.empty(count, dtype=np.int32)
    begins = cupy.asarray(np.full((len(colors), slabs), count, dtype=np.int32))
    dtype = local.values.dtype.name
    kernel("sell/assembly/assembly.cu", "lattice_slabs", dtype)(
        *warps(-(-count // SLICE)),
        (layout.row, slab, np.int32(count), np.int64(layout.rows), np.int32(slabs), np.int32(back)),
    )
    lengths = []
    for i, color in enumerate(colors):
        first, last = color.first, color.last
        walk = (np.int32(last - 1 if back else first), np.int32(-1 if back else 1), np.int32(last - first))
        kernel("sell/assembly/assembly.cu", "reached_slabs", dtype)(
            *warps(last - first),
            (headers, local.values, local.columns, slab, begins[i], np.int32(count), np.int32(back), *walk),
        )
        kernel("sell/assembly/assembly.cu", "settle_slabs", dtype)(
            *warps(-(-(last - first) // SLICE)), (slab, begins[i], np.int32(slabs), *walk)
        )
        lengths.append(last - first)
    length = np.array(lengths, dtype=np.int64)[:, None]
    found = np.minimum(foreseen_numbers(begins).astype(np.int64), length)
    found = np.minimum.accumulate(found[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([found, length], axis=1)
