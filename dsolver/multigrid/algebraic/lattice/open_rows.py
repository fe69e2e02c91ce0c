"""Rows of a grid's cells that are not left out, which may be all, as a matrix by itself.

Cells that are left out are no rows: they take neither memory nor time in matrices, vectors, levels and halos. The
open ones are numbered chunk after chunk, in lattice order in each: levels of slabs along the last axis are the same to
the bit as those of one chunk. Vectors come and go as blocks of the grid: their layout leads from each open cell to its
row, and from the others to a place that stays zero.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dsolver.distributed.setup_exchange import GhostExchange, Senders, mutual_senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.box import Offsets
from dsolver.grid.halo import HaloPlan
from dsolver.grid.numbering import chunk_numbering, own_number
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.amg import OpenBox, RaisedCells
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE, Layout
from dsolver.matrices.chunks.row_block import RowBlock
from dsolver.multigrid.algebraic.lattice.rows import LatticeRows, level_rows
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import ascending
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, Bounds, own_bounds


@dataclass(frozen=True, kw_only=True)
class OpenRows:
    """Rows of the open cells of a grid."""

    rows: PerChunk
    blocks: PerChunk
    layouts: PerChunk  # the `OpenLayouts` of every chunk
    bounds: Bounds
    senders: Senders
    reach: Senders


@dataclass(frozen=True, kw_only=True)
class OpenLayouts:
    """Storage order of a chunk's open cells, of a block of the grid and of rows: as of `loaded_rows.chunk_layouts`."""

    box: Layout
    rows: tuple[Layout, Layout]


def can_open(engine: Engine, partition: Partition) -> bool:
    """Whether rows of open cells can be made: not for text-book kernels, nor where one cell is both neighbors."""
    twice = any(wraps and n == 2 for wraps, n in zip(partition.periodic, partition.grid, strict=True))
    return engine.kernels != "numpy" and not twice


def open_rows(
    engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk, cells: PerChunk, bounds: Bounds
) -> OpenRows:
    """The rows of a grid's open cells.

    Args:
        weights: float64 (K rows,) of every chunk, offset after offset, mirrored ones equal to the bit.
        cells: int32 (rows,) of every chunk, the numbers of its open cells, ascending.
        bounds: the first open cell of each chunk, and behind them their number; each chunk has one.
    """
    ghosts = _ghost_numbers(engine, partition, offsets, cells, bounds)
    make = partial(_rows_of, partition=partition, offsets=offsets, bounds=bounds)
    layouts = engine.per_chunk(partial(_layouts, partition=partition), cells)
    made = engine.per_chunk(make, weights, cells, ghosts, layouts.at("box"))
    return OpenRows(
        rows=made,
        blocks=engine.per_chunk(_block, made),
        layouts=layouts,
        bounds=bounds,
        senders=engine.partners(made.at("neighbors")),
        reach=mutual_senders(_read_boxes(partition, offsets)),
    )


def is_in_slabs(partition: Partition) -> bool:
    """Whether the chunks are ranges of the grid's rows in lattice order."""
    return max(partition.counts[:2]) == 1


def all_rows(engine: Engine, partition: Partition, offsets: Offsets, weights: PerChunk) -> OpenRows:
    """The rows of a grid none of whose cells is left out, in slabs.

    `weights`: as of `LatticeRows`.
    """
    made = LatticeRows(engine, partition, offsets, weights)
    return OpenRows(
        rows=made.rows,
        blocks=engine.per_chunk(_block, made.rows),
        layouts=engine.per_chunk(partial(_all_layouts, partition=partition)),
        bounds=made.bounds,
        senders=made.senders,
        reach=made.reach,
    )


def raised(engine: Engine, opened: OpenRows, raised_cells: PerChunk) -> OpenRows:
    """The rows with the diagonals of some cells, the `RaisedCells` of every chunk, times their factors."""
    values = engine.per_chunk(_raised, opened.blocks, opened.layouts, raised_cells)
    rows = engine.per_chunk(_rows_with, opened.rows, values)
    return replace(opened, rows=rows, blocks=engine.per_chunk(_block_with, opened.blocks, values))


