"""Roots of aggregates among a chunk's nodes: the passes over neighbors that their choice is made of.

Nodes are numbered in a window as rows are in `cpu.amg.couplings`. A node that takes part has a word until
it is decided: then it is `OUT` or `ROOT`.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.amg import OUT, ROOT, WORD
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr

F64 = npt.NDArray[np.float64]
NEIGHBORS: Final = 2  # neighbors without an aggregate that a root of the second set has, at least
PART: Final = 0.5  # part of all its neighbors that they are, at least
_LOW: Final = (1 << WORD) - 1
_FACTORS: Final = (0x9E3779B97F4A7, 0xBF58476D1CE4F, 0x4D049BB133113)
"""Odd: products with them modulo 2⁵² can be undone."""


def words(origin: Any, level: int) -> npt.NDArray[np.float64]:
    """Words of nodes by their origin (below 2⁵²), float64 from 1 on, all different: a permutation below 2⁵²."""
    z = (origin.astype(np.uint64) ^ np.uint64(salt_of(level))) & np.uint64(_LOW)
    with np.errstate(over="ignore"):
        for factor in _FACTORS:
            z = (z * np.uint64(factor)) & np.uint64(_LOW)
            z ^= z >> np.uint64(WORD // 2)
    made: npt.NDArray[np.float64] = z.astype(np.float64) + 1.0
    return made


def salt_of(level: int) -> int:
    """A level's bits of words."""
    return level * _FACTORS[0] & _LOW


def first_words(graph: Csr, origin: Any, level: int) -> F64:
    """Words of the nodes that are coupled with others, `OUT` for those that are not: float64 (nodes,)."""
    return np.where(np.diff(graph.start) > 0, words(origin, level), OUT)


def second_words(graph: Csr, below: int, found: Any, origin: Any, level: int) -> tuple[F64, npt.NDArray[np.bool_]]:
    """Words of the nodes with enough neighbors among those that have no aggregate, and which nodes have none.

    Returns:
        float64 (nodes,), `OUT` for all others; bool (nodes,).
    """
    alone, degree = found < 0, np.diff(graph.start)
    near = np.bincount(np.repeat(np.arange(graph.size), degree), alone[graph.columns], graph.size)
    open_ = alone[below : below + graph.size]
    enough = open_ & (near >= np.maximum(PART * degree, NEIGHBORS))
    return np.where(enough, words(origin, level), OUT), open_


def decided(graph: Csr, below: int, own: Any, near: Any, open_: Any, team: Team) -> tuple[F64, F64]:
    """Own nodes after a round: a node is a root if no word around its neighbors is larger than its own.

    Args:
        own: float64 (nodes,), words, `OUT` or `ROOT`.
        near: of `largest_around`, of every node of the window.

    Returns:
        as `own`; float64 (1,), how many are undecided.
    """
    undecided = (own > OUT) & (own < ROOT)
    most = largest_around(graph, below, near, open_ & undecided, team)
    made = np.where(undecided & (most == own), ROOT, np.where(undecided & (most == ROOT), OUT, own))
    return made, np.full(1, float(np.count_nonzero((made > OUT) & (made < ROOT))))


def settled(graph: Csr, own: Any, open_: Any, team: Team) -> F64:
    """The nodes of the only chunk, all decided; arguments as of `decided`."""
    left = 1.0
    while left:
        own, (left,) = decided(graph, 0, own, largest_around(graph, 0, own, open_, team), open_, team)
    made: F64 = own
    return made


def joined(graph: Csr, below: int, states: Any, numbers: Any, open_: Any, before: Any, team: Team) -> F64:
    """The root that each own node is, or has for a neighbor, float64 (nodes,); -1 for none.

    Args:
        states: float64, of every node of the window, all decided.
        numbers: int64, the numbers of these nodes; None where they are their places.
        before: float64 (nodes,), roots that own nodes have already, and keep; None where none has.
    """
    if numbers is None:
        numbers = np.arange(len(states))
    marked = np.where(states == ROOT, numbers + 1.0, 0.0)
    found = largest_around(graph, below, marked, open_, team) - 1.0
    own = marked[below : below + graph.size] - 1.0
    found = np.where(own >= 0, own, found)
    return found if before is None else np.where(before >= 0, before, found)


def strayed(graph: Csr, below: int, found: Any, team: Team) -> npt.NDArray[np.int64]:
    """The root that leads each own node, int64 (nodes,): without one, of the neighbor that it is coupled to most."""
    out = np.empty(graph.size, dtype=np.int64)
    team.run(_stray, 0, graph.size, graph, below, found, out, worth=ROWS_WORTH_A_THREAD)
    return out


def own_roots(led: Any, first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Roots among own nodes, by the root that leads each of them: int64 (nodes,), -1 for none.

    Returns:
        int64 (nodes + 1,), roots before each own node, and all; int64, their places among own nodes, ascending; the
        number of nodes that no own root leads.
    """
    own = np.flatnonzero(led == np.arange(first, first + len(led)))
    before = np.zeros(len(led) + 1, dtype=np.int64)
    before[own + 1] = 1
    return np.cumsum(before), own, int(np.count_nonzero((led < first) | (led >= first + len(led))))


def largest_around(graph: Csr, below: int, values: Any, open_: Any, team: Team) -> F64:
    """Largest value among own nodes and neighbors, float64 (nodes,); 0 if not open, as values of such are."""
    out = np.empty(graph.size)
    team.run(_largest, 0, graph.size, graph, below, values, open_, out, worth=ROWS_WORTH_A_THREAD)
    return out


@compiled()
def _largest(first: Any, last: Any, graph: Any, below: Any, values: Any, open_: Any, out: Any) -> None:
    for i in range(first, last):
        most = 0.0
        if open_[i]:
            most = values[below + i]
            for k in range(graph.start[i], graph.start[i + 1]):
                most = max(most, values[graph.columns[k]])
        out[i] = most


@compiled()
def _stray(first: Any, last: Any, graph: Any, below: Any, found: Any, out: Any) -> None:
    for i in range(first, last):
        leader, most = found[below + i], 0.0
        if leader < 0.0:
            for k in range(graph.start[i], graph.start[i + 1]):
                near = found[graph.columns[k]]
                if near >= 0.0 and graph.values[k] > most:
                    leader, most = near, graph.values[k]
        out[i] = np.int64(leader)
