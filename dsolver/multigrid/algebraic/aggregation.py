"""Aggregates of the nodes of a level that is cut into chunks: the same ones however it is cut.

Roots are a maximal independent set of distance two (MIS-2: Bell, Dalton, Olson, SIAM J. Sci. Comput. 34, 2012), by
words that are a permutation of the finest rows' numbers, and each takes its neighbors. Among the nodes that are left, a
second set makes aggregates of those with two such neighbors or more, at least half of all theirs; the others join the
aggregate of the node that they are coupled to most (the phases of Kelley, Rajamanickam, arXiv:2204.02934). Nodes
without strong couplings belong to none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.distributed.messages import GhostExchange, Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.partition import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg.aggregates import OUT, ROOT, largest_around, strong_nodes, strongest, words
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.level_rows import F64, I64, LevelRows, Window
from dsolver.multigrid.algebraic.parallel_coarsening import for_exchange, in_window, own_of

NEIGHBORS: Final = 2
"""Neighbors without an aggregate that a root of the second set has, at least."""
PART: Final = 0.5
"""Part of all its neighbors that they are, at least."""
SALT: Final = 1 << 20
"""Added to a level's number for the words of the second set."""


@final
@dataclass(frozen=True, kw_only=True)
class NodeGraph:
    """Strong couplings among a chunk's nodes.

    Attributes:
        window: of nodes, what its own are coupled to.
        graph: a row for each own node; columns are places in the window, values squares of norms.
        origin: int64 (rows,), the finest row that each own node stems from.
        plan: the exchange of a value of each node.
    """

    window: Window
    graph: Csr
    origin: I64
    plan: HaloPlan

    @property
    def rows(self) -> int:
        """Number of own nodes."""
        return self.window.rows


@final
@dataclass(frozen=True, kw_only=True)
class Roots:
    """A set of roots under way.

    Attributes:
        own: float64, a word, `OUT` or `ROOT`, for an exchange.
        open: bool (nodes,), who takes part.
        left: float64 (1,), own nodes that are undecided.
    """

    own: Any
    open: npt.NDArray[np.bool_]
    left: Any


def node_graph(
    engine: Engine, rows: PerChunk, diagonal: PerChunk, exchange: GhostExchange, size: int, theta: float
) -> PerChunk:
    """The `NodeGraph` of every chunk.

    Args:
        engine: of the level.
        rows: the `LevelRows` of every chunk, which has whole nodes.
        diagonal: float64 on every chunk, of its rows.
        exchange: of the rows' ghosts.
        size: unknowns of a node.
        theta: the strength threshold.
    """
    scales = engine.per_chunk(_scales, rows, diagonal)
    return engine.per_chunk(partial(_node_graph, size=size, theta=theta), rows, scales, exchange(scales))


def leaders(engine: Engine, graph: PerChunk, senders: Senders, level: int) -> PerChunk:
    """The number of the root whose aggregate each own node belongs to, int64 (nodes,); -1 for none.

    Args:
        engine: of the level.
        graph: of `node_graph`.
        senders: the chunks whose rows each chunk reads.
        level: the level's number.
    """
    exchange = GhostExchange(engine, graph.at("plan"), graph, senders)
    first = _roots(engine, graph, exchange, engine.per_chunk(partial(_coupled, level=level), graph))
    found = engine.per_chunk(_joined, graph, first, exchange(first.at("own")))
    lonely = engine.per_chunk(_lonely, graph, found)
    second = engine.per_chunk(partial(_left, level=SALT + level), graph, lonely, exchange(lonely))
    second = _roots(engine, graph, exchange, second)
    found = engine.per_chunk(_joined, graph, second, exchange(second.at("own")), found)
    return engine.per_chunk(_strayed, graph, found, exchange(found))


def _roots(engine: Engine, graph: PerChunk, exchange: GhostExchange, roots: PerChunk) -> PerChunk:
    """All nodes that take part decided: a node is a root once no word around its neighbors is larger than its own."""
    while engine.global_sums(roots.at("left"))[0]:
        near = engine.per_chunk(_around, graph, roots, exchange(roots.at("own")))
        roots = engine.per_chunk(_decided, graph, roots, near, exchange(near))
    return roots


# -- what is made on the owners ----------------------------------------------------------------------------------------


def _scales(backend: Backend, _: int, rows: LevelRows, diagonal: F64) -> Any:
    return for_exchange(backend, rows.window, 1.0 / np.sqrt(diagonal))


