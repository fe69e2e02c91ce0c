"""Smoothed aggregation across chunks: prolongation by aggregates that keeps a near-null space, smoothed once.

P = (I − ω D⁻¹ A_F) P̂ with ω = 4/3 / λ, λ the largest eigenvalue of D⁻¹A (Vaněk, Mandel, Brezina, Computing 56, 1996).
D is the smoother's, (a_ii + Σ_j |a_ij|) / 2: so a few bad elements of a mesh do not decide about all others. The owner
of an aggregate's root gets the rows of the near-null space of all its nodes, makes Q R of them in ascending order, and
sends back the rows of Q.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np

from dsolver.distributed.messages import (
    GhostExchange,
    Senders,
    delivered,
    numbers_of,
    on_host,
    receivers_of,
    senders_of,
    values_of,
)
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg.aggregates import WORD, words
from dsolver.kernels.amg.setup import BlockSizes
from dsolver.kernels.amg.spectrum import scaled_product
from dsolver.kernels.amg.tentative import kept_entries, orthonormal_blocks, prolongation_smoother
from dsolver.multigrid.algebraic.aggregation import NodeGraph
from dsolver.multigrid.algebraic.level_rows import (
    F64,
    I64,
    Bounds,
    LevelRows,
    Rows,
    others,
    own_bounds,
    owners_of,
    setup_of,
    starts,
    window_of,
)
from dsolver.multigrid.algebraic.parallel_coarsening import Measures, for_exchange, in_window, own_of
from dsolver.multigrid.algebraic.parallel_transfer import SentRows, sent, stacked

STEPS: Final = 15
"""Steps of the power method."""
OVER: Final = 4.0 / 3.0
"""ω λ: the Chebyshev polynomial of degree one whose largest value over the part of P̂ that is far from B is least."""


@final
@dataclass(frozen=True, kw_only=True)
class Members:
    """Own nodes that belong to aggregates.

    Attributes:
        count: own roots.
        roots: int64, the own roots, ascending.
        at: for each chunk that owns roots of own nodes, which of these they are, int64, ascending; this one among them.
        own: float64, the roots and the numbers of the nodes of this one, and their rows of the near-null space.
        lists: likewise, for each other one of these chunks.
        named: those chunks, ascending.
    """

    count: float
    roots: I64
    at: Mapping[int, I64]
    own: F64
    lists: Mapping[int, F64]
    named: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Q and R of a chunk's aggregates.

    Attributes:
        answers: for each other chunk that owns nodes of them, the numbers of their aggregates, and their rows of Q.
        own: likewise of the chunk's own nodes.
        near: float64 (k roots, k), the near-null space of the coarser level.
        origin: int64 (k roots,), the finest row that each of its rows stems from.
    """

    answers: Mapping[int, F64]
    own: F64
    near: F64
    origin: I64


def largest_eigenvalue(
    engine: Engine, rows: PerChunk, measures: PerChunk, exchange: GhostExchange, level: int, total: int
) -> float:
    """The largest eigenvalue of D⁻¹A, from below: `STEPS` steps of the power method in the norm of D.

    Terms of the two sums become integers of a scale that follows from the largest: their sum is the same in any order.

    Args:
        engine: of the level.
        rows: the `LevelRows` of every chunk.
        measures: their `Measures`.
        exchange: of the rows' ghosts.
        level: the level's number.
        total: rows of all chunks.
    """
    made = engine.per_chunk(partial(_rough, level=level), rows, measures)
    for _ in range(STEPS):
        made = engine.per_chunk(_step, rows, measures, made, exchange(made))
    last = engine.per_chunk(_terms, rows, measures, made, exchange(made))
    found = []
    for which in range(2):
        terms = last.at(which)
        largest = max(values_of(engine, engine.per_chunk(_largest, terms)))
        if not 0.0 < largest < np.inf:
            return 1.0
        shift = WORD - total.bit_length() - int(np.frexp(largest)[1])
        (scaled,) = engine.sums(engine.per_chunk(partial(_scaled_sum, shift=shift), terms), 1)
        found.append(np.ldexp(scaled, -shift))
    return float(np.sqrt(found[1] / found[0]))


