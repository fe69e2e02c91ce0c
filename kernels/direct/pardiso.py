"""Factors by PARDISO of Intel's MKL, by way of pypardiso.

O. Schenk, K. Gaertner, Solving unsymmetric sparse systems of linear equations with PARDISO, Future Generation Computer
Systems 20, 2004.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np
from pypardiso import PyPardisoSolver
from pypardiso.pardiso_wrapper import PyPardisoError
from scipy.sparse import csr_matrix

from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values

DEFINITE: Final = 2  # PARDISO's number for symmetric positive definite matrices, of which it reads the upper triangle
ANY: Final = 11  # its number for those that are not symmetric
FACTORIZE: Final = 12  # phases of analysis and factorization
SOLVE: Final = 33  # the phase of solution
FACTOR_ENTRIES: Final = 18
"""Number of the parameter that tells the entries of the factors, where it was set to -1 before."""

NO_MEMORY: Final = (-2, -9)  # its errors where there is not enough


class Pardiso(Factors):
    """Factors that PARDISO holds, given back with this object."""

    def __init__(self, a: Any, number: int) -> None:
        self._a, self._solver = a, PyPardisoSolver(mtype=number)
        self._solver.set_iparm(FACTOR_ENTRIES, -1)
        self._solver.set_phase(FACTORIZE)
        weakref.finalize(self, self._solver.free_memory, everything=True)
        self._call(np.zeros(a.shape[0]))
        self._solver.set_phase(SOLVE)
        self.nbytes = 8 * int(self._solver.get_iparm(FACTOR_ENTRIES))

    def solve(self, b: Values) -> Values:
        """x with A x = b."""
        return self._call(b)

    def _call(self, b: Values) -> Values:
        """x of the phase that is set; pypardiso's own methods compare all entries of A before each."""
        try:
            x: Values = self._solver._call_pardiso(self._a, np.ascontiguousarray(b))
        except PyPardisoError as error:
            if error.value in NO_MEMORY:
                raise MemoryError(str(error)) from error
            raise SingularError(str(error)) from error
        return x


def factors(a: Any, kind: Kind) -> Pardiso:
    """Factors of a float64 CSR array: Cholesky's where it is positive definite. SingularError, MemoryError."""
    if kind.symmetric and kind.positive:
        try:
            return Pardiso(_upper(a), DEFINITE)
        except SingularError:
            pass
    return Pardiso(csr_matrix(a), ANY)


def _upper(a: Any) -> Any:
    """The upper triangle with the diagonal; SciPy's own way there is over coordinates."""
    row = np.repeat(np.arange(a.shape[0], dtype=a.indices.dtype), np.diff(a.indptr))
    kept = a.indices >= row
    start = np.concatenate((np.zeros(1, a.indptr.dtype), np.cumsum(kept, dtype=a.indptr.dtype)))[a.indptr]
    return csr_matrix((a.data[kept], a.indices[kept], start), shape=a.shape)
