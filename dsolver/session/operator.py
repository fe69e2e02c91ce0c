"""Questions to a session beside solves: M as an operator on flat vectors, residuals of solutions."""

import math
import weakref
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from dsolver.errors import InputError
from dsolver.session.session import Session
from dsolver.session.user_arrays import array_of, container_of, stacked
from dsolver.session.vectors import preconditioned, residual


class PreconditionerOperator:
    """One application of M as an operator of SciPy's kind: for the solvers of SciPy, CuPy and PyAMG.

    It has what `scipy.sparse.linalg.aslinearoperator` and CuPy's look for, and works as long as its `dsolver.Solver` is
    open. Vectors are in the order of ``b.ravel()``.

    Attributes:
        shape: (n, n).
        dtype: float64, or complex128 where A is complex.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        size = math.prod(session.problem.grid)
        self.shape = (size, size)
        self.dtype = np.dtype(np.complex128 if session.problem.complex else np.float64)

    def __repr__(self) -> str:
        return f"<PreconditionerOperator {self.shape} of {self._session!r}>"

    def matvec(self, r: Any) -> Any:
        """M r, of r's kind of array, in `dtype`: (n,) or (n, 1).

        Raises:
            InputError: r has another shape, or is complex where A is not, or no array; or the Solver is closed or
                solving.
            ClusterError: the cluster failed.
        """
        values, session = self._array(r), self._session
        shape = tuple(values.shape)
        if shape not in (self.shape[:1], (self.shape[0], 1)):
            raise InputError(f"r has shape {shape}, but must be ({self.shape[0]},) or ({self.shape[0]}, k)")
        problem = session.given
        right = container_of("r", problem.to_grid(values), session.partition, session.runtime.client, dtype=self.dtype)
        return problem.from_grid(preconditioned(session, right)).reshape(shape)

    def matmat(self, r: Any) -> Any:
        """M R for k vectors (n, k), one after the other; as `matvec` otherwise."""
        values = self._array(r)
        if len(values.shape) != 2 or values.shape[1] < 2 or values.shape[0] != self.shape[0]:
            return self.matvec(values)
        return stacked([self.matvec(values[:, column]) for column in range(values.shape[1])], values)

    def rmatvec(self, _: Any) -> NoReturn:
        """Refuse (InputError) the product with Mᵀ, which methods such as SciPy's `bicg` and `qmr` need."""
        raise InputError("Mᵀ cannot be applied: use a method that needs M alone, such as cg, minres, gmres or bicgstab")

    dot = __matmul__ = __mul__ = __call__ = matmat  # as of SciPy's own

    def __reduce__(self) -> NoReturn:
        raise InputError("an operator of a Solver is neither copied nor pickled: devices hold what it applies")

    def _array(self, r: Any) -> Any:
        """Vectors as an array with a shape. InputError: they are none."""
        if type(r).__module__.partition(".")[0] in ("xarray", "pandas"):
            raise InputError(f"r is a {type(r).__name__} with labels, which M has not: pass r.values")
        if isinstance(r, np.matrix) or not hasattr(r, "shape") or hasattr(r, "toarray"):
            return array_of("r", r, self.shape[:1])
        return r


class Residual:
    """b - A x of a solve, by its session while that is open (not kept alive), else by one set up for it without M."""

    def __init__(self, session: Session, b: Any) -> None:
        self._session, self._b = weakref.ref(session), b
        self._problem, self._setup = session.given, session.setup

    def __call__(self, x: Any) -> Any:
        """The residual of x, of b's kind of array."""
        session = self._session()
        if session is not None and session.given is self._problem and not session.system.closed:
            return residual(session, self._b, x)
        with Session(self._problem, replace(self._setup, M=None, method=None, precond_dtype="auto")) as anew:
            return residual(anew, self._b, x)

    def __reduce__(self) -> Any:
        raise InputError("the residual of a solution is neither copied nor pickled: devices hold its matrix")
