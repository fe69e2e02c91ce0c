"""Rows of a grid's cells that are not left out, as a matrix by itself.

Cells that are left out are no rows: they take neither memory nor time in matrices, vectors, levels and halos. The
open ones are numbered chunk after chunk, in lattice order in each: levels of slabs along the last axis are the same to
the bit as those of one chunk. Vectors come and go as blocks of the grid: their layout leads from each open cell to its
row, and from the others to a place that stays zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, final

import numpy as np

from dsolver.distributed.setup_exchange import GhostExchange, Senders, mutual_senders, numbers_of, senders_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.numbering import by_offset, chunk_numbering, own_number
from dsolver.grid.partition import HaloPlan, Offsets, Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.matrices.row_block import RowBlock
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import Rows, starts
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.symmetric import symmetric_rows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, own_bounds, owners_in

CENTER = (0, 0, 0)


@final
@dataclass(frozen=True, kw_only=True)
class OpenRows:
    """Rows of the open cells of a grid.

    Attributes:
        rows: the `LevelRows` of every chunk.
        blocks: the `RowBlock` of every chunk, of the same rows.
        layouts: the `OpenLayouts` of every chunk.
        bounds: the first row of each chunk, and behind them the number of rows.
        senders: the chunks whose rows each chunk reads.
    """

    rows: PerChunk
    blocks: PerChunk
    layouts: PerChunk
    bounds: Bounds
    senders: Senders


@final
@dataclass(frozen=True, kw_only=True)
class OpenLayouts:
    """The storage order of a chunk's open cells, which is that of their rows.

    Attributes:
        box: of a block of the grid.
        rows: of the rows, twice: as of `dsolver.distributed.loaded_rows.chunk_layouts`.
    """

    box: Layout
    rows: tuple[Layout, Layout]


def can_open(engine: Engine, partition: Partition) -> bool:
    """Whether rows of open cells can be made: not for text-book kernels, nor where one cell is both neighbors."""
    twice = any(wraps and n == 2 for wraps, n in zip(partition.periodic, partition.grid, strict=True))
    return engine.kernels != "numpy" and not twice


def open_bounds(engine: Engine, closed: PerChunk) -> Bounds:
    """The first open cell of each chunk, and behind them their number; the same on every rank."""
    return tuple(accumulate(numbers_of(engine, engine.per_chunk(_count, closed)), initial=0))


def open_rows(
    engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, closed: PerChunk, bounds: Bounds
) -> OpenRows:
    """The rows of a grid's open cells.

    Args:
        engine: of the grid's chunks, in float64.
        partition: the chunks; an axis of one point is not periodic.
        offsets: of the rows' columns.
        weights: float64 (K rows,) of every chunk, offset after offset, of a symmetric matrix.
        closed: bool (rows,) of every chunk, the cells that are left out.
        bounds: of `open_bounds`; each chunk has an open cell.

    Raises:
        InputError: the matrix has an entry in one of two mirrored places alone.
    """
    own = engine.per_chunk(partial(_own_numbers, bounds=bounds), closed)
    plans = [partition.halo_plan(number, offsets) for number in range(len(partition))]
    around = GhostExchange(
        engine,
        engine.per_chunk(partial(_plan, plans=plans)),
        own,
        [[source for source, _ in plan.receives] for plan in plans],
    )
    make = partial(_brought, partition=partition, offsets=offsets, bounds=bounds)
    made = engine.per_chunk(make, weights, own, around(own.at("numbers")))
    senders = mutual_senders(senders_of(engine, made.at("named")))
    rows = symmetric_rows(engine, made, senders, bounds, ascending=True)
    return OpenRows(
        rows=rows,
        blocks=engine.per_chunk(_block, rows),
        layouts=engine.per_chunk(partial(_layouts, partition=partition, bounds=bounds), closed),
        bounds=bounds,
        senders=senders,
    )


def with_diagonal(engine: Engine, opened: OpenRows, offsets: Offsets, weights: PerChunk, closed: PerChunk) -> PerChunk:
    """The `RowBlock` of every chunk with the diagonal of other weights, as of `open_rows`."""
    return engine.per_chunk(partial(_with_diagonal, offsets=offsets), opened.blocks, weights, closed)


# -- what is made on the owners ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class _Numbers:
    """Numbers of a chunk's cells: float64 (cells + 1,), -1 for those that are left out."""

    rows: int
    numbers: F64


