"""Rows of a coarser level of a symmetric matrix: symmetric to the bit, though products leave roundings.

Entries below the diagonal become what their mirror images are; where these are another chunk's, it sends them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from dsolver.distributed.setup_exchange import Senders
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.errors import InputError
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.requirements import ONE_SIDED
from dsolver.multigrid.algebraic.rows.level_rows import BroughtRows, LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds

VALUES: Final = ("float64",)  # value types of a message with values alone


@dataclass(frozen=True, kw_only=True)
class HalfMirrored:
    """A chunk's rows of a level, before entries have met their mirror images."""

    rows: LevelRows  # of the level; of the only chunk they are symmetric already
    entries: Mapping[int, I64]  # for each neighbor the entries in its columns, int64, ascending
    lists: Messages  # for each neighbor the values of these, column after column


def symmetric_rows(engine: Engine, made: PerChunk, reach: Senders, bounds: Bounds) -> PerChunk:
    """The `LevelRows` of every chunk of a coarser level of `BroughtRows`, symmetric to the bit."""
    half = engine.per_chunk(partial(_half_mirrored, bounds=bounds), made)
    if not engine.coupled:
        return half.at("rows")
    return engine.per_chunk(_mirrored, half, engine.deliver(half.at("lists"), reach, VALUES))


def _half_mirrored(backend: Backend, _: int, made: BroughtRows, *, bounds: Bounds) -> HalfMirrored:
    amg, matrix = backend.amg, made.rows.matrix
    if len(bounds) == 2:
        if not made.mirrored:
            matrix, wrong = amg.mirrored(matrix)
            if wrong:
                raise InputError(ONE_SIDED)
        return HalfMirrored(rows=replace(made.level_rows(bounds, {}), matrix=matrix), entries={}, lists={})
    inside = made.rows.elsewhere(amg, bounds)
    return HalfMirrored(
        rows=made.level_rows(bounds, made.rows.read_by(amg, inside)),
        entries=inside,
        lists={other: (matrix.values[of[_by_columns(matrix.columns[of])]],) for other, of in inside.items()},
    )


def _mirrored(backend: Backend, number: int, half: HalfMirrored, around: Messages) -> LevelRows:
    """Rows whose entries in chunks before are those of their owners; InputError where one has some that are missing."""
    rows = half.rows
    if around.keys() != half.entries.keys():
        raise InputError(ONE_SIDED)
    matrix = rows.matrix._replace(values=rows.matrix.values.copy())
    backend.amg.symmetrize(matrix, rows.window.below)
    for other, (theirs,) in around.items():
        mine = half.entries[other]
        if len(mine) != len(theirs):
            raise InputError(ONE_SIDED)
        if other < number:
            matrix.values[mine] = theirs
    return replace(rows, matrix=matrix)


def _by_columns(columns: I64) -> I64:
    """The order of entries, which are in that of their rows, column after column."""
    return np.argsort(columns, kind="stable")
