"""Interpolation "extended+i" from coarse points of a level that is cut into chunks: the same bits however it is cut.

A fine point is interpolated from its coarse neighbors and from those of its fine ones, whose strong couplings to coarse
points come from their owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.messages import Senders, delivered
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import AlgebraicSetup
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, sent, stacked
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, Window, window_of


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
    below = seen_by(amg, bounds, number, numbers, whole)
    coarse = seen.names if window.whole else coarse_places(amg, below, numbers)
    p = amg.interpolation(
        rows.matrix,
        points,
        bits,
        seen.states,
        window.below,
        whole.within(amg, below),
        coarse,
        below.size,
        most,
    )
    made = Rows.at(p, below)
    return sent(rows, made) if points is None else SentRows(rows=made, lists={})


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


def seen_by(amg: AlgebraicSetup, bounds: Bounds, number: int, numbers: I64, rows: Rows) -> Window:
    """The window of coarse points that a chunk sees: those of a window of fine ones, and the columns of some rows."""
    seen = numbers if len(bounds) == 2 else np.concatenate([numbers[numbers >= 0], rows.columns])
    return window_of(amg, bounds, number, seen)


def coarse_places(amg: AlgebraicSetup, window: Window, numbers: I64) -> npt.NDArray[np.int32]:
    """Places in a window of coarse points, int32, of their numbers; -1 for fine ones."""
    if window.whole:
        return numbers.astype(np.int32)
    return np.where(numbers >= 0, window.places(amg, numbers), -1).astype(np.int32)
