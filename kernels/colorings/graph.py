"""Graph of a matrix: which rows read each other."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.formats.csr import Csr


@final
class Graph(NamedTuple):
    """The couplings between rows, in both directions and without the diagonal.

    Attributes:
        start: int64 (rows + 1,), row i is coupled to columns[start[i] : start[i + 1]].
        columns: int32, ascending in each row.
    """

    start: Any
    columns: Any

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """Row of each coupling, of a graph on the host."""
        return np.repeat(np.arange(self.size, dtype=np.int32), np.diff(self.start))


def graph_of(a: Csr) -> Graph:
    """Graph of a square matrix whose columns ascend in each row.

    Its pattern need not be symmetric: one of two mirrored entries couples both rows.
    """
    whole = Graph(a.start, a.columns)
    off = whole.rows != a.columns
    graph = Graph(np.concatenate([[0], np.cumsum(off)])[a.start], a.columns[off])
    if _is_symmetric(*graph):
        return graph
    rows, columns = graph.rows.astype(np.int64), graph.columns.astype(np.int64)
    return of_pairs(np.union1d(rows * a.size + columns, columns * a.size + rows), a.size)


def of_pairs(pairs: Any, size: int) -> Graph:
    """Graph of so many rows where the pairs lie: of ascending numbers row * size + column, int64."""
    rows, columns = pairs // max(size, 1), pairs % max(size, 1)
    return Graph(np.searchsorted(rows, np.arange(size + 1, like=rows)).astype(np.int64), columns.astype(np.int32))


@compiled()
def _is_symmetric(start: Any, columns: Any) -> Any:
    """Whether each entry has its mirror image: read row by row, these stand in ascending order in their rows."""
    following = start.copy()
    for i in range(len(start) - 1):
        for j in columns[start[i] : start[i + 1]]:
            k = following[j]
            if k == start[j + 1] or columns[k] != i:
                return False
            following[j] = k + 1
    return True
