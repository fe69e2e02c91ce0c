"""The finest level of an algebraic hierarchy: of a matrix, or of a grid, whose rows are opened or stay a lattice's."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, Final

from dsolver.distributed.loaded_rows import chunk_layouts, chunk_matrices, chunk_matrix, measured_chunk
from dsolver.distributed.matrix import ChunkMatrix
from dsolver.distributed.setup_exchange import mutual_senders
from dsolver.engines.base import PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.deferred import Deferred
from dsolver.multigrid.algebraic.finest import FinestLevel, rows_of_blocks
from dsolver.multigrid.algebraic.lattice import open_rows
from dsolver.multigrid.algebraic.lattice.levels import finest_of_grid
from dsolver.multigrid.algebraic.rows.measures import measured
from dsolver.multigrid.algebraic.setup import LATE
from dsolver.multigrid.finest_rows import FinestRows
from dsolver.multigrid.geometric.assembly import chunk_matrix as grid_matrix
from dsolver.multigrid.geometric.assembly import narrowed_matrix, raised_rows
from dsolver.preconditioners.builder import Builder

PUT_OFF: Final = 1 << 22
"""Cells of a grid at most whose matrix is stored while a GPU makes coarse rows: their weights, 56 bytes each, stay so
long. With more cells the host's work counts for little."""


def alone(builder: Builder) -> PerChunk:
    """A in float64, as it is stored above levels."""
    with builder.engine.deferring():
        exact, _ = of_grid(builder, lambda: builder.open_rows) if builder.problem.lattice else of_matrix(builder)
        return exact()


def of_matrix(builder: Builder) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """A in float64, made when it is called for, and the finest level, of a matrix."""
    blocks, layouts = builder.system.per_chunk(_as_it_came), builder.system.per_chunk(chunk_layouts)
    bounds = tuple(accumulate(builder.partition.sizes[0], initial=0))
    early = bounds[-1] < LATE * (len(bounds) - 1)
    sizes = builder.engine.per_chunk(partial(measured_chunk, wanted=early), blocks)
    senders = builder.problem.senders or [()]
    rows = rows_of_blocks(builder.engine, blocks, bounds)
    measures = None if builder.problem.asymmetry else measured(builder.engine, rows)
    known = (sizes,) if measures is None else (sizes, measures.at("diagonal"))

    both = _put_off(builder, lambda: _in_both_types(builder, blocks, layouts, *known), early=early)
    return lambda: both()[0], FinestLevel(
        rows=rows,
        layout=layouts.at(0),
        chunks=lambda: both()[1],
        bounds=bounds,
        senders=senders,
        reach=mutual_senders(senders),
        singular=builder.system.singular,
        symmetric=not builder.problem.asymmetry,
        positive=True,
        measures=measures,
    )


def of_grid(builder: Builder, take: Callable[[], FinestRows]) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """A in float64, made when it is called for, and the finest level of a grid.

    On CPUs cells have rows as a matrix's, too. Slices of a grid take six times as long to make there as formats of any
    matrix, and so do P and R between two colors; products are as fast. On GPUs a symmetric star in two colors is half
    of what any matrix would read.
    """
    rows, engine = take(), builder.engine
    where = rows.chunks, rows.offsets, rows.weights
    if rows.cells is not None:
        assert rows.kept is not None
        opened = open_rows.open_rows(engine, *where, rows.cells, tuple(accumulate(rows.kept, initial=0)))
    elif not rows.masked and engine.kernels != "cuda" and open_rows.is_in_slabs(rows.chunks):
        opened = open_rows.all_rows(engine, *where)
    else:
        return _of_lattice(builder, rows)
    factors, singular = rows.raised, rows.singular
    del rows, where  # weights go before matrices are made
    return _of_opened(builder, opened, factors, singular=singular)


