"""Interpolation and the coarser level's rows of a level that is cut into chunks: the same bits however it is cut.

Rows of P of ghosts come from their owners, so that each chunk has its rows of A P. Finished rows of A P go to the
owners of the coarse points that they are restricted to, who add them up in ascending order: partial sums would depend
on the chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.messages import Senders, delivered, receivers_of, senders_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import BlockSizes
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.level_rows import (
    F64,
    I64,
    Bounds,
    BroughtRows,
    LevelRows,
    Rows,
    Window,
    message,
    named,
    others,
    own_bounds,
    owners_of,
    received,
    window_of,
)
from dsolver.multigrid.algebraic.repeated import Products, bare, bare_rows

ONE_SIDED: Final = "M='amg' needs A[j, i] stored wherever A[i, j] is: use (A + A.T) / 2"


@final
@dataclass(frozen=True, kw_only=True)
class SentRows:
    """Rows of a matrix that a chunk has made, and what others get of them.

    Attributes:
        rows: of the chunk.
        lists: for each chunk that gets some, a message.
        sent: for each of them, the numbers of the rows within this chunk, ascending.
        named: the chunks that get some, ascending.
        factor: of rows of A P that will be made again, P with its columns in a window, and that; else None.
    """

    rows: Rows
    lists: Mapping[int, F64]
    sent: Mapping[int, I64] = field(default_factory=dict)
    named: tuple[int, ...] = ()
    factor: tuple[Csr, Window] | None = None


@final
@dataclass(frozen=True, kw_only=True)
class SeenRows:
    """Strong couplings of a chunk's points to coarse ones, by these points' numbers, and what they were found with.

    Attributes:
        rows: of the chunk.
        lists: for each chunk that gets some, a message.
        states: int8, of every point of the window.
        names: int32, what the kernels call each of these points: its number where there is one chunk, else its place.
    """

    rows: Rows
    lists: Mapping[int, F64]
    states: npt.NDArray[np.int8]
    names: npt.NDArray[np.int32]


@final
@dataclass(frozen=True, kw_only=True)
class Coarsened:
    """A chunk's part of the coarser level, and of what leads there.

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


@final
@dataclass(frozen=True, kw_only=True)
class HalfMirrored:
    """A chunk's rows of a level, symmetric to the bit among its own columns.

    Attributes:
        rows: of the level.
        lists: for each neighbor the entries in its columns, column after column.
    """

    rows: LevelRows
    lists: Mapping[int, F64]


def interpolated(
    engine: Engine,
    rows: PerChunk,
    bits: PerChunk,
    numbers: PerChunk,
    senders: Senders,
    bounds: Bounds,
    most: int,
    points: PerChunk | None = None,
) -> PerChunk:
    """The rows of P of every chunk: `SentRows` with a message for each chunk that has ghosts among them.

    Args:
        engine: of the level.
        rows: the `LevelRows` of every chunk.
        bits: of the `Graph`.
        numbers: int64, of the coarse points of every window, -1 for fine ones.
        senders: the chunks whose rows each chunk reads.
        bounds: of the coarser level.
        most: entries of a row.
        points: int64, the own points whose rows are wanted, ascending, if not all; then there are no messages.
    """
    seen = engine.per_chunk(_seen, rows, bits, numbers)
    around = delivered(engine, senders, seen.at("lists"))
    make = partial(_interpolated, bounds=bounds, most=most)
    wanted = () if points is None else (points,)
    return engine.per_chunk(make, rows, bits, numbers, seen, around, *wanted)


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
) -> tuple[PerChunk, list[tuple[int, ...]], list[tuple[int, ...]]]:
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
    around = delivered(engine, senders, p.at("lists"))
    ap = engine.per_chunk(partial(_ap, bounds=bounds, keep=keep, blocks=blocks), rows, diagonal, p, around)
    prolonged = senders_of(engine, ap.at("named"))
    restricted = receivers_of(prolonged)
    around = delivered(engine, restricted, ap.at("lists"))
    return (
        engine.per_chunk(
            partial(_coarsened, bounds=bounds, blocks=blocks), rows, diagonal, p, ap, origin, near, around
        ),
        restricted,
        prolonged,
    )


def level_rows(
    engine: Engine, made: PerChunk, senders: Senders, bounds: Bounds, *, ascending: bool = False
) -> PerChunk:
    """The `LevelRows` of every chunk of a coarser level, symmetric to the bit.

    Args:
        engine: of the chunks.
        made: of every chunk `rows`, `origin` and `named`, as in `Coarsened`.
        senders: the chunks whose rows each chunk reads.
        bounds: of the level.
        ascending: whether columns ascend in each row.
    """
    make = partial(_half_mirrored, bounds=bounds, senders=tuple(map(tuple, senders)), ascending=ascending)
    half = engine.per_chunk(make, made)
    if not engine.coupled:
        return half.at("rows")
    return engine.per_chunk(_mirrored, half.at("rows"), delivered(engine, senders, half.at("lists")))


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _seen(backend: Backend, _: int, rows: LevelRows, bits: Any, numbers: I64) -> SeenRows:
    """Strong couplings of own fine points to coarse ones, by the coarse points' numbers."""
    return coarse_rows(backend, rows, bits, numbers)


