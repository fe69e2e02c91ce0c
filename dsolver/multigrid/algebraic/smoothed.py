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
    receivers_of,
    senders_of,
    values_of,
)
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.amg.aggregation.roots import WORD
from dsolver.kernels.amg.setup import BlockSizes
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.aggregation import NodeGraph
from dsolver.multigrid.algebraic.parallel_coarsening import Measures, for_exchange, in_window
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, sent, stacked
from dsolver.multigrid.algebraic.rows.global_rows import Rows, message, starts
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, others, own_bounds, owners_of, window_of

STEPS: Final = 15
"""Steps of the power method."""
OVER: Final = 4.0 / 3.0
"""ω λ: the Chebyshev polynomial of degree one whose largest value over the part of P̂ that is far from B is least."""


@final
@dataclass(frozen=True, kw_only=True)
class Part:
    """Some nodes of a chunk that belong to aggregates of one chunk.

    Attributes:
        at: int64, their numbers within their chunk, ascending; None for all.
        led: int64, the roots of their aggregates.
        near: float64 (nodes, size k), their rows of the near-null space.
    """

    at: I64 | None
    led: I64
    near: F64


@final
@dataclass(frozen=True, kw_only=True)
class Members:
    """Own nodes that belong to aggregates.

    Attributes:
        roots: int64, the own roots, by their places among own nodes, ascending.
        before: int64 (nodes + 1,), the number of own roots before each own node, and of all.
        own: the nodes whose roots are own ones.
        at: for each other chunk that owns roots of own nodes, which of these they are, int64, ascending.
        lists: likewise, the roots and the nodes' rows of the near-null space.
        named: those chunks, ascending.
    """

    roots: I64
    before: I64
    own: Part
    at: Mapping[int, I64]
    lists: Mapping[int, F64]
    named: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Q and R of a chunk's aggregates.

    Attributes:
        answers: for each other chunk that owns nodes of them, the numbers of their aggregates, and their rows of Q.
        aggregates: int64, the numbers of the aggregates of the own nodes among them.
        q: float64 (nodes, size k), these nodes' rows of Q.
        near: float64 (k roots, k), the near-null space of the coarser level.
        origin: int64 (k roots,), the finest row that each of its rows stems from.
    """

    answers: Mapping[int, F64]
    aggregates: I64
    q: F64
    near: F64
    origin: I64


def largest_eigenvalue(
    engine: Engine, rows: PerChunk, measures: PerChunk, exchange: GhostExchange, level: int, total: int, size: int
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
        size: unknowns of a node.
    """
    sought = engine.per_chunk(partial(_sought, size=size), rows)
    diagonal = engine.per_chunk(_diagonal, measures)
    made = engine.per_chunk(partial(_rough, level=level), rows, diagonal)
    for _ in range(STEPS):
        made = engine.per_chunk(_step, rows, sought, diagonal, made, exchange(made))
    last = engine.per_chunk(_terms, rows, sought, diagonal, made, exchange(made))
    largest = [max(values_of(engine, last.at(which))) for which in range(2)]
    if not all(0.0 < one < np.inf for one in largest):
        return 1.0
    first, second = (WORD - total.bit_length() - int(np.frexp(one)[1]) for one in largest)
    sums = engine.sums(engine.per_chunk(partial(_scaled_sums, shifts=(first, second)), last.at(2)), 2)
    return float(np.sqrt(np.ldexp(sums[1], -second) / np.ldexp(sums[0], -first)))


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
    aggregates = (0, *np.cumsum(numbers_of(engine, engine.per_chunk(_count, members))).tolist())
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
    measures: PerChunk,
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
        measures: their `Measures`.
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
    make = partial(_smoothed, bounds=bounds, omega=omega, blocks=blocks)
    return engine.per_chunk(make, rows, measures, p, around, *more)


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _sought(backend: Backend, _: int, rows: LevelRows, *, size: int) -> Any:
    return backend.amg.aggregation.sought(rows.matrix, rows.window.size, size)


def _diagonal(_: Backend, __: int, measures: Measures) -> F64:
    """D, float64 (rows,)."""
    return measures.share * measures.diagonal


def _rough(backend: Backend, _: int, rows: LevelRows, diagonal: F64, *, level: int) -> Any:
    """A rough vector, everywhere the same in the norm of D, for an exchange."""
    window = rows.window
    numbers = np.arange(window.first, window.first + window.rows, like=rows.origin)
    found = backend.amg.aggregation.words(numbers, level)
    return for_exchange(backend, window, (found / (1 << WORD - 1) - 1.0) / np.sqrt(diagonal))


def _step(backend: Backend, _: int, rows: LevelRows, sought: Any, diagonal: F64, x: Any, ghosts: Any) -> Any:
    """D⁻¹ A x, for an exchange."""
    scaled_product = backend.amg.aggregation.scaled_product
    y = scaled_product(sought, diagonal, in_window(backend, rows, x, ghosts))
    return for_exchange(backend, rows.window, y)


def _terms(
    backend: Backend, _: int, rows: LevelRows, sought: Any, diagonal: F64, x: Any, ghosts: Any
) -> tuple[float, float, F64]:
    """The largest terms of xᵀDx and of yᵀDy with y = D⁻¹ A x, and these terms."""
    terms = backend.amg.aggregation.terms
    made, largest = terms(sought, rows.window.below, diagonal, in_window(backend, rows, x, ghosts))
    return *largest, made


