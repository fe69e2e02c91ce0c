"""How many bytes a system takes on its devices, counted before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

from dsolver.kernels.layout import SLICE
from dsolver.levels import Hierarchy
from dsolver.partition import Offsets, Partition, Triple
from dsolver.preconditioners import Chebyshev, Function, Hpcg, Recipe

F64: Final = 8
I32: Final = 4
CG_VECTORS: Final = 6
BLOCK_BYTES: Final = 18
"""Of each row: a chunk's part of the solution and of the whole array, and whether b is finite."""
FUNCTION_BLOCK_BYTES: Final = 34
"""The same with a residual and what a function of the user makes of it."""
SLICE_BYTES: Final = 2 * F64 + 2 * I32
"""Of `Slices`, for each slice: where its values and columns start, and two counts."""
CUDA_SLICE_BYTES: Final = 2 * 16 + F64
"""What launches add: the slice's place in two orders and room for a partial sum."""
HALO_MIX: Final = 1.15
"""Entries of a slice of boundary rows, as its longest row has them, over those of a row in the middle of a face."""


@final
@dataclass(frozen=True, kw_only=True)
class Bytes:
    """What the chunks of one worker take.

    Attributes:
        matrices: of each level, finest first: matrix, storage order and way to the next level.
        halos: what multiplies halos, halo values and what is sent, of all levels.
        vectors: of conjugate gradients and of the preconditioner.
        blocks: a right-hand side or a solution, while it is looked at, brought in and out. Set-up needs less beside
            what it makes.
    """

    matrices: tuple[int, ...]
    halos: int
    vectors: int
    blocks: int

    @property
    def resident(self) -> int:
        """What stays as long as the system is set up."""
        return sum(self.matrices) + self.halos + self.vectors

    @property
    def total(self) -> int:
        """At most at any time."""
        return self.resident + self.blocks

    def __str__(self) -> str:
        parts = {
            "matrices": sum(self.matrices),
            "vectors": self.vectors,
            "halos": self.halos,
            "data": self.blocks,
        }
        return ", ".join(f"{name} {size / (1 << 30):.3g} GiB" for name, size in parts.items() if size)

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(
            matrices=tuple(a + b for a, b in zip(self.matrices, other.matrices, strict=True)),
            halos=self.halos + other.halos,
            vectors=self.vectors + other.vectors,
            blocks=self.blocks + other.blocks,
        )


def of_chunk(hierarchy: Hierarchy, recipe: Recipe, number: int, *, cuda: bool) -> Bytes:
    """What one chunk takes on the `resident` and `reference` engines.

    Args:
        hierarchy: the levels.
        recipe: the preconditioner.
        number: of the chunk.
        cuda: whether it lies on a GPU.
    """
    levels = [_Level(hierarchy, depth, number, cuda=cuda) for depth in range(hierarchy.depth)]
    finest = levels[0]
    transfers = [I32 * (fine.size + coarse.size) for fine, coarse in _pairs(levels)]
    vectors = F64 * finest.size * CG_VECTORS
    halos = finest.operator_halo
    if isinstance(recipe, Hpcg):
        vectors += sum(F64 * (3 * fine.size + fine.boundary + 2 * coarse.size) for fine, coarse in _pairs(levels))
        halos += sum(level.halo + level.correction for level in levels[:-1])
    elif isinstance(recipe, Chebyshev):
        vectors += F64 * finest.size * 2
    blocks = FUNCTION_BLOCK_BYTES if isinstance(recipe, Function) else BLOCK_BYTES
    return Bytes(
        matrices=tuple(level.matrix + extra for level, extra in zip(levels, [*transfers, 0], strict=True)),
        halos=halos + sum(level.halo_matrix for level in levels),
        vectors=vectors,
        blocks=blocks * finest.rows,
    )


def of_workers(hierarchy: Hierarchy, recipe: Recipe, owners: tuple[int, ...], *, cuda: bool) -> tuple[Bytes, ...]:
    """What each worker takes, in rank order.

    Args:
        hierarchy: the levels.
        recipe: the preconditioner.
        owners: the rank of each chunk's worker.
        cuda: whether they are GPUs.
    """
    found: dict[int, Bytes] = {}
    known: dict[tuple[Triple, tuple[tuple[bool, bool], ...]], Bytes] = {}
    partition = hierarchy.partitions[0]
    for number, owner in enumerate(owners):
        alike = partition[number].box.shape, _sides(partition, number, hierarchy.problem.offsets)
        if alike not in known:
            known[alike] = of_chunk(hierarchy, recipe, number, cuda=cuda)
        found[owner] = found[owner] + known[alike] if owner in found else known[alike]
    return tuple(found[rank] for rank in sorted(found))