def _interpolated(
    backend: Backend,
    number: int,
    rows: LevelRows,
    bits: Any,
    numbers: I64,
    seen: SeenRows,
    around: Mapping[int, F64],
    points: I64 | None = None,
    *,
    bounds: Bounds,
    most: int,
) -> SentRows:
    window, amg = rows.window, backend.amg
    whole = stacked(rows, seen.rows, around)
    below = seen_by(bounds, number, numbers, whole)
    coarse = seen.names if window.whole else coarse_places(below, numbers)
    p = amg.interpolation(
        rows.matrix,
        points,
        bits,
        seen.states,
        window.below,
        whole.within(below),
        coarse,
        below.size,
        most,
    )
    made = Rows.at(p, below)
    return sent(rows, made) if points is None else SentRows(rows=made, lists={})


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
    below, plan = window_of(bounds, number, p.rows.columns), HaloPlan(sends=(), receives=())
    factor, amg = p.rows.within(below), backend.amg
    r, found, wrong = amg.galerkin(rows.a, factor, below.size, diagonal, symmetric=symmetric, blocks=blocks)
    if wrong:
        raise InputError(ONE_SIDED)
    return Coarsened(
        restriction=r,
        restriction_plan=plan,
        prolongation=p.rows,
        prolongation_plan=plan,
        rows=Rows.at(found, below),
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
    around: Mapping[int, F64],
    *,
    bounds: Bounds,
    keep: bool,
    blocks: BlockSizes | None,
) -> SentRows:
    """Rows of A P, and for the owners of coarse points that they are restricted to these rows, with those of P.

    Their columns do not ascend: sums over these rows have the order of the rows.
    """
    whole = stacked(rows, p.rows, around)
    below = window_of(bounds, number, whole.columns)
    factor = whole.within(below)
    made = Rows.at(backend.amg.product(rows.a, factor, below.size, ascending=False, blocks=blocks), below)
    again = (factor, below) if keep else None
    if len(bounds) == 2:
        return SentRows(rows=made, lists={}, factor=again)
    lists, sent = {}, {}
    owners = owners_of(bounds, p.rows.columns)
    of_entry = p.rows.of_entries
    for other in others(bounds, number, owners):
        low, high = bounds[other], bounds[other + 1]
        wanted = np.unique(of_entry[owners == other])
        weights = p.rows.selected(wanted).restricted(low, high)
        lists[other] = message(counted(wanted), weights.packed, made.selected(wanted).packed, diagonal[wanted])
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
    around: Mapping[int, F64],
    *,
    bounds: Bounds,
    blocks: BlockSizes | None,
) -> Coarsened:
    amg = backend.amg
    first, last = own_bounds(bounds, number)
    weights, products, centers, counts = {}, {}, {}, {}
    for sender, packed in around.items():
        counts[sender] = int(packed[0])
        weights[sender], rest = Rows.unpacked(packed[1:], counts[sender])
        products[sender], centers[sender] = Rows.unpacked(rest, counts[sender])
    before, after = [c for c in sorted(around) if c < number], [c for c in sorted(around) if c > number]
    own_weights = p.rows if len(bounds) == 2 else p.rows.restricted(first, last)
    fine = Rows.joined([*(weights[c] for c in before), own_weights, *(weights[c] for c in after)])
    sums = Rows.joined([*(products[c] for c in before), ap.rows, *(products[c] for c in after)])
    below = window_of(bounds, number, sums.columns)
    own = window_of(bounds, number, origin[:0])
    r, ap_rows, ascending = amg.transposed(fine.within(own), last - first), sums.within(below), len(bounds) > 2
    restricted = None if blocks is None else blocks.restricted
    found = amg.product(r, ap_rows, below.size, ascending=ascending, blocks=restricted)
    if around:
        diagonal = np.concatenate([*(centers[c] for c in before), diagonal, *(centers[c] for c in after)])
    amg.fill_lost(found, below.below, r, diagonal)
    coarse = Rows.at(found, below)
    products_again = None
    if ap.factor is not None:
        factor, window = ap.factor
        products_again = Products(
            p=factor,
            columns=window.size,
            ap=bare(ap.rows.within(window)),
            wanted=ap.sent,
            counts=counts,
            r=r,
            sums=bare(ap_rows),
            width=below.size,
            below=below.below,
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
            sends=tuple((c, np.unique(weights[c].columns) - first) for c in sorted(around)),
            receives=received(bounds, window_of(bounds, number, p.rows.columns)),
        ),
        rows=coarse,
        origin=origin,
        near=near,
        named=named(bounds, number, coarse.columns),
        products=products_again,
    )


