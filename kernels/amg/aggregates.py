"""Aggregates of a chunk's nodes: their couplings, and passes over neighbors that the choice of roots is made of.

A node has one or several unknowns, such as the displacements of a point. Nodes i and j are coupled strongly if |a_ij| >
θ √(a_ii a_jj) (Vaněk, Mandel, Brezina, Computing 56, 1996). For blocks it is the Frobenius norm over √(unknowns), of
entries that are divided by the roots of the diagonals of their row and column: units of unknowns do not matter.

Nodes are numbered in a window as rows are in `dsolver.kernels.amg.couplings`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.amg.ascending import ascend
from dsolver.kernels.cpu.csr.rows import joined
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.team import Team
from dsolver.kernels.formats.csr import Csr

WORD: Final = 52
"""Bits of a word: float64 holds it, and travels between chunks."""
OUT, ROOT = 0.0, float(2 << WORD)
"""States of a node that is decided; others have a word between them."""
_LOW: Final = (1 << WORD) - 1
_FACTORS: Final = (0x9E3779B97F4A7, 0xBF58476D1CE4F, 0x4D049BB133113)
"""Odd: products with them modulo 2⁵² can be undone."""


def words(origin: Any, level: int) -> npt.NDArray[np.float64]:
    """Words of nodes, float64 integers from 1 on, all different: a permutation of the numbers below 2⁵².

    Args:
        origin: int64 below 2⁵², the finest row that each node stems from.
        level: the level's number, so that a node's word differs from level to level.
    """
    z = (origin.astype(np.uint64) ^ np.uint64(level * _FACTORS[0] & _LOW)) & np.uint64(_LOW)
    with np.errstate(over="ignore"):
        for factor in _FACTORS:
            z = (z * np.uint64(factor)) & np.uint64(_LOW)
            z ^= z >> np.uint64(WORD // 2)
    made: npt.NDArray[np.float64] = z.astype(np.float64) + 1.0
    return made


def strong_nodes(a: Csr, below: int, scale: Any, size: int, node: Any, nodes: int, theta: float, team: Team) -> Csr:
    """Strong couplings of own nodes: columns are other nodes of the window, ascending, values the squares of norms.

    Args:
        a: own rows, with columns in the window of rows.
        below: ghosts before the own rows.
        scale: float64, the root of the inverse diagonal, of every row of the window.
        size: unknowns of a node.
        node: int32, the place in the window of nodes of every row of the window.
        nodes: places of that window.
        theta: the threshold.
        team: shares the nodes.
    """
    least = theta * theta * size
    return joined(team, team.run(_strong, 0, a.size // size, a, below, scale, size, node, nodes, least))


def largest_around(graph: Csr, below: int, values: Any, open_: Any, team: Team) -> npt.NDArray[np.float64]:
    """The largest value among each own node and its neighbors, float64 (nodes,); 0 for nodes that are not open.

    Args:
        graph: of `strong_nodes`.
        below: ghosts before the own nodes.
        values: float64, of every node of the window; zeros where these are not open.
        open_: bool, of own nodes.
        team: shares the nodes.
    """
    out = np.empty(graph.size)
    team.run(_largest, 0, graph.size, graph, below, values, open_, out)
    return out


def strongest(graph: Csr, leaders: Any, team: Team) -> npt.NDArray[np.int64]:
    """The leader of the neighbor that each own node is coupled to most, int64 (nodes,); -1 where none has a leader.

    Args:
        graph: of `strong_nodes`.
        leaders: int64, of every node of the window; -1 for none.
        team: shares the nodes.
    """
    out = np.empty(graph.size, dtype=np.int64)
    team.run(_strongest, 0, graph.size, graph, leaders, out)
    return out


# -- loops -------------------------------------------------------------------------------------------------------------


@compiled()
def _strong(first: Any, last: Any, a: Any, below: Any, scale: Any, size: Any, node: Any, nodes: Any, least: Any) -> Any:
    """Rows first .. last of the graph: their lengths, columns and values."""
    lengths = np.empty(last - first, np.int64)
    columns, values = np.empty(16 * (last - first) + 64, np.int32), np.empty(16 * (last - first) + 64)
    sums, row = np.empty(nodes), np.full(nodes, -1, np.int64)
    used = 0
    for i in range(first, last):
        own = node[below + i * size]
        most = used + a.start[(i + 1) * size] - a.start[i * size]
        if most > len(columns):
            longer, more = np.empty(2 * most, np.int32), np.empty(2 * most)
            for k in range(used):
                longer[k], more[k] = columns[k], values[k]
            columns, values = longer, more
        end = used
        for k in range(i * size, (i + 1) * size):
            for m in range(a.start[k], a.start[k + 1]):
                j = node[a.columns[m]]
                if j == own:
                    continue
                if row[j] != i:
                    row[j] = i
                    sums[j] = 0.0
                    columns[end] = j
                    end += 1
                value = a.values[m] * (scale[below + k] * scale[a.columns[m]])
                sums[j] += value * value
        ascend(columns[used:end])
        kept = used
        for m in range(used, end):
            if sums[columns[m]] > least:
                columns[kept] = columns[m]
                values[kept] = sums[columns[m]]
                kept += 1
        lengths[i - first] = kept - used
        used = kept
    return lengths, columns[:used], values[:used]


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
def _strongest(first: Any, last: Any, graph: Any, leaders: Any, out: Any) -> None:
    for i in range(first, last):
        found, most = -1, 0.0
        for k in range(graph.start[i], graph.start[i + 1]):
            leader = leaders[graph.columns[k]]
            if leader >= 0 and graph.values[k] > most:
                found, most = leader, graph.values[k]
        out[i] = found
