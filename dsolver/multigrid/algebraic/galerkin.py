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
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, ghost_rows, stacked
from dsolver.multigrid.algebraic.rows.global_rows import ROWS, Rows, elsewhere, named
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import (
    F64,
    I64,
    Bounds,
    Window,
    others,
    own_bounds,
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
    prolongation: Rows
    prolongation_plan: HaloPlan
    rows: Rows
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
        alone = partial(_alone, bounds=bounds, symmetric=symmetric, blocks=blocks)
        return engine.per_chunk(alone, rows, diagonal, p, origin, near), [()], [()]
    around = ghost_rows(engine, senders, p)
    ap = engine.per_chunk(partial(_ap, bounds=bounds, keep=keep, blocks=blocks), rows, diagonal, p, around)
    prolonged = senders_of(engine, ap.at("named"))
    restricted = receivers_of(prolonged)
    around = engine.deliver(ap.at("lists"), restricted, (*ROWS, *ROWS, "float64"))
    return (
        engine.per_chunk(
            partial(_coarsened, bounds=bounds, blocks=blocks), rows, diagonal, p, ap, origin, near, around
        ),
        restricted,
        prolonged,
    )


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _alone(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    origin: I64,
    near: F64,
    *,
    bounds: Bounds,
    symmetric: bool,
    blocks: BlockSizes | None,
) -> Coarsened:
    """The `Coarsened` of the only chunk, to which nobody sends anything."""
    amg, plan = backend.amg, HaloPlan(sends=(), receives=())
    coarse_window = window_of(amg, bounds, number, p.rows.columns)
    factor = p.rows.within(amg, coarse_window)
    r, found, wrong = amg.galerkin(rows.a, factor, coarse_window.size, diagonal, symmetric=symmetric, blocks=blocks)
    if wrong:
        raise InputError(ONE_SIDED)
    return Coarsened(
        restriction=r,
        restriction_plan=plan,
        prolongation=p.rows,
        prolongation_plan=plan,
        rows=Rows.at(amg, found, coarse_window),
        origin=origin,
        near=near,
        named=(),
        mirrored=symmetric,
    )


def _ap(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    around: Mapping[int, Message],
    *,
    bounds: Bounds,
    keep: bool,
    blocks: BlockSizes | None,
) -> SentRows:
    """Rows of A P, and for the owners of coarse points that they are restricted to these rows, with those of P.

    Their columns do not ascend: sums over these rows have the order of the rows.
    """
    amg, whole = backend.amg, stacked(rows.window, p.rows, around)
    coarse_window = window_of(amg, bounds, number, whole.columns)
    factor = whole.within(amg, coarse_window)
    made = Rows.at(amg, amg.product(rows.a, factor, coarse_window.size, ascending=False, blocks=blocks), coarse_window)
    again = (factor, coarse_window) if keep else None
    if len(bounds) == 2:
        return SentRows(rows=made, lists={}, factor=again)
    lists, sent = {}, {}
    entries, owners = elsewhere(amg, bounds, number, p.rows.columns)
    of_entry = p.rows.rows_at(entries)
    for other in others(bounds, number, owners):
        low, high = bounds[other], bounds[other + 1]
        wanted = amg.distinct(of_entry[owners == other])
        weights = p.rows.selected(wanted).restricted(low, high)
        lists[other] = *weights.message, *made.selected(wanted).message, diagonal[wanted]
        sent[other] = wanted
    return SentRows(rows=made, lists=lists, sent=sent, named=tuple(sorted(lists)), factor=again)


def _coarsened(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    ap: SentRows,
    origin: I64,
    near: F64,
    around: Mapping[int, Message],
    *,
    bounds: Bounds,
    blocks: BlockSizes | None,
) -> Coarsened:
    amg = backend.amg
    first, last = own_bounds(bounds, number)
    weights, products, centers, counts = {}, {}, {}, {}
    for sender, packed in around.items():
        weights[sender], products[sender] = Rows.of_message(packed[:3]), Rows.of_message(packed[3:])
        centers[sender], counts[sender] = packed[-1], len(packed[-1])
    before, after = [c for c in sorted(around) if c < number], [c for c in sorted(around) if c > number]
    own_weights = p.rows if len(bounds) == 2 else p.rows.restricted(first, last)
    fine = Rows.joined([*(weights[c] for c in before), own_weights, *(weights[c] for c in after)])
    sums = Rows.joined([*(products[c] for c in before), ap.rows, *(products[c] for c in after)])
    coarse_window = window_of(amg, bounds, number, sums.columns)
    own = window_of(amg, bounds, number, origin[:0])
    r, ap_rows, ascending = (
        amg.transposed(fine.within(amg, own), last - first),
        sums.within(amg, coarse_window),
        len(bounds) > 2,
    )
    restricted = None if blocks is None else blocks.restricted
    found = amg.product(r, ap_rows, coarse_window.size, ascending=ascending, blocks=restricted)
    if around:
        diagonal = np.concatenate([*(centers[c] for c in before), diagonal, *(centers[c] for c in after)])
    amg.fill_lost(found, coarse_window.below, r, diagonal)
    coarse = Rows.at(amg, found, coarse_window)
    products_again = None
    if ap.factor is not None:
        factor, window = ap.factor
        products_again = Products(
            p=factor,
            columns=window.size,
            ap=bare(ap.rows.within(amg, window)),
            wanted=ap.sent,
            counts=counts,
            r=r,
            sums=bare(ap_rows),
            width=coarse_window.size,
            below=coarse_window.below,
            galerkin=bare(found),
            ascending=ascending,
            coarse=BroughtRows(rows=bare_rows(coarse), origin=origin, near=near),
            blocks=blocks,
        )
    if around:
        lower = sum(counts[c] for c in before)
        ghosts = [np.arange(*ends, like=origin) for ends in ((0, lower), (lower + rows.rows, fine.size))]
        places = Window(first=lower, rows=rows.rows, ghosts=np.concatenate(ghosts))
        r = r._replace(columns=places.slots(r.columns))
    return Coarsened(
        restriction=r,
        restriction_plan=HaloPlan(sends=tuple(sorted(ap.sent.items())), receives=tuple(sorted(counts.items()))),
        prolongation=p.rows,
        prolongation_plan=HaloPlan(
            sends=tuple((c, amg.distinct(weights[c].columns) - first) for c in sorted(around)),
            receives=received(bounds, window_of(amg, bounds, number, p.rows.columns)),
        ),
        rows=coarse,
        origin=origin,
        near=near,
        named=named(amg, bounds, number, coarse.columns),
        products=products_again,
    )