def _of_lattice(builder: Builder, rows: FinestRows) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """`of_grid` of rows that are stored as a lattice's."""
    engine = builder.engine
    view = engine.lowered(builder.dtype) if builder.lowered else engine
    where: dict[str, Any] = {"partition": rows.chunks, "offsets": rows.offsets}
    layout = rows.looked_at(view).at("layout")
    store = partial(grid_matrix, depth=0, swept=False, **where)
    weights = given = rows.weights
    if rows.raised is not None:
        weights = engine.per_chunk(partial(raised_rows, offsets=rows.offsets), weights, rows.raised)

    def stored() -> tuple[PerChunk, PerChunk]:
        exact = engine.per_chunk(store, layout, given).at(0)
        if weights is not given:
            return exact, view.per_chunk(store, layout, weights).at(0)
        narrow = partial(narrowed_matrix, depth=0, swept=False)
        return exact, view.per_chunk(narrow, exact).at(0) if builder.lowered else exact

    soon = rows.partition.domain.points <= PUT_OFF
    both = _put_off(builder, stored, early=soon)
    if not soon:
        both()
    first = finest_of_grid(
        engine, **where, weights=weights, layout=layout, chunks=lambda: both()[1], singular=rows.singular
    )
    return lambda: both()[0], first


def _of_opened(
    builder: Builder, opened: open_rows.OpenRows, factors: PerChunk | None, *, singular: bool
) -> tuple[Callable[[], PerChunk], FinestLevel]:
    """`of_grid` of rows as a matrix's; factors: of the levels' diagonal, None for ones."""
    engine, layouts, levels = builder.engine, opened.layouts.at("rows"), opened
    if factors is not None:
        levels = open_rows.raised(engine, opened, factors)
    early = opened.bounds[-1] < LATE * (len(opened.bounds) - 1)
    sizes = engine.per_chunk(partial(measured_chunk, wanted=early), opened.blocks)
    measures = measured(engine, levels.rows)
    others = None if factors is None else levels.blocks

    def stored() -> tuple[PerChunk, PerChunk]:
        exact, narrow = _in_both_types(builder, opened.blocks, layouts, sizes, measures.at("diagonal"), others=others)
        return engine.per_chunk(_in_box, exact, opened.layouts), narrow

    both = _put_off(builder, stored, early=early)
    return lambda: both()[0], FinestLevel(
        rows=levels.rows,
        layout=layouts.at(0),
        chunks=lambda: both()[1],
        bounds=opened.bounds,
        senders=opened.senders,
        reach=opened.reach,
        singular=singular,
        measures=measures,
    )


def _put_off(
    builder: Builder, store: Callable[[], tuple[PerChunk, PerChunk]], *, early: bool
) -> Deferred[tuple[PerChunk, PerChunk]]:
    """The finest matrices in both types, made while others wait where `early`, else when they are called for."""
    both = Deferred(store)
    if early:
        builder.engine.defer(both)
        if builder.engine.kernels == "cuda":
            builder.engine.defer(lambda: builder.early(both()[0]))
    return both


def _in_both_types(
    builder: Builder, blocks: PerChunk, layouts: PerChunk, *known: PerChunk, others: PerChunk | None = None
) -> tuple[PerChunk, PerChunk]:
    """The `ChunkMatrix` of every chunk in float64, and in the levels' value type; those who multiply wait for them.

    `others`: blocks with other values for the levels, whose the known diagonal is then; None for the same ones.
    """
    engine, store = builder.engine, partial(chunk_matrix, wait=False)
    if builder.lowered:
        values = () if others is None else (others.at("values"),)
        made = engine.per_chunk(partial(chunk_matrices, dtype=builder.dtype), blocks, layouts, *known, *values)
        return made.at(0, "exact"), made.at(0, "narrow")
    if others is None:
        exact = engine.per_chunk(store, blocks, layouts, *known).at(0)
        return exact, exact
    exact, narrow = (engine.per_chunk(store, each, layouts).at(0) for each in (blocks, others))
    return exact, narrow


def _in_box(_: Backend, __: int, matrix: ChunkMatrix, layouts: open_rows.OpenLayouts) -> ChunkMatrix:
    """A chunk's matrix of rows of open cells, whose vectors come and go as blocks of the grid."""
    return replace(matrix, layout=layouts.box)


def _as_it_came(_: Backend, __: int, block: Any) -> Any:
    return block
