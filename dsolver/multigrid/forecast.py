"""Forecast of the levels of `dsolver.multigrid.hierarchy` in one chunk, from its shape."""

import math
from functools import lru_cache
from typing import Final

from dsolver.distributed.forecast import (
    CUDA_SLICE_BYTES,
    I32,
    SLICE_BYTES,
    MatrixForecast,
    Part,
    stencil_counts,
)
from dsolver.distributed.slice_counts import Colors
from dsolver.grid.box import BOX_OFFSETS, Flags, Triple
from dsolver.grid.coarse_grid import coarser, partition_of
from dsolver.grid.halo import Sizes
from dsolver.grid.partition import Partition
from dsolver.kernels import DENSE_ROWS
from dsolver.kernels.formats.checkered.parities import fits as fit_parities
from dsolver.kernels.formats.checkered.parities import starts
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.lattice.star import COARSE_LAYERS, LAYERS
from dsolver.multigrid.geometric.constant_star import fits
from dsolver.multigrid.geometric.star_layers import layer_offsets
from dsolver.problems.finite_volumes import Diffusion

MIXED_CLASSES: Final = {Colors.RED_BLACK: 1.26, Colors.LATTICE: 4 / 3}
"""Entries of P with the padding of slices that hold rows of several classes, over those without."""

Descent = tuple[tuple[Partition, Triple | None, bool], ...]
"""Each level's partition, the factors to the next one (None on the coarsest), and whether that is replicated."""


def levels_of(part: Part, sweeps: int | None = None) -> list[MatrixForecast]:
    """The levels, finest first, coarsened along every axis. Along fewer they are more, and larger by a sixth."""
    first, offsets, number = part.partition, part.problem.offsets, part.number
    levels: list[MatrixForecast] = []
    whole = False
    for partition, factors, replicated in _descent(first.grid, first.sizes, first.periodic, cuda=part.cuda):
        odd = any(p and n % 2 for p, n in zip(partition.periodic, partition.grid, strict=True))
        colors = Colors.RED_BLACK if len(offsets) <= 7 and not odd else Colors.PARITY
        if not levels and part.constant:
            colors = Colors.LATTICE
        faces = not levels and colors is Colors.RED_BLACK and has_faces(part)
        level = MatrixForecast(part, stencil_counts(partition, number, offsets, colors, faces=faces))
        if factors is None:
            level.way = part.value * partition.domain.points**2
        elif _in_place(part, partition, factors, finest=not levels) and not replicated:
            level.way, level.shared = part.value * SLICE * starts(partition.grid, factors)[-1], True
        elif not levels and has_corners(part, sweeps):
            coarse = level.rows // math.prod(factors)
            level.way, level.shared = 2 * part.value * level.rows + 5 * I32 * coarse, True
        else:
            level.way = _way(part, level, partition[number].box.shape, factors, colors, star=is_star(part, levels))
        if whole and not part.first:
            level.clear()
        levels.append(level)
        offsets, number, whole = BOX_OFFSETS, 0 if replicated else number, whole or replicated
    return levels


def is_star(part: Part, finer: list[MatrixForecast]) -> bool:
    """Whether the level below some finer ones is a constant star, whose way down is not stored either."""
    return not finer and part.constant and len(part.problem.offsets) <= 7 and fits(part.partition)


def has_faces(part: Part) -> bool:
    """Whether a finest level in two colors is stored as `checkered.faces`; R and P may have corners: `has_corners`."""
    problem = part.problem
    even = part.partition[part.number].box.shape[0] % 2 == 0
    return part.cuda and even and isinstance(problem.rule, Diffusion) and not (problem.masked or part.constant)


def has_corners(part: Part, sweeps: int | None) -> bool:
    """Whether R and P of a finest level of faces are known to have corners alone: where it is swept once.

    Without a number of sweeps that depends on the coefficients, and the slices of rough ones take more.
    """
    return sweeps == 1 and len(part.partition) == 1 and has_faces(part) and not _odd_around(part.partition)


def _odd_around(partition: Partition) -> bool:
    """Whether two points of equal parity meet around a periodic axis."""
    return any(wraps and n % 2 for n, wraps in zip(partition.grid, partition.periodic, strict=True))


def _in_place(part: Part, partition: Partition, factors: Triple, *, finest: bool) -> bool:
    """Whether a transfer has parities, see `dsolver.kernels.formats.checkered.parities`."""
    alone = part.cuda and not finest and len(partition) == 1
    return alone and fit_parities(partition.grid, partition.periodic, factors)


def exchanged(part: Part, levels: list[MatrixForecast]) -> list[int]:
    """Slots of every halo that a cycle fills: three for a level, or two of a star, for itself and its way down."""
    slots = [level.slots for level in levels[:-1] for _ in range(3)]
    if not slots or not is_star(part, []):
        return slots
    first = part.partition
    (_, _, replicated), (below, *_), *_ = _descent(first.grid, first.sizes, first.periodic, cuda=part.cuda)
    return [
        _around(first, part.number, LAYERS),
        0 if replicated else _around(below, part.number, COARSE_LAYERS),
        *slots[3:],
    ]


@lru_cache(maxsize=4)
def _descent(grid: Triple, sizes: Sizes, periodic: Flags, *, cuda: bool) -> Descent:
    partition = partition_of(grid, sizes, periodic)
    descent: list[tuple[Partition, Triple | None, bool]] = []
    while len(partition) > 1 or partition.domain.points > DENSE_ROWS["cuda" if cuda else "cpu"]:
        x, y, z = (2 if n > 1 else 1 for n in partition.grid)
        below, replicated = coarser(partition, (x, y, z))
        descent.append((partition, (x, y, z), replicated))
        partition = below
    return (*descent, (partition, None, False))


def _around(partition: Partition, number: int, layers: tuple[int, int]) -> int:
    """Points in so many layers around a chunk."""
    return sum(piece.box.points for piece in partition.halo_pieces(number, layer_offsets(partition, layers)))


def _way(part: Part, level: MatrixForecast, shape: Triple, factors: Triple, colors: Colors, *, star: bool) -> int:
    """Bytes of R, P and the orders of their vectors; a coarse point has 3 fine ones along each axis."""
    coarse = level.rows / math.prod(factors)
    if star:
        return int(coarse * (6 * I32 + 2 * I32))
    entries = coarse * math.prod(3 if factor == 2 else 1 for factor in factors)
    every_second = colors is Colors.LATTICE or (shape[0] % 2 and colors is Colors.RED_BLACK)  # coarse points
    share = 1.0 if every_second else level.share
    order = I32 + (SLICE_BYTES + part.cuda * CUDA_SLICE_BYTES) / SLICE
    mixed = 1.0 + (MIXED_CLASSES.get(colors, 1.0) - 1.0) * share
    stored = entries * (part.value + I32 * share) * (1.0 + mixed) + (coarse + level.rows) * order
    return int(stored + coarse * (3 * I32 + 2 * I32))
