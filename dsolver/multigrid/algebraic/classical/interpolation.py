"""Interpolation "extended+i" from coarse points of a level that is cut into chunks: the same bits however it is cut.

A fine point is interpolated from its coarse neighbors and from those of its fine ones, whose strong couplings to coarse
points come from their owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dsolver.engines.base import Message, PerChunk
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.classical.coarse_couplings import (
    CoarseCouplings,
    Couplings,
    coarse_places,
    seen_by,
)
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, sent, stacked
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds


def interpolated(
    level: FineLevel,
    bits: PerChunk,
    numbers: PerChunk,
    bounds: Bounds,
    most: int,
    couplings: Couplings,
    points: PerChunk | None = None,
) -> PerChunk:
    """The rows of P of every chunk: `SentRows` with a message for each chunk that has ghosts among them.

    Args:
        level: with fine and coarse points.
        bits: of the `Graph`.
        numbers: int64, of the coarse points of every window, -1 for fine ones.
        bounds: of the coarser level.
        most: entries of a row.
        couplings: to these coarse points.
        points: int64, the own points whose rows are wanted, ascending, if not all; then there are no messages.
    """
    engine, rows = level.engine, level.rows
    make = partial(_interpolated, bounds=bounds, most=most)
    wanted = () if points is None else (points,)
    return engine.per_chunk(make, rows, bits, numbers, couplings.own, couplings.around, *wanted)


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _interpolated(
    backend: Backend,
    number: int,
    rows: LevelRows,
    bits: Any,
    numbers: I64,
    couplings: CoarseCouplings,
    around: Mapping[int, Message],
    points: I64 | None = None,
    *,
    bounds: Bounds,
    most: int,
) -> SentRows:
    window, amg = rows.window, backend.amg
    whole = stacked(number, couplings.rows, around)
    coarse_window = seen_by(amg, bounds, number, numbers, whole)
    coarse = couplings.names if window.whole else coarse_places(amg, coarse_window, numbers)
    p = amg.interpolation(
        rows.matrix,
        points,
        bits,
        couplings.states,
        window.below,
        whole.within(amg, coarse_window),
        coarse,
        coarse_window.size,
        most,
    )
    made = DistributedRows(window=coarse_window, matrix=p).tight(amg)
    return sent(amg, rows, made) if points is None else SentRows(rows=made, lists={})
