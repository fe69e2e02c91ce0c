"""Projected eigenvalue problems: small dense ones, solved with numbers."""

from typing import Final

import numpy as np

try:  # of 36 rows NumPy's LAPACK takes all cores for 3 to 11 ms, which then wait for each other; SciPy's one for 0.12
    from scipy.linalg.lapack import dsyevd
except ImportError:
    dsyevd = None

from dsolver.errors import InputError
from dsolver.krylov.blocks.rounds import F64

ROUNDING: Final = 1e-14
"""Square of a vector's length beyond others, as a part of the largest, up to which it is rounding and is dropped."""
NEGATIVE: Final = -1e-8  # such a square that is no rounding


def eigh(a: F64) -> tuple[F64, F64]:
    """Eigenvalues, ascending, and eigenvectors of a small symmetric matrix; LinAlgError: they are not found.

    LAPACK's own function: of 15 rows `scipy.linalg.eigh` takes 79 us around its 22, 50 times in a search.
    """
    if dsyevd is None:
        return np.linalg.eigh(a)
    values, vectors, failed = dsyevd(a, lower=1)
    if failed:
        raise np.linalg.LinAlgError("eigenvalues of a projected problem did not converge")
    return values, vectors


def orthonormal(square: F64, along: F64) -> tuple[F64, float]:
    """Combinations of vectors that are orthonormal once their parts along others are taken out.

    Args:
        square: products of the vectors with each other.
        along: of orthonormal ones with the vectors.

    Returns:
        Coefficients (vectors, as many as do not depend on others), and the least square of a length that is left of
        1: what rounding is relative to.

    Raises:
        InputError: a square is negative.
    """
    squares = np.diag(square)
    lengths = np.sqrt(squares.clip(min=0.0))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    beyond = scale[:, None] * ((square + square.T) / 2.0 - along.T @ along) * scale
    if not len(squares):
        return np.zeros((0, 0)), 1.0
    parts, turned = eigh(beyond)
    if (squares < 0.0).any() or parts[0] < NEGATIVE:
        raise InputError("B is not positive definite: there is an x with xᵀBx < 0")
    kept = parts > max(ROUNDING, ROUNDING * parts[-1])
    least = float(parts[kept][0]) if kept.any() else 1.0
    return scale[:, None] * turned[:, kept] / np.sqrt(parts[kept]), least


def ritz(whole: F64, size: int) -> tuple[F64, F64, F64, F64, F64]:
    """Rayleigh and Ritz on an orthonormal basis whose first vectors are the X before.

    Returns:
        The lowest values, ascending, the coefficients of their vectors, those of the directions P, A projected on both,
        and the largest magnitude of all values.
    """
    values, c = eigh(whole)
    rest = c[:, size:]
    q = np.linalg.qr(rest[:size].T)[0] if rest.shape[1] else np.zeros((0, 0))
    projected = np.zeros((size + q.shape[1],) * 2)
    projected[:size, :size] = np.diag(values[:size])
    projected[size:, size:] = q.T @ (values[size:, None] * q)
    return values[:size], c[:, :size], rest @ q, projected, abs(values).max(keepdims=True)
