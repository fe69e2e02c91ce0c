"""The cut of a grid for a number of workers, and the owners of its chunks."""

import math
from bisect import bisect
from collections.abc import Sequence
from itertools import product
from typing import Final

from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition

THIN: Final = 16  # planes of a slab, at least: of thinner ones the layers that neighbors read are more than an eighth


def chunks_for(grid: Triple, workers: int, divisor: int = 1, *, slabs: bool = False) -> Triple:
    """A cut with one chunk for each worker: of any extents, or of equal ones that a divisor divides.

    slabs: whether it is across z, unless a slab had fewer than `THIN` planes. InputError: no multiple of the divisor.
    """
    if slabs and grid[2] >= THIN * workers:
        return (1, 1, workers)
    return balanced_cut(grid, workers) if divisor == 1 else cut_for(grid, workers, divisor)


def cut_for(grid: Triple, count: int, divisor: int) -> Triple:
    """Chunks along x, y, z for a number of workers: the cut with the smallest surface between chunks.

    Every extent is divisible by the divisor. When no cut into exactly `count` such chunks exists, fewer are made.
    InputError: the grid itself is not divisible.
    """
    if any(n % divisor for n in grid):
        raise InputError(
            f"the grid {grid} cannot be cut into chunks whose every extent is divisible by {divisor}: choose sizes "
            f"that are multiples of {divisor}"
        )
    along_x, along_y, along_z = (_divisors(n // divisor, count) for n in grid)
    cuts = [(x, y, z) for x, y, z in product(along_x, along_y, along_z) if x * y * z <= count]
    return min(cuts, key=lambda cut: (-math.prod(cut), _surface(cut, grid), cut))


def balanced_cut(grid: Triple, count: int) -> Triple:
    """Chunks along x, y, z of any grid for a number of workers, as equal as can be.

    The largest chunk decides how long an iteration takes, so it is made as small as possible, with the layers of its
    neighbors' points that it reads; then the surface between all chunks. There are fewer chunks than workers where more
    would not help.
    """
    along_x, along_y, along_z = (_counts(n, count) for n in grid)
    cuts = [
        (x, y, z)
        for x, y in product(along_x, along_y)
        if x * y <= count
        for z in {1, min(2, count // (x * y)), along_z[bisect(along_z, count // (x * y)) - 1]}
    ]
    return min(cuts, key=lambda cut: (_largest(cut, grid), _surface(cut, grid), cut))


def owners_of(partition: Partition, workers: Sequence[str], places: Sequence[str] = ()) -> tuple[str, ...]:
    """The worker that owns each chunk: consecutive chunks to the same worker, as evenly as can be.

    Chunks are numbered x fastest, so a worker's chunks are neighbors, and workers that follow each other in rank order
    (same host first) share the largest faces. Where chunks have places already, these own them, while all of them are
    among the workers.
    """
    if places and set(places) <= set(workers):
        return tuple(places)
    count = len(partition)
    used = workers[:count]
    return tuple(used[number * len(used) // count] for number in range(count)) if used else ()


def _divisors(n: int, most: int) -> list[int]:
    return [p for p in range(1, min(n, most) + 1) if n % p == 0]


def _counts(n: int, most: int) -> list[int]:
    """Numbers of chunks along an axis, at most so many and one beyond; the smallest with as large a chunk."""
    counts, p = [1], 1
    while p < min(n, most + 1):
        extent = -(-n // p)
        p = -(-n // (extent - 1))  # the first whose largest chunk is smaller
        counts.append(p)
    return counts


def _largest(cut: Triple, grid: Triple) -> int:
    """Points of the largest chunk and its halo."""
    x, y, z = (-(-n // p) + min(p - 1, 2) for p, n in zip(cut, grid, strict=True))
    return x * y * z


def _surface(cut: Triple, grid: Triple) -> int:
    (px, py, pz), (nx, ny, nz) = cut, grid
    return (px - 1) * ny * nz + (py - 1) * nx * nz + (pz - 1) * nx * ny
