"""How many bytes a system takes on its devices, counted before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, final

import numpy as np

from dsolver.cycle import VISITED
from dsolver.grids import coarser, partition_of
from dsolver.kernels import DENSE_ROWS
from dsolver.kernels.layout import SLICE
from dsolver.kernels.star import COARSE_LAYERS, LAYERS
from dsolver.levels import Hierarchy
from dsolver.partition import BOX_OFFSETS, Flags, Offsets, Partition, Sizes, Triple
from dsolver.preconditioners import Chebyshev, Function, Hpcg, Recipe
from dsolver.problems import Problem
from dsolver.star_descents import fits, reach

F64: Final = 8
I32: Final = 4
CG_VECTORS: Final = 6
NULL_VECTORS: Final = 3
"""Of what is known of null vectors. Where there may be many, a work field and what sorts their cells: 21 bytes for each
of a large region, 36 to 65 where 60 to 80 % of the cells are solid at random, so that most regions have few."""
BLOCK_BYTES: Final = 18
"""Of each row: a chunk's part of the solution and of the whole array, and whether b is finite."""
FUNCTION_BLOCK_BYTES: Final = 34
"""The same with a residual and what a function of the user makes of it."""
SLICE_BYTES: Final = 2 * F64 + 2 * I32
"""Of `Slices`, for each slice: where its values and columns start, and two counts."""
CUDA_SLICE_BYTES: Final = 2 * 16 + F64
"""What launches add: the slice's place in two orders and room for a partial sum."""
MIXED_BYTES: Final = 2 * 16
"""Of each slice of a level that is swept in mixed launches (`kernels/cuda/mixed.py`): its place in two more orders."""
HALO_MIX: Final = 1.15
"""Entries of a slice of boundary rows, as its longest row has them, over those of a row in the middle of a face."""
SINGULAR_BLOCK_BYTES: Final = 32
"""The same while set-up makes null vectors: two blocks, as arrays and in lattice order."""
STAR_BYTES: Final = 84
"""Of each row where the finest level is a constant star, during set-up: the next level's way down."""
COARSENING_BYTES: Final = 264
"""Of each row, while interpolation and the coarser level are made: entries of P and where they are, coarse rows, what R
and P are stored as."""
GHOSTED: Final = 1.03
"""Points of a chunk with ghost layers over those without, where memory matters."""
TOLD: Final = 4
"""Vectors of `kernels/cuda/flow.py`, through which the warps of a small level tell each other what they know."""
TOLD_ROWS: Final = 1 << 18
"""Of a level at most that is so small, on a large GPU."""
WORD_BYTES: Final = 4
"""Of each byte of a halo where GPUs write into each other's memory: words twice as long as values, in two slots."""
PEER_BLOCK: Final = 8 << 20
"""Bytes of a block of that memory, or a multiple of `PEER_UNIT` above: halos of a chunk of 256³ points need 7 MB."""
PEER_UNIT: Final = 2 << 20
CORNERS: Final = 8
CPU_BATCH: Final = 8192 * SLICE
"""Rows whose entries the CPU's set-up holds at a time, twice."""


class Colors(Enum):
    """How rows are stored: by the parity of each index, by the parity of their sum, in wavefronts, or as they come."""

    PARITY = "parity"
    RED_BLACK = "red-black"
    NATURAL = "natural"
    LATTICE = "lattice"


