"""The tentative prolongation: a block of the near-null space, such as rigid body modes, for each aggregate.

The owner of an aggregate's root gets the rows of the near-null space of all its nodes, makes Q R of them in ascending
order, and sends back the rows of Q: P̂ is Q, and R the near-null space of the coarser level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from dsolver.distributed.setup_exchange import Senders, numbers_of, receivers_of, senders_of
from dsolver.engines.base import Engine, Messages, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.distributed_rows import DistributedRows
from dsolver.multigrid.algebraic.rows.ghost_rows import SentRows, sent
from dsolver.multigrid.algebraic.rows.global_rows import starts
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Bounds, others, own_bounds, owners_of

OF_NODES: Final = ("int64", "float64")
"""Value types of messages about nodes: a number for each, and its row of a matrix."""


@dataclass(frozen=True, kw_only=True)
class NodesOfOwner:
    """Nodes of a chunk whose aggregates one chunk owns."""

    at: I64 | None  # int64, their numbers within their chunk, ascending; None for all
    leaders: I64  # int64, the roots of their aggregates
    near: F64  # float64 (nodes, size k), their rows of the near-null space


@dataclass(frozen=True, kw_only=True)
class Members:
    """Own nodes that belong to aggregates."""

    roots: I64  # int64, the own roots, by their places among own nodes, ascending
    before: I64  # int64 (nodes + 1,), the number of own roots before each own node, and of all
    own: NodesOfOwner  # the nodes whose roots are own ones
    # for each other chunk that owns roots of own nodes, which of these they are, int64, ascending.
    at: Mapping[int, I64]
    lists: Messages  # the same, the roots and the nodes' rows of the near-null space
    named: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class AggregateBlocks:
    """Q and R of a chunk's aggregates."""

    # for each other chunk that owns nodes of them, the numbers of their aggregates, and their rows of Q.
    answers: Messages
    aggregates: I64  # int64, the numbers of the aggregates of the own nodes among them
    q: F64  # float64 (nodes, size k), these nodes' rows of Q
    near: F64  # float64 (k roots, k), the near-null space of the coarser level
    origin: I64  # int64 (k roots,), the finest row that each of its rows stems from


def tentative(
    engine: Engine, rows: PerChunk, leaders: PerChunk, size: int, vectors: int, bounds: Bounds
) -> tuple[PerChunk, PerChunk, Bounds, Senders] | None:
    """The tentative prolongation; None where there is no aggregate.

    Returns:
        its rows, `SentRows` with messages for those that have them as ghosts; its `AggregateBlocks`; the coarser
        bounds; the chunks whose aggregates each chunk's nodes belong to.
    """
    nodes = tuple(bound // size for bound in bounds)
    members = engine.per_chunk(partial(_members, bounds=nodes), rows, leaders)
    aggregates = (0, *np.cumsum(numbers_of(engine, engine.per_chunk(_count, members))).tolist())
    if not aggregates[-1]:
        return None
    read = senders_of(engine, members.at("named"))
    around = engine.deliver(members.at("lists"), receivers_of(read), OF_NODES)
    blocks = engine.per_chunk(partial(_blocks, bounds=aggregates, size=size), rows, members, around)
    answers = engine.deliver(blocks.at("answers"), read, OF_NODES)
    coarse = tuple(vectors * bound for bound in aggregates)
    p = engine.per_chunk(partial(_tentative, size=size, bounds=coarse), rows, members, blocks, answers)
    return p, blocks, coarse, read


def _members(backend: Backend, number: int, rows: LevelRows, leaders: I64, *, bounds: Bounds) -> Members:
    """Own nodes by the owners of their roots; bounds: of the nodes."""
    first, last = own_bounds(bounds, number)
    near = rows.near.reshape(last - first, -1)
    before, roots, outside = backend.amg.aggregation.own_roots(leaders, first)
    part, at = NodesOfOwner(at=None, leaders=leaders, near=near), {}
    if outside:
        own = (leaders >= first) & (leaders < last)
        members = np.flatnonzero(own)
        part = NodesOfOwner(at=members, leaders=leaders[members], near=near[members])
        strangers = np.flatnonzero((leaders >= 0) & ~own)
        owners = owners_of(bounds, leaders[strangers])
        at = {other: strangers[owners == other] for other in others(bounds, number, owners)}
    return Members(
        roots=roots,
        before=before,
        own=part,
        at=at,
        lists={to: (leaders[m], near[m].ravel()) for to, m in at.items()},
        named=tuple(sorted(at)),
    )


def _count(_: Backend, __: int, members: Members) -> float:
    """Own roots."""
    return float(len(members.roots))


def _blocks(
    backend: Backend, number: int, rows: LevelRows, members: Members, around: Messages, *, bounds: Bounds, size: int
) -> AggregateBlocks:
    """Q and R of own aggregates; bounds: of the aggregates."""
    amg, vectors, own = backend.amg, rows.near.shape[1], members.own
    width, (first, last) = size * vectors, own_bounds(bounds, number)
    parts = {number: (own.leaders, own.near)}
    for sender, arrived in around.items():
        parts[sender] = arrived[0], arrived[1].reshape(-1, width)
    senders = sorted(parts)
    leaders, near = parts[number]
    if around:  # nodes ascend, as those of each sender do
        leaders, near = (np.concatenate([parts[sender][which] for sender in senders]) for which in range(2))
    # aggregates are numbered as their roots are
    place = members.before[leaders - rows.window.first // size]
    nodes = Csr(
        np.arange(len(leaders) + 1, like=leaders), place.astype(np.int32), np.zeros_like(place, dtype=np.float64)
    )
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
            answers[sender] = found[0], found[1].ravel()
    return AggregateBlocks(
        aggregates=mine[0],
        q=mine[1],
        answers=answers,
        near=r,
        origin=np.repeat(rows.origin[size * members.roots], vectors),
    )


def _tentative(
    backend: Backend,
    number: int,
    rows: LevelRows,
    members: Members,
    blocks: AggregateBlocks,
    answers: Messages,
    *,
    size: int,
    bounds: Bounds,
) -> SentRows:
    """Rows of P̂; bounds: of the coarser level."""
    amg = backend.amg
    nodes, vectors = rows.rows // size, rows.near.shape[1]
    width, number_type = size * vectors, np.int32 if rows.window.whole else np.int64
    aggregate, q = blocks.aggregates, blocks.q
    if members.own.at is not None:
        aggregate, q = np.full_like(aggregate, -1, shape=nodes), np.empty_like(q, shape=(nodes, width))
        aggregate[members.own.at], q[members.own.at] = blocks.aggregates, blocks.q
        for owner, arrived in answers.items():
            at = members.at[owner]
            aggregate[at], q[at] = arrived[0], arrived[1].reshape(-1, width)
    first = (vectors * aggregate).astype(number_type)[:, None, None]
    columns = (first + np.arange(vectors, like=first)) + np.zeros_like(first, shape=(size, 1))
    if members.own.at is None:
        start = np.arange(0, rows.rows * vectors + 1, vectors, like=rows.origin)
        found = Csr(start, columns.ravel(), q.ravel())
        return sent(amg, rows, DistributedRows.of(amg, bounds, number, found))
    there = np.repeat(aggregate >= 0, size)
    columns, values = columns.reshape(rows.rows, vectors)[there], q.reshape(rows.rows, vectors)[there]
    found = Csr(starts(vectors * there), columns.ravel(), values.ravel())
    return sent(amg, rows, DistributedRows.of(amg, bounds, number, found))
