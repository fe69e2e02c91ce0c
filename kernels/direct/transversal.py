"""Transversals: an entry in each row and column of a matrix, which is put on its diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.direct.scaling import largest_of


def of_largest(rows: Any) -> npt.NDArray[np.int64] | None:
    """The row at each place for which the largest entry of every row of a SciPy CSR array is on the diagonal.

    No other diagonal has a larger product. None where two rows have it in one column, or one has no entry but zeros.
    """
    row, sizes = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), abs(rows.data)
    largest = largest_of(np, sizes, row, rows.shape[0])
    places = np.flatnonzero(sizes == largest[row])
    _, first = np.unique(row[places], return_index=True)
    column = rows.indices[places[first]]
    if not largest.all() or len(np.unique(column)) < len(largest):
        return None
    order = np.empty(len(largest), dtype=np.int64)
    order[column] = np.arange(len(largest))
    return order
