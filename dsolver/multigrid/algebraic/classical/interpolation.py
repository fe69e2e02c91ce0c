"""Interpolation "extended+i" from coarse points of a level that is cut into chunks: the same bits however it is cut.

A fine point is interpolated from its coarse neighbors and from those of its fine ones, whose strong couplings to coarse
points come from their owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dsolver.distributed.messages import Senders, delivered
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.multigrid.algebraic.classical.coarse_couplings import SeenRows, coarse_places, coarse_rows, seen_by
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, sent, stacked
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds


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