def _pairs(levels: list[_Level]) -> Iterator[tuple[_Level, _Level]]:
    return pairwise(levels)


class _Level:
    """The bytes of one level of one chunk."""

    def __init__(self, hierarchy: Hierarchy, depth: int, number: int, *, cuda: bool) -> None:
        partition, offsets = hierarchy.partitions[depth], hierarchy.problem.offsets
        box = partition[number].box
        parity = hierarchy.order.classes is not None
        if parity:
            padded = sum(SLICE * -(-count // SLICE) for count in parity_counts(box.shape))
        else:  # a color is padded by half a slice on average
            padded = SLICE * -(-box.points // SLICE) + SLICE // 2 * hierarchy.order.count(box.shape)
        slices = padded // SLICE
        sides = _sides(partition, number, offsets)
        star = len(offsets) <= 7
        of_slice = SLICE_BYTES + (CUDA_SLICE_BYTES if cuda else 0)
        entries = padded * entries_of_row(box.shape, star=star)
        columns = explicit_share(box.shape) if parity else 1.0
        slots = sum(halo.points for _, halo in partition.halo_boxes(number, offsets))
        self.rows = box.points
        self.size = padded + 2 * SLICE
        self.boundary = box.points - _interior(box.shape, sides)
        self.matrix = int(
            I32 * (2 * self.rows + self.size)  # the storage order
            + F64 * self.size  # the diagonal
            + entries * (F64 + I32 * (columns + (1.0 - columns) / SLICE))
            + slices * of_slice
        )
        read = (1 if star else 9) * HALO_MIX
        self.halo_matrix = int(self.boundary * (I32 + read * (F64 + I32) + of_slice / SLICE)) if slots else 0
        self.halo = (F64 + F64 + I32) * slots
        self.operator_halo = self.halo
        self.correction = self.halo // 4 + (self.halo_matrix // 4 if slots else 0)


def parity_counts(shape: Triple) -> list[int]:
    """Points of each of the eight classes of even and odd indices."""
    halves = [((n + 1) // 2, n // 2) for n in shape]
    return [x * y * z for x in halves[0] for y in halves[1] for z in halves[2]]


def entries_of_row(shape: Triple, *, star: bool) -> float:
    """Entries off the diagonal that a slice of parity colors has room for in each row, on average.

    A slice has room for its longest row. Along x it always holds a row in the middle; along y, where it reaches over
    lines; along z, where it reaches over planes.
    """
    nx, ny, nz = shape
    line, plane = (nx + 1) // 2, ((nx + 1) // 2) * ((ny + 1) // 2)
    x = min(nx, 3)
    y = min(ny, 3) if line < SLICE else (3 * ny - 2) / ny
    z = min(nz, 3) if plane < SLICE else (3 * nz - 2) / nz
    return (x - 1) + (y - 1) + (z - 1) if star else x * y * z - 1


def explicit_share(shape: Triple) -> float:
    """The share of slices of parity colors that store every column.

    They reach over the end of a line whose neighbors have lines of another length, which only an odd extent makes.
    """
    nx = next((n for n in shape if n > 1), 1)
    if nx % 2 == 0 or nx == 1:
        return 0.0
    return sum(0.0 if m % SLICE == 0 else min(1.0, (SLICE - 1) / m) for m in (nx // 2 + 1, max(1, nx // 2))) / 2


def _sides(partition: Partition, number: int, offsets: Offsets) -> tuple[tuple[bool, bool], ...]:
    """For each axis, whether there are neighbors below and above."""
    own = partition[number].box
    boxes = [box for _, box in partition.halo_boxes(number, offsets)]
    return tuple(
        (any(box.hi[a] <= own.lo[a] for box in boxes), any(box.lo[a] >= own.hi[a] for box in boxes)) for a in range(3)
    )


def _interior(shape: Triple, sides: tuple[tuple[bool, bool], ...]) -> int:
    """Rows that read no halo."""
    return math.prod(max(0, n - low - high) for n, (low, high) in zip(shape, sides, strict=True))
