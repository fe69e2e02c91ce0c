"""Forecast of a distributed matrix: bytes of one chunk's part, from its shape, before anything is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from dsolver.distributed.slice_counts import Colors, entries_of_row, explicit_share, padded_rows
from dsolver.grid.box import Offsets
from dsolver.grid.coloring import Order
from dsolver.grid.partition import Partition
from dsolver.kernels.formats.compressed import NEAR_REACH
from dsolver.kernels.formats.layout import SLICE
from dsolver.kernels.general.forecast import Storage, storage
from dsolver.kernels.general.selection import MEASURE, candidates, chosen
from dsolver.matrices.chunks.row_block import ChunkCounts
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem

F64: Final = 8
I32: Final = 4
SLICE_BYTES: Final = 2 * F64 + I32  # bytes of each slice: where its values and columns start, and a count
CUDA_SLICE_BYTES: Final = 2 * 16 + F64
"""Bytes that launches add: the slice's place in two orders and room for a partial sum."""
HALO_MIX: Final = 1.15
"""Entries of a slice of boundary rows, as its longest row has them, over those of a row in the middle of a face."""
CPU_BATCH: Final = 8192 * SLICE  # rows whose entries the CPU's set-up holds at a time
CPU_CANDIDATE: Final = 6  # bytes of each: its section, its place, and a part of those of the rows before


@dataclass(frozen=True)
class Part:
    """A chunk whose bytes are forecast."""

    problem: Problem
    partition: Partition
    order: Order  # in which smoothers visit the rows
    number: int
    cuda: bool = True  # whether it lies on a GPU
    value: int = F64  # bytes of a value of the preconditioner
    # whether it is its worker's first chunk, with which levels count that live whole on every worker.
    first: bool = True

    @cached_property
    def constant(self) -> bool:
        """Whether all rows are the same but at faces, as far as can be known beforehand.

        A problem of numbers alone is taken for one. On a stretched grid it is none, and takes more.
        """
        problem = self.problem
        odd = any(p and n % 2 for p, n in zip(problem.periodic, problem.grid, strict=True))
        return problem.lattice and not odd and (problem.rule is None or not problem.rule.varying)

    @property
    def may_close(self) -> bool:
        """Whether there may be closed regions, for which the finest level's diagonal is stored twice."""
        return self.problem.singular is None and self.problem.masked

    @property
    def assembly(self) -> int:
        """Bytes that set-up needs for a while beside the finest matrix."""
        rows, count = self.partition[self.number].box.points, len(self.problem.offsets)
        needed = 2 * F64 * rows if self.cuda else min(rows, CPU_BATCH) * count * CPU_CANDIDATE
        if isinstance(self.problem, MatrixProblem):
            return _split_bytes(self.problem.counts[self.number], measured=self.problem.formats == MEASURE)
        if self.problem.rule is None or self.constant:
            return needed
        return needed + (2 * F64 * count + 30) * rows  # rows, by themselves and with what lies around, coefficients

    def stored(self, partition: Partition | None = None) -> MatrixForecast:
        """A matrix with A's stencil that is stored in the order of a smoother, on a level with these chunks."""
        if isinstance(self.problem, MatrixProblem):
            return MatrixForecast(self, row_counts(self.problem.counts[self.number], self.problem.formats, self.cuda))
        colors = Colors.NATURAL if self.order.classes is None else Colors.PARITY
        counts = stencil_counts(partition or self.partition, self.number, self.problem.offsets, colors)
        return MatrixForecast(self, counts)

    @property
    def given(self) -> int:
        """Bytes of the matrix whose residuals count, where it is not A, and of the parts of a complex A."""
        problem = self.problem
        if not isinstance(problem, MatrixProblem):
            return 0
        others = filter(None, (problem.given_counts, *problem.part_counts))
        counts = [row_counts(each[self.number], None, self.cuda) for each in others]
        found = [MatrixForecast(replace(self, value=F64), each) for each in counts]
        return sum(each.matrix + each.halo_matrix + each.halo for each in found)

    def products(self) -> MatrixForecast:
        """A for products alone: nothing of a constant stencil is stored."""
        if not self.constant:
            return self.stored()
        counts = stencil_counts(self.partition, self.number, self.problem.offsets, Colors.LATTICE)
        return MatrixForecast(self, counts)

    def exact(self, finest: MatrixForecast, *, compact: bool = False, shared: bool = False) -> int:
        """Bytes of A in float64 beside a finest level, in less if compact, or with its columns and order if shared."""
        if self.value == F64:
            return 0
        if shared:
            return F64 * (finest.entries + finest.size) if finest.entries else 0
        weights = self.problem.weights if self.problem.rule is None else (math.nan,)
        narrow = compact and all(float(np.float32(weight)) == weight for weight in weights)
        return finest.matrix + (0 if narrow else (F64 - self.value) * finest.entries)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of a matrix in one chunk."""

    rows: int
    padded: int  # rows with the padding of each color to whole slices
    entries: int | None  # stored values off the diagonal, or all of them, holes included; None where nothing is stored
    share: float  # of slices that store every column
    boundary: int  # rows that read a halo
    slots: int
    read: float  # entries of a boundary row that read the halo, in the longest row of a slice
    column: float = float(I32)  # bytes of such an entry's column
    place: int = I32  # bytes of a boundary row's place, and of what else it has beside its entries
    storage: Storage | None = None  # in what form entries are stored; None for sliced ELL
    faces: bool = False  # whether that is faces (`dsolver.kernels.formats.checkered.faces`)


class MatrixForecast:
    """Bytes of a matrix in one chunk.

    Attributes:
        size: of a vector.
        entries: stored values off the diagonal.
        share: of slices that store every column.
        boundary: rows that read a halo.
        matrix: bytes of the local part and the storage order.
        halo_matrix: of the ghost part.
        slots: of the halo.
        halo: bytes of its values, what is sent, which is as much, and where that is.
        faces: whether the local part is stored as faces.
        way: bytes of what leads to the next coarser level, and of what else a level has; set by a hierarchy.
        shared: whether restriction and prolongation both read all of that, which may then be in the storage order of
            the coarser level; set by a hierarchy.
    """

    def __init__(self, part: Part, counts: Counts) -> None:
        value, per_slice = part.value, SLICE_BYTES + part.cuda * CUDA_SLICE_BYTES
        self.rows, self.boundary, self.slots, self.share = counts.rows, counts.boundary, counts.slots, counts.share
        self.faces = counts.faces
        self.size = counts.padded + 2 * SLICE
        self.entries = counts.entries or 0
        self._column = I32 * (self.share + (1.0 - self.share) / SLICE)
        beside = counts.padded // SLICE * per_slice
        if counts.storage is not None:
            self._column, beside = counts.storage.column, counts.storage.beside
        order = I32 * (2 * self.rows + self.size)
        values = value * self.size + self.stored(value) + beside
        self.matrix = order if counts.entries is None else order + values
        self.halo = halo_bytes(self.slots, value)
        ghost = self.boundary * (counts.place + counts.read * (value + counts.column) + per_slice / SLICE)
        self.halo_matrix = int(ghost) if self.slots else 0
        self.way, self.shared = 0, False

    def stored(self, value: int) -> int:
        """Bytes of the local part's values and columns, with values of so many bytes: what a product reads of it."""
        return int(self.entries * (value + self._column))

    def clear(self) -> None:
        """Count nothing: another chunk of the same worker has it."""
        self.size = self.entries = self.boundary = self.slots = 0
        self.matrix = self.halo_matrix = self.halo = self.way = 0


