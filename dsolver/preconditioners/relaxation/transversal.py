"""Orders of rows that bring large entries to the diagonal of a matrix (Duff, Koster, SIAM J. Matrix Anal. 22, 2001)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.matrices.canonical import imported

STEP: Final = 2.0**-20
"""Costs are multiples of it, so that sums of them are exact: with rounding SciPy's matching may go round for ever."""


def has_zeros(backend: Backend, a: Csr) -> bool:
    """Whether the diagonal has an entry that is zero, or is not there."""
    row = backend.general.places(a.start, len(a.columns))
    found = row[(row == a.columns) & (a.values != 0.0)]
    return len(found) < a.size


def with_largest_diagonal(backend: Backend, a: Csr) -> tuple[Csr, Any] | None:
    """A matrix with its rows in the order for which the product of the diagonal's entries is largest.

    Returns:
        it, and the row of a at each place; None where no order has a diagonal without zeros.
    """
    sparse, graph = imported("sparse"), imported("sparse.csgraph")
    start, columns, values = (backend.to_host(part) for part in a)
    rows = sparse.csr_array((values, columns, start), shape=(a.size, a.size))
    sizes = abs(rows)
    sizes.eliminate_zeros()
    largest = sizes.max(axis=0).toarray().ravel()
    logs = 1.0 + np.log(largest[sizes.indices] / sizes.data)
    costs = sparse.csr_array((STEP * np.round(logs / STEP), sizes.indices, sizes.indptr), shape=rows.shape)
    try:
        row, column = graph.min_weight_full_bipartite_matching(costs)
    except ValueError:  # there is no such order
        return None
    order = np.empty(a.size, dtype=np.int64)
    order[column] = row
    picked = rows[order]
    made = Csr(picked.indptr.astype(np.int64), picked.indices.astype(np.int32), picked.data)
    return Csr(*(backend.asarray(part) for part in made)), order
