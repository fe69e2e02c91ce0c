"""Levels without a lattice as cycles use them: rows and transfers stored in the formats of chunks.

Kernels of cycles read what is stored here before they wait for earlier launches: the maker of a hierarchy waits in the
end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.halo import plan_layout
from dsolver.distributed.loaded_rows import stored_matrix
from dsolver.distributed.matrix import ChunkMatrix, Matrix
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.contract import JACOBI
from dsolver.kernels.formats.choice import Choice, blocks_of
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.statistics import Statistics
from dsolver.kernels.general.rows import SplitRows
from dsolver.multigrid.algebraic.coarser_level import Coarsened
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, Bounds, own_bounds
from dsolver.multigrid.correction import ChunkTransfer
from dsolver.multigrid.level import AtLevel, at_level
from dsolver.multigrid.smoothers import SweptGhosts

UNKNOWNS: Final = 3  # rows of P that have the same columns, where nodes have so many unknowns, or twice as many
DAMPING: Final = 0.85
"""Damping of Jacobi's method, where rows allow it: 40³ cells with aggressive coarsening took 14, 14, 12, 16, 15 and 16
iterations (constant, channels, chip, pores, blocks, fractal), with 0.8 15, 15, 10, 17, 15 and 17, with 0.9 14, 15, 15,
16, 15 and 17, and with the diagonal (a_ii + Σ_j |a_ij|) / 2 everywhere 16, 16, 11, 18, 17 and 18."""
DOMINANT: Final = 1.05  # D over Σ_j |a_ij| / 2, at least


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """A chunk's rows of a level, stored; scaled: with a diagonal for which D⁻¹A has no eigenvalue above 2, or 1."""

    matrix: ChunkMatrix
    scaled: Any


@dataclass(frozen=True, kw_only=True)
class TurnedRows:
    """A chunk's rows of a level, for sweeps over fine and coarse points in turn."""

    # the rows' local part with infinity on the diagonal of coarse points, which keep their values then; `coarse`: of
    # fine ones.
    fine: Any
    coarse: Any


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Answers that storing a chunk's rows would wait for: statistics if needed, and as of `GeneralSetup.matrix`."""

    known: Statistics | None
    measured: Any


def asked_rows(backend: Backend, _: int, rows: LevelRows) -> Callable[[], Statistics] | None:
    """Statistics of the only chunk's rows of a coarse level, on their way; None where they are not needed."""
    return backend.general.asked(rows.matrix, _blocks_of(rows))


def measured_rows(backend: Backend, _: int, rows: LevelRows, asked: Callable[[], Statistics] | None) -> Ahead:
    """Answers that `stored_rows` would wait for, on their way, after statistics, which are waited for."""
    if asked is None:
        return Ahead(known=None, measured=None)
    known = asked()
    return Ahead(known=known, measured=backend.general.measured(rows.matrix, None, known))


def stored_rows(
    backend: Backend, _: int, rows: LevelRows, layout: Layout, found: Choice | Ahead | None = None, *, depth: int
) -> AtLevel:
    """A chunk's `ChunkMatrix` of a coarse level.

    Rows have blocks where nodes have several unknowns, of which vectors of the near-null space tell: one each.

    `found`: the choice of its format, where one was made before, or what storing would wait for; of the only chunk.
    """
    matrix = Csr(rows.matrix.start, rows.window.slots(backend.amg, rows.matrix.columns), rows.a.values)
    more: dict[str, Any] = {"choice": found}
    if isinstance(found, Ahead):
        more = {"known": found.known, "measured": found.measured}
    more |= {"blocks": _blocks_of(rows), "wait": False}
    if not rows.window.whole:
        return at_level(depth, stored_matrix(backend, matrix, layout, layout, rows.plan, **more))
    return at_level(depth, ChunkMatrix(layout=layout, local=backend.general.matrix(matrix, layout, **more)))


def _blocks_of(rows: LevelRows) -> tuple[int, ...]:
    return blocks_of(max(1, rows.near.shape[1]))


def with_smoother(
    backend: Backend,  # where it is stored
    _: int,
    matrix: ChunkMatrix,
    share: F64,
    *,
    depth: int,
    factor: float,
    lessened: bool = False,
    wait: bool = False,
) -> AtLevel:
    """The `StoredRows` of a chunk.

    Args:
        factor: of the diagonal D = (a_ii + Σ_j |a_ij|) / 2.
        lessened: whether D is a_ii / `DAMPING` in its place, or more where that might not damp. With D > Σ_j |a_ij| / 2
            the matrix 2 D - A is diagonally dominant, so sweeps converge; in rows of diffusion a_ii / 0.85 is enough.
        wait: until it is there, for `swept_ghosts`, whose kernels do not wait for earlier launches.
    """
    if lessened:
        factors = backend.asarray(backend.amg.damped(share, 1.0 / DAMPING, DOMINANT, factor))
    else:
        factors = factor * backend.asarray(share)
    scaled = _scaled(backend, matrix, factors)
    if wait:
        backend.synchronize()
    return at_level(depth, StoredRows(matrix=matrix, scaled=scaled))


def in_turns(backend: Backend, _: int, matrix: ChunkMatrix, coarse: Any, *, depth: int, wait: bool) -> AtLevel:
    """The `TurnedRows` of a chunk; coarse: bool, of own rows; the others as of `with_smoother`."""
    coarse, ones = backend.asarray(coarse), backend.xp.ones(len(coarse))
    fine, coarse = (_scaled(backend, matrix, backend.xp.where(held, np.inf, ones)) for held in (coarse, ~coarse))
    if wait:
        backend.synchronize()
    return at_level(depth, TurnedRows(fine=fine, coarse=coarse))


