"""Strong couplings of a chunk's points to coarse points, which interpolation follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Message, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import AlgebraicSetup
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.ghost_rows import ghost_rows
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, Window, window_of


@final
@dataclass(frozen=True, kw_only=True)
class CoarseCouplings:
    """Strong couplings of a chunk's points to coarse ones, by these points' numbers, and what they were found with.

    Attributes:
        rows: of the chunk.
        lists: for each chunk that gets some, a message.
        states: int8, of every point of the window.
        names: int32, what the kernels call each of these points: its number where there is one chunk, else its place.
    """

    rows: Rows
    lists: Mapping[int, Message]
    states: npt.NDArray[np.int8]
    names: npt.NDArray[np.int32]


@final
@dataclass(frozen=True, kw_only=True)
class Couplings:
    """Strong couplings of all points of a level to coarse ones.

    Attributes:
        own: the `CoarseCouplings` of every chunk.
        around: rows of its ghosts, from their owners.
    """

    own: PerChunk
    around: PerChunk


def couplings_to(level: FineLevel, bits: PerChunk, numbers: PerChunk, *, every: bool = False) -> Couplings:
    """The `Couplings` of a level.

    Args:
        level: with fine and coarse points.
        bits: of the `Graph`.
        numbers: int64, of the coarse points of every window, -1 for fine ones.
        every: whether couplings are wanted in both directions, which values tell: see
            `dsolver.kernels.amg.couplings.coded`.
    """
    own = level.engine.per_chunk(partial(coarse_couplings, every=every), level.rows, bits, numbers)
    return shared(level, own)


def shared(level: FineLevel, own: PerChunk) -> Couplings:
    """The `Couplings` of a level, of the `CoarseCouplings` of every chunk."""
    return Couplings(own=own, around=ghost_rows(level.engine, level.senders, own))


# -- what is made on the owners ----------------------------------------------------------------------------------------


def coarse_couplings(
    backend: Backend, _: int, rows: LevelRows, bits: Any, numbers: I64, *, every: bool = False
) -> CoarseCouplings:
    """The `CoarseCouplings` of a chunk; arguments as of `couplings_to`."""
    window, amg = rows.window, backend.amg
    states, names = amg.states_of(numbers)
    if not window.whole:
        names = np.arange(window.size, dtype=np.int32, like=numbers)
    found = amg.coarse_couplings(rows.matrix, bits, states, window.below, names, every=every, loose=window.whole)
    columns = found.columns if window.whole else numbers[found.columns]
    made = Rows(start=found.start, columns=columns, values=found.values)
    lists = {to: made.selected(amg, wanted).message for to, wanted in rows.plan.sends}
    return CoarseCouplings(rows=made, lists=lists, states=states, names=names)


def seen_by(amg: AlgebraicSetup, bounds: Bounds, number: int, numbers: I64, rows: Rows) -> Window:
    """The window of coarse points that a chunk sees: those of a window of fine ones, and the columns of some rows."""
    seen = numbers if len(bounds) == 2 else np.concatenate([numbers[numbers >= 0], rows.columns])
    return window_of(amg, bounds, number, seen)


def coarse_places(amg: AlgebraicSetup, window: Window, numbers: I64) -> npt.NDArray[np.int32]:
    """Places in a window of coarse points, int32, of their numbers; -1 for fine ones."""
    if window.whole:
        return numbers.astype(np.int32)
    return np.where(numbers >= 0, window.places(amg, numbers), -1).astype(np.int32)