@final
@dataclass(frozen=True, kw_only=True)
class Bytes:
    """What the chunks of one worker take.

    Attributes:
        matrices: of each level, finest first: matrix, storage order and way to the next level.
        halos: what multiplies halos, halo values and what is sent, of all levels.
        vectors: of conjugate gradients and of the preconditioner.
        blocks: a right-hand side or a solution, while it is looked at, brought in and out.
        finest: what is there of the finest level when set-up needs most: matrix, storage order, and its rows once more.
        temporary: what set-up needs then beside them.
        words: of each halo, what other GPUs write into, before it is cut from blocks; nothing where there are none.
    """

    matrices: tuple[int, ...]
    halos: int
    vectors: int
    blocks: int
    finest: int
    temporary: int
    words: tuple[int, ...] = ()

    @property
    def resident(self) -> int:
        """What stays as long as the system is set up."""
        return sum(self.matrices) + self.halos + self.vectors + self.peers

    @property
    def peers(self) -> int:
        """The blocks that other GPUs write into."""
        taken = free = 0
        for size in self.words:
            if size > free:
                free = -(-max(size, PEER_BLOCK) // PEER_UNIT) * PEER_UNIT
                taken += free
            free -= size
        return taken

    @property
    def total(self) -> int:
        """At most at any time."""
        return max(self.resident + self.blocks, self.finest + self.temporary)

    def __str__(self) -> str:
        parts = {
            "matrices": sum(self.matrices),
            "vectors": self.vectors,
            "halos": self.halos + self.peers,
            "set-up and data": self.total - self.resident,
        }
        return ", ".join(f"{name} {amount(size)}" for name, size in parts.items() if size)

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(
            matrices=tuple(a + b for a, b in zip(self.matrices, other.matrices, strict=True)),
            halos=self.halos + other.halos,
            vectors=self.vectors + other.vectors,
            blocks=self.blocks + other.blocks,
            finest=self.finest + other.finest,
            temporary=max(self.temporary, other.temporary),  # chunks are set up one after the other
            words=tuple(a + b for a, b in zip(self.words, other.words, strict=True)),
        )


def amount(size: float) -> str:
    """Bytes for people."""
    return f"{size / (1 << 30):.3g} GiB" if size >= 1 << 28 else f"{size / (1 << 20):.3g} MiB"


def of_chunk(
    hierarchy: Hierarchy,
    recipe: Recipe,
    number: int,
    *,
    cuda: bool,
    dtype_bytes: int = F64,
    first: bool = True,
    together: int = 0,
) -> Bytes:
    """What one chunk takes on the `resident` and `reference` engines.

    Args:
        hierarchy: the levels.
        recipe: the preconditioner.
        number: of the chunk.
        cuda: whether it lies on a GPU.
        dtype_bytes: of the preconditioner's value type.
        first: whether it is its worker's first chunk, with which levels count that live whole on every worker.
        together: right-hand sides that have vectors and halos of their own beside those of one, to be solved at once.
    """
    levels = levels_of(hierarchy, recipe, number, cuda=cuda, value=dtype_bytes if recipe.lowerable else F64)
    problem, finest = hierarchy.problem, levels[0]
    null_vectors = 0 if problem.singular is False else NULL_VECTORS + may_close(problem)
    vectors = F64 * finest.size * CG_VECTORS
    shared = F64 * finest.size * null_vectors
    for level in levels:
        if level.whole and not first:
            level.clear()
    matrices = [level.matrix + level.way for level in levels]
    halos = finest.halo + F64 * finest.boundary
    value, steps = dtype_bytes, list(pairwise(levels))
    words = [F64 * finest.slots]
    if isinstance(recipe, Hpcg):
        small = [level.size for level in levels if cuda and level.rows <= TOLD_ROWS]
        shared += TOLD * value * sum(small)
        if cuda and value != F64:
            large = (level.size if level.rows > TOLD_ROWS else 0 for level in levels)
            matrices = [matrix + MIXED_BYTES * size // SLICE for matrix, size in zip(matrices, large, strict=True)]
        words += [value * slots for level in levels[:-1] for slots in (level.slots, level.slots // 4)]
        vectors += sum(value * (3 * fine.size + 2 * fine.boundary + 2 * coarse.size) for fine, coarse in steps)
        halos += sum(level.halo + level.halo // 4 for level in levels[:-1])
        shared += sum(level.halo_matrix // 4 for level in levels[:-1])
    elif recipe.galerkin:
        vectors += sum(value * (fine.size * (not fine.star) + 3 * coarse.size) for fine, coarse in steps)
        vectors += value * finest.size * may_close(problem)
        if not finest.star and (problem.rule is not None or problem.coefficients):  # may be rough: `dsolver.roughness`
            vectors += value * (finest.size + 3 * sum(level.size for level in levels[1 : VISITED + 1]))
        halos += sum(_halo_bytes(slots, value) for level in levels[:-1] for slots in level.exchanged)
        words += [value * slots for level in levels[:-1] for slots in level.exchanged]
    elif isinstance(recipe, Chebyshev):
        vectors += F64 * finest.size * 2
    if value != F64 and recipe.lowerable:  # A itself, beside what is stored of it in the other type
        # With nothing but products, HPCG's V-cycle has A's values in float32 where they are such numbers.
        exact = isinstance(recipe, Hpcg) and problem.rule is None and _are_float32(problem.weights)
        matrices[0] += finest.matrix + (0 if exact else (F64 - value) * finest.entries)
        vectors += 2 * value * finest.size
    blocks = FUNCTION_BLOCK_BYTES if isinstance(recipe, Function) else BLOCK_BYTES
    if problem.singular is not False:
        blocks = max(blocks, SINGULAR_BLOCK_BYTES)
    words += [together * size for size in words if together]
    return Bytes(
        matrices=tuple(matrices),
        halos=(1 + together) * halos + sum(level.halo_matrix for level in levels),
        vectors=(1 + together) * vectors + shared,
        blocks=(blocks + F64 * together) * finest.rows,  # each solution, until all are there
        finest=finest.matrix + _rows_again(hierarchy, recipe, finest.rows, lowered=value != F64),
        temporary=_temporary(hierarchy, recipe, finest, cuda=cuda),
        words=tuple(WORD_BYTES * size for size in words) if cuda else (),
    )


def of_workers(
    hierarchy: Hierarchy,
    recipe: Recipe,
    owners: Sequence[int],
    *,
    cuda: bool,
    dtype_bytes: int = F64,
    together: int = 0,
) -> tuple[Bytes, ...]:
    """What each worker takes, in rank order.

    Args:
        hierarchy: the levels.
        recipe: the preconditioner.
        owners: the rank of each chunk's worker.
        cuda: whether they are GPUs.
        dtype_bytes: of the preconditioner's value type.
        together: right-hand sides with room of their own, as of `of_chunk`.
    """
    found: dict[int, Bytes] = {}
    known: dict[tuple[Any, ...], Bytes] = {}
    partition = hierarchy.partitions[0]
    along = [
        [(n, i == 0, i == len(extents) - 1) for i, n in enumerate(extents)] for extents in partition.sizes
    ]  # chunks of the same extents at the same edges of the grid take as much
    for number, owner in enumerate(owners):
        first = owner not in found
        alike = *(kinds[i] for kinds, i in zip(along, partition.place(number), strict=True)), first
        if alike not in known:
            known[alike] = of_chunk(
                hierarchy, recipe, number, cuda=cuda, dtype_bytes=dtype_bytes, first=first, together=together
            )
        found[owner] = found[owner] + known[alike] if owner in found else known[alike]
    if len(found) == 1:  # nobody else writes
        found = {rank: replace(one, words=()) for rank, one in found.items()}
    return tuple(found[rank] for rank in sorted(found))


# -- levels ------------------------------------------------------------------------------------------------------------


@final
class Level:
    """The bytes of one level of one chunk.

    Attributes:
        rows: of the chunk.
        size: of a vector.
        entries: stored values off the diagonal.
        boundary: rows that read a halo.
        matrix: the local part and the storage order.
        halo_matrix: what multiplies a halo.
        slots: of the halo.
        halo: its values, what is sent and where that is.
        exchanged: slots of each halo that a cycle of general multigrid fills for the level and for its way down.
        way: what leads to the next coarser level.
        share: of slices that store every column.
        star: whether it is a constant star, whose way down is not stored either.
        whole: whether it is a level of many chunks that lives whole on every worker.
    """

    def __init__(
        self, partition: Partition, number: int, offsets: Offsets, colors: Colors, *, cuda: bool, value: int
    ) -> None:
        shape = partition[number].box.shape
        star = len(offsets) <= 7
        self.rows = math.prod(shape)
        padded = padded_rows(shape, colors)
        of_slice = SLICE_BYTES + (CUDA_SLICE_BYTES if cuda else 0)
        self.slots = slots = sum(box.points for _, box in partition.halo_boxes(number, offsets))
        self.share = wrapped_share(partition, explicit_share(shape, colors))
        self.whole = False
        self.star = star and colors is Colors.LATTICE and fits(partition)
        self.size = padded + 2 * SLICE
        self.entries = int(padded * entries_of_row(shape, star=star))
        self.boundary = self.rows - _interior(shape, _sides(partition, number, offsets))
        if colors is Colors.LATTICE:  # a constant stencil, of which nothing is stored
            self.entries = 0
            self.matrix = I32 * (2 * self.rows + self.size)
        else:
            self.matrix = self._whole(padded, of_slice, value)
        read, column = (1 if star else 9) * HALO_MIX, float(I32)
        if colors is Colors.LATTICE and all(n % SLICE == 0 for n in shape if n > 1):  # slices end with lines
            read, column = read / HALO_MIX, I32 / SLICE
        self.halo_matrix = int(self.boundary * (I32 + read * (value + column) + of_slice / SLICE)) if slots else 0
        self.halo = _halo_bytes(slots, value)
        self.exchanged: tuple[int, ...] = (slots,) * 3
        self.way = 0

    def _whole(self, padded: int, of_slice: int, value: int) -> int:
        return int(
            I32 * (2 * self.rows + self.size)  # the storage order
            + value * self.size  # the diagonal
            + self.stored(value)
            + padded // SLICE * of_slice
        )

    def stored(self, value: int) -> int:
        """Bytes of the local part's values and columns, with values of so many bytes: what a product reads of it."""
        return int(self.entries * (value + I32 * (self.share + (1.0 - self.share) / SLICE)))

    def clear(self) -> None:
        """Count nothing: another chunk of the same worker has it."""
        self.size = self.entries = self.boundary = self.matrix = self.halo_matrix = self.halo = self.way = 0
        self.slots = 0
        self.exchanged = (0,) * len(self.exchanged)


def _halo_bytes(slots: int, value: int) -> int:
    """A halo's values, what is sent, which is as much, and where that is."""
    return (value + value + I32) * slots


def levels_of(hierarchy: Hierarchy, recipe: Recipe, number: int, *, cuda: bool, value: int) -> list[Level]:
    """The levels of one chunk, finest first, with matrices of values of so many bytes."""
    if recipe.galerkin:
        return _galerkin_levels(hierarchy, number, cuda=cuda, value=value)
    return _plain_levels(hierarchy, number, bare=recipe.bare, cuda=cuda, value=value)


def _plain_levels(hierarchy: Hierarchy, number: int, *, bare: bool, cuda: bool, value: int) -> list[Level]:
    colors = Colors.NATURAL if hierarchy.order.classes is None else Colors.PARITY
    if bare and is_constant(hierarchy):
        colors = Colors.LATTICE
    offsets = hierarchy.problem.offsets
    levels = [Level(p, number, offsets, colors, cuda=cuda, value=value) for p in hierarchy.partitions]
    for fine, coarse in pairwise(levels):
        fine.way = I32 * (fine.size + coarse.size)
    return levels


def _galerkin_levels(hierarchy: Hierarchy, number: int, *, cuda: bool, value: int) -> list[Level]:
    """Those of `dsolver.hierarchy`, coarsened along every axis. Along fewer they are more, and larger by a sixth."""
    first, offsets = hierarchy.partitions[0], hierarchy.problem.offsets
    levels: list[Level] = []
    whole = False
    descent = _descent(first.grid, first.sizes, first.periodic, cuda=cuda)
    for depth, (partition, factors, gathered) in enumerate(descent):
        odd = any(p and n % 2 for p, n in zip(partition.periodic, partition.grid, strict=True))
        colors = Colors.RED_BLACK if len(offsets) <= 7 and not odd else Colors.PARITY
        if not levels and is_constant(hierarchy):
            colors = Colors.LATTICE
        levels.append(Level(partition, number, offsets, colors, cuda=cuda, value=value))
        levels[-1].whole = whole
        if factors is None:
            levels[-1].way = value * partition.domain.points**2
        else:
            levels[-1].way = _way(levels[-1], partition[number].box.shape, factors, colors, value, cuda=cuda)
        if factors is not None and levels[-1].star:
            levels[-1].exchanged = (
                _reached(partition, number, LAYERS),
                0 if gathered else _reached(descent[depth + 1][0], number, COARSE_LAYERS),
            )
        offsets, number = BOX_OFFSETS, 0 if gathered else number
        whole = whole or gathered
    return levels


@lru_cache(maxsize=4)
def _descent(
    grid: Triple, sizes: Sizes, periodic: Flags, *, cuda: bool
) -> tuple[tuple[Partition, Triple | None, bool], ...]:
    """Of each level the partition, the factors to the next one (None on the coarsest), and whether that is gathered."""
    partition = partition_of(grid, sizes, periodic)
    descent: list[tuple[Partition, Triple | None, bool]] = []
    while len(partition) > 1 or partition.domain.points > DENSE_ROWS["cuda" if cuda else "cpu"]:
        x, y, z = (2 if n > 1 else 1 for n in partition.grid)
        below, gathered = coarser(partition, (x, y, z))
        descent.append((partition, (x, y, z), gathered))
        partition = below
    return (*descent, (partition, None, False))


def _reached(partition: Partition, number: int, layers: tuple[int, int]) -> int:
    """Points in so many layers around a chunk."""
    return sum(piece.box.points for piece in partition.halo_pieces(number, reach(partition, layers)))


def _way(level: Level, shape: Triple, factors: Triple, colors: Colors, value: int, *, cuda: bool) -> int:
    """Restriction, prolongation and the orders of their vectors; a coarse point has 3 fine ones along each axis."""
    coarse = level.rows / math.prod(factors)
    if level.star:
        return int(coarse * (6 * I32 + 2 * I32))
    entries = coarse * math.prod(3 if factor == 2 else 1 for factor in factors)
    share = level.share
    if colors is Colors.LATTICE or (shape[0] % 2 and colors is Colors.RED_BLACK):  # coarse points are every second
        share = 1.0
    of_slice = (SLICE_BYTES + (CUDA_SLICE_BYTES if cuda else 0)) / SLICE
    mixed = {Colors.RED_BLACK: 1.26, Colors.LATTICE: 4 / 3}.get(colors, 1.0)  # rows of several classes share a slice
    restriction = entries * (value + I32 * share) + coarse * (I32 + of_slice)
    prolongation = entries * (value + I32 * share) * (1.0 + (mixed - 1.0) * share) + level.rows * (I32 + of_slice)
    return int(restriction + prolongation + coarse * (3 * I32 + 2 * I32))


def _rows_again(hierarchy: Hierarchy, recipe: Recipe, rows: int, *, lowered: bool) -> int:
    """The finest level's rows beside its matrix, while the next level is made: with ghost layers, and for A itself."""
    if not recipe.galerkin or is_constant(hierarchy):
        return 0
    return int(F64 * len(hierarchy.problem.offsets) * rows * (GHOSTED + lowered))


def _temporary(hierarchy: Hierarchy, recipe: Recipe, finest: Level, *, cuda: bool) -> int:
    problem, rows = hierarchy.problem, finest.rows
    count = len(problem.offsets)
    needed = 2 * F64 * rows if cuda else 2 * min(rows, CPU_BATCH) * count * (F64 + I32)
    constant = is_constant(hierarchy)
    if recipe.galerkin:
        batch = 0 if cuda else 2 * min(rows, CPU_BATCH) * CORNERS * (F64 + I32)
        needed = STAR_BYTES * rows if finest.star else COARSENING_BYTES * rows + batch
    elif problem.rule is not None and not constant:  # rows, by themselves and with what lies around, and coefficients
        needed += (2 * F64 * count + 30) * rows
    return needed


def may_close(problem: Problem) -> bool:
    """Whether there may be closed regions, for which the finest level's diagonal is stored twice."""
    return problem.singular is None and problem.masked


def is_constant(hierarchy: Hierarchy) -> bool:
    """Whether the finest level's rows are all the same but at faces, as far as can be known beforehand.

    A problem of numbers alone is taken for one. On a stretched grid it is none, and takes more.
    """
    problem = hierarchy.problem
    rule = problem.rule
    odd = any(p and n % 2 for p, n in zip(problem.periodic, problem.grid, strict=True))
    return not odd and (rule is None or not rule.varying)


# -- storage -----------------------------------------------------------------------------------------------------------


def padded_rows(shape: Triple, colors: Colors) -> int:
    """Rows with the padding of each color to whole slices."""
    rows = math.prod(shape)
    if colors is Colors.PARITY:
        counts = parity_counts(shape)
    elif colors is Colors.RED_BLACK:
        counts = [(rows + 1) // 2, rows // 2]
    elif colors is Colors.LATTICE:
        counts = [rows]
    else:  # a color is padded by half a slice on average
        nx, ny, nz = shape
        return SLICE * -(-rows // SLICE) + SLICE // 2 * (nx + 2 * (ny - 1) + 4 * (nz - 1))
    return sum(SLICE * -(-count // SLICE) for count in counts)


def parity_counts(shape: Triple) -> list[int]:
    """Points of each of the eight classes of even and odd indices."""
    halves = [((n + 1) // 2, n // 2) for n in shape]
    return [x * y * z for x in halves[0] for y in halves[1] for z in halves[2]]


def entries_of_row(shape: Triple, *, star: bool) -> float:
    """Entries off the diagonal that a slice has room for in each row, on average.

    A slice has room for its longest row. Along x it always holds a row in the middle; along y, where it reaches over
    lines; along z, where it reaches over planes.
    """
    nx, ny, nz = shape
    line, plane = (nx + 1) // 2, ((nx + 1) // 2) * ((ny + 1) // 2)
    x = min(nx, 3)
    y = min(ny, 3) if line < SLICE else (3 * ny - 2) / ny
    z = min(nz, 3) if plane < SLICE else (3 * nz - 2) / nz
    return (x - 1) + (y - 1) + (z - 1) if star else x * y * z - 1


def explicit_share(shape: Triple, colors: Colors) -> float:
    """The share of slices that store every column.

    They reach over the end of a line into one that goes on differently. With parity colors these are lines of odd
    extents, whose neighbors have lines of another length; red and black change places from line to line where the
    extent is even.
    """
    nx = next((n for n in shape if n > 1), 1)
    if colors in (Colors.NATURAL, Colors.LATTICE):
        return 1.0
    if nx == 1 or (nx % 2 == 0) == (colors is Colors.PARITY):
        return 0.0
    return sum(crossing_share(m) for m in (nx // 2 + nx % 2, max(1, nx // 2))) / 2


def wrapped_share(partition: Partition, share: float) -> float:
    """The same where a chunk's lines are closed: every line ends in a row that reads its other end."""
    return 1.0 if partition.periodic[0] and partition.counts[0] == 1 and partition.grid[0] > 2 else share


def crossing_share(line: int) -> float:
    """The share of slices that reach over the end of a line of so many rows, where lines follow each other."""
    period = math.lcm(line, SLICE)
    slices = period // SLICE
    return min(slices, period // line - 1) / slices


def _are_float32(weights: Sequence[float]) -> bool:
    return all(float(np.float32(weight)) == weight for weight in weights)


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