def _half_mirrored(
    backend: Backend,
    number: int,
    made: Coarsened,
    *,
    bounds: Bounds,
    senders: tuple[tuple[int, ...], ...],
    ascending: bool,
) -> HalfMirrored:
    rows = made.rows
    window = window_of(bounds, number, rows.columns)
    matrix = rows.within(window)
    if len(bounds) == 2:
        if not made.mirrored:
            matrix, wrong = backend.amg.mirrored_means(matrix, ascending=ascending)
            if wrong:
                raise InputError(ONE_SIDED)
        plan = HaloPlan(sends=(), receives=())
        whole = LevelRows(window=window, matrix=matrix, origin=made.origin, near=made.near, plan=plan, bounds=bounds)
        return HalfMirrored(rows=whole, lists={})
    of_entry, owners = rows.of_entries, owners_of(bounds, rows.columns)
    sends, lists = [], {}
    for other in senders[number] if len(senders) > 1 else ():
        inside = np.flatnonzero(owners == other)
        sends.append((other, np.unique(of_entry[inside])))
        lists[other] = rows.values[inside[np.argsort(rows.columns[inside], kind="stable")]]
    matrix = matrix._replace(values=matrix.values.copy())
    backend.amg.symmetrize(matrix, window.below)
    plan = HaloPlan(sends=tuple(sends), receives=received(bounds, window))
    return HalfMirrored(
        rows=LevelRows(window=window, matrix=matrix, origin=made.origin, near=made.near, plan=plan, bounds=bounds),
        lists=lists,
    )


def _mirrored(_: Backend, __: int, rows: LevelRows, around: Mapping[int, F64]) -> LevelRows:
    """Rows whose entries in other chunks' columns are the means of what the two owners have.

    Raises:
        InputError: one of them has entries that the other one has not.
    """
    values = rows.matrix.values.copy()
    owners = owners_of(rows.bounds, rows.window.numbers)[rows.matrix.columns]
    for other, theirs in around.items():
        mine = owners == other
        if int(np.count_nonzero(mine)) != len(theirs):
            raise InputError(ONE_SIDED)
        values[mine] = (values[mine] + theirs) / 2
    return replace(rows, matrix=rows.matrix._replace(values=values))


# -- pieces ------------------------------------------------------------------------------------------------------------


def coarse_rows(backend: Backend, rows: LevelRows, bits: Any, numbers: I64, *, every: bool = False) -> SeenRows:
    """Strong couplings to coarse points by their numbers; bits: of the `Graph`; every: as of `coarse_couplings`."""
    window, amg = rows.window, backend.amg
    states, names = amg.states_of(numbers)
    if not window.whole:
        names = np.arange(window.size, dtype=np.int32, like=numbers)
    found = amg.coarse_couplings(rows.matrix, bits, states, window.below, names, every=every, loose=window.whole)
    columns = found.columns if window.whole else numbers[found.columns]
    made = Rows(start=found.start, columns=columns, values=found.values)
    return SeenRows(rows=made, lists=sent(rows, made).lists, states=states, names=names)


def seen_by(bounds: Bounds, number: int, numbers: I64, rows: Rows) -> Window:
    """The window of coarse points that a chunk sees: those of a window of fine ones, and the columns of some rows."""
    seen = numbers if len(bounds) == 2 else np.concatenate([numbers[numbers >= 0], rows.columns])
    return window_of(bounds, number, seen)


def coarse_places(window: Window, numbers: I64) -> npt.NDArray[np.int32]:
    """Places in a window of coarse points, int32, of their numbers; -1 for fine ones."""
    if window.whole:
        return numbers.astype(np.int32)
    return np.where(numbers >= 0, window.places(numbers), -1).astype(np.int32)


def sent(rows: LevelRows, own: Rows) -> SentRows:
    """Rows with messages for those that have them as ghosts."""
    return SentRows(rows=own, lists={to: own.selected(wanted).packed for to, wanted in rows.plan.sends})


def stacked(rows: LevelRows, own: Rows, around: Mapping[int, F64]) -> Rows:
    """Rows of a whole window: own ones and those of ghosts, which their owners have sent."""
    return with_ghosts(rows.window, dict(rows.plan.receives), own, around)


def with_ghosts(window: Window, counts: Mapping[int, int], own: Rows, around: Mapping[int, F64]) -> Rows:
    """Own rows among those of the ghosts of a window; counts: of the ghosts that each sender owns."""
    if not around:
        return own
    parts = [Rows.unpacked(around[sender], counts[sender])[0] for sender in sorted(around)]
    ghosts = Rows.joined(parts)
    return Rows.joined([ghosts.part(0, window.below), own, ghosts.part(window.below, ghosts.size)])


def counted(items: I64) -> F64:
    """Number of them: float64 (1,)."""
    return np.asarray([float(len(items))], like=items)
