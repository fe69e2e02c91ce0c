"""Rows of a matrix by chunk: their entries, their halo exchange and their counts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.block_slices import BLOCKS
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.rows import SplitRows
from dsolver.matrices.checked import backend_of
from dsolver.matrices.null_vectors import to_host

ROWS: Final = "rows"  # name under which a matrix is brought to the owners of its chunks
GIVEN: Final = "given rows"  # name of the matrix whose residuals count, where it is another one

PARTS: Final = ("rows of the real part", "rows of the imaginary part")  # names of the parts of a complex matrix
MASS: Final = "rows of the mass matrix"  # name of B in A x = λ B x
PHASES: Final = ("real part of phases", "imaginary part of phases")
"""Names of the parts of d of a Hermitian matrix; see `dsolver.matrices.problem.MatrixProblem`."""
FED: Final = ("volumes", "real part that faces add", "imaginary part that faces add")
"""Names of what makes right-hand sides of a source on a grid."""


@dataclass(frozen=True, kw_only=True)
class RowBlock:
    """One chunk's rows of a matrix, in memory of the host or, of a chunk's owner in this process, on its GPU."""

    start: Any  # int64 (rows + 1,), row i has the entries start[i] .. start[i + 1].
    columns: Any  # int32, own columns from 0 in the order of the rows, then halo slots
    values: Any  # float64
    plan: HaloPlan  # what the chunk exchanges when the matrix is multiplied
    ghosts: Any = None  # int64, numbers in A of the halo slots, ascending; None where they were not asked for
    # int32 (rows,), which of the chunk's rows of A each one is; None where they are in A's order.
    order: npt.NDArray[np.int32] | None = None
    formats: str | None = None  # as of `matrix`
    near: Any = None  # float64 (rows, k), the near-null space that was given, in A's order; None where none was
    known: Statistics | None = None  # statistics of the entries in own columns; None where they have yet to be found
    counts: "ChunkCounts | None" = None  # the same, of all
    parts: SplitRows | None = None  # the rows in two parts, where they were counted in this process

    def copy(self) -> Self:
        """The rows with memory of their own."""
        return replace(self, start=self.start.copy(), columns=self.columns.copy(), values=self.values.copy())

    @property
    def csr(self) -> Csr:
        """The rows as they lie."""
        return Csr(self.start, self.columns, self.values)

    @property
    def here(self) -> Self:
        """The rows in memory of the host."""
        if isinstance(self.start, np.ndarray):
            return self
        get = backend_of(self.start).to_host
        near, ghosts = (part if part is None else to_host(part) for part in (self.near, self.ghosts))
        start, columns, values = (get(part) for part in self.csr)
        return replace(self, start=start, columns=columns, values=values, near=near, ghosts=ghosts)


@dataclass(frozen=True, kw_only=True)
class ChunkCounts:
    """Counts of one chunk's rows, of those that read other chunks' columns, and of these, for forecasts."""

    rows: int
    boundary: int
    ghosts: int
    ghost_entries: int
    local: Statistics  # statistics of the entries in own columns


FIELD_ROWS: Final = tuple(f"rows of field {number}" for number in range(16))
"""Names of the matrices of fields, of which preconditioners of blocks are made."""


class ChunkRows(ABC):
    """Rows of a matrix by chunk, here or on a cluster."""

    @abstractmethod
    def blocks(self, partition: Partition, *, host: bool, owners: Sequence[str]) -> Mapping[int, Any]:
        """The `RowBlock` of every chunk of this partition, or its future, by number.

        `host`: whether they must lie in memory of the host. `owners`: the worker address of each chunk; empty without a
        cluster.
        """


@dataclass(frozen=True)
class RowsOfField(ChunkRows):
    """Rows of a field's matrix in chunks of their own, as many as the whole system's; rows: as they were cut."""

    rows: ChunkRows
    partition: Partition

    def blocks(self, partition: Partition, *, host: bool, owners: Sequence[str]) -> Mapping[int, Any]:  # noqa: ARG002
        """As of `ChunkRows`, by the numbers of the whole system's chunks."""
        return self.rows.blocks(self.partition, host=host, owners=owners)


class CutRows(ChunkRows):
    """Rows of a matrix of this process that was cut into chunks."""

    @property
    @abstractmethod
    def counts(self) -> tuple[ChunkCounts, ...]:
        """Counts of each chunk."""

    @property
    @abstractmethod
    def senders(self) -> tuple[tuple[int, ...], ...]:
        """The chunks whose columns each chunk reads, ascending."""


def row_block(
    backend: Backend,
    start: npt.NDArray[np.int64],  # int64 (rows + 1,), where rows begin, from 0
    columns: npt.NDArray[np.integer],  # global numbers
    values: npt.NDArray[np.float64],
    span: tuple[int, int],  # the chunk's first column, and behind its last one
    ghosts: npt.NDArray[np.int64],  # other chunks' columns that they read, ascending
    plan: HaloPlan,
    formats: str | None = None,
) -> RowBlock:
    """One chunk's rows."""
    (first, last), amg = span, backend.amg
    numbers = amg.places(columns, first, last - first, amg.asarray(ghosts), 0)  # own ones from 0, then halo slots
    return RowBlock(start=start, columns=numbers, values=values, plan=plan, ghosts=ghosts, formats=formats)


def counts_of(
    backend: Backend, block: RowBlock, blocks: Sequence[int] = BLOCKS, columns: int | None = None
) -> ChunkCounts:
    """Counts of one chunk's rows, with statistics for some sizes of blocks; columns: own ones, by default as rows."""
    rows, boundary, ghost_entries = block.csr, 0, 0
    if block.plan.slots:
        parts = block.parts or backend.general.split(rows, columns)
        rows, boundary, ghost_entries = parts.local, len(parts.boundary), len(parts.ghost.columns)
    return ChunkCounts(
        rows=rows.size,
        boundary=boundary,
        ghosts=block.plan.slots,
        ghost_entries=ghost_entries,
        local=block.known or backend.general.statistics(rows, columns or rows.size, blocks),
    )
