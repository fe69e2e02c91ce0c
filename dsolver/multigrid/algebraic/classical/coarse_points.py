"""Coarse points of a level that is cut into chunks, by PMIS: the same ones however it is cut."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.setup_exchange import GhostExchange
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import FINE
from dsolver.multigrid.algebraic.classical.strength import StrongCouplings
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, Bounds, own_bounds

TURNS: Final = {"cuda": (3, 7)}
"""Exchanges before the first look at whether points are left, on a finest level and elsewhere: as many as do as a rule.
A GPU is waited for in a look, and ranks agree, as long as two exchanges take; one more before each look behind it."""


@dataclass(frozen=True, kw_only=True)
class Splitting:
    """Coarse and fine points of a chunk, decided or not."""

    key: npt.NDArray[np.uint64]  # uint64; like `origin`, int64, and `state`, int8, of every point of the window
    origin: I64
    state: npt.NDArray[np.int8]
    own: Any  # the state of own points
    opened: Any  # what `dsolver.kernels.cpu.amg.setup.AmgKernels.settled` takes where it goes on


@dataclass(frozen=True, kw_only=True)
class PointCounts:
    """Numbers of undecided and coarse points; before: int64 (rows + 1,), coarse ones before each own one, and all."""

    numbers: tuple[float, float]
    before: I64


def coarse_numbers(
    engine: Engine,
    rows: PerChunk,
    graph: PerChunk,
    exchange: GhostExchange,
    salt: int,
    *,
    lone: int = FINE,
    beside: Callable[[], object] = lambda: None,
) -> tuple[PerChunk, tuple[int, ...]]:
    """Numbers of coarse points in the order of their rows.

    Each chunk decides as much as it can from what it knows of its ghosts, and tells its neighbors, until all is
    decided; a single one decides all by itself.

    Args:
        salt: of the keys; 0 in the first pass on a finest level alone.
        lone: the state of points that no other depends on.
        beside: as of `FineLevel`.

    Returns:
        of every chunk int64, the number of every point of its window, -1 for fine ones; the first of each chunk, and
        all.
    """
    counts = exchange.in_window(graph.at("counts"))
    origin = exchange.in_window(rows.at("origin"))
    made = engine.per_chunk(partial(_begun, salt=salt, lone=lone), rows, graph, counts, origin)
    beside()
    turns, left = TURNS.get(engine.kernels, (1, 1))[salt > 0] if engine.coupled else 0, True
    while left:
        for _ in range(turns):
            made = engine.per_chunk(_continued, rows, graph, made, exchange.in_window(made.at("own")))
        counted = engine.per_chunk(_counted, rows, made)
        known = engine.known(counted.at("numbers"))
        left, turns = any(undecided for undecided, _ in known), turns + 1 if turns > 1 else 1
    bounds = (0, *accumulate(int(coarse) for _, coarse in known))
    own = engine.per_chunk(partial(_numbered, bounds=bounds), rows, made, counted)
    return exchange.in_window(own), bounds


def _begun(
    backend: Backend, _: int, rows: LevelRows, graph: StrongCouplings, counts: Any, origin: Any, *, salt: int, lone: int
) -> Splitting:
    key, state = backend.amg.begun(counts, origin, salt, lone)
    return _settled(backend, rows, graph, key, origin, state)


def _continued(
    backend: Backend, _: int, rows: LevelRows, graph: StrongCouplings, before: Splitting, state: Any
) -> Splitting:
    state = state.copy() if rows.window.whole else state  # which is the one before
    return _settled(backend, rows, graph, before.key, before.origin, state, before.opened)


def _settled(
    backend: Backend, rows: LevelRows, graph: StrongCouplings, key: Any, origin: Any, state: Any, opened: Any = None
) -> Splitting:
    window, amg = rows.window, backend.amg
    opened = amg.settled(rows.matrix, window.below, graph.bits, key, origin, state, opened)
    return Splitting(key=key, origin=origin, state=state, own=window.own_of(state), opened=opened)


def _counted(backend: Backend, _: int, rows: LevelRows, splitting: Splitting) -> PointCounts:
    left, coarse, before = backend.amg.counted(rows.window.own_of(splitting.state), splitting.opened)
    return PointCounts(numbers=(float(left), float(coarse)), before=before)


def _numbered(
    backend: Backend, number: int, rows: LevelRows, splitting: Splitting, counts: PointCounts, *, bounds: Bounds
) -> Any:
    """The numbers of own coarse points, -1 for fine ones."""
    own, first = rows.window.own_of(splitting.state), own_bounds(bounds, number)[0]
    return backend.amg.numbered(own, counts.before, first)
