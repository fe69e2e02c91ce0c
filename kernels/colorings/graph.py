"""Graph of a matrix: which rows read each other."""

from typing import Any, NamedTuple

import numpy as np


class Graph(NamedTuple):
    """The couplings between rows, in both directions. Rows may be among their own columns, which are ignored."""

    start: Any  # int64 (rows + 1,), row i is coupled to columns[start[i] : start[i + 1]]
    columns: Any  # int32, ascending in each row

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.start) - 1


def of_pairs(pairs: Any, size: int) -> Graph:
    """Graph of so many rows where the pairs lie: of ascending numbers row * size + column, int64."""
    rows, columns = pairs // max(size, 1), pairs % max(size, 1)
    return Graph(np.searchsorted(rows, np.arange(size + 1, like=rows)).astype(np.int64), columns.astype(np.int32))
