"""Couplings of a chunk's nodes.

A node has one or several unknowns, such as the displacements of a point. Nodes i and j are coupled strongly if |a_ij| >
θ √(a_ii a_jj) (Vaněk, Mandel, Brezina, Computing 56, 1996). For blocks it is the Frobenius norm over √(unknowns), of
entries that are divided by the roots of the diagonals of their row and column: units of unknowns do not matter.

Nodes are numbered in a window as rows are in `dsolver.kernels.cpu.amg.couplings`.
"""

from typing import Any

import numpy as np

from dsolver.kernels.cpu.csr.rows import joined
from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.sorting import sort_short
from dsolver.kernels.cpu.loops.team import ROWS_WORTH_A_THREAD, Team
from dsolver.kernels.formats.csr import Csr


def strong_nodes(a: Csr, below: int, scale: Any, size: int, node: Any, nodes: int, theta: float, team: Team) -> Csr:
    """Strong couplings of own nodes: columns are other nodes of the window, ascending, values the squares of norms.

    Args:
        scale: float64, the root of the inverse diagonal, of every row of the window.
        size: unknowns of a node.
        node: int32, the place in the window of nodes of every row of the window.
        nodes: places of that window.
    """
    least, worth = theta * theta * size, ROWS_WORTH_A_THREAD // size
    return joined(team, team.run(_strong, 0, a.size // size, a, below, scale, size, node, nodes, least, worth=worth))


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
        sort_short(columns[used:end])
        kept = used
        for m in range(used, end):
            if sums[columns[m]] > least:
                columns[kept] = columns[m]
                values[kept] = sums[columns[m]]
                kept += 1
        lengths[i - first] = kept - used
        used = kept
    return lengths, columns[:used], values[:used]