def _node_graph(
    backend: Backend, _: int, rows: LevelRows, scales: Any, ghosts: Any, *, size: int, theta: float
) -> NodeGraph:
    window = rows.window
    ghosts_of = np.unique(window.ghosts // size)
    nodes = Window(first=window.first // size, rows=window.rows // size, ghosts=ghosts_of, whole=window.whole)
    graph = strong_nodes(
        rows.matrix,
        window.below,
        in_window(backend, rows, scales, ghosts),
        size,
        nodes.places(window.numbers // size),
        nodes.size,
        theta,
        backend.amg.team,
    )
    sends = tuple((to, np.unique(wanted // size)) for to, wanted in rows.plan.sends)
    counts, place = [], 0
    for sender, count in rows.plan.receives:
        counts.append((sender, len(np.unique(window.ghosts[place : place + count] // size))))
        place += count
    plan = HaloPlan(sends=sends, receives=tuple(counts))
    return NodeGraph(window=nodes, graph=graph, origin=rows.origin[::size], plan=plan)


def _coupled(backend: Backend, _: int, graph: NodeGraph, *, level: int) -> Roots:
    """The nodes with strong couplings, undecided."""
    own = np.where(np.diff(graph.graph.start) > 0, words(graph.origin, level), OUT)
    return _undecided(backend, graph, own, np.ones(graph.rows, dtype=np.bool_))


def _left(backend: Backend, _: int, graph: NodeGraph, lonely: Any, ghosts: Any, *, level: int) -> Roots:
    """The nodes with enough neighbors among those that have no aggregate, undecided."""
    alone = in_window(backend, graph, lonely, ghosts)
    rows = np.repeat(np.arange(graph.rows), np.diff(graph.graph.start))
    near = np.bincount(rows, alone[graph.graph.columns], graph.rows)
    open_ = own_of(graph.window, alone) > 0
    enough = open_ & (near >= np.maximum(PART * np.diff(graph.graph.start), NEIGHBORS))
    return _undecided(backend, graph, np.where(enough, words(graph.origin, level), OUT), open_)


def _around(backend: Backend, _: int, graph: NodeGraph, roots: Roots, ghosts: Any) -> Any:
    """The largest word among each node and its neighbors, for an exchange."""
    values = in_window(backend, graph, roots.own, ghosts)
    return for_exchange(backend, graph.window, _largest(backend, graph, values, roots.open))


def _decided(backend: Backend, _: int, graph: NodeGraph, roots: Roots, near: Any, ghosts: Any) -> Roots:
    own = _own(backend, graph, roots.own)
    most = _largest(backend, graph, in_window(backend, graph, near, ghosts), roots.open)
    undecided = (own > OUT) & (own < ROOT)
    own = np.where(undecided & (most == own), ROOT, np.where(undecided & (most == ROOT), OUT, own))
    return _undecided(backend, graph, own, roots.open)


def _joined(backend: Backend, _: int, graph: NodeGraph, roots: Roots, ghosts: Any, before: Any = None) -> Any:
    """The root that each own node is, or has for a neighbor, for an exchange; -1 for none. Nodes keep those before."""
    is_root = in_window(backend, graph, roots.own, ghosts) == ROOT
    marked = np.where(is_root, graph.window.numbers + 1.0, 0.0)
    found = _largest(backend, graph, marked, roots.open) - 1.0
    found = np.where(own_of(graph.window, is_root), own_of(graph.window, marked) - 1.0, found)
    if before is not None:
        earlier = _own(backend, graph, before)
        found = np.where(earlier >= 0, earlier, found)
    return for_exchange(backend, graph.window, found)


def _lonely(backend: Backend, _: int, graph: NodeGraph, found: Any) -> Any:
    """1 for own nodes without an aggregate, 0 for others, for an exchange."""
    return for_exchange(backend, graph.window, (_own(backend, graph, found) < 0).astype(np.float64))


def _strayed(backend: Backend, _: int, graph: NodeGraph, found: Any, ghosts: Any) -> I64:
    """The leaders of all own nodes: those that have none take that of the neighbor that they are coupled to most."""
    own = _own(backend, graph, found).astype(np.int64)
    near = strongest(graph.graph, in_window(backend, graph, own, ghosts).astype(np.int64), backend.amg.team)
    joined: I64 = np.where(own >= 0, own, near)
    return joined


def _largest(backend: Backend, graph: NodeGraph, values: F64, open_: npt.NDArray[np.bool_]) -> F64:
    return largest_around(graph.graph, graph.window.below, values, open_, backend.amg.team)


def _undecided(backend: Backend, graph: NodeGraph, own: F64, open_: npt.NDArray[np.bool_]) -> Roots:
    left = np.count_nonzero((own > OUT) & (own < ROOT))
    own = for_exchange(backend, graph.window, own)
    return Roots(own=own, open=open_, left=backend.asarray(np.full(1, float(left))))


def _own(backend: Backend, graph: NodeGraph, values: Any) -> Any:
    """Values of own nodes on the host, of an array that was made for an exchange."""
    return backend.to_host(values)[: graph.rows]
