"""Factors by SuperLU, which comes with SciPy.

X. S. Li, An overview of SuperLU, ACM Trans. Math. Software 31, 2005.
"""

from __future__ import annotations

from typing import Any, Final, final

from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values

DIAGONAL: Final = 0.01
"""A diagonal pivot is taken down to this part of its column's largest entry, where rows and columns are in the same
order: with off-diagonal ones the fill is more than was ordered for."""


@final
class SuperLU(Factors):
    """Factors of Aᵀ, whose compressed columns are the compressed rows of A."""

    def __init__(self, made: Any, itemsize: int) -> None:
        self._made = made
        self.nbytes = made.nnz * (itemsize + 4)

    def solve(self, b: Values) -> Values:
        """x with A x = b."""
        x: Values = self._made.solve(b, trans="T")
        return x


def factors(a: Any, kind: Kind) -> SuperLU:
    """Factors of a SciPy CSR array. SingularError: a pivot vanishes; MemoryError."""
    transposed = csc_array((a.data, a.indices, a.indptr), shape=a.shape)
    options: dict[str, Any] = {"permc_spec": "COLAMD"}
    if kind.mirrored and kind.positive:
        options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": DIAGONAL, "options": {"SymmetricMode": True}}
    try:
        return SuperLU(splu(transposed, **options), a.data.dtype.itemsize)
    except RuntimeError as error:  # its own error for an exact zero
        raise SingularError(str(error)) from error
