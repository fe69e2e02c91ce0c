"""Coarse points of a level that is cut into chunks, by PMIS: the same ones however it is cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.setup_exchange import GhostExchange, numbers_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg import FINE
from dsolver.multigrid.algebraic.classical.strength import StrongCouplings
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import I64, own_bounds
from dsolver.multigrid.algebraic.rows.window_values import for_exchange, in_window, numbers_in_window, own_of


@final
@dataclass(frozen=True, kw_only=True)
class Splitting:
    """Coarse and fine points of a chunk, decided or not.

    Attributes:
        key: uint64, of every point of the window.
        origin: int64, likewise.
        state: int8, likewise.
        own: the state of own points, for an exchange.
        left: the number of own points that are undecided.
        before: int64 (rows + 1,), the number of own coarse points before each own one, and of all.
        coarse: the number of own points that are coarse.
        opened: what `dsolver.kernels.cpu.amg.setup.AmgKernels.settled` takes where it goes on.
    """

    key: npt.NDArray[np.uint64]
    origin: I64
    state: npt.NDArray[np.int8]
    own: Any
    left: tuple[float]
    before: I64
    coarse: float
    opened: Any = None


def split(
    engine: Engine, rows: PerChunk, graph: PerChunk, exchange: GhostExchange, salt: int, *, lone: int = FINE
) -> PerChunk:
    """The `Splitting` of every chunk, all points decided but what a chunk knows of its ghosts.

    Each chunk decides as much as it can from what it knows of its ghosts, and tells its neighbors, until all is
    decided; a single one decides all at once.

    Args:
        engine: of the chunks.
        rows: the `LevelRows` of every chunk.
        graph: the `StrongCouplings`.
        exchange: of the rows' ghosts.
        salt: a number that makes hashes different from those of other levels.
        lone: the state of points that nobody depends on.
    """
    counts, origin = exchange(graph.at("counts")), exchange(engine.per_chunk(_origins, rows))
    made = engine.per_chunk(partial(_begun, salt=salt, lone=lone), rows, graph, counts, origin)
    while engine.coupled and engine.sums(made.at("left"))[0]:
        made = engine.per_chunk(_continued, rows, graph, made, exchange(made.at("own")))
    return made


def coarse_numbers(
    engine: Engine, rows: PerChunk, splitting: PerChunk, exchange: GhostExchange
) -> tuple[PerChunk, tuple[int, ...]]:
    """Numbers of coarse points in the order of their rows.

    Returns:
        of every chunk int64, for every point of its window the number, -1 for fine points; the first number of each
        chunk, and behind them how many there are.
    """
    bounds = (0, *accumulate(numbers_of(engine, splitting.at("coarse"))))
    own = engine.per_chunk(partial(_numbered, bounds=bounds), rows, splitting)
    return engine.per_chunk(numbers_in_window, rows, own, exchange(own)), bounds


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _begun(
    backend: Backend, _: int, rows: LevelRows, graph: StrongCouplings, counts: Any, origin: Any, *, salt: int, lone: int
) -> Splitting:
    counts = in_window(backend, rows, graph.counts, counts).astype(np.int64, copy=False)
    origin = in_window(backend, rows, rows.origin, origin).astype(np.int64, copy=False)
    key, state = backend.amg.begun(counts, origin, salt, lone)
    return _settled(backend, rows, graph, key, origin, state)


def _continued(
    backend: Backend, _: int, rows: LevelRows, graph: StrongCouplings, before: Splitting, ghosts: Any
) -> Splitting:
    ghosts = backend.amg.asarray(ghosts).astype(np.int8)
    state = rows.window.joined(own_of(rows.window, before.state), ghosts)
    return _settled(backend, rows, graph, before.key, before.origin, state, before.opened)


def _settled(
    backend: Backend, rows: LevelRows, graph: StrongCouplings, key: Any, origin: Any, state: Any, opened: Any = None
) -> Splitting:
    window, amg = rows.window, backend.amg
    left, before, coarse, opened = amg.settled(rows.matrix, window.below, graph.bits, key, origin, state, opened)
    return Splitting(
        key=key,
        origin=origin,
        state=state,
        own=for_exchange(backend, window, own_of(window, state)),
        left=(float(left),),
        before=before,
        coarse=float(coarse),
        opened=opened,
    )


def _numbered(backend: Backend, number: int, rows: LevelRows, splitting: Splitting, *, bounds: tuple[int, ...]) -> Any:
    """The numbers of own coarse points, -1 for fine ones, for an exchange."""
    own, first = own_of(rows.window, splitting.state), own_bounds(bounds, number)[0]
    numbers = backend.amg.numbered(own, splitting.before, first)
    return for_exchange(backend, rows.window, numbers)


def _origins(backend: Backend, _: int, rows: LevelRows) -> Any:
    return for_exchange(backend, rows.window, rows.origin)
