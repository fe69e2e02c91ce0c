"""Coarse grids: which points of a partition are on the next coarser level, and in which chunks.

Along a coarsened axis the points with odd 0-based indices are coarse: point i = 2I + 1 is coarse point I. Along a
periodic axis of odd extent the last point is coarse, too. A chunk's coarse points stay where they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, Self

from dsolver.grid.box import Box, Triple, three
from dsolver.grid.partition import Partition

THIN: Final = 2
"""A cut axis keeps chunks of so many points at least; a level with thinner ones lives whole on every owner."""
SMALL_CHUNK: Final = 32**3
SMALL_GRID: Final = 64**3  # a level with so few points lives whole on every owner: halos would cost more than its work


def partition_of(grid: Triple, sizes: Any, periodic: Sequence[bool]) -> Partition:
    """A partition in which axes of one point are not periodic, because a row would read itself."""
    x, y, z = (bool(p) and n > 1 for p, n in zip(periodic, grid, strict=True))
    return Partition(grid, sizes, (x, y, z))


@dataclass(frozen=True, kw_only=True)
class CoarseGrid:
    """The grid of the next coarser level of a partition, with factor 2 along coarsened axes, else 1."""

    factors: Triple
    partition: Partition  # of the coarser level; one chunk where it is replicated
    boxes: tuple[Box, ...]  # the coarse points of each fine chunk; of a replicated level they may be empty
    replicated: bool  # whether the level lives whole on every owner while the finer one is distributed

    @classmethod
    def of(cls, fine: Partition, factors: Triple) -> Self:
        """The level below a partition."""
        partition, replicated = coarser(fine, factors)
        return cls._of(fine, factors, _cuts_below(fine, factors), partition, replicated=replicated)

    @classmethod
    def same(cls, fine: Partition) -> Self:
        """All points of a partition, whole on every owner."""
        return cls._of(fine, (1, 1, 1), _cuts(fine), partition_of(fine.grid, (1, 1, 1), fine.periodic), replicated=True)

    @classmethod
    def _of(
        cls, fine: Partition, factors: Triple, cuts: Sequence[Sequence[int]], partition: Partition, *, replicated: bool
    ) -> Self:
        boxes = []
        for number in range(len(fine)):
            along = list(zip(cuts, fine.place(number), strict=True))
            boxes.append(Box(lo=three("lo", (c[i] for c, i in along)), hi=three("hi", (c[i + 1] for c, i in along))))
        return cls(factors=factors, partition=partition, boxes=tuple(boxes), replicated=replicated)


def coarser(fine: Partition, factors: Triple) -> tuple[Partition, bool]:
    """The level below a partition, and whether it is replicated; see `CoarseGrid`."""
    cuts = _cuts_below(fine, factors)
    grid = three("grid", (c[-1] for c in cuts))
    sizes = [tuple(b - a for a, b in pairwise(c)) for c in cuts]
    replicated = len(fine) > 1 and _whole(grid, sizes)
    return partition_of(grid, (1, 1, 1) if replicated else tuple(sizes), fine.periodic), replicated


def _cuts_below(fine: Partition, factors: Triple) -> list[list[int]]:
    return [_halved(*along) for along in zip(_cuts(fine), factors, fine.periodic, strict=True)]


def _cuts(partition: Partition) -> list[tuple[int, ...]]:
    return [(0, *accumulate(sizes)) for sizes in partition.sizes]


def _halved(cuts: tuple[int, ...], factor: int, periodic: bool) -> list[int]:
    """The ends of the chunks' coarse points along an axis."""
    if factor == 1:
        return list(cuts)
    halved = [c // 2 for c in cuts]
    if periodic:
        halved[-1] = (cuts[-1] + 1) // 2
    return halved


def _whole(grid: Triple, sizes: list[tuple[int, ...]]) -> bool:
    """Whether a level should live whole on every owner."""
    thin = any(len(along) > 1 and min(along) < THIN for along in sizes)
    largest = max(sizes[0]) * max(sizes[1]) * max(sizes[2])
    return thin or (largest <= SMALL_CHUNK and grid[0] * grid[1] * grid[2] <= SMALL_GRID)
