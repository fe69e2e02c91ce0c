"""Strong couplings of a chunk's points to coarse points, which interpolation follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels import Backend
from dsolver.kernels.amg.setup import AlgebraicSetup
from dsolver.multigrid.algebraic.rows.ghost_rows import sent
from dsolver.multigrid.algebraic.rows.global_rows import Rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, Window, window_of


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
    lists: Mapping[int, F64]
    states: npt.NDArray[np.int8]
    names: npt.NDArray[np.int32]


def coarse_couplings(
    backend: Backend, rows: LevelRows, bits: Any, numbers: I64, *, every: bool = False
) -> CoarseCouplings:
    """The `CoarseCouplings` of a chunk.

    Args:
        backend: of the chunk.
        rows: of the level.
        bits: of the `Graph`.
        numbers: int64, of the coarse points of the window, -1 for fine ones.
        every: whether couplings of all own points are wanted, in both directions, with bits for values.
    """
    window, amg = rows.window, backend.amg
    states, names = amg.states_of(numbers)
    if not window.whole:
        names = np.arange(window.size, dtype=np.int32, like=numbers)
    found = amg.coarse_couplings(rows.matrix, bits, states, window.below, names, every=every, loose=window.whole)
    columns = found.columns if window.whole else numbers[found.columns]
    made = Rows(start=found.start, columns=columns, values=found.values)
    return CoarseCouplings(rows=made, lists=sent(rows, made).lists, states=states, names=names)


def seen_by(amg: AlgebraicSetup, bounds: Bounds, number: int, numbers: I64, rows: Rows) -> Window:
    """The window of coarse points that a chunk sees: those of a window of fine ones, and the columns of some rows."""
    seen = numbers if len(bounds) == 2 else np.concatenate([numbers[numbers >= 0], rows.columns])
    return window_of(amg, bounds, number, seen)


def coarse_places(amg: AlgebraicSetup, window: Window, numbers: I64) -> npt.NDArray[np.int32]:
    """Places in a window of coarse points, int32, of their numbers; -1 for fine ones."""
    if window.whole:
        return numbers.astype(np.int32)
    return np.where(numbers >= 0, window.places(amg, numbers), -1).astype(np.int32)
