"""Coarsening of a chunk of a lattice: what interpolation and Galerkin kernels know of the grid around them.

Along a coarsened axis the coarse points are the odd ones of the whole grid, i = 2 I + 1, so n points become n // 2
and an even point lies between two coarse ones. On a periodic axis of odd extent the points n - 1 and 0 would both be
between; there the last point is coarse, too: I = n // 2, and n points become (n + 1) // 2. All else is as if it lay
at 2 I + 1.

The weight of a coarse point in the interpolation to fine point i is kept by corners: corner (a, b, c), each 0 or 1, has
number a + 2 b + 4 c and stands for coarse point ((i - 1) // 2 + a, ...) along coarsened axes, and for the point's own
index along the others, where only 0 is used.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

I32 = npt.NDArray[np.int32]
Triple = tuple[int, int, int]

GHOST = 2
"""Ghost layers on every side of the arrays that the kernels read: a chunk's coarse points reach that far through R, A
and P, and the interpolation there needs no row beyond."""

OUTSIDE, FIRST, SECOND, BETWEEN = -1, 0, 1, 2
"""Kinds of a point along one axis: not in the domain, the coarse point of its corner 0 or 1, or between both."""

LOWER, UPPER = 1, 2  # bits: a point's neighbor below or above along an axis is in the domain

CORNERS: tuple[Triple, ...] = tuple((a, b, c) for c, b, a in product((0, 1), repeat=3))
COARSE_OFFSETS: tuple[Triple, ...] = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
"""The offsets of a coarse row's entries, in the order of their weights."""
NEGLIGIBLE = 1e-13  # sums of weights below this part of their absolute values are rounding: nothing is divided by them


class Axis(NamedTuple):
    """One axis of a chunk with its ghost layers, a number for each of its n + 2 GHOST places."""

    kind: I32  # int32, `OUTSIDE`, `FIRST`, `SECOND` or `BETWEEN`
    base: I32  # int32, the coarse point of corner 0, counted from the chunk's first own coarse point
    open: I32  # int32, `LOWER` and `UPPER`
    reach: int  # how far the fine points that read a coarse point are from it: 1, or 0 if the axis is not coarsened
    first: int  # place of own coarse point 0 (of fine point 2 I + 1); that of point I is first + factor * I
    folded: bool  # the coarse grid is one point that is its own neighbor


@dataclass(frozen=True, kw_only=True)
class Coarsening:
    """A chunk's box in a level and how the level is coarsened.

    ValueError: a factor is neither 1 nor 2, or an axis of one point is coarsened.
    """

    lo: Triple
    shape: Triple
    grid: Triple
    periodic: tuple[bool, bool, bool]  # which axes are periodic
    factors: Triple  # 2 for axes that are coarsened, 1 for the others. An axis of one point cannot be coarsened.

    def __post_init__(self) -> None:
        for n, factor in zip(self.grid, self.factors, strict=True):
            if factor not in (1, 2) or (factor == 2 and n == 1):
                raise ValueError(f"a grid of {self.grid} points cannot be coarsened by factors {self.factors}")

    @cached_property
    def ghosted(self) -> Triple:
        """Extent along z, y, x of the arrays with ghost layers, as NumPy wants it."""
        x, y, z = (n + 2 * GHOST for n in self.shape)
        return z, y, x

    @cached_property
    def coarse_lo(self) -> Triple:
        """The chunk's first coarse point in the coarse grid."""
        return _three(self._coarse(axis, self.lo[axis]) for axis in range(3))

    @cached_property
    def coarse_shape(self) -> Triple:
        """Extent of the chunk's coarse points; an axis may have none."""
        ends = (self._coarse(axis, self.lo[axis] + self.shape[axis]) for axis in range(3))
        return _three(end - lo for end, lo in zip(ends, self.coarse_lo, strict=True))

    @cached_property
    def coarse_grid(self) -> Triple:
        """Points of the whole coarse level."""
        return _three(self._coarse(axis, self.grid[axis]) for axis in range(3))

    @cached_property
    def halved(self) -> bool:
        """Whether every axis is coarsened and every second point coarse, also across the seam of a periodic axis."""
        whole = zip(self.grid, self.periodic, self.factors, strict=True)
        return all(factor == 2 and not (periodic and (n % 2 or n == 2)) for n, periodic, factor in whole)

    def _coarse(self, axis: int, end: int) -> int:
        """Number of coarse points before a point of the grid, or its end."""
        if self.factors[axis] == 1:
            return end
        n = self.grid[axis]
        return (n + 1) // 2 if self.periodic[axis] and end == n else end // 2

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """The kernels' parameters of x, y and z, which are not to be written to."""
        return _axes(self)

    def along(self, axis: int) -> Axis:
        """The kernels' parameters of an axis."""
        n, periodic, factor, lo = self.grid[axis], self.periodic[axis], self.factors[axis], self.lo[axis]
        place = np.arange(lo - GHOST, lo + self.shape[axis] + GHOST)
        inside = np.full(len(place), True) if periodic else (place >= 0) & (place < n)
        turn = place // n if periodic else np.zeros_like(place)
        point = place - turn * n
        if factor == 1:
            kind, base = np.full_like(place, FIRST), place
        else:
            kind = np.where(point % 2, FIRST, BETWEEN)
            if periodic and n % 2:
                kind[point == n - 1] = SECOND
            base = (point - 1) // 2 + turn * self.coarse_grid[axis]
        return Axis(
            kind=np.where(inside, kind, OUTSIDE).astype(np.int32),
            base=(base - self.coarse_lo[axis]).astype(np.int32),
            open=(LOWER * (periodic | (place > 0)) + UPPER * (periodic | (place < n - 1))).astype(np.int32),
            reach=factor - 1,
            first=GHOST + (1 - lo % 2 if factor == 2 else 0),
            folded=periodic and self.coarse_grid[axis] == 1,
        )


@lru_cache(maxsize=256)
def _axes(coarsening: Coarsening) -> tuple[Axis, Axis, Axis]:
    """See `Coarsening.axes`: every set-up of a grid asks for the same ones."""
    x, y, z = (coarsening.along(axis) for axis in range(3))
    return x, y, z


@lru_cache(maxsize=64)
def offsets_below(factors: Triple, offsets: tuple[Triple, ...]) -> tuple[Triple, ...]:
    """The offsets of the rows of PᵀAP, in the order of `COARSE_OFFSETS`, for rows with these offsets.

    A step along an axis that is not coarsened stays what it is, and one along a coarsened axis leads to the coarse
    point itself and the next one in its direction. So PᵀAP of a star that is coarsened along z has 15 entries, none of
    them at a corner in the plane of x and y. The other 12 would be zero.
    """

    def along(step: int, factor: int) -> tuple[int, ...]:
        return (step,) if factor == 1 else (0, step) if step else (-1, 0, 1)

    reached = {c for o in offsets for c in product(*(along(step, f) for step, f in zip(o, factors, strict=True)))}
    return tuple(o for o in COARSE_OFFSETS if o in reached)


def lattice_weights(coarsening: Coarsening, offsets: tuple[Triple, ...], weights: Array) -> Array:
    """The weights as (K, nz + 2 GHOST, ...), or (K, 1, 1, 1) for a constant stencil. ValueError: not as many."""
    where = (1, 1, 1) if weights.ndim == 1 else coarsening.ghosted
    if weights.size != len(offsets) * int(np.prod(where)):
        raise ValueError(f"{weights.shape} weights for {len(offsets)} offsets on {coarsening.ghosted} points")
    return weights.reshape(len(offsets), *where)


def _three(items: Any) -> Triple:
    x, y, z = items
    return x, y, z
