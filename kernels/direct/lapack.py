"""Factors by LAPACK, of a matrix with all its zeros.

E. Anderson et al., LAPACK users' guide, 3rd ed., SIAM, 1999: getrf and getrs.
"""

from __future__ import annotations

import warnings
from typing import Any, final

from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values


@final
class Lapack(Factors):
    """Factors L and U in place of the matrix."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self.nbytes = made[0].nbytes

    def solve(self, b: Values) -> Values:
        """x with A x = b."""
        x: Values = lu_solve(self._made, b, check_finite=False)
        return x


def factors(a: Any, _: Kind) -> Lapack:
    """Factors of a SciPy CSR array.

    Raises:
        SingularError: a pivot vanishes.
        MemoryError: there is not enough.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        try:
            return Lapack(lu_factor(a.toarray(order="F"), overwrite_a=True, check_finite=False))
        except LinAlgWarning as error:
            raise SingularError(str(error)) from error
