"""Parities: the interpolation between two levels whose rows have eight colors, by the parity of each index.

After a sweep from zero the residual is zero at points of the last color, whose indices are all even, and a sweep in the
opposite order begins with them, whatever was there before: as with corners, restriction does not read them and
prolongation does not correct them. Another point lies between coarse ones along some coarsened axes, or along none, and
which ones follows from its indices. Its weights lie side by side with those of the points of its color, so that R and P
read the same numbers, each of them once, and no columns.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.layout import SLICE, Array, Layout

CLASSES = 8
MOST = 65_535  # points along y and z, at most: blocks of a launch on a GPU
Triple = tuple[int, int, int]
Flags = tuple[bool, bool, bool]


@dataclass(frozen=True, kw_only=True)
class Parities(Format):
    """R and P of one chunk that is the whole grid."""

    layout: Layout  # the storage order of the fine rows
    coarse: Layout  # that of the coarse ones, of the restricted residual and of what is prolonged
    # the weights, class after class, (i & 1) + 2 (j & 1) + 4 (k & 1) from 1 on: for each corner of its points along the
    # axes between coarse points, along the first one fastest, one for each point, up to whole slices. What a point has
    # no corner for is not read, and coarse points have none: see `starts`.
    values: Array
    factors: Triple  # 2 for axes that are coarsened, 1 for the others
    wraps: Flags  # along which axes the grid is periodic


def fits(grid: Triple, periodic: Flags, factors: Triple) -> bool:
    """Whether a chunk that is the whole grid, and its coarse points, have eight colors by parity.

    They have not where two points of equal parity meet around a periodic axis; two coarse points must not be both
    neighbors of a point between on two sides, either.
    """
    for n, wraps, factor in zip(grid, periodic, factors, strict=True):
        if wraps and n > 1 and (n % 2 or (factor == 2 and (n == 2 or n // 2 % 2))):
            return False
    return max(factors) == 2 and max(grid[1:]) <= MOST


@lru_cache(maxsize=256)
def starts(grid: Triple, factors: Triple) -> tuple[int, ...]:
    """First weights of each class, and behind the last one the number of all weights, in slices."""
    found = [0, 0]
    for number in range(1, CLASSES):
        odd = [number >> axis & 1 for axis in range(3)]
        points = math.prod((n + 1 - bit) // 2 for n, bit in zip(grid, odd, strict=True))
        between = sum(factor == 2 and not bit for factor, bit in zip(factors, odd, strict=True))
        found.append(found[-1] + (-(-points // SLICE) << between if between else 0))
    return tuple(found)
