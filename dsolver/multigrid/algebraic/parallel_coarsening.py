"""Coarse points of a level that is cut into chunks: the same ones however it is cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.messages import GhostExchange, numbers_of
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg.pmis import FINE
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Window, own_bounds


@final
@dataclass(frozen=True, kw_only=True)
class Measures:
    """Measures of a chunk's rows.

    Attributes:
        largest: float64, the size of the most negative coupling, for an exchange.
        diagonal: float64 (rows,).
        share: float64 (rows,), (a_ii + Σ_j |a_ij|) / 2 as a part of a_ii: with it for a diagonal Jacobi's method
            converges, as 2 D - A is then diagonally dominant.
    """

    largest: Any
    diagonal: F64
    share: F64


@final
@dataclass(frozen=True, kw_only=True)
class Graph:
    """Strong couplings of a chunk's rows.

    Attributes:
        bits: uint8 (entries,), see `dsolver.kernels.amg.couplings`.
        counts: the rows that depend on each, for an exchange.
    """

    bits: Any
    counts: Any


@final
@dataclass(frozen=True, kw_only=True)
class Splitting:
    """Coarse and fine points of a chunk, decided or not.

    Attributes:
        key: uint64, of every point of the window.
        origin: int64, likewise.
        state: int8, likewise.
        own: the state of own points, for an exchange.
        left: float64 (1,), the number of own points that are undecided; None where there is one chunk.
        before: int64 (rows + 1,), the number of own coarse points before each own one, and of all.
        coarse: the number of own points that are coarse.
    """

    key: npt.NDArray[np.uint64]
    origin: I64
    state: npt.NDArray[np.int8]
    own: Any
    left: Any
    before: I64
    coarse: float


def measured(engine: Engine, rows: PerChunk) -> PerChunk:
    """The `Measures` of every chunk."""
    return engine.per_chunk(_measured, rows)


def wrong_diagonals(engine: Engine, measures: PerChunk) -> int:
    """The number of rows of all chunks whose diagonal is not positive."""
    return int(engine.sums(engine.per_chunk(_wrong, measures), 1)[0])


def strong_graph(engine: Engine, rows: PerChunk, measures: PerChunk, exchange: GhostExchange, theta: float) -> PerChunk:
    """The `Graph` of every chunk."""
    ghosts = exchange(measures.at("largest"))
    return engine.per_chunk(partial(_graph, theta=theta), rows, measures, ghosts)


def split(
    engine: Engine, rows: PerChunk, graph: PerChunk, exchange: GhostExchange, salt: int, *, lone: int = FINE
) -> PerChunk:
    """The `Splitting` of every chunk, all points decided but what a chunk knows of its ghosts.

    Each chunk decides as much as it can from what it knows of its ghosts, and tells its neighbors, until all is
    decided; a single one decides all at once.

    Args:
        engine: of the chunks.
        rows: the `LevelRows` of every chunk.
        graph: the `Graph`.
        exchange: of the rows' ghosts.
        salt: a number that makes hashes different from those of other levels.
        lone: the state of points that nobody depends on.
    """
    counts, origin = exchange(graph.at("counts")), exchange(engine.per_chunk(_origins, rows))
    made = engine.per_chunk(partial(_begun, salt=salt, lone=lone), rows, graph, counts, origin)
    while engine.coupled and engine.global_sums(made.at("left"))[0]:
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


def _measured(backend: Backend, _: int, rows: LevelRows) -> Measures:
    amg, window = backend.amg, rows.window
    largest, diagonal, share = amg.row_measures(rows.matrix, window.below)
    return Measures(largest=for_exchange(backend, window, largest), diagonal=diagonal, share=share)


def _wrong(backend: Backend, _: int, measures: Measures) -> tuple[float]:
    diagonal = backend.asarray(measures.diagonal)  # which may lie on the host
    return (float(backend.lattice.unfit(diagonal, 0.0, left_out=True)),)


def _graph(backend: Backend, _: int, rows: LevelRows, measures: Measures, ghosts: Any, *, theta: float) -> Graph:
    largest = in_window(backend, rows, measures.largest, ghosts)
    bits, counts = backend.amg.couplings(rows.matrix, rows.window.below, largest, theta)
    return Graph(bits=bits, counts=for_exchange(backend, rows.window, counts))


def _begun(
    backend: Backend, _: int, rows: LevelRows, graph: Graph, counts: Any, origin: Any, *, salt: int, lone: int
) -> Splitting:
    counts = in_window(backend, rows, graph.counts, counts).astype(np.int64, copy=False)
    origin = in_window(backend, rows, rows.origin, origin).astype(np.int64, copy=False)
    key, state = backend.amg.begun(counts, origin, salt, lone)
    return _settled(backend, rows, graph, key, origin, state)


def _continued(backend: Backend, _: int, rows: LevelRows, graph: Graph, before: Splitting, ghosts: Any) -> Splitting:
    state = in_window(backend, rows, own_of(rows.window, before.state), ghosts).astype(np.int8)
    return _settled(backend, rows, graph, before.key, before.origin, state)


def _settled(backend: Backend, rows: LevelRows, graph: Graph, key: Any, origin: Any, state: Any) -> Splitting:
    window, amg = rows.window, backend.amg
    left, before, coarse = amg.settled(rows.matrix, window.below, graph.bits, key, origin, state)
    return Splitting(
        key=key,
        origin=origin,
        state=state,
        own=for_exchange(backend, window, own_of(window, state)),
        left=None if window.whole else backend.xp.full(1, float(left)),
        before=before,
        coarse=float(coarse),
    )


def _numbered(backend: Backend, number: int, rows: LevelRows, splitting: Splitting, *, bounds: tuple[int, ...]) -> Any:
    """The numbers of own coarse points, -1 for fine ones, for an exchange."""
    own, first = own_of(rows.window, splitting.state), own_bounds(bounds, number)[0]
    numbers = backend.amg.numbered(own, splitting.before, first)
    return for_exchange(backend, rows.window, numbers)


def _origins(backend: Backend, _: int, rows: LevelRows) -> Any:
    return for_exchange(backend, rows.window, rows.origin)


def not_positive(backend: Backend, diagonal: Any) -> Any:
    """The number of entries of a diagonal on the device that are not positive and finite: float64 (1,)."""
    return backend.asarray(np.full(1, float(backend.lattice.unfit(diagonal, 0.0, left_out=True))))


def numbers_in_window(backend: Backend, _: int, rows: LevelRows, own: Any, ghosts: Any) -> I64:
    """Numbers of own points and of ghosts, int64, for every point of a window."""
    found: I64 = in_window(backend, rows, own, ghosts).astype(np.int64, copy=False)
    return found


def for_exchange(backend: Backend, window: Window, values: Any) -> Any:
    """Values of own points on the device, float64, with a zero behind them: no kernel runs on nothing.

    Where there is one chunk nothing is exchanged, and they are what they were.
    """
    if window.whole:
        return values
    made = backend.xp.zeros(len(values) + 1)
    made[:-1] = backend.asarray(values)
    return made


def in_window(backend: Backend, rows: Any, own: Any, ghosts: Any) -> Any:
    """Values of every point of a window, where its rows' arrays lie.

    Args:
        backend: of the chunk.
        rows: an object with `window` and `origin`.
        own: values of own points, as of `for_exchange` or without what stands behind them.
        ghosts: what came of the exchange; None where there is one chunk.
    """
    if ghosts is None:
        return own
    amg = backend.amg
    return rows.window.joined(amg.asarray(own)[: rows.window.rows], amg.asarray(ghosts))


def own_of(window: Window, values: Any) -> Any:
    """The part of values of a window that belongs to own points."""
    return values[window.below : window.below + window.rows]
