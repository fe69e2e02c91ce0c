"""Transversals: an entry in each row and column of a matrix, which is put on its diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def of_largest(rows: Any) -> npt.NDArray[np.int64] | None:
    """The row at each place for which the largest entry of every row of a SciPy CSR array is on the diagonal.

    No other diagonal has a larger product. None where two rows have it in one column, or one has no entry but zeros.
    """
    lengths = np.diff(rows.indptr)
    if not lengths.all():
        return None
    sizes = abs(rows.data)
    largest = np.maximum.reduceat(sizes, rows.indptr[:-1])
    places = np.flatnonzero(sizes == np.repeat(largest, lengths))
    row, first = np.unique(np.searchsorted(rows.indptr, places, side="right") - 1, return_index=True)
    column = rows.indices[places[first]]
    if not largest.all() or len(np.unique(column)) < len(row):
        return None
    order = np.empty(len(row), dtype=np.int64)
    order[column] = row
    return order