def halo_bytes(slots: int, value: int) -> int:
    """Bytes of a halo: its values, what is sent, which is as much, and where that is."""
    return (value + value + I32) * slots


def stencil_counts(
    partition: Partition, number: int, offsets: Offsets, colors: Colors, *, faces: bool = False
) -> Counts:
    """Counts of a chunk of a grid whose rows read these offsets; faces: whether they are stored as such."""
    shape, star = partition[number].box.shape, len(offsets) <= 7
    padded, rows = padded_rows(shape, colors), math.prod(shape)
    stored = colors is not Colors.LATTICE  # else a constant stencil
    # Where every line is closed, it ends in a row that reads its other end.
    closed = partition.periodic[0] and partition.counts[0] == 1 and partition.grid[0] > 2
    read, column = (1 if star else 9) * HALO_MIX, float(I32)
    if not stored and all(n % SLICE == 0 for n in shape if n > 1):  # slices end with lines
        read, column = read / HALO_MIX, I32 / SLICE
    entries = int(padded * entries_of_row(shape, star=star)) if stored else None
    storage = None
    if faces:
        entries = 3 * (padded + 2 * SLICE)
        parts = shape[1] * shape[2] * -(-shape[0] // (2 * SLICE))  # of a dot product: one for each warp and plane
        storage = Storage(entries=entries, column=0.0, beside=F64 * parts)
    return Counts(
        rows=rows,
        padded=padded,
        entries=entries,
        share=1.0 if closed else explicit_share(shape, colors),
        boundary=rows - _inner(partition, number, offsets),
        slots=sum(box.points for _, box in partition.halo_boxes(number, offsets)),
        read=read,
        column=column,
        storage=storage,
        faces=faces,
    )


def row_counts(counts: ChunkCounts, formats: str | None, cuda: bool) -> Counts:
    """Counts of a chunk of a general matrix, whose rows have the format that they will get, on a GPU if `cuda`."""
    choices = [chosen(formats, counts.local, gpu=cuda)] if formats != MEASURE else candidates(counts.local, gpu=cuda)
    stored = max((storage(choice, counts.local) for choice in choices), key=_size)
    return Counts(
        rows=counts.rows,
        padded=SLICE * -(-counts.rows // SLICE),
        entries=stored.entries,
        share=1.0,
        boundary=counts.boundary,
        slots=counts.ghosts,
        read=counts.ghost_entries / max(1, counts.boundary),
        column=float(I32) if cuda else 2.0 if counts.ghosts <= NEAR_REACH else 6.0,
        place=I32 + (F64 if cuda else 2),
        storage=stored,
    )


def _size(stored: Storage) -> float:
    return stored.entries * (F64 + stored.column) + stored.beside


def _split_bytes(counts: ChunkCounts, *, measured: bool) -> int:
    """Bytes of the rows as they come, and of their local part where that is less; the one that formats compete with."""
    local, rows = counts.local.entries, counts.rows
    copies = 1 + (counts.ghosts > 0) + measured
    return (F64 + I32) * (local + counts.ghost_entries) * copies + 4 * F64 * rows


def _inner(partition: Partition, number: int, offsets: Offsets) -> int:
    """Rows of a chunk that read no halo."""
    own = partition[number].box
    boxes = [box for _, box in partition.halo_boxes(number, offsets)]
    sides = [any(b.hi[a] <= own.lo[a] for b in boxes) + any(b.lo[a] >= own.hi[a] for b in boxes) for a in range(3)]
    return math.prod(max(0, n - thick) for n, thick in zip(own.shape, sides, strict=True))
