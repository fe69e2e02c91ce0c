"""Galerkin products of new values in the places of earlier ones: their numeric phase alone.

Nothing is counted or sorted again: products find the places of their sums by the pattern that they had, with the P and
R that they had. Where A is the earlier matrix, values have the bits that they had.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import BlockSizes, Places
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64


@dataclass(frozen=True, kw_only=True)
class Products:
    """A chunk's products with P and R, without the values of A."""

    p: Csr  # P of the window of the chunk's rows; columns are places in a window of the coarser level
    columns: int
    ap: Csr
    wanted: Mapping[int, I64]  # for each other chunk that gets rows of A P, which of the chunk's rows, int64
    counts: Mapping[int, int]  # for each chunk that sends some, how many
    r: Csr
    sums: Csr  # these rows, without values
    width: int
    below: int  # of these, those before the first own coarse row's diagonal
    galerkin: Csr
    ascending: bool  # whether its columns ascend in each row
    coarse: BroughtRows  # the rows of the coarser level, without values
    blocks: BlockSizes | None = None
    of_ap: Places = field(default_factory=Places)  # where products find the sums of A P, once that is known
    of_galerkin: Places = field(default_factory=Places)  # the same, of R A P


@dataclass(frozen=True, kw_only=True)
class Again:
    """Recipe for a coarser level's rows: `Products` of every chunk, or None, and whose rows of A P each chunk reads."""

    products: PerChunk | None
    restricted: Senders


def coarse_again(
    engine: Engine, rows: PerChunk, diagonal: PerChunk, again: Again, *, definite: bool = True
) -> PerChunk:
    """The coarse rows of every chunk, `BroughtRows`, before mirrored entries are made equal.

    definite: whether A is, so that rows of which only rounding is left are filled.
    """
    assert again.products is not None
    ap = engine.per_chunk(_ap_again, rows, diagonal, again.products)
    around = engine.deliver(ap.at("lists"), again.restricted, ("float64", "float64"))
    return engine.per_chunk(partial(_galerkin_again, definite=definite), diagonal, again.products, ap, around)


def bare(matrix: Csr) -> Csr:
    """A matrix without its values."""
    return matrix._replace(values=_none(matrix.values))


def bare_rows(rows: DistributedRows) -> DistributedRows:
    """Rows without their values."""
    return replace(rows, matrix=bare(rows.matrix))


@dataclass(frozen=True, kw_only=True)
class _Values:
    """Values of A P, and for each other chunk that is to have some, these and the diagonal of their rows."""

    values: F64
    lists: Messages


def _ap_again(backend: Backend, _: int, rows: LevelRows, diagonal: F64, kept: Products) -> _Values:
    ap = backend.amg.numeric(
        kept.ap, rows.a, kept.p, kept.columns, ascending=False, blocks=kept.blocks, places=kept.of_ap
    )
    lists = {to: (backend.amg.selected(ap, wanted).values, diagonal[wanted]) for to, wanted in kept.wanted.items()}
    return _Values(values=ap.values, lists=lists)


def _galerkin_again(
    backend: Backend, number: int, diagonal: F64, kept: Products, ap: _Values, around: Messages, *, definite: bool
) -> BroughtRows:
    amg = backend.amg
    values = {number: ap.values} if around else {}
    centers = {number: diagonal} if around else {}
    for sender, arrived in around.items():
        values[sender], centers[sender] = arrived
    order = sorted(values)
    sums = kept.sums._replace(values=np.concatenate([values[c] for c in order]) if around else ap.values)
    restricted = None if kept.blocks is None else kept.blocks.restricted
    found = amg.numeric(
        kept.galerkin, kept.r, sums, kept.width, ascending=kept.ascending, blocks=restricted, places=kept.of_galerkin
    )
    if definite:
        amg.fill_lost(found, kept.below, kept.r, np.concatenate([centers[c] for c in order]) if around else diagonal)
    coarse = kept.coarse.rows
    return replace(kept.coarse, rows=replace(coarse, matrix=coarse.matrix._replace(values=found.values)))


def _none(values: Any) -> Any:
    return np.empty_like(values, shape=0)
