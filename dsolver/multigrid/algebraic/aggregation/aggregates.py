"""Aggregates of the nodes of a level that is cut into chunks: the same ones however it is cut.

Roots are a maximal independent set of distance two (MIS-2: Bell, Dalton, Olson, SIAM J. Sci. Comput. 34, 2012), by
words that are a permutation of the finest rows' numbers, and each takes its neighbors. Among the nodes that are left, a
second set makes aggregates of those with two such neighbors or more, at least half of all theirs; the others join the
aggregate of the node that they are coupled to most (the phases of Kelley, Rajamanickam, arXiv:2204.02934). Nodes
without strong couplings belong to none, but those of long rows are aggregates by themselves: P interpolates the others
from all that they are coupled to, and a hub's row would couple all columns of P with each other.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from dsolver.distributed.setup_exchange import GhostExchange, Senders
from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.halo import HaloPlan
from dsolver.kernels import Backend
from dsolver.kernels.amg import ROOT
from dsolver.kernels.formats.csr import Csr
from dsolver.multigrid.algebraic.rows.level_rows import LevelRows
from dsolver.multigrid.algebraic.rows.window import F64, I64, Window

HUB: Final = 64  # entries of a row beyond which a node is an aggregate by itself, without strong couplings
SALT: Final = 1 << 20  # added to a level's number for the words of the second set


@dataclass(frozen=True, kw_only=True)
class NodeGraph:
    """Strong couplings among a chunk's nodes."""

    window: Window  # of nodes, what its own are coupled to
    graph: Csr  # a row for each own node; columns are places in the window, values squares of norms
    origin: I64  # int64 (rows,), the finest row that each own node stems from
    plan: HaloPlan
    hubs: Any  # bool (rows,), own nodes of long rows without strong couplings

    @property
    def rows(self) -> int:
        """Number of own nodes."""
        return self.window.rows


@dataclass(frozen=True, kw_only=True)
class Roots:
    """Roots of aggregates, as far as they are chosen."""

    own: Any  # float64, a word, `OUT` or `ROOT` (`dsolver.kernels.amg`)
    open: Any  # bool (nodes,), the nodes that take part
    left: Any = None  # float64 (1,), own nodes that are undecided; not read before the first round


def node_graph(
    engine: Engine, rows: PerChunk, diagonal: PerChunk, exchange: GhostExchange, size: int, theta: float
) -> PerChunk:
    """The `NodeGraph` of every chunk, which has whole nodes of `size` unknowns; theta: the strength threshold."""
    scales = engine.per_chunk(_scales, diagonal)
    return engine.per_chunk(partial(_node_graph, size=size, theta=theta), rows, exchange.in_window(scales))


def leaders(engine: Engine, graph: PerChunk, senders: Senders, level: int) -> PerChunk:
    """The number of the root whose aggregate each own node belongs to, int64 (nodes,); -1 for none."""
    exchange = GhostExchange(engine, graph.at("plan"), senders, graph)
    first = _roots(engine, graph, exchange, engine.per_chunk(partial(_coupled, level=level), graph))
    found = engine.per_chunk(_joined, graph, first, exchange.in_window(first.at("own")))
    second = engine.per_chunk(partial(_left, level=SALT + level), graph, exchange.in_window(found))
    second = _roots(engine, graph, exchange, second)
    found = engine.per_chunk(_joined, graph, second, exchange.in_window(second.at("own")), found)
    return engine.per_chunk(_strayed, graph, exchange.in_window(found))


def _roots(engine: Engine, graph: PerChunk, exchange: GhostExchange, roots: PerChunk) -> PerChunk:
    """All nodes that take part decided: by a round after the other of all chunks, or at once where there is one."""
    if not engine.coupled:
        return engine.per_chunk(_settled, graph, roots)
    while True:
        near = engine.per_chunk(_around, graph, roots, exchange.in_window(roots.at("own")))
        roots = engine.per_chunk(_decided, graph, roots, exchange.in_window(near))
        if not engine.global_sums(roots.at("left"))[0]:
            return roots


def _scales(_: Backend, __: int, diagonal: F64) -> Any:
    return 1.0 / np.sqrt(diagonal)


def _node_graph(backend: Backend, _: int, rows: LevelRows, scales: Any, *, size: int, theta: float) -> NodeGraph:
    window, amg = rows.window, backend.amg
    ghosts_of = window.ghosts if window.whole else amg.distinct(window.ghosts // size)
    nodes = Window(first=window.first // size, rows=window.rows // size, ghosts=ghosts_of, whole=window.whole)
    graph = amg.aggregation.strong_nodes(
        rows.matrix, window.below, scales, size, nodes.places(amg, window.numbers // size), nodes.size, theta
    )
    sends = tuple((to, amg.distinct(wanted // size)) for to, wanted in rows.plan.sends)
    counts, place = [], 0
    for sender, count in rows.plan.receives:
        counts.append((sender, len(amg.distinct(window.ghosts[place : place + count] // size))))
        place += count
    plan = HaloPlan(sends=sends, receives=tuple(counts))
    hubs = (np.diff(rows.matrix.start)[::size] > HUB) & (np.diff(graph.start) == 0)
    return NodeGraph(window=nodes, graph=graph, origin=rows.origin[::size].copy(), plan=plan, hubs=hubs)


def _coupled(backend: Backend, _: int, graph: NodeGraph, *, level: int) -> Roots:
    """The nodes with strong couplings, undecided, and hubs, which are roots."""
    own = np.where(graph.hubs, ROOT, backend.amg.aggregation.first_words(graph.graph, graph.origin, level))
    all_ = np.ones_like(graph.origin, dtype=np.bool_)
    return Roots(own=own, open=all_)


def _left(backend: Backend, _: int, graph: NodeGraph, whole: Any, *, level: int) -> Roots:
    """The nodes with enough neighbors among those that have no aggregate, undecided."""
    window = graph.window
    second_words = backend.amg.aggregation.second_words
    own, open_ = second_words(graph.graph, window.below, whole, graph.origin, level)
    return Roots(own=own, open=open_)


def _settled(backend: Backend, _: int, graph: NodeGraph, roots: Roots) -> Roots:
    """The only chunk's nodes, decided."""
    own = backend.amg.aggregation.settled(graph.graph, roots.own, roots.open)
    return Roots(own=own, open=roots.open)


def _around(backend: Backend, _: int, graph: NodeGraph, roots: Roots, values: Any) -> Any:
    """The largest word among each node and its neighbors."""
    return backend.amg.aggregation.largest_around(graph.graph, graph.window.below, values, roots.open)


def _decided(backend: Backend, _: int, graph: NodeGraph, roots: Roots, whole: Any) -> Roots:
    window = graph.window
    decided = backend.amg.aggregation.decided
    own, left = decided(graph.graph, window.below, roots.own, whole, roots.open)
    return Roots(own=own, open=roots.open, left=backend.asarray(left))


def _joined(backend: Backend, _: int, graph: NodeGraph, roots: Roots, states: Any, before: Any = None) -> Any:
    """The root that each own node is, or has for a neighbor; -1 for none. Nodes keep those before."""
    window, joined = graph.window, backend.amg.aggregation.joined
    numbers = None if window.whole else window.numbers
    return joined(graph.graph, window.below, states, numbers, roots.open, before)


def _strayed(backend: Backend, _: int, graph: NodeGraph, whole: Any) -> I64:
    """The leaders of all own nodes: those that have none take that of the neighbor that they are coupled to most."""
    return backend.amg.aggregation.strayed(graph.graph, graph.window.below, whole)
