"""Multipliers: last unknowns that hold few others each, as the currents of voltage sources in a circuit do.

A = [[G, B], [Bᵀ, -D]] with short columns of B and a diagonal D ≥ 0. G alone is often singular: multipliers fix it. With
W⁻¹ = D + diag(Bᵀ diag(G)⁻¹ B) / `WEIGHT` the matrix G + B W Bᵀ, in which sources are conductances W, is as elliptic as
G, and the Schur complement beside it is nearly -W⁻¹ (augmented Lagrangian: Benzi, Golub and Liesen, Acta Numerica 14,
2005).
"""

from typing import Any, Final

import numpy as np

from dsolver.matrices.canonical import imported

WEIGHT: Final = 100.0
"""W over what G has at its rows: grids of 10,000 and 90,000 nodes whose conductances differ by 10⁴ take 34 and 38
iterations with 1, 22 and 22 with 100, 22 and 25 with 10⁴."""

FEW: Final = 4  # unknowns that a multiplier holds at most, as an ideal transformer's: a mean of 40 couples all of them


def multipliers(rows: Any) -> int:
    """Number of multipliers of a symmetric matrix of SciPy in CSR format: 0 where it is no such matrix.

    B W Bᵀ is to have no more entries than G.
    """
    diagonal = rows.diagonal()
    first = len(diagonal) - int(np.argmax(diagonal[::-1] > 0.0))
    count = len(diagonal) - first
    if not count or not first or (diagonal[:first] <= 0.0).any():
        return 0
    own, across, below = rows[:first, :first], rows[:first, first:].tocsc(), rows[first:, first:]
    lengths = np.diff(across.indptr)
    found = (
        lengths.all()
        and lengths.max() <= FEW
        and (lengths**2).sum() <= own.nnz
        and below.count_nonzero() == np.count_nonzero(diagonal[first:])
    )
    return count if found else 0


def augmented(rows: Any, count: int) -> tuple[Any, Any]:
    """G + B W Bᵀ and W⁻¹ of a matrix with so many multipliers, sparse matrices of SciPy."""
    sparse, first = imported("sparse"), rows.shape[0] - count
    own, across, diagonal = rows[:first, :first], rows[:first, first:], rows.diagonal()
    inverse = across.multiply(across).T @ (1.0 / diagonal[:first]) / WEIGHT - diagonal[first:]
    inverse = np.maximum(inverse, np.finfo(np.float64).tiny)  # squares of columns may be below all numbers
    return own + across @ sparse.diags_array(1.0 / inverse) @ across.T, sparse.diags_array(inverse).tocsr()