def _scaled_sums(backend: Backend, _: int, terms: F64, *, shifts: tuple[int, int]) -> tuple[float, float]:
    """Sums of the integers next to terms 2^shift: less than 2⁵², so that all sums of chunks are exact."""
    return backend.amg.aggregation.scaled_sums(terms, shifts)


def _members(backend: Backend, number: int, rows: LevelRows, led: I64, *, bounds: Bounds) -> Members:
    """Own nodes by the owners of their roots; bounds: of the nodes."""
    first, last = own_bounds(bounds, number)
    near = rows.near.reshape(last - first, -1)
    before, roots, outside = backend.amg.aggregation.own_roots(led, first)
    part, at = Part(at=None, led=led, near=near), {}
    if outside:
        own = (led >= first) & (led < last)
        members = np.flatnonzero(own)
        part = Part(at=members, led=led[members], near=near[members])
        strangers = np.flatnonzero((led >= 0) & ~own)
        owners = owners_of(bounds, led[strangers])
        at = {other: strangers[owners == other] for other in others(bounds, number, owners)}
    return Members(
        roots=roots,
        before=before,
        own=part,
        at=at,
        lists={to: message(led[m], near[m].ravel()) for to, m in at.items()},
        named=tuple(sorted(at)),
    )


def _count(_: Backend, __: int, members: Members) -> float:
    """Own roots."""
    return float(len(members.roots))


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
    amg, vectors, own = backend.amg, rows.near.shape[1], members.own
    width, (first, last) = size * vectors, own_bounds(bounds, number)
    parts = {number: (own.led, own.near)}
    for sender, arrived in around.items():
        count = len(arrived) // (1 + width)
        parts[sender] = arrived[:count].astype(np.int64), arrived[count:].reshape(-1, width)
    senders = sorted(parts)
    led, near = parts[number]
    if around:  # nodes ascend, as those of each sender do
        led, near = (np.concatenate([parts[sender][which] for sender in senders]) for which in range(2))
    # aggregates are numbered as their roots are
    place = members.before[led - rows.window.first // size]
    nodes = Csr(np.arange(len(led) + 1, like=led), place.astype(np.int32), np.zeros_like(place, dtype=np.float64))
    of_aggregates = amg.transposed(nodes, last - first)
    q, r = amg.aggregation.blocks_of_nodes(of_aggregates.start, of_aggregates.columns, near, vectors)
    place, at, answers = place + first, 0, {}
    for sender in senders:
        count = len(parts[sender][0])
        found = place[at : at + count], q[at : at + count]
        at += count
        if sender == number:
            mine = found
        else:
            answers[sender] = message(found[0], found[1].ravel())
    return Blocks(
        aggregates=mine[0],
        q=mine[1],
        answers=answers,
        near=r,
        origin=np.repeat(rows.origin[size * members.roots], vectors),
    )


def _tentative(
    _: Backend,
    __: int,
    rows: LevelRows,
    members: Members,
    blocks: Blocks,
    answers: Mapping[int, F64],
    *,
    size: int,
) -> SentRows:
    nodes, vectors = rows.rows // size, rows.near.shape[1]
    width, number_type = size * vectors, np.int32 if rows.window.whole else np.int64
    aggregate, q = blocks.aggregates, blocks.q
    if members.own.at is not None:
        aggregate, q = np.full_like(aggregate, -1, shape=nodes), np.empty_like(q, shape=(nodes, width))
        aggregate[members.own.at], q[members.own.at] = blocks.aggregates, blocks.q
        for owner, arrived in answers.items():
            at = members.at[owner]
            aggregate[at], q[at] = arrived[: len(at)].astype(np.int64), arrived[len(at) :].reshape(-1, width)
    first = (vectors * aggregate).astype(number_type)[:, None, None]
    columns = (first + np.arange(vectors, like=first)) + np.zeros_like(first, shape=(size, 1))
    if members.own.at is None:
        start = np.arange(0, rows.rows * vectors + 1, vectors, like=rows.origin)
        return sent(rows, Rows(start=start, columns=columns.ravel(), values=q.ravel()))
    there = np.repeat(aggregate >= 0, size)
    columns, values = columns.reshape(rows.rows, vectors)[there], q.reshape(rows.rows, vectors)[there]
    return sent(rows, Rows(start=starts(vectors * there), columns=columns.ravel(), values=values.ravel()))


def _first_near(backend: Backend, _: int, rows: LevelRows) -> Any:
    """The first near-null vector, for an exchange."""
    return for_exchange(backend, rows.window, rows.near[:, 0].copy())


def _smoothed(
    backend: Backend,
    number: int,
    rows: LevelRows,
    measures: Measures,
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
    amg, below, a = backend.amg, rows.window.below, rows.matrix
    keep, vector, damping = None, None, omega / measures.share
    if graph is not None:
        lonely = p.rows.lengths == 0
        keep = amg.aggregation.kept_entries(a, below, graph.graph)
        keep |= lonely[Rows(start=a.start, columns=a.columns, values=a.values).of_entries]
        damping = np.where(lonely, 1.0, damping)
        vector = in_window(backend, rows, near, ghosts)
    smoother = amg.aggregation.prolongation_smoother(a, below, keep, vector, damping, measures.diagonal)
    whole = stacked(rows, p.rows, around)
    window = window_of(bounds, number, whole.columns)
    made = amg.product(smoother, whole.within(window), window.size, blocks=blocks)
    return sent(rows, Rows.at(made, window))
