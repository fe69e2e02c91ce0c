"""Coarse matrices of a matrix with new values in the places of an earlier one, by the P and R of that one.

Nothing is chosen, counted or sorted again: products find the places of their sums by the pattern that they had. Where A
is the earlier matrix, values have the bits that they had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from dsolver.distributed.messages import Senders, delivered
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import BlockSizes, Places
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.multigrid.algebraic.rows.global_rows import Rows, message
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds
from dsolver.multigrid.correction import StoredTransfer


@final
@dataclass(frozen=True, kw_only=True)
class Products:
    """A chunk's products with P and R, without the values of A.

    Attributes:
        p: P of the window of the chunk's rows; columns are places in a window of the coarser level.
        columns: of that window.
        ap: A P, without values.
        wanted: for each other chunk that gets rows of A P, which of the chunk's rows, int64.
        counts: for each chunk that sends some, how many.
        r: R; its columns are the rows of A P of all these chunks.
        sums: these rows, without values.
        width: number of their columns.
        below: of these, those before the first own coarse row's diagonal.
        galerkin: R A P, without values.
        ascending: whether its columns ascend in each row.
        coarse: the rows of the coarser level, without values.
        blocks: of A and P, where their rows come in such.
        of_ap: where products find the sums of A P, once that is known.
        of_galerkin: likewise, of R A P.
    """

    p: Csr
    columns: int
    ap: Csr
    wanted: Mapping[int, I64]
    counts: Mapping[int, int]
    r: Csr
    sums: Csr
    width: int
    below: int
    galerkin: Csr
    ascending: bool
    coarse: BroughtRows
    blocks: BlockSizes | None = None
    of_ap: Places = field(default_factory=Places)
    of_galerkin: Places = field(default_factory=Places)


@final
@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """Rows of a level in one chunk, and where their entries come from.

    Attributes:
        rows: the rows, without values.
        entries: of R A P, the one that stands in the place of each.
        mirrored: the one in its mirror image's place.
    """

    rows: LevelRows
    entries: Any
    mirrored: Any


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """Place of the rows of a coarser level.

    Attributes:
        engine: of its chunks, in float64.
        view: in the value type of the levels.
        layout: the `Layout` of every chunk.
        bounds: the first row of each chunk, and behind them the number of rows.
        senders: the chunks whose rows each chunk reads.
        gather: makes one chunk's rows, on every owner, of those of all chunks; None where they stay.
    """

    engine: Engine
    view: Engine
    layout: PerChunk
    bounds: Bounds
    senders: Senders
    gather: Callable[[PerChunk], PerChunk] | None = None

    @property
    def alone(self) -> bool:
        """Whether it is one chunk."""
        return len(self.bounds) == 2


@final
@dataclass(frozen=True, kw_only=True)
class Again:
    """Recipe for coarse rows of other values.

    Attributes:
        products: the `Products` of every chunk; None where that is not wanted.
        restricted: the chunks whose rows of A P each chunk reads.
    """

    products: PerChunk | None
    restricted: Senders


@final
@dataclass(frozen=True, kw_only=True)
class Step:
    """The way from a level to its coarser one, without the values of A.

    Attributes:
        transfer: R and P.
        place: of the coarser level.
        again: what makes its rows again.
        mirrors: the `Mirrors` of its rows where they are one chunk and symmetric; else None.
        choices: of every chunk's format there; None before they are made.
    """

    transfer: StoredTransfer
    place: Place
    again: Again
    mirrors: PerChunk | None = None
    choices: PerChunk | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Kept:
    """Remains of a hierarchy for a matrix with new values.

    Attributes:
        first: the finest `LevelRows` of every chunk, without values.
        layout: the `Layout` there.
        steps: from level to level.
    """

    first: PerChunk
    layout: PerChunk
    steps: tuple[Step, ...]


def without_values(engine: Engine, rows: PerChunk) -> PerChunk:
    """The `LevelRows` of every chunk without values, in memory of their own."""
    return engine.per_chunk(_pattern, rows)


def same_places(engine: Engine, rows: PerChunk, layout: PerChunk, before: Kept) -> bool:
    """Whether the entries of all `LevelRows` are in the places that they had before, and vectors in the same order."""
    return not engine.global_sums(engine.per_chunk(_elsewhere, rows, layout, before.first, before.layout))[0]


def mirrors_of(engine: Engine, made: PerChunk, rows: PerChunk) -> PerChunk:
    """The `Mirrors` of a level in one chunk.

    Args:
        engine: of the level.
        made: an object with `rows`, R A P.
        rows: the `LevelRows` that were made of it.
    """
    return engine.per_chunk(_mirrors, made, rows)


def coarse_again(engine: Engine, rows: PerChunk, diagonal: PerChunk, again: Again) -> PerChunk:
    """The coarse rows of every chunk, `BroughtRows`, before mirrored entries are made equal.

    Args:
        engine: of the finer level.
        rows: the `LevelRows` of every chunk.
        diagonal: float64 on every chunk, of its rows.
        again: what was kept.
    """
    assert again.products is not None
    ap = engine.per_chunk(_ap_again, rows, diagonal, again.products)
    around = delivered(engine, again.restricted, ap.at("lists"))
    return engine.per_chunk(_galerkin_again, diagonal, again.products, ap, around)


def rows_again(engine: Engine, made: PerChunk, mirrors: PerChunk) -> PerChunk:
    """The `LevelRows` of a level in one chunk from its `BroughtRows`, symmetric to the bit."""
    return engine.per_chunk(_rows_again, made, mirrors)


# -- what is made on the owners ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class _Values:
    """Values of A P, and for each other chunk that is to have some, these and the diagonal of their rows."""

    values: F64
    lists: Mapping[int, F64]


def bare(matrix: Csr) -> Csr:
    """A matrix without its values."""
    return matrix._replace(values=_none(matrix.values))


def bare_rows(rows: Rows) -> Rows:
    """Rows without their values."""
    return replace(rows, values=_none(rows.values))


def _none(values: Any) -> Any:
    return np.empty_like(values, shape=0)


def _pattern(_: Backend, __: int, rows: LevelRows) -> LevelRows:
    start, columns, values = rows.matrix
    return replace(rows, matrix=Csr(start.copy(), columns.copy(), _none(values)), full=None)


def _elsewhere(
    backend: Backend, _: int, rows: LevelRows, layout: Layout, before: LevelRows, layout_before: Layout
) -> Any:
    """float64 (1,), zero where entries are in the same places, and vectors in the same order."""
    pairs = (
        (layout.position, layout_before.position),
        (rows.window.ghosts, before.window.ghosts),
        (rows.matrix.start, before.matrix.start),
        (rows.matrix.columns, before.matrix.columns),
    )
    same = all(backend.amg.same(new, old) for new, old in pairs)
    return backend.xp.full(1, float(not same))


def _mirrors(backend: Backend, _: int, made: Any, rows: LevelRows) -> Mirrors:
    raw: Csr = made.rows.within(rows.window)
    amg, count = backend.amg, len(raw.columns)
    numbered = raw._replace(values=np.arange(count, like=raw.values).astype(np.float64))
    mirrored = amg.transposed(numbered, rows.rows)
    entries = amg.transposed(mirrored, rows.rows)
    number = np.int32 if count < 2**31 else np.int64
    return Mirrors(
        rows=replace(rows, matrix=bare(rows.matrix)),
        entries=entries.values.astype(number),
        mirrored=mirrored.values.astype(number),
    )


def _ap_again(backend: Backend, _: int, rows: LevelRows, diagonal: F64, kept: Products) -> _Values:
    ap = backend.amg.numeric(
        kept.ap, rows.a, kept.p, kept.columns, ascending=False, blocks=kept.blocks, places=kept.of_ap
    )
    found = Rows(start=ap.start, columns=ap.columns, values=ap.values)
    lists = {to: message(found.selected(wanted).values, diagonal[wanted]) for to, wanted in kept.wanted.items()}
    return _Values(values=ap.values, lists=lists)


def _galerkin_again(
    backend: Backend, number: int, diagonal: F64, kept: Products, ap: _Values, around: Mapping[int, F64]
) -> BroughtRows:
    amg = backend.amg
    values = {number: ap.values} if around else {}
    centers = {number: diagonal} if around else {}
    for sender, arrived in around.items():
        entries = len(arrived) - kept.counts[sender]
        values[sender], centers[sender] = arrived[:entries], arrived[entries:]
    order = sorted(values)
    sums = kept.sums._replace(values=np.concatenate([values[c] for c in order]) if around else ap.values)
    restricted = None if kept.blocks is None else kept.blocks.restricted
    found = amg.numeric(
        kept.galerkin, kept.r, sums, kept.width, ascending=kept.ascending, blocks=restricted, places=kept.of_galerkin
    )
    amg.fill_lost(found, kept.below, kept.r, np.concatenate([centers[c] for c in order]) if around else diagonal)
    return replace(kept.coarse, rows=replace(kept.coarse.rows, values=found.values))


def _rows_again(backend: Backend, _: int, made: BroughtRows, mirrors: Mirrors) -> LevelRows:
    rows = mirrors.rows
    values = backend.amg.means(made.rows.values, mirrors.entries, mirrors.mirrored)
    return replace(rows, matrix=rows.matrix._replace(values=values))
