"""A level of a multigrid hierarchy: its matrix, its smoother, and the transfer to the next coarser level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, PartialSums, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.partition import Partition
from dsolver.multigrid.replicate import Replication
from dsolver.multigrid.smoothers import GaussSeidel, Smoother

AtLevel = tuple[Any, ...]
"""Set-up of a level, at the level's number in a tuple: engines report the number of the level of an operation."""


def at_level(depth: int, *made: Any) -> AtLevel:
    """Set-up of a level and of those that follow it, at their numbers."""
    return (*(None,) * depth, *made)


@dataclass(frozen=True, kw_only=True)
class ComplexPart:
    """Imaginary part of a level of a complex matrix, and its complex diagonal, beside the real part."""

    signs: tuple[float, float] = (1.0, 1.0)  # (s, t): coarser levels are of (s - i t) A, whose real part is positive
    # the `ChunkMatrix` of every chunk of the imaginary part; None on the finest level, where A's own parts serve.
    imaginary: PerChunk | None = None
    parts: tuple[PerChunk, ...] = ()  # the same, of both parts of A in the levels' value type, where that is another
    weights: PerChunk  # of every chunk both parts of D⁻¹, (layout.size,) each, for sweeps of Jacobi
    inverse: PerChunk | None = None  # on the coarsest level the imaginary part of the inverse


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of a multigrid hierarchy, however it was made."""

    engine: Engine
    partition: Partition
    offsets: Offsets  # what its rows read of a lattice
    layout: PerChunk  # the `Layout` of every chunk
    chunks: PerChunk
    # the problem's own matrix on the finest level, where `chunks` have a raised diagonal or values of another type;
    # else None.
    original: PerChunk | None = None
    # makes its smoother of an engine, its matrix and a number of sweeps.
    make_smoother: Callable[[Engine, Matrix, int], Smoother] = GaussSeidel
    transfer: Transfer | None = None
    inverse: PerChunk | None = None  # the `DenseInverse` of every chunk on the coarsest level, else None
    algebraic: bool = False  # whether it has no lattice, because strong couplings chose its points
    rough: bool = False  # of the finest level, whether its coefficients jump from point to point
    # the chunks whose rows each chunk reads, where there is no lattice that says so.
    reads: Sequence[Sequence[int]] | None = None
    aggregated: bool = False  # whether aggregates made the coarser level
    # of a complex matrix, what its level has beside that of a real one.
    complex_part: ComplexPart | None = None
    # of every chunk the number of its rows' entries, where the level was made for an algebraic hierarchy.
    entries: PerChunk | None = None

    @property
    def exact(self) -> PerChunk:
        """The `ChunkMatrix` of every chunk of the problem's own matrix, on the finest level."""
        return self.chunks if self.original is None else self.original

    @cached_property
    def matrix(self) -> Matrix:
        """A."""
        return Matrix(self.engine, self.chunks, self.senders(self.offsets))

    def smoother(self, sweeps: int = 1) -> Smoother:
        """A smoother of so many sweeps before and after the coarse correction, with work space of its own."""
        return self.make_smoother(self.engine, self.matrix, sweeps)

    def step(self, coarse: Level, sweeps: int = 1) -> Step:
        """Part in a cycle, for the next coarser level; sweeps: of the smoother, before and after."""
        assert self.transfer is not None
        return self.transfer.step(self, coarse, sweeps)

    def senders(self, offsets: Offsets) -> Sequence[Sequence[int]]:
        """The chunks whose points each chunk reads at these offsets, or in its rows where there is no lattice."""
        if self.reads is not None:
            return self.reads
        return [self.partition.neighbors(number, offsets) for number in range(len(self.partition))]

    def batched(self, width: int) -> Level:
        """This level for vectors of so many columns."""
        view = self.engine.batched(width)
        assert view is not None
        return replace(self, engine=view)


@dataclass(frozen=True, kw_only=True)
class Transfer(ABC):
    """Restriction and prolongation between a level and the next coarser one."""

    # of every chunk what the two products read, with `coarse`, the storage order of its restricted residual, and
    # `columns`, the order in which it reads the coarser level's solution.
    chunks: PerChunk
    # the `Route` to `columns` from the storage order of that level, on its engine; None where they are one.
    order: PerChunk | None = None
    # where the coarser level lives whole on every owner while this one is distributed, else None.
    replication: Replication | None = None

    @abstractmethod
    def step(self, fine: Level, coarse: Level, sweeps: int) -> Step:
        """The finer level's part in a cycle: see `Level.step`."""


class Step(ABC):
    """A level's part in a cycle: down to the coarser level, with right-hand side rc and solution xc, and back up."""

    rc: Field
    xc: Field

    @abstractmethod
    def descend(self, r: Field, x: Field) -> None:
        """Smooth A x = r from x = 0, and restrict the residual to rc."""

    @abstractmethod
    def ascend(self, r: Field, x: Field) -> None:
        """Correct x by xc, and smooth again."""

    def ascend_dot(self, r: Field, x: Field, _: PartialSums) -> bool:
        """`ascend`, and r . x of each chunk if that costs no pass of its own. Returns whether there is one."""
        self.ascend(r, x)
        return False
