"""Galerkin products R A P of a level that is cut into chunks, and R and P: the same bits however it is cut.

Rows of P of ghosts come from their owners, so that each chunk has its rows of A P. Finished rows of A P go to the
owners of the coarse points that they are restricted to, who add them up in ascending order: partial sums would depend
on the chunks. Of a symmetric matrix each chunk makes the half of its rows, from the diagonal on.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from dsolver.distributed.setup_exchange import Senders, reach_of
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg import BlockSizes, Cut
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.deferred import Deferred
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.coarser_level import ApRows, Coarsened, CoarserLevel
from dsolver.multigrid.algebraic.galerkin_numeric import Products, bare, bare_rows
from dsolver.multigrid.algebraic.methods import CoarseSpace
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, around_it, ghost_rows
from dsolver.multigrid.algebraic.rows.global_rows import ROWS
from dsolver.multigrid.algebraic.rows.half_rows import HalfRows
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.seen import Seen, asked
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, Window, own_bounds, received


def coarsened(
    engine: Engine,
    rows: PerChunk,
    diagonal: PerChunk,
    space: CoarseSpace,
    senders: Senders,
    *,
    reach: Senders,
    keep: bool = False,  # whether coarse rows will be made again of other values
    symmetric: bool = False,
) -> CoarserLevel:
    """The coarser level of one."""
    p, bounds, blocks, about = space.p, space.bounds, space.blocks, (space.origin, space.near)
    turned: tuple[PerChunk, ...] = () if space.restriction is None else (space.restriction,)
    if len(bounds) == 2 and not keep:
        alone = partial(_alone, symmetric=symmetric, blocks=blocks)
        made = engine.per_chunk(alone, rows, diagonal, p, *about, *turned)
        return CoarserLevel(chunks=made, partners=[()], reach=[()])
    halves = symmetric and not keep and blocks is None
    around = ghost_rows(engine, senders, p)
    ap = engine.per_chunk(partial(_ap, bounds=bounds, halves=halves, blocks=blocks), rows, diagonal, p, around, *turned)
    around = engine.deliver(ap.at("lists"), space.reach, (*ROWS, *ROWS, "float64"))
    if turned:
        turned = (asked(engine, engine.per_chunk(partial(_seen, bounds=bounds), p), space.reach),)
    make = partial(_coarsened, bounds=bounds, keep=keep, halves=halves, blocks=blocks)
    made = engine.per_chunk(make, rows, diagonal, p, ap, *about, around, *turned)
    return CoarserLevel(
        chunks=made,
        partners=engine.partners(made.at("neighbors")),
        reach=reach_of(space.reach, reach, space.reach),
        halves=halves,
    )


def _alone(
    backend: Backend,
    _: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    origin: I64,
    near: F64,
    restriction: DistributedRows | None = None,
    *,
    symmetric: bool,
    blocks: BlockSizes | None,
) -> Coarsened:
    """The `Coarsened` of the only chunk."""
    amg, plan = backend.amg, HaloPlan(sends=(), receives=())
    columns = p.rows.window.size
    if restriction is None:
        r, found = amg.galerkin(rows.a, p.rows.matrix, columns, diagonal, symmetric=symmetric, blocks=blocks)
    else:
        r = amg.transposed(restriction.matrix, columns)
        ap = amg.product(rows.a, p.rows.matrix, columns, ascending=False)
        found = amg.product(r, ap, columns, ascending=False)
        amg.fill_lost(found, 0, r, diagonal)
    coarse = DistributedRows(window=p.rows.window, matrix=found)
    return Coarsened(
        restriction=Deferred(lambda: r),
        restriction_plan=plan,
        prolongation=p.rows,
        prolongation_plan=plan,
        coarse=BroughtRows(rows=coarse, origin=origin, near=near, mirrored=symmetric),
    )


def _ap(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    around: Messages,
    restriction: DistributedRows | None = None,
    *,
    bounds: Bounds,
    halves: bool,
    blocks: BlockSizes | None,
) -> ApRows:
    """Rows of A P, and for the owners of coarse points that they are restricted to these rows, with those of Rᵀ.

    Their columns do not ascend: sums over these rows have the order of the rows.
    """
    amg = backend.amg
    restricted = p.rows if restriction is None else restriction
    known = p.parts if restriction is None else None
    split = Deferred(lambda: known) if known else restricted.split(amg)  # whose sizes come with those of the window
    whole = p.rows.among(amg, *around_it(number, around))
    window, columns = whole.window, whole.window.size
    if halves:
        made = amg.begun_galerkin(rows.a, whole.matrix, columns)
    else:
        made = amg.product(rows.a, whole.matrix, columns, ascending=False, blocks=blocks)
    least = window.before(bounds)
    lists, sent = {}, {}
    parts = split()
    owned = restricted.by_owners(amg, bounds, parts)
    begun = [
        amg.rows_of_ap(made, wanted, least[other]) if halves else amg.begun_selection(made, wanted)
        for other, wanted, _ in owned
    ]
    for (other, wanted, taken), part in zip(owned, begun, strict=True):
        sent[other] = wanted
        taken = taken._replace(columns=restricted.window.ghosts[taken.columns])
        lists[other] = *taken, *window.numbered(amg, part()), diagonal[wanted]
    return ApRows(window=window, made=made, parts=parts, lists=lists, sent=sent, factor=whole.matrix)


def _seen(_: Backend, __: int, p: SentRows, *, bounds: Bounds) -> Seen:
    """The coarse points that own rows of P read."""
    return Seen.of(bounds, p.rows.window)


def _coarsened(
    backend: Backend,
    number: int,
    rows: LevelRows,
    diagonal: F64,
    p: SentRows,
    ap: ApRows,
    origin: I64,
    near: F64,
    around: Messages,
    readers: Messages | None = None,
    *,
    bounds: Bounds,
    keep: bool,
    halves: bool,
    blocks: BlockSizes | None,
) -> Coarsened:
    amg = backend.amg
    first, last = own_bounds(bounds, number)
    centers = {sender: message[-1] for sender, message in around.items()} | {number: diagonal}
    counts = {sender: len(centers[sender]) for sender in sorted(around)}
    before, after = around_it(number, around)
    own = Window(first=first, rows=last - first, ghosts=origin[:0])
    if readers is None:  # who reads a coarse point has rows that are restricted to it
        wanted = {c: amg.named(message[1], first, last - first) for c, message in around.items()}
    else:
        wanted = {c: Deferred(partial(np.subtract, numbers, first)) for c, (numbers,) in readers.items()}
    fine = ap.parts.local
    if around:
        fine = amg.stacked(before, fine, after, own, own)
        diagonal = np.concatenate([centers[sender] for sender in sorted(centers)])
    sums = around_it(number, {sender: message[3:] for sender, message in around.items()})
    coarse: BroughtRows | HalfRows
    products = None
    if halves:
        r, coarse = _half(amg, ap, fine, sums, diagonal, origin, near)
    else:
        r = amg.transposed(fine, last - first)
        coarse, products = _whole(amg, bounds, ap, r, sums, diagonal, origin, near, counts, keep=keep, blocks=blocks)
    lower = sum(part.size for part in before)
    return Coarsened(
        restriction=Deferred(lambda: r._replace(columns=amg.slots(r.columns, rows.rows, lower)) if around else r),
        restriction_parts=amg.parted(r, lower, lower + rows.rows) if around else None,
        restriction_plan=HaloPlan(sends=tuple(sorted(ap.sent.items())), receives=tuple(counts.items())),
        prolongation=p.rows,
        prolongation_parts=ap.parts if readers is None else None,
        prolongation_plan=HaloPlan(
            sends=tuple((reader, wanted[reader]()) for reader in sorted(wanted)),
            receives=received(bounds, p.rows.window),
        ),
        coarse=coarse,
        products=products,
    )


def _half(
    amg: AmgKernels,
    ap: ApRows,
    fine: Csr,  # the rows of P that are restricted to own coarse points, with these from 0 as columns
    sums: tuple[list[Csr], list[Csr]],  # rows of A P of chunks before this one, and behind it
    diagonal: F64,  # of A, of all these rows
    origin: I64,
    near: F64,
) -> tuple[Csr, HalfRows]:
    """R, columns in the order of all fine rows, and the half of the coarse rows."""
    window = ap.window.joined_with(amg, [part.columns for parts in sums for part in parts])
    (before, after), below, old = sums, window.below, ap.window
    cut = Cut(
        fine=fine,
        rows=window.rows,
        width=window.size,
        before=sum(part.size for part in before),
        after=sum(part.size for part in after),
        below=below,
        stacked=(lambda own: amg.stacked(before, own, after, old, window)) if before or after else None,
    )
    r, half = amg.half_galerkin(ap.made, cut, diagonal)
    return r, HalfRows.of(half, window.ghosts[below:], window.first, origin, near)


def _whole(
    amg: AmgKernels,
    bounds: Bounds,
    ap: ApRows,
    r: Csr,
    sums: tuple[list[Csr], list[Csr]],
    diagonal: F64,
    origin: I64,
    near: F64,
    counts: Mapping[int, int],
    *,
    keep: bool,
    blocks: BlockSizes | None,
) -> tuple[BroughtRows, Products | None]:
    """The coarse rows, and what makes them again; arguments as of `_half`."""
    several = len(bounds) > 2
    of_ap = DistributedRows(window=ap.window, matrix=ap.made)
    below = of_ap.among(amg, *sums)
    restricted = None if blocks is None else blocks.restricted
    found = amg.product(r, below.matrix, below.window.size, ascending=several, blocks=restricted)
    amg.fill_lost(found, below.window.below, r, diagonal)
    coarse = DistributedRows(window=below.window, matrix=found).tight(amg)
    brought = BroughtRows(rows=coarse, origin=origin, near=near)
    if not keep:
        return brought, None
    return brought, Products(
        p=ap.factor,
        columns=ap.window.size,
        ap=bare(ap.made),
        wanted=ap.sent,
        counts=counts,
        r=r,
        sums=bare(below.matrix),
        width=below.window.size,
        below=below.window.below,
        galerkin=bare(found),
        ascending=several,
        coarse=replace(brought, rows=bare_rows(coarse)),
        blocks=blocks,
    )