def _ghost_numbers(engine: Engine, partition: Partition, offsets: Offsets, cells: PerChunk, bounds: Bounds) -> PerChunk:
    """Numbers of the cells around every chunk, float64 in the order of its halo's slots; None of the only one."""
    if not engine.coupled:
        return engine.per_chunk(_none)
    plans = [partition.halo_plan(number, offsets) for number in range(len(partition))]
    of_chunks = engine.per_chunk(partial(_plan, plans=plans))
    own = engine.per_chunk(partial(_own_numbers, partition=partition, bounds=bounds), cells)
    return GhostExchange(engine, of_chunks, _read_boxes(partition, offsets))(own)


def _read_boxes(partition: Partition, offsets: Offsets) -> Senders:
    """The chunks around each one that its rows read."""
    plans = (partition.halo_plan(number, offsets) for number in range(len(partition)))
    return [tuple(source for source, _ in plan.receives) for plan in plans]


def _none(_: Backend, __: int) -> None:
    return None


def _own_numbers(_: Backend, number: int, cells: Any, *, partition: Partition, bounds: Bounds) -> F64:
    """Numbers of a chunk's cells, float64 (cells,): -1 for those that are left out."""
    (first, last), points = own_bounds(bounds, number), partition[own_number(partition, number)].box.points
    numbers = np.full_like(cells, -1.0, dtype=np.float64, shape=points)
    numbers[cells] = np.arange(first, last, dtype=np.float64, like=cells)
    return numbers


def _plan(_: Backend, number: int, *, plans: list[HaloPlan]) -> HaloPlan:
    return plans[number if len(plans) > 1 else 0]


def _rows_of(
    backend: Backend,
    number: int,
    weights: Any,
    cells: Any,
    ghosts: Any,
    layout: Layout,
    *,
    partition: Partition,
    offsets: Offsets,
    bounds: Bounds,
) -> LevelRows:
    """A chunk's rows."""
    number = own_number(partition, number)
    box, (first, _) = partition[number].box, own_bounds(bounds, number)
    count, beyond = len(cells), cells[:0]
    if ghosts is not None:
        slots = np.arange(count, count + len(ghosts), like=cells)
        beyond = np.where(ghosts >= 0.0, slots, -1).astype(np.int32)
    where = OpenBox(
        shape=box.shape,
        numbering=chunk_numbering(backend, partition, number, offsets),
        position=layout.position,
        left_out=layout.size - SLICE,
        beyond=beyond,
        cells=cells,
    )
    start, columns, values = backend.amg.open_rows(where, offsets, weights)
    if ghosts is not None:
        own = np.arange(first, first + count, dtype=np.int64, like=cells)
        columns = np.concatenate([own, ghosts.astype(np.int64)])[columns]
    rows = Csr(start, columns, values)
    if any(partition.periodic) or max(partition.counts[:2]) > 1:  # numbers go on where the lattice does not
        rows = ascending(rows)
    found = DistributedRows.of(backend.amg, bounds, number, rows)
    read = found.read_by(backend.amg, found.elsewhere(backend.amg, bounds))
    return level_rows(found, partition.domain.row_of(box, cells), bounds, read)


def _block(backend: Backend, _: int, rows: LevelRows) -> RowBlock:
    matrix, slots = rows.matrix, rows.window.slots(backend.amg, rows.matrix.columns)
    return RowBlock(start=matrix.start, columns=slots, values=matrix.values, plan=rows.plan)


def _raised(backend: Backend, _: int, block: RowBlock, layouts: OpenLayouts, some: RaisedCells) -> Any:
    """float64 (entries,): values of a chunk's rows with some of their diagonals times factors."""
    rows = Csr(*map(backend.amg.asarray, (block.start, block.columns, block.values)))
    return backend.amg.raised(rows, layouts.box.position[some.cells] - np.int32(SLICE), some.factors)


def _rows_with(_: Backend, __: int, rows: LevelRows, values: Any) -> LevelRows:
    return replace(rows, matrix=rows.matrix._replace(values=values))


def _block_with(_: Backend, __: int, block: RowBlock, values: Any) -> RowBlock:
    return replace(block, values=values)


def _all_layouts(backend: Backend, number: int, *, partition: Partition) -> OpenLayouts:
    box = partition[own_number(partition, number)].box
    rows = backend.layouts.plain((box.points, 1, 1))
    return OpenLayouts(box=backend.layouts.plain(box.shape), rows=(rows, rows))


def _layouts(backend: Backend, number: int, cells: Any, *, partition: Partition) -> OpenLayouts:
    box = partition[own_number(partition, number)].box
    rows = backend.layouts.plain((len(cells), 1, 1))
    return OpenLayouts(box=backend.layouts.some(box.shape, cells), rows=(rows, rows))
