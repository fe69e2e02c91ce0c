"""Strong couplings of a chunk's points to coarse points, which interpolation follows."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.cpu.amg.setup import AmgKernels
from dsolver.kernels.deferred import Deferred
from dsolver.multigrid.algebraic.fine_level import FineLevel
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import LeavingRows, around_it, ghost_rows
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, Window, own_bounds, window_of


@dataclass(frozen=True, kw_only=True)
class CoarseCouplings:
    """Strong couplings of a chunk's points to coarse ones, and what they were found with."""

    rows: DistributedRows  # of the chunk; their window is of coarse points, those of the window of all points
    lists: Messages
    numbers: I64  # int64, of every point of the window of all points the number among coarse ones, -1 for fine ones
    states: npt.NDArray[np.int8]  # int8, of these points
    places: npt.NDArray[np.int32]  # int32, of these points the place in the window of coarse ones, -1 for fine ones


@dataclass(frozen=True, kw_only=True)
class CouplingsAround:
    """Strong couplings of all points of a chunk's window to coarse ones."""

    rows: DistributedRows  # of these points; their window is of coarse points
    states: npt.NDArray[np.int8]  # int8, of these points
    places: npt.NDArray[np.int32]  # int32, of these points the place in that window, -1 for fine ones


@dataclass(frozen=True, kw_only=True)
class Couplings:
    """Strong couplings of a level to coarse points: `CoarseCouplings` of own points, `CouplingsAround` of all."""

    own: PerChunk
    around: PerChunk


def couplings_to(
    level: FineLevel, bits: PerChunk, numbers: PerChunk, bounds: Bounds, *, every: bool = False
) -> Couplings:
    """The `Couplings` of a level.

    `every`: whether couplings are wanted in both directions, which values tell: see
    `dsolver.kernels.cpu.amg.couplings.coded`. Their window has nothing but their columns then, which others are asked
    for.
    """
    make = partial(coarse_couplings, bounds=bounds, every=every)
    return shared(level, level.engine.per_chunk(make, level.rows, bits, numbers), tight=every)


def shared(level: FineLevel, own: PerChunk, *, tight: bool = False) -> Couplings:
    """The `Couplings` of a level, of the `CoarseCouplings` of every chunk; tight: as of `Window.joined_with`."""
    engine, make = level.engine, partial(_around, tight=tight)
    return Couplings(own=own, around=engine.per_chunk(make, own, ghost_rows(engine, level.senders, own)))


def coarse_couplings(
    backend: Backend, number: int, rows: LevelRows, bits: Any, numbers: I64, *, bounds: Bounds, every: bool = False
) -> CoarseCouplings:
    """The `CoarseCouplings` of a chunk; arguments as of `couplings_to`."""
    window, amg = rows.window, backend.amg
    states, names = amg.states_of(numbers)
    coarse = Deferred(partial(coarse_points, amg, bounds, number, window, numbers, tight=every))
    places = Deferred(lambda: coarse_places(amg, coarse(), numbers, names))
    leaving, given = LeavingRows(amg, rows), (rows.matrix, bits, states, window.below)
    found = amg.coarse_couplings(*given, places, leaving.count, every=every, loose=window.whole)
    made = DistributedRows(window=coarse(), matrix=found)
    return CoarseCouplings(rows=made, lists=leaving.lists(made), numbers=numbers, states=states, places=places())


def coarse_points(
    amg: AmgKernels, bounds: Bounds, number: int, window: Window, numbers: I64, *, tight: bool = False
) -> Window:
    """The window of the coarse points among those of a window, or of all coarse points unless it is tight."""
    if window.whole:
        return window_of(amg, bounds, number, numbers)
    first, last = own_bounds(bounds, number)
    if not tight and amg.sees_all(bounds[-1]):
        return Window.of_all(amg, first, last - first, bounds[-1])
    ghosts, lower = amg.numbered_ghosts(numbers, window.rows, window.below)
    return Window(first=first, rows=last - first, ghosts=ghosts, lower=lower, end=bounds[-1])


def coarse_places(amg: AmgKernels, coarse: Window, numbers: I64, names: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Places in a window of coarse points, int32, of their numbers, which are names, too; -1 for fine ones."""
    return names if coarse.whole else coarse.places(amg, numbers)


def _around(backend: Backend, number: int, own: CoarseCouplings, around: Messages, *, tight: bool) -> CouplingsAround:
    rows = own.rows.among(backend.amg, *around_it(number, around), tight=tight)
    places = own.places
    if rows.window is not own.rows.window:
        places = coarse_places(backend.amg, rows.window, own.numbers, own.places)
    return CouplingsAround(rows=rows, states=own.states, places=places)