def tentative(
    engine: Engine, rows: PerChunk, led: PerChunk, size: int, vectors: int, bounds: Bounds
) -> tuple[PerChunk, PerChunk, Bounds] | None:
    """The tentative prolongation; None where there is no aggregate.

    Args:
        engine: of the level.
        rows: the `LevelRows` of every chunk.
        led: of `aggregation.leaders`.
        size: unknowns of a node.
        vectors: of the near-null space.
        bounds: of the level.

    Returns:
        of every chunk its rows, `SentRows` with messages for those that have them as ghosts; its `Blocks`; the bounds
        of the coarser level.
    """
    nodes = tuple(bound // size for bound in bounds)
    members = engine.per_chunk(partial(_members, bounds=nodes), rows, led)
    aggregates = (0, *np.cumsum(numbers_of(engine, members.at("count"))).tolist())
    if not aggregates[-1]:
        return None
    read = senders_of(engine, members.at("named"))
    around = delivered(engine, receivers_of(read), members.at("lists"))
    blocks = engine.per_chunk(partial(_blocks, bounds=aggregates, size=size), rows, members, around)
    answers = delivered(engine, read, blocks.at("answers"))
    p = engine.per_chunk(partial(_tentative, size=size), rows, members, blocks, answers)
    return p, blocks, tuple(vectors * bound for bound in aggregates)


def smoothed(
    engine: Engine,
    rows: PerChunk,
    shares: PerChunk,
    p: PerChunk,
    graph: PerChunk | None,
    exchange: GhostExchange,
    senders: Senders,
    bounds: Bounds,
    omega: float,
    blocks: BlockSizes,
) -> PerChunk:
    """The rows of P of every chunk: `SentRows` with messages for those that have them as ghosts.

    Args:
        engine: of the level.
        rows: the `LevelRows` of every chunk.
        shares: D, as parts of A's diagonal, of every chunk.
        p: of `tentative`.
        graph: the `NodeGraph` whose couplings A_F has, where nodes are rows; None for all of A.
        exchange: of the rows' ghosts.
        senders: the chunks whose rows each chunk reads.
        bounds: of the coarser level.
        omega: ω.
        blocks: of A and P.
    """
    around = delivered(engine, senders, p.at("lists"))
    near = engine.per_chunk(_first_near, rows)
    more = () if graph is None else (graph, near, exchange(near))
    return engine.per_chunk(
        partial(_smoothed, bounds=bounds, omega=omega, blocks=blocks), rows, shares, p, around, *more
    )


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _rough(backend: Backend, _: int, rows: LevelRows, measures: Measures, *, level: int) -> Any:
    """A rough vector, everywhere the same in the norm of D, for an exchange."""
    window = rows.window
    found = words(np.arange(window.first, window.first + window.rows), level)
    rough = (found / (1 << WORD - 1) - 1.0) / np.sqrt(measures.share * measures.diagonal)
    return for_exchange(backend, window, rough)


def _step(backend: Backend, _: int, rows: LevelRows, measures: Measures, x: Any, ghosts: Any) -> Any:
    """D⁻¹ A x, for an exchange."""
    diagonal = measures.share * measures.diagonal
    y = scaled_product(rows.matrix, diagonal, in_window(backend, rows, x, ghosts), backend.amg.team)
    return for_exchange(backend, rows.window, y)


def _terms(backend: Backend, _: int, rows: LevelRows, measures: Measures, x: Any, ghosts: Any) -> tuple[F64, F64]:
    """The terms of xᵀDx and of yᵀDy with y = D⁻¹ A x."""
    whole, diagonal = in_window(backend, rows, x, ghosts), measures.share * measures.diagonal
    y = scaled_product(rows.matrix, diagonal, whole, backend.amg.team)
    return diagonal * own_of(rows.window, whole) ** 2, diagonal * y**2


def _largest(_: Backend, __: int, terms: F64) -> float:
    return float(terms.max(initial=0.0))


def _scaled_sum(_: Backend, __: int, terms: F64, *, shift: int) -> tuple[float]:
    """The sum of integers next to terms 2^shift: less than 2⁵², so that all sums of chunks are exact."""
    return (float(np.rint(np.ldexp(terms, shift)).sum()),)


def _members(_: Backend, number: int, rows: LevelRows, led: I64, *, bounds: Bounds) -> Members:
    """Own nodes by the owners of their roots; bounds: of the nodes."""
    first, last = own_bounds(bounds, number)
    own = (led >= first) & (led < last)
    near = rows.near.reshape(last - first, -1)
    at: dict[int, I64] = {number: np.flatnonzero(own)}
    member = np.flatnonzero((led >= 0) & ~own)
    owners = owners_of(bounds, led[member])
    named = others(bounds, number, owners)
    at |= {other: member[owners == other] for other in named}
    messages = {to: np.concatenate([led[m], m + first, near[m].ravel()]).astype(np.float64) for to, m in at.items()}
    roots = np.flatnonzero(led == np.arange(first, last)) + first
    return Members(
        count=float(len(roots)),
        roots=roots,
        at=at,
        own=messages.pop(number),
        lists=messages,
        named=named,
    )


def _blocks(
    backend: Backend,
    number: int,
    rows: LevelRows,
    members: Members,
    around: Mapping[int, F64],
    *,
    bounds: Bounds,
    size: int,
) -> Blocks:
    """Q and R of own aggregates; bounds: of the aggregates."""
    vectors = rows.near.shape[1]
    width = size * vectors
    parts = {**on_host(backend, around), number: members.own}
    counts = {sender: len(message) // (2 + width) for sender, message in parts.items()}
    senders = sorted(parts)
    led = np.concatenate([parts[c][: counts[c]] for c in senders]).astype(np.int64)
    nodes = np.concatenate([parts[c][counts[c] : 2 * counts[c]] for c in senders])
    near = np.concatenate([parts[c][2 * counts[c] :].reshape(-1, width) for c in senders])
    order = np.lexsort((nodes, led))
    place = np.searchsorted(members.roots, led)  # aggregates are numbered as their roots are
    start = size * np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(members.roots)))])
    q, r = orthonormal_blocks(start, near[order].reshape(-1, vectors), backend.amg.team)
    back = np.empty_like(near)
    back[order] = q.reshape(-1, width)
    found = np.column_stack([place + float(own_bounds(bounds, number)[0]), back])
    ends = np.cumsum([counts[c] for c in senders])
    answers = dict(zip(senders, (part.ravel() for part in np.split(found, ends[:-1])), strict=True))
    root_rows = size * (members.roots - rows.window.first // size)
    return Blocks(own=answers.pop(number), answers=answers, near=r, origin=np.repeat(rows.origin[root_rows], vectors))


def _tentative(
    backend: Backend,
    number: int,
    rows: LevelRows,
    members: Members,
    blocks: Blocks,
    answers: Mapping[int, F64],
    *,
    size: int,
) -> SentRows:
    nodes, vectors = rows.rows // size, rows.near.shape[1]
    aggregate, q = np.full(nodes, -1), np.empty((nodes, size, vectors))
    for owner, message in {**on_host(backend, answers), number: blocks.own}.items():
        found, at = message.reshape(-1, 1 + size * vectors), members.at[owner]
        aggregate[at] = found[:, 0].astype(np.int64)
        q[at] = found[:, 1:].reshape(-1, size, vectors)
    there = np.repeat(aggregate >= 0, size)
    columns = vectors * np.repeat(aggregate, size)[there, None] + np.arange(vectors)
    values = q.reshape(rows.rows, vectors)[there]
    return sent(rows, Rows(start=starts(vectors * there), columns=columns.ravel(), values=values.ravel()))


def _first_near(backend: Backend, _: int, rows: LevelRows) -> Any:
    """The first near-null vector, for an exchange."""
    return for_exchange(backend, rows.window, rows.near[:, 0])


def _smoothed(
    backend: Backend,
    number: int,
    rows: LevelRows,
    share: F64,
    p: SentRows,
    around: Mapping[int, F64],
    graph: NodeGraph | None = None,
    near: Any = None,
    ghosts: Any = None,
    *,
    bounds: Bounds,
    omega: float,
    blocks: BlockSizes,
) -> SentRows:
    team, below = backend.amg.team, rows.window.below
    keep, vector, damping = None, None, omega / share
    if graph is not None:
        lonely = p.rows.lengths == 0
        keep = kept_entries(rows.matrix, below, graph.graph, team) | np.repeat(lonely, np.diff(rows.matrix.start))
        damping = np.where(lonely, 1.0, damping)
        vector = in_window(backend, rows, near, ghosts)
    smoother = prolongation_smoother(rows.matrix, below, keep, vector, damping, team)
    whole = stacked(backend, rows, p.rows, around)
    window = window_of(bounds, number, whole.columns)
    made = setup_of(backend, rows).product(smoother, whole.within(window), window.size, blocks=blocks)
    return sent(rows, Rows.at(made, window))