def _count(_: Backend, __: int, closed: Any) -> float:
    return len(closed) - float(closed.astype(np.float64).sum())  # CuPy compiles sums of bool for seconds


def _own_numbers(_: Backend, number: int, closed: Any, *, bounds: Bounds) -> _Numbers:
    first, _last = own_bounds(bounds, number)
    numbers = np.full_like(closed, -1.0, dtype=np.float64, shape=len(closed) + 1)
    numbers[:-1] = np.where(closed, -1.0, first - 1.0 + np.cumsum(~closed, dtype=np.float64))
    return _Numbers(rows=len(closed), numbers=numbers)


def _plan(_: Backend, number: int, *, plans: list[HaloPlan]) -> HaloPlan:
    return plans[number if len(plans) > 1 else 0]


def _brought(
    backend: Backend,
    number: int,
    weights: Any,
    own: _Numbers,
    ghosts: Any,
    *,
    partition: Partition,
    offsets: Offsets,
    bounds: Bounds,
) -> BroughtRows:
    """A chunk's rows: the entries of each offset side by side, of which those that are there are taken."""
    number = own_number(partition, number)
    box, weights = partition[number].box, by_offset(weights, offsets)
    cells = np.flatnonzero(own.numbers[:-1] >= 0.0)
    outside = own.numbers[-1:]  # -1, the number that is read at -1
    parts = [own.numbers[:-1], outside] if ghosts is None else [own.numbers[:-1], ghosts, outside]
    numbers = np.concatenate(parts).astype(np.int64)
    around = chunk_numbering(backend, partition, number, offsets)
    nx, ny, nz = box.shape
    columns, values = [], []
    order = sorted(range(len(offsets)), key=lambda place: offsets[place][::-1])  # as the lattice is numbered
    for place in order:
        i, j, k = offsets[place]
        seen = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
        columns.append(numbers[seen[cells]])
        values.append(weights[place][cells])
    column, value = np.stack(columns, axis=1), np.stack(values, axis=1)
    there = (column >= 0) & (value != 0.0)
    there[:, order.index(offsets.index(CENTER))] = True
    there = there.reshape(-1)
    entries = np.flatnonzero(there)
    rows = Rows(
        start=starts(there)[:: len(offsets)].copy(),
        columns=column.reshape(-1)[entries],
        values=value.reshape(-1)[entries],
    )
    if any(partition.periodic) or max(partition.counts[:2]) > 1:  # numbers go on where the lattice does not
        rows = rows.ascending
    found = DistributedRows.of(backend.amg, bounds, number, rows)
    return BroughtRows(
        rows=found,
        origin=partition.domain.rows_of(box, like=cells)[cells],
        near=np.empty((len(cells), 0), like=cells),
        named=owners_in(bounds, found.window),
    )


def _block(backend: Backend, _: int, rows: LevelRows) -> RowBlock:
    matrix, slots = rows.matrix, rows.window.slots(backend.amg, rows.matrix.columns)
    return RowBlock(start=matrix.start, columns=slots, values=matrix.values, plan=rows.plan)


def _with_diagonal(_: Backend, __: int, block: RowBlock, weights: Any, closed: Any, *, offsets: Offsets) -> RowBlock:
    rows = Rows(start=block.start, columns=block.columns, values=block.values.copy())
    diagonal: I64 = np.flatnonzero(rows.columns == rows.of_entries)
    rows.values[diagonal] = by_offset(weights, offsets)[offsets.index(CENTER)][np.flatnonzero(~closed)]
    return replace(block, values=rows.values)


def _layouts(backend: Backend, number: int, closed: Any, *, partition: Partition, bounds: Bounds) -> OpenLayouts:
    box = partition[own_number(partition, number)].box
    first, last = own_bounds(bounds, number)
    rows = backend.layouts.plain((last - first, 1, 1))
    return OpenLayouts(box=backend.layouts.opened(backend.layouts.plain(box.shape), closed), rows=(rows, rows))
