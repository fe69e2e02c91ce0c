"""Envelope of a matrix: the most that its factors fill where rows are eliminated in a given order.

A. George, J. W. H. Liu, Computer solution of large sparse positive definite systems, 1981, chapter 4: nothing fills
before the first entry of a row. An order of minimum degree fills less, on a plane a quarter to a tenth of it; but this
bound takes a hundredth of the time of the factors.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.direct.fill import Fill


def envelope_of(rows: Any, place: npt.NDArray[Any] | None = None) -> Fill:
    """The envelope of A + Aᵀ, A a SciPy CSR array; place: of each row in the order, integers (rows,), or None."""
    order = np.arange(rows.shape[0], dtype=np.int32) if place is None else place.astype(np.int32, copy=False)
    below, squares = _envelope(rows.indptr.astype(np.int64, copy=False), rows.indices, order)
    return Fill(entries=2.0 * below + len(order), products=below + squares)


@compiled()
def _envelope(start: Any, columns: Any, place: Any) -> tuple[float, float]:
    """Sum of the widths of the rows of A + Aᵀ, each from its first entry to the diagonal, and of their squares."""
    first = np.arange(len(place))
    for i in range(len(place)):
        for k in range(start[i], start[i + 1]):
            p, q = place[i], place[columns[k]]
            if q < first[p]:
                first[p] = q
            if p < first[q]:
                first[q] = p
    below, squares = 0.0, 0.0
    for i in range(len(first)):
        width = float(i - first[i])
        below += width
        squares += width * width
    return below, squares


def narrow_order(rows: Any, *, mirrored: bool) -> npt.NDArray[Any]:
    """Places of a CSR array's rows in the order of Cuthill and McKee, backwards; mirrored: (i, j) comes with (j, i)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pattern = csr_array((np.ones(rows.nnz, np.int8), rows.indices, rows.indptr), shape=rows.shape)
    order = reverse_cuthill_mckee(pattern, symmetric_mode=mirrored)
    place: npt.NDArray[Any] = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place
