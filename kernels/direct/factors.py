"""Factors of any square matrix: scaled before, and where A is singular those that solve for its least squares."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values, maker
from dsolver.kernels.formats.csr import Csr

PASSES: Final = 2
"""Passes of scaling rows and columns to largest entries of about 1 (Ruiz, RAL-TR-2001-034, 2001)."""
ACCURATE: Final = 0.1
"""Part of ‖b‖ that factors may leave of a rough right-hand side. Iterations take the rest away."""
GROWTH: Final = 1e6
"""Times the length of a rough x that factors may make of A x: with more they have all but divided by zero."""


@final
class ScaledFactors:
    """Factors of R A C with diagonal R and C of powers of two, or of what takes its place where A is singular.

    Args:
        inner: of the scaled matrix.
        rows: float64 (rows,), R.
        columns: float64 (rows,), C.
        dtype: of the factors.

        nearby: whether they are not those of the scaled matrix itself.

    Attributes:
        nearby: as given.
    """

    def __init__(self, inner: Factors, rows: Values, columns: Values, dtype: np.dtype[Any], *, nearby: bool) -> None:
        self._inner, self._rows, self._columns, self._dtype = inner, rows, columns, dtype
        self.nearby = nearby

    @property
    def nbytes(self) -> int:
        """About how many bytes they take."""
        return self._inner.nbytes + self._rows.nbytes + self._columns.nbytes

    def solve(self, b: Values) -> Values:
        """x with A x = b, float64 (rows,)."""
        x: Values = self._columns * self._inner.solve((self._rows * b).astype(self._dtype, copy=False))
        return x


@final
class LeastSquares(Factors):
    """x of the least ‖b - A x‖² + δ² ‖x‖² by factors of (δ I, A; Aᵀ, -δ I), in which the unknown r / δ is before x.

    Singular values far above δ are inverted, those far below are left out.
    """

    def __init__(self, made: Factors) -> None:
        self._made = made
        self.nbytes = made.nbytes

    def solve(self, b: Values) -> Values:
        """x."""
        return self._made.solve(np.concatenate((b, np.zeros_like(b))))[len(b) :]


def factors_of(
    a: Csr, dtype: np.dtype[Any], library: str, *, symmetric: bool, mirrored: bool, singular: bool
) -> ScaledFactors:
    """Factors of a matrix in NumPy arrays, of whose rows none is empty.

    Where constants are known to be in the null space, √ε is added to the diagonal of the scaled matrix, ε being that of
    the type: right-hand sides have no part of them. Where pivots vanish otherwise, or the factors show that they all
    but have, `LeastSquares` with δ = √ε take their place.

    Args:
        a: the whole matrix, columns from 0.
        dtype: of the factors.
        library: its name.
        symmetric: whether A is.
        mirrored: whether it has an entry (j, i) for each entry (i, j).
        singular: whether constants are known to be in its null space, and in that of Aᵀ.

    Raises:
        SingularError: no factors are of use.
        MemoryError: there is not enough.
    """
    from scipy.sparse import csr_array, diags_array

    start, columns, values = (np.asarray(part) for part in a)
    index = np.int32 if len(columns) < 2**31 else np.int64
    matrix = csr_array((values, columns.astype(index), start.astype(index)), shape=(a.size, a.size))
    left, right = scales(matrix, symmetric=symmetric)
    matrix.data = matrix.data * np.repeat(left, np.diff(start)) * right[columns]
    make, delta = maker(library), float(np.finfo(dtype).eps) ** 0.5
    if singular:
        matrix = csr_array(matrix + diags_array(np.full(a.size, delta)))
    diagonal = matrix.diagonal()
    kind = Kind(symmetric=symmetric, mirrored=mirrored, positive=bool((diagonal > 0.0).all()))
    if _has_pivots(matrix, diagonal):
        with suppress(SingularError):
            made = make(matrix.astype(dtype), kind)
            if _useful(made, matrix, dtype):
                return ScaledFactors(made, left, right, dtype, nearby=singular)
    made = make(_augmented(matrix, delta).astype(dtype), Kind(symmetric=True, mirrored=True, positive=False))
    return ScaledFactors(LeastSquares(made), left, right, dtype, nearby=True)


def _augmented(matrix: Any, delta: float) -> Any:
    """(δ I, A; Aᵀ, -δ I), a SciPy CSR array."""
    from scipy.sparse import block_array, csr_array, diags_array

    unit = diags_array(np.full(matrix.shape[0], delta))
    made = csr_array(block_array([[unit, matrix], [matrix.T, -unit]], format="csr"))
    made.indices, made.indptr = made.indices.astype(matrix.indices.dtype), made.indptr.astype(matrix.indptr.dtype)
    return made


def scales(matrix: Any, *, symmetric: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Diagonals R and C of powers of two, float64 (rows,), with which entries of R A C are at most about 1.

    They round nothing. Those of a symmetric matrix are equal.
    """
    size, rest = matrix.shape[0], abs(matrix)
    left, right = np.ones(size), np.ones(size)
    of_entry = np.repeat(np.arange(size), np.diff(rest.indptr))
    for _ in range(PASSES):
        rows = _root(rest.max(axis=1).toarray())
        columns = rows if symmetric else _root(rest.max(axis=0).toarray())
        rest.data *= rows[of_entry] * columns[rest.indices]
        left, right = left * rows, right * columns
    return left, right


def _root(largest: Values) -> npt.NDArray[np.float64]:
    """The power of two next to 1 / √largest; 1 where that is zero."""
    _, exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))
    found: npt.NDArray[np.float64] = np.ldexp(1.0, -(exponent // 2))
    return found


def _has_pivots(matrix: Any, diagonal: Values) -> bool:
    """Whether rows and columns can be paired by entries that are not zero: without, libraries may run into the wild."""
    from scipy.sparse.csgraph import structural_rank

    return bool((diagonal != 0.0).all()) or structural_rank(matrix) == matrix.shape[0]


def _useful(made: Factors, matrix: Any, dtype: np.dtype[Any]) -> bool:
    """Whether factors solve for a right-hand side A x with a rough x, without an x that is much larger."""
    rough = np.random.default_rng(matrix.shape[0]).uniform(-1.0, 1.0, matrix.shape[0])
    b = matrix @ rough
    with np.errstate(all="ignore"):
        found = made.solve(b.astype(dtype)).astype(np.float64)
        left, size = np.linalg.norm(b - matrix @ found), np.linalg.norm(found)
    return bool(left <= ACCURATE * np.linalg.norm(b) and size <= GROWTH * np.linalg.norm(rough))
