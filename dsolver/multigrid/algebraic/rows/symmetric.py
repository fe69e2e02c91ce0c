"""Rows of a coarser level of a symmetric matrix: symmetric to the bit, though products leave roundings.

Entries below the diagonal become what their mirror images are; where these are another chunk's, it sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Message, PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import AlgebraicSetup
from dsolver.multigrid.algebraic.requirements import ONE_SIDED
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, owners_of, received

VALUES: Final = ("float64",)
"""Value types of a message with values alone."""


@final
@dataclass(frozen=True, kw_only=True)
class HalfMirrored:
    """A chunk's rows of a level, symmetric to the bit among its own columns.

    Attributes:
        rows: of the level.
        lists: for each neighbor the entries in its columns, column after column.
    """

    rows: LevelRows
    lists: Mapping[int, Message]


def symmetric_rows(
    engine: Engine, made: PerChunk, senders: Senders, bounds: Bounds, *, ascending: bool = False
) -> PerChunk:
    """The `LevelRows` of every chunk of a coarser level, symmetric to the bit.

    Args:
        engine: of the chunks.
        made: the `BroughtRows` of every chunk.
        senders: the chunks whose rows each chunk reads.
        bounds: of the level.
        ascending: whether columns ascend in each row.
    """
    make = partial(_half_mirrored, bounds=bounds, senders=tuple(map(tuple, senders)), ascending=ascending)
    half = engine.per_chunk(make, made)
    if not engine.coupled:
        return half.at("rows")
    return engine.per_chunk(_mirrored, half.at("rows"), engine.deliver(half.at("lists"), senders, VALUES))


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _half_mirrored(
    backend: Backend,
    number: int,
    made: BroughtRows,
    *,
    bounds: Bounds,
    senders: tuple[tuple[int, ...], ...],
    ascending: bool,
) -> HalfMirrored:
    amg, window, matrix = backend.amg, made.rows.window, made.rows.matrix
    if len(bounds) == 2:
        if not made.mirrored:
            matrix, wrong = amg.mirrored(matrix, ascending=ascending)
            if wrong:
                raise InputError(ONE_SIDED)
        plan = HaloPlan(sends=(), receives=())
        whole = LevelRows(window=window, matrix=matrix, origin=made.origin, near=made.near, plan=plan, bounds=bounds)
        return HalfMirrored(rows=whole, lists={})
    entries, owners = _outside(amg, bounds, made.rows)
    rows = Rows(start=matrix.start, columns=matrix.columns, values=matrix.values)
    sends, lists = [], {}
    for other in senders[number] if len(senders) > 1 else ():
        inside = entries[owners == other]
        sends.append((other, amg.distinct(rows.rows_at(inside))))
        lists[other] = (rows.values[inside[np.argsort(rows.columns[inside], kind="stable")]],)
    matrix = matrix._replace(values=matrix.values.copy())
    amg.symmetrize(matrix, window.below)
    plan = HaloPlan(sends=tuple(sends), receives=received(bounds, window))
    return HalfMirrored(
        rows=LevelRows(window=window, matrix=matrix, origin=made.origin, near=made.near, plan=plan, bounds=bounds),
        lists=lists,
    )


def _mirrored(backend: Backend, number: int, rows: LevelRows, around: Mapping[int, Message]) -> LevelRows:
    """Rows whose entries in columns of chunks before this one are those that their owners have.

    Raises:
        InputError: one of them has entries that the other one has not.
    """
    values = rows.matrix.values.copy()
    entries, owners = _outside(backend.amg, rows.bounds, DistributedRows(window=rows.window, matrix=rows.matrix))
    for other, (theirs,) in around.items():
        mine = entries[owners == other]
        if len(mine) != len(theirs):
            raise InputError(ONE_SIDED)
        if other < number:
            values[mine] = theirs
    return replace(rows, matrix=rows.matrix._replace(values=values))


def _outside(amg: AlgebraicSetup, bounds: Bounds, rows: DistributedRows) -> tuple[I64, I64]:
    """The entries in ghosts' columns, int64, and the chunks that own these."""
    window, columns = rows.window, rows.matrix.columns
    entries = amg.outside(columns, window.below, window.below + window.rows)
    return entries, owners_of(bounds, window.numbers_at(amg, columns[entries]))