def _scaled(backend: Backend, matrix: ChunkMatrix, factors: Any) -> Any:
    """The local part of a matrix with its diagonal times factors, float64, of own rows."""
    if matrix.local.layout is not matrix.layout:  # whose rows may be in another order
        in_place = backend.xp.empty(matrix.layout.size)
        in_place[matrix.layout.position] = factors
        factors = in_place[matrix.local.layout.position]
    return matrix.local.scaled(factors.reshape(-1, 1, 1))


def swept_ghosts(matrix: Matrix, scaled: PerChunk, engine: Engine, depth: int) -> PerChunk:
    """The `SweptGhosts` of every chunk of a level, whose ghosts' diagonals are exchanged; scaled: of `StoredRows`."""
    ghost, ones, weights = matrix.ghost, engine.field(matrix.layout), engine.field(matrix.layout)
    engine.fill(matrix.layout, 1.0, ones)
    engine.run(JACOBI, scaled, ones, -1.0, weights)  # -D⁻¹
    ghost.exchange(weights)
    return engine.per_chunk(partial(_swept_ghosts, depth=depth), ghost.entries, weights, ghost.halo).at(depth)


def _swept_ghosts(_: Backend, __: int, ghost: Any, weights: Any, halo: Any, *, depth: int) -> AtLevel:
    return at_level(depth, SweptGhosts(first=ghost.scaled_columns(halo), sweep=ghost.scaled_rows(weights)))


def plain_layout(backend: Backend, number: int, *, bounds: Bounds) -> Layout:
    """The storage order of a chunk's rows."""
    first, last = own_bounds(bounds, number)
    return backend.layouts.plain((last - first, 1, 1))


def measured_prolongation(backend: Backend, _: int, fine: Layout, p: SentRows, *, columns: int) -> Any:
    """Sizes for which storing the only chunk's P would wait, on their way, as of `GeneralSetup.measured_transfer`."""
    return backend.general.measured_transfer(p.rows.matrix, fine, backend.layouts.plain((columns, 1, 1)))


def stored_transfer(
    backend: Backend,
    number: int,
    fine: Layout,
    coarse: Layout,
    made: Coarsened,
    measured: Any = None,
    *,
    depth: int,
    bounds: Bounds,
    replicated: bool,
) -> AtLevel:
    """The `ChunkTransfer` of a chunk; measured: of the only chunk's P; replicated: the coarser level is everywhere."""
    several = len(bounds) > 2
    distributed = several and not replicated
    plan = made.restriction_plan
    of_nodes = (UNKNOWNS, made.coarse.near.shape[1])
    local, ghost = _product(
        backend,
        made.restriction,
        coarse,
        fine,
        plan if several else None,
        in_order=True,
        blocks=of_nodes[::-1],
        parts=made.restriction_parts,
    )
    halo = plan_layout(backend, fine, plan) if several else None
    restriction = ChunkMatrix(layout=coarse, local=local, ghost=ghost, halo=halo)
    first, last = (0, bounds[-1]) if replicated else own_bounds(bounds, number)
    amg, p, plan, parts = backend.amg, made.prolongation, made.prolongation_plan, made.prolongation_parts

    def rows() -> Csr:
        if replicated:
            return p.everywhere(amg)
        return p.matrix._replace(columns=p.window.slots(amg, p.matrix.columns))

    columns = backend.layouts.plain((last - first, 1, 1)) if replicated else coarse
    local, ghost = _product(
        backend,
        rows,
        fine,
        columns,
        plan if distributed else None,
        in_order=False,
        blocks=of_nodes,
        measured=measured,
        parts=None if parts is None else lambda: parts,
    )
    halo = plan_layout(backend, coarse, plan) if distributed else None
    prolongation = ChunkMatrix(layout=fine, local=local, ghost=ghost, halo=halo)
    return at_level(depth, ChunkTransfer(restriction=restriction, prolongation=prolongation, columns=columns))


def _product(
    backend: Backend,
    made: Callable[[], Csr],
    written: Layout,
    read: Layout,
    plan: HaloPlan | None,
    *,
    in_order: bool,
    blocks: tuple[int, int],
    measured: Any = None,
    parts: Callable[[], SplitRows] | None = None,
) -> tuple[Any, Any]:
    """The local and the ghost part of rows between two levels.

    Args:
        made: the rows.
        plan: of the exchange, None where all columns are own.
        in_order: as of `FormatBuilder.product`.
        blocks: as of `GeneralSetup.transfer`, like `measured`.
        parts: the rows in two parts, where they are split already.
    """
    general, several = backend.general, plan is not None
    colored = written.colors > 1 or read.colors > 1  # as on the finest level of a grid
    if colored and not general.colored:
        rows = made()
        table = replace(backend.amg.table(rows, rows.width), halo=several)
        sell = backend.format("sell")
        local = sell.product(written, read, table, in_order=in_order)
        return local, sell.halo_product(written, read, table) if several else None
    if plan is None:
        return general.transfer(made(), written, read, wait=False, blocks=blocks, measured=measured), None
    found = parts() if parts is not None else general.split(made(), read.rows)
    local = general.transfer(found.local, written, read, wait=False, blocks=blocks)
    return local, general.ghost(written.position[found.boundary], found.ghost, plan.slots, found.longest)


def tidied(backend: Backend, _: int, *, rows: int) -> None:
    """Give free memory of a device back, where levels have so many rows that it counts."""
    backend.tidy(rows, always=True)


def finished(backend: Backend, _: int) -> None:
    """Wait for all that was stored: kernels read what a level has before they wait for earlier launches."""
    backend.synchronize()
    backend.amg.leave()
