"""Builder of the matrices of a solve, on the owners of their rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dsolver.discretize.system import System
from dsolver.distributed.halo import halo_layout
from dsolver.distributed.loaded_rows import chunk_matrix
from dsolver.distributed.matrix import ChunkMatrix
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.coloring import Order
from dsolver.grid.numbering import own_number, stencil_rows
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.algebraic.lattice.open_rows import can_open
from dsolver.multigrid.finest_rows import FinestRows, finest
from dsolver.multigrid.reuse import Reuse
from dsolver.problems import Problem
from dsolver.problems.discretization import Patch
from dsolver.problems.finite_volumes import Diffusion

Blocks = Callable[[Backend, int], Any]  # makes the block (nx, ny, nz) of a chunk; picklable
Early = Callable[[PerChunk], object]  # takes the `ChunkMatrix` of every chunk of A


def unused(_: PerChunk) -> None:
    """An `Early` without a reader."""


def ordered(backend: Backend, partition: Partition, number: int, order: Order) -> Layout:
    """Storage order of a chunk's rows, color after color of a smoother's order."""
    shape, wrapped = partition[number].box.shape, partition.whole_axes
    return backend.layouts.colored(order.colors(backend.xp, shape, wrapped=wrapped), order.count(shape, wrapped), shape)


def weights(problem: Problem, backend: Backend, _: int, patch: Patch | None = None) -> Any:
    """Weights of a chunk's rows: float64 (K rows,), offset after offset, or (K,) for a constant stencil."""
    return problem.values(backend.xp, patch).reshape(-1)


def closed(problem: Problem, _: Backend, __: int, patch: Patch) -> Any:
    """Cells of a chunk that are left out: bool (rows,)."""
    assert isinstance(problem.rule, Diffusion)
    solid = problem.rule.solid(patch)
    assert solid is not None
    return solid.reshape(-1)


def open_weights(
    problem: Problem, kept: tuple[int, ...], backend: Backend, number: int, patch: Patch
) -> tuple[Any, Any]:
    """The cells of a chunk that are not left out, int32 (rows,); and the weights of their rows: float64 (K rows,)."""
    assert isinstance(problem.rule, Diffusion)
    cells = backend.lattice.places(~closed(problem, backend, number, patch), kept[own_number(patch.partition, number)])
    return cells, problem.rule.weights_of(patch, cells).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class MakeStored:
    """Makes a chunk's rows of A, all of them stored, in the order in which a smoother visits them."""

    label: ClassVar[str] = "setup-levels"
    problem: Problem
    partition: Partition
    order: Order
    diagonal: Blocks | None = None  # what the diagonal is multiplied by; None for ones
    compact: bool = False  # store them in less where that loses nothing: nothing but products is wanted

    def __call__(self, backend: Backend, number: int, patch: Patch | None = None) -> tuple[ChunkMatrix]:
        """A matrix for the finest level; the patch has the chunk's coefficients, if there are any."""
        layout = ordered(backend, self.partition, number, self.order)
        values = self.problem.values(backend.xp, patch)
        rows = stencil_rows(backend, self.partition, number, self.problem.offsets, values)
        local = backend.format("sell").matrix(layout, rows)
        if self.diagonal is not None:
            local = local.scaled(self.diagonal(backend, number))
        made = ChunkMatrix(
            layout=layout,
            local=local.compacted() if self.compact else local,
            ghost=backend.format("sell").halo_matrix(layout, rows),
            halo=halo_layout(backend, layout, self.partition, number, self.problem.offsets),
        )
        return (made,)


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Builds matrices of one system, whose coefficients are loaded."""

    engine: Engine  # of A, in float64
    system: System
    problem: Problem
    partition: Partition
    order: Order  # in which smoothers visit the rows
    dtype: str = "float64"  # the preconditioner's value type
    diagonal: Blocks | None = None  # what A's diagonal is multiplied by; None for ones
    reuse: Reuse | None = None  # what set-ups leave for each other; None where each one stands alone
    # whether M of a complex matrix is to be one of the real matrix that stands for it.
    real: bool = False
    # called when A is there while levels are still under way and the host has time, if that happens at all.
    early: Early = unused

    @property
    def lowered(self) -> bool:
        """Whether the preconditioner has another value type than A."""
        return self.dtype != "float64"

    @property
    def rows(self) -> FinestRows:
        """The weights of all rows, made now: most of what set-up needs, so let go of them soon."""
        return FinestRows(
            partition=self.partition,
            offsets=self.problem.offsets,
            weights=self.system.per_chunk(partial(weights, self.problem)),
            constant=self.problem.constant,
            closed=self.system.per_chunk(partial(closed, self.problem)) if self.problem.masked else None,
            kept=self.system.kept,
            singular=self.system.singular,
            raised=self.system.raised,
        )

    @property
    def left_out(self) -> float:
        """Part of the cells that are left out."""
        kept = self.system.kept
        return 0.0 if kept is None else 1.0 - sum(kept) / self.partition.domain.points

    @property
    def open_rows(self) -> FinestRows:
        """`rows`, of open cells alone where others are left out and these can be a matrix by themselves."""
        kept = self.system.kept
        if kept is None or not all(kept) or not can_open(self.engine, self.partition):  # each chunk has a row
            return self.rows
        made = self.system.per_chunk(partial(open_weights, self.problem, kept))
        return FinestRows(
            partition=self.partition,
            offsets=self.problem.offsets,
            cells=made.at(0),
            weights=made.at(1),
            constant=False,
            kept=kept,
            singular=self.system.singular,
            raised=self.system.raised_cells,
        )

    def products(self) -> PerChunk:
        """A for products alone: nothing of a constant stencil is stored."""
        if not self.problem.lattice:
            return self.stored()
        return finest(self.engine, self.rows) if self.diagonal is None else self.stored()

    def stored(self, *, compact: bool = False, wait: bool = True) -> PerChunk:
        """A stored in the order of a smoother; see `MakeStored`. Rows of a general matrix keep their order.

        wait: until those are there, as of `chunk_matrix`.
        """
        if not self.problem.lattice:
            return self.system.per_chunk(partial(chunk_matrix, wait=wait)).at(0)
        make = MakeStored(
            problem=self.problem, partition=self.partition, order=self.order, diagonal=self.diagonal, compact=compact
        )
        return self.system.per_chunk(make).at(0)

    def per_chunk(self, make: Callable[..., Any]) -> PerChunk:
        """make(backend, number, patch) on the owner of each chunk, in the preconditioner's value type."""
        return self.system.per_chunk(make, self.engine.lowered(self.dtype) if self.lowered else self.engine)
