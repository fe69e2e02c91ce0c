"""A preconditioner that is set up, as an operator on flat vectors."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from dsolver.errors import InputError
from dsolver.session.session import Session
from dsolver.session.user_arrays import container_of


@final
class PreconditionerOperator:
    """One application of M as an operator of SciPy's kind: for the solvers of SciPy, CuPy and PyAMG.

    It has what `scipy.sparse.linalg.aslinearoperator` and CuPy's look for, and works as long as its `dsolver.Solver` is
    open. Vectors are in the order of ``b.ravel()``.

    Attributes:
        shape: (n, n).
        dtype: float64.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        size = math.prod(session.problem.grid)
        self.shape = (size, size)
        self.dtype = np.dtype(np.float64)

    def matvec(self, r: Any) -> Any:
        """M r, of r's kind of array: (n,) or (n, 1).

        Raises:
            InputError: r has another shape or is not real, or the Solver is closed or solving.
            ClusterError: the cluster failed.
        """
        shape, session = tuple(getattr(r, "shape", ())), self._session
        problem = session.given
        if shape not in (self.shape[:1], (self.shape[0], 1)):
            raise InputError(f"r has shape {shape}, but must be ({self.shape[0]},)")
        right = container_of("r", problem.to_grid(r), session.partition, session.runtime.client)
        return problem.from_grid(session.preconditioned(right)).reshape(shape)

    def __matmul__(self, r: Any) -> Any:
        return self.matvec(r)
