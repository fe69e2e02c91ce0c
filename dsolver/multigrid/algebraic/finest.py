"""The finest level of an algebraic hierarchy: rows of a matrix, or of a grid, as set-up takes them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.multigrid.algebraic.rows.global_rows import ascending
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import Bounds, Window, own_bounds

if TYPE_CHECKING:
    from dsolver.multigrid.algebraic.lattice.rows import LatticeRows


@dataclass(frozen=True, kw_only=True)
class FinestLevel:
    """The finest level of a hierarchy."""

    rows: PerChunk
    layout: PerChunk
    # gives the `ChunkMatrix`, in the value type of the levels, which may not be made yet.
    chunks: Callable[[], PerChunk]
    bounds: Bounds
    senders: Senders
    reach: Senders
    singular: bool  # whether constants are in the null space
    # what is between the boxes of a grid and ranges of its rows, and of the level what follows from the grid; None
    # where chunks are ranges.
    grid: "FinestGrid | None" = None
    size: int = 0  # unknowns of a node, for a near-null space of constants where none was given; 0 where none is needed
    symmetric: bool = True
    positive: bool = False  # whether it is known that the diagonal is
    depth: int = 0
    measures: PerChunk | None = None  # the `Measures` of every chunk, where A is symmetric and they are known


@dataclass(frozen=True, kw_only=True)
class FinestGrid:
    """The grid of a finest level, its boxes and columns, and the way of its rows from boxes to ranges, and back."""

    rows: "LatticeRows"
    partition: Partition
    offsets: Offsets


def rows_of_blocks(engine: Engine, blocks: PerChunk, bounds: Bounds) -> PerChunk:
    """The `LevelRows` of every chunk of a matrix that has come in the `RowBlock` of every chunk, wherever that lies."""
    return engine.per_chunk(partial(_finest_rows, bounds=bounds), blocks)


def _finest_rows(backend: Backend, number: int, block: RowBlock, *, bounds: Bounds) -> LevelRows:
    """The rows of A in A's order, however the block has them; halo slots are in the order of the ghosts."""
    first, last = own_bounds(bounds, number)
    amg, asarray = backend.amg, backend.amg.asarray
    start, columns, values = (asarray(part) for part in (block.start, block.columns, block.values))
    start = start.astype(np.int64, copy=False)
    window = Window(first=first, rows=last - first, ghosts=start[:0], whole=True)
    if len(bounds) > 2:
        lower = sum(count for other, count in block.plan.receives if other < number)
        ghosts = asarray(block.ghosts).copy()  # which is for reading alone where it has travelled: see below
        window = replace(window, ghosts=ghosts, lower=lower, end=bounds[-1], whole=False)
    if block.order is not None:
        order = asarray(block.order)
        columns = np.concatenate([first + order, window.ghosts])[columns]
        matrix = window.placed(amg, ascending(amg.selected(Csr(start, columns, values), np.argsort(order))))
    else:
        matrix = Csr(start, window.places_of_slots(amg, columns), values)
    if isinstance(matrix.values, np.ndarray):
        matrix = Csr(*(np.require(part, requirements="W") for part in matrix))  # loops are compiled for such arrays
    return LevelRows(
        window=window,
        matrix=matrix,
        origin=np.arange(first, last, like=start),
        near=np.empty((last - first, 0), like=start) if block.near is None else asarray(block.near),
        plan=replace(block.plan, sends=tuple((to, asarray(rows)) for to, rows in block.plan.sends)),
        bounds=bounds,
    )


def with_constants(_: Backend, __: int, rows: LevelRows, *, size: int) -> LevelRows:
    """Rows with a near-null space: what was given, or constants of each unknown of a node."""
    if rows.near.shape[1]:
        host = isinstance(rows.near, np.ndarray)
        return replace(rows, near=np.require(rows.near, requirements="W")) if host else rows
    numbers = np.arange(rows.window.first, rows.window.first + rows.rows, like=rows.origin)
    return replace(rows, near=(numbers[:, None] % size == np.arange(size, like=numbers)).astype(np.float64))
