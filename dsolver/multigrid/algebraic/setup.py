"""Set-up of levels without a lattice: coarse points are chosen by strong couplings, wherever they lead.

Where couplings jump from point to point, a coarse point of a lattice stands for points that it is hardly coupled to,
and clusters of strongly coupled points have none at all. `dsolver.kernels.amg` chooses coarse points by couplings
instead. Such levels have no lattice and no colors: they are smoothed by polynomials.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, final

import numpy as np

from dsolver.distributed.matrix import ChunkMatrix
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.numbering import chunk_numbering
from dsolver.grid.partition import BOX_OFFSETS, Offsets, Partition
from dsolver.kernels import Backend, amg
from dsolver.kernels.amg import Coarser
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.dense import DenseInverse
from dsolver.kernels.formats.ell import Ell
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.formats.sell import WIDEST
from dsolver.multigrid.coarse_solve import regularized
from dsolver.multigrid.correction import ChunkTransfer, StoredTransfer
from dsolver.multigrid.level import AtLevel, Level, at_level
from dsolver.multigrid.smoothers import SAFETY, Chebyshev

WIDE: Final = 1000
"""Entries of the longest row from which on the table that is as wide as this row must be worth its memory."""
ROOM: Final = 2**23
"""Most places of such a table: 100 MB while a level is made."""


@final
@dataclass(frozen=True, kw_only=True)
class AlgebraicChunk:
    """A level without a lattice, on the one chunk that it has. Of the first one, on a lattice, the transfer alone.

    Attributes:
        layout: the storage order of its rows, which is that of their numbers.
        matrix: its rows; None on the coarsest level.
        scaled: their local part with the diagonal multiplied by the largest eigenvalue of D⁻¹A.
        transfer: to the next coarser level; None on the coarsest.
        inverse: of the matrix on the coarsest level, else None.
    """

    layout: Layout
    matrix: ChunkMatrix | None = None
    scaled: Any = None
    transfer: ChunkTransfer | None = None
    inverse: DenseInverse | None = None


def algebraic_levels(
    engine: Engine, view: Engine, first: Level, depth: int, weights: PerChunk, *, last: int, singular: bool
) -> list[Level]:
    """The levels from one on that is one chunk, that one with its transfer; none where rows become too long.

    Args:
        engine: in float64, as the rows are.
        view: of the value type of the levels.
        first: the first of them.
        depth: its number.
        weights: its rows, float64 (K rows,).
        last: most rows of the coarsest level.
        singular: whether constants are in the null space.
    """
    make = partial(_levels, depth=depth, partition=first.partition, offsets=first.offsets, last=last, singular=singular)
    made = view.per_chunk(make, first.layout, weights)
    (count,) = engine.global_sums(engine.per_chunk(_count, made))
    if not count:
        return []
    *finer, coarsest = (made.at(depth + number) for number in range(int(count)))
    transfers = [StoredTransfer(chunks=chunk.at("transfer")) for chunk in finer]
    return [
        replace(first, transfer=transfers[0]),
        *(
            _level(view, first.partition, chunk, transfer=transfer)
            for chunk, transfer in zip(finer[1:], transfers[1:], strict=True)
        ),
        _level(view, first.partition, coarsest, inverse=coarsest.at("inverse")),
    ]


def _level(engine: Engine, partition: Partition, chunk: PerChunk, **more: Any) -> Level:
    return Level(
        engine=engine,
        partition=partition,
        offsets=BOX_OFFSETS,
        layout=chunk.at("layout"),
        chunks=chunk.at("matrix"),
        make_smoother=partial(Chebyshev, scaled=chunk.at("scaled")),
        algebraic=True,
        **more,
    )


# -- what is made on the owner -----------------------------------------------------------------------------------------


def _levels(
    backend: Backend,
    _: int,
    layout: Layout,
    weights: Any,
    *,
    depth: int,
    partition: Partition,
    offsets: Offsets,
    last: int,
    singular: bool,
) -> AtLevel:
    """An `AlgebraicChunk` for each level, at its number."""
    around = backend.to_host(chunk_numbering(backend, partition, 0, offsets))
    values = np.ascontiguousarray(backend.to_host(weights), dtype=np.float64).reshape(len(offsets), -1)
    team = backend.amg.team
    a, here = amg.of_stencil(offsets, around, values, team), layout
    made: list[AlgebraicChunk] = []
    for fine, below in _coarsened(a, last, team):
        if _too_wide(below.matrix) or _too_wide(below.restriction):
            return (None,) * depth
        coarse = backend.layouts.plain((below.matrix.size, 1, 1))
        sell = backend.format("sell")
        restriction = sell.product(coarse, here, _table(backend, below.restriction), in_order=True)
        prolongation = sell.product(here, coarse, _table(backend, below.prolongation), in_order=False)
        transfer = ChunkTransfer(
            restriction=ChunkMatrix(layout=coarse, local=restriction),
            prolongation=ChunkMatrix(layout=here, local=prolongation),
            columns=coarse,
        )
        matrix, scaled = _smoothed(backend, here, fine) if made else (None, None)
        made.append(AlgebraicChunk(layout=here, matrix=matrix, scaled=scaled, transfer=transfer))
        a, here = below.matrix, coarse
    dense = a.dense()
    dense = (dense + dense.T) / 2
    inverse = backend.dense.inverse(here, regularized(dense) if singular else dense)
    made.append(AlgebraicChunk(layout=here, inverse=inverse))
    backend.synchronize()
    return at_level(depth, *made)


def _coarsened(a: Csr, last: int, team: Team) -> Iterator[tuple[Csr, Coarser]]:
    """Each level with more than `last` rows and the coarser one, which is made while the one before is stored."""
    with ThreadPoolExecutor(1, "dsolver-coarsening") as ahead:
        waiting = ahead.submit(amg.coarser, a, team) if a.size > last else None
        while waiting is not None:
            below, fine = waiting.result(), a
            a = below.matrix
            waiting = ahead.submit(amg.coarser, a, team) if a.size > last else None
            yield fine, below


def _too_wide(rows: Csr) -> bool:
    """Whether rows are longer than can be stored, or than is worth the memory of their table."""
    return rows.width > WIDEST or (rows.width > WIDE and rows.width * rows.size > ROOM)


def _table(backend: Backend, a: Csr) -> Ell:
    return backend.amg.table(backend.amg.on_device(a), a.width)


def _smoothed(backend: Backend, layout: Layout, a: Csr) -> tuple[ChunkMatrix, Any]:
    """The matrix, and its local part with a scaled diagonal."""
    there = backend.amg.on_device(a)
    local = backend.format("sell").matrix(layout, backend.amg.table(there, a.width))
    factors = backend.xp.full(layout.shape, SAFETY * backend.amg.largest_eigenvalue(there))
    return ChunkMatrix(layout=layout, local=local), local.scaled(factors)


def _count(backend: Backend, _: int, made: tuple[Any, ...]) -> Any:
    """The number of levels that were made: float64 (1,)."""
    return backend.xp.full(1, float(sum(level is not None for level in made)))
