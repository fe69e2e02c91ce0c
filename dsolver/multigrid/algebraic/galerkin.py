"""Galerkin products R A P of a level that is cut into chunks, and R and P: the same bits however it is cut.

Rows of P of ghosts come from their owners, so that each chunk has its rows of A P. Finished rows of A P go to the
owners of the coarse points that they are restricted to, who add them up in ascending order: partial sums would depend
on the chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from dsolver.distributed.setup_exchange import Senders, receivers_of, senders_of
from dsolver.engines.base import Engine, Message, PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import BlockSizes
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.galerkin_numeric import Products, bare, bare_rows
from dsolver.multigrid.algebraic.requirements import ONE_SIDED
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, around_it, ghost_rows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS, joined
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import (
    F64,
    I64,
    Bounds,
    Window,
    others,
    own_bounds,
    owners_in,
    received,
    window_of,
)


@final
@dataclass(frozen=True, kw_only=True)
class Coarsened:
    """A chunk's rows of the coarser level, and of R and P.

    Attributes:
        restriction: R, own coarse rows; columns are own fine rows from 0, then halo slots.
        restriction_plan: the exchange of a fine vector for it.
        prolongation: own rows of P.
        prolongation_plan: the exchange of a coarse vector for it.
        rows: own rows of the coarser level; in a single chunk their columns do not ascend.
        origin: int64, the finest row that each stems from.
        near: float64 (own coarse rows, k), the near-null space.
        named: the chunks whose rows these read, ascending.
        products: what makes `rows` again of other values; None where that is not wanted.
        mirrored: whether columns of `rows` ascend, and mirrored entries are equal.
    """

    restriction: Csr
    restriction_plan: HaloPlan
    prolongation: DistributedRows
    prolongation_plan: HaloPlan
    rows: DistributedRows
    origin: I64
    near: F64
    named: tuple[int, ...]
    products: Products | None = None
    mirrored: bool = False


def coarsened(
    engine: Engine,
    rows: PerChunk,
    diagonal: PerChunk,
    p: PerChunk,
    origin: PerChunk,
    near: PerChunk,
    senders: Senders,
    bounds: Bounds,
    *,
    keep: bool = False,
    symmetric: bool = False,
    blocks: BlockSizes | None = None,
) -> tuple[PerChunk, Senders, Senders]:
    """The `Coarsened` of every chunk.

    Args:
        engine: of the level.
        rows: the `LevelRows` of every chunk.
        diagonal: float64 on every chunk, of its rows.
        p: `SentRows` of every chunk, the rows of P.
        origin: int64 on every chunk, the finest row that each own coarse row stems from.
        near: float64 on every chunk, the near-null space at own coarse rows.
        senders: the chunks whose rows each chunk reads.
        bounds: of the coarser level.
        keep: whether coarse rows will be made again of other values.
        symmetric: whether A is.
        blocks: of A and P, where their rows come in such.

    Returns:
        it, the chunks whose fine rows each chunk restricts, and those whose coarse rows each one's P reads.
    """
    if len(bounds) == 2 and not keep:
        alone = partial(_alone, symmetric=symmetric, blocks=blocks)
        return engine.per_chunk(alone, rows, diagonal, p, origin, near), [()], [()]
    around = ghost_rows(engine, senders, p)
    ap = engine.per_chunk(partial(_ap, bounds=bounds, blocks=blocks), rows, diagonal, p, around)
    prolonged = senders_of(engine, ap.at("named"))
    restricted = receivers_of(prolonged)
    around = engine.deliver(ap.at("lists"), restricted, (*ROWS, *ROWS, "float64"))
    return (
        engine.per_chunk(
            partial(_coarsened, bounds=bounds, keep=keep, blocks=blocks), rows, diagonal, p, ap, origin, near, around
        ),
        restricted,
        prolonged,
    )


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _alone(
    backend: Backend,
    _: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    origin: I64,
    near: F64,
    *,
    symmetric: bool,
    blocks: BlockSizes | None,
) -> Coarsened:
    """The `Coarsened` of the only chunk, to which nobody sends anything."""
    amg, plan = backend.amg, HaloPlan(sends=(), receives=())
    columns = p.rows.window.size
    r, found, wrong = amg.galerkin(rows.a, p.rows.matrix, columns, diagonal, symmetric=symmetric, blocks=blocks)
    if wrong:
        raise InputError(ONE_SIDED)
    return Coarsened(
        restriction=r,
        restriction_plan=plan,
        prolongation=p.rows,
        prolongation_plan=plan,
        rows=DistributedRows(window=p.rows.window, matrix=found),
        origin=origin,
        near=near,
        named=(),
        mirrored=symmetric,
    )


@final
@dataclass(frozen=True, kw_only=True)
class _ApRows:
    """A chunk's rows of A P, columns not ascending, and what others get of them.

    Attributes:
        rows: of the chunk.
        lists: for each owner of coarse points that own rows are restricted to a message: these rows of P, of A P, and
            their diagonal.
        sent: for each of them, the numbers of the rows within this chunk, ascending.
        named: these chunks, ascending.
        factor: P with columns as places in the window of `rows`.
    """

    rows: DistributedRows
    lists: Mapping[int, Message]
    sent: Mapping[int, I64]
    named: tuple[int, ...]
    factor: Csr


def _ap(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    around: Mapping[int, Message],
    *,
    bounds: Bounds,
    blocks: BlockSizes | None,
) -> _ApRows:
    """Rows of A P, and for the owners of coarse points that they are restricted to these rows, with those of P.

    Their columns do not ascend: sums over these rows have the order of the rows.
    """
    amg = backend.amg
    whole = p.rows.among(amg, *around_it(number, around))
    made = amg.product(rows.a, whole.matrix, whole.window.size, ascending=False, blocks=blocks)
    ap = DistributedRows(window=whole.window, matrix=made)
    lists, sent = {}, {}
    if len(bounds) > 2:
        entries, owners = p.rows.elsewhere(amg, bounds)
        of_entry = p.rows.rows_at(entries)
        for other in others(bounds, number, owners):
            sent[other] = wanted = amg.distinct(of_entry[owners == other])
            weights = p.rows.rows(amg, wanted).selected(amg, columns=(bounds[other], bounds[other + 1]))
            lists[other] = *weights.message, *ap.rows(amg, wanted).message, diagonal[wanted]
    return _ApRows(rows=ap, lists=lists, sent=sent, named=tuple(sorted(lists)), factor=whole.matrix)


def _coarsened(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    ap: _ApRows,
    origin: I64,
    near: F64,
    around: Mapping[int, Message],
    *,
    bounds: Bounds,
    keep: bool,
    blocks: BlockSizes | None,
) -> Coarsened:
    amg, several = backend.amg, len(bounds) > 2
    first, last = own_bounds(bounds, number)
    centers = {sender: message[-1] for sender, message in around.items()} | {number: diagonal}
    counts = {sender: len(centers[sender]) for sender in sorted(around)}
    before, after = around_it(number, around)
    own = window_of(amg, bounds, number, origin[:0])
    parts = [part.within(amg, own) for part in before], [part.within(amg, own) for part in after]
    fine = joined([*parts[0], p.rows.own_columns(amg), *parts[1]])
    sums = ap.rows.among(amg, *around_it(number, {sender: message[3:] for sender, message in around.items()}))
    r = amg.transposed(fine, last - first)
    restricted = None if blocks is None else blocks.restricted
    found = amg.product(r, sums.matrix, sums.window.size, ascending=several, blocks=restricted)
    if around:
        diagonal = np.concatenate([centers[sender] for sender in sorted(centers)])
    amg.fill_lost(found, sums.window.below, r, diagonal)
    coarse = DistributedRows(window=sums.window, matrix=found).tight(amg)
    products_again = None
    if keep:
        products_again = Products(
            p=ap.factor,
            columns=ap.rows.window.size,
            ap=bare(ap.rows.matrix),
            wanted=ap.sent,
            counts=counts,
            r=r,
            sums=bare(sums.matrix),
            width=sums.window.size,
            below=sums.window.below,
            galerkin=bare(found),
            ascending=several,
            coarse=BroughtRows(rows=bare_rows(coarse), origin=origin, near=near),
            blocks=blocks,
        )
    if around:
        lower = sum(part.size for part in before)
        ghosts = [np.arange(*ends, like=origin) for ends in ((0, lower), (lower + rows.rows, fine.size))]
        places = Window(first=lower, rows=rows.rows, ghosts=np.concatenate(ghosts))
        r = r._replace(columns=places.slots(amg, r.columns))
    return Coarsened(
        restriction=r,
        restriction_plan=HaloPlan(sends=tuple(sorted(ap.sent.items())), receives=tuple(counts.items())),
        prolongation=p.rows,
        prolongation_plan=HaloPlan(
            sends=tuple((c, amg.distinct(around[c][1]) - first) for c in sorted(around)),
            receives=received(bounds, p.rows.window),
        ),
        rows=coarse,
        origin=origin,
        near=near,
        named=owners_in(bounds, coarse.window),
        products=products_again,
    )
