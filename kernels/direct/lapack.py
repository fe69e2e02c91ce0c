"""Factors by LAPACK, of a matrix with all its zeros.

E. Anderson et al., LAPACK users' guide, 3rd ed., SIAM, 1999: getrf and getrs. Those of many rows are made in the
smaller type, in half the time and memory, if these are so near that iterations refine them: J. Langou et al.,
Exploiting the performance of 32 bit floating point arithmetic in obtaining 64 bit accuracy, SC 2006.
"""

import warnings
from typing import Any, Final

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values

SMALLER: Final = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
"""Value types in which factors are tried before."""
MANY: Final = 2000  # rows from which on they are: below, both take less than half a second
NEAR: Final = 0.01
"""Part of ‖b‖ that they may leave of a rough b: each iteration takes as much of the error away. What is left is about ε
times the condition of A, which an A x for b would hide."""


class Lapack(Factors):
    """Factors L and U in place of the matrix, for solutions of a dtype."""

    def __init__(self, made: Any, dtype: np.dtype[Any]) -> None:
        self._made, self._dtype = made, dtype
        self.nbytes = made[0].nbytes

    def solve(self, b: Values) -> Values:
        """x with A x = b."""
        right = b.astype(self._made[0].dtype, copy=False)
        return lu_solve(self._made, right, check_finite=False).astype(self._dtype, copy=False)


def factors(a: Any, kind: Kind) -> Lapack:
    """Factors of a SciPy CSR array. SingularError: a pivot vanishes; MemoryError."""
    smaller = None if kind.steep or a.shape[0] < MANY else SMALLER.get(a.dtype)
    made = None if smaller is None else _near(a, smaller)
    return Lapack(_made(a, a.dtype), a.dtype) if made is None else made


def _near(a: Any, dtype: Any) -> Lapack | None:
    """Factors in a smaller type; None where they are not near enough."""
    try:
        made = Lapack(_made(a, dtype), a.dtype)
    except SingularError:
        return None
    b = np.random.default_rng(a.shape[0]).uniform(-1.0, 1.0, a.shape[0])
    left = np.linalg.norm(b - a @ made.solve(b))
    return made if left <= NEAR * np.linalg.norm(b) else None


def _full(a: Any, dtype: Any) -> Any:
    """All places of a CSR array without repeated entries; `toarray` in columns takes a transpose and ten times as long.

    Of 50 rows that is a tenth of a solve.
    """
    full = np.zeros(a.shape, dtype, order="F")
    full[np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.indices] = a.data
    return full


def _made(a: Any, dtype: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        try:
            return lu_factor(_full(a, dtype), overwrite_a=True, check_finite=False)
        except LinAlgWarning as error:
            raise SingularError(str(error)) from error
