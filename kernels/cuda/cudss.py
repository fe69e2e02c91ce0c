"""Factors by NVIDIA's cuDSS, on a GPU, by way of nvmath-python."""

from __future__ import annotations

import weakref
from importlib.metadata import PackageNotFoundError, files
from typing import Any, Final

import cupy
import numpy as np
from nvmath.bindings.cudss import Status, cuDSSError
from nvmath.sparse.advanced import DirectSolver, DirectSolverMatrixType, DirectSolverMatrixViewType, DirectSolverOptions

from dsolver.kernels.direct.libraries import Factors, Kind, SingularError, Values

WHEELS: Final = ("nvidia-cudss-cu13", "nvidia-cudss-cu12")
THREADS: Final = "libcudss_mtlayer_gomp"
"""Beginning of the name of the library by which cuDSS orders rows with several threads."""


class CuDss(Factors):
    """Factors on the GPU of a CSR matrix of CuPy, given back with this object.

    Args:
        definite: whether to take it for symmetric and positive definite: its upper triangle alone is read then.

    Raises:
        SingularError: a pivot vanishes.
        MemoryError: the GPU has not enough.
    """

    def __init__(self, a: Any, *, definite: bool) -> None:
        types, views = DirectSolverMatrixType, DirectSolverMatrixViewType
        options = DirectSolverOptions(
            sparse_system_type=types.SPD if definite else types.GENERAL,
            sparse_system_view=views.UPPER if definite else views.FULL,
            multithreading_lib=threading_library(),
        )
        try:
            self._solver = DirectSolver(a, cupy.zeros(a.shape[0], dtype=a.dtype), options=options)
            weakref.finalize(self, self._solver.free)
            self._solver.plan()
            found = self._solver.factorize()
            cupy.cuda.get_current_stream().synchronize()
            failed, entries = int(found.info), int(found.lu_nnz)
        except cuDSSError as error:
            if error.status == Status.ALLOC_FAILED:
                raise MemoryError(str(error)) from error
            raise SingularError(str(error)) from error
        if failed:
            raise SingularError(f"cuDSS has met a zero pivot in row {failed}")
        self.nbytes = (np.dtype(a.dtype).itemsize + 4) * entries

    def solve(self, b: Values) -> Values:
        """x with A x = b, on the GPU."""
        self._solver.reset_operands(b=b)
        return self._solver.solve()


def threading_library() -> str | None:
    """The library by which cuDSS orders rows with several threads, as its wheel has it; None where it is not there."""
    for wheel in WHEELS:
        try:
            found = files(wheel) or ()
        except PackageNotFoundError:
            continue
        for file in found:
            if file.name.startswith(THREADS):
                return str(file.locate())
    return None


def factors(a: Any, kind: Kind) -> CuDss:
    """Factors of a CSR matrix of CuPy: Cholesky's where it is positive definite. SingularError, MemoryError."""
    if kind.symmetric and kind.positive:
        try:
            return CuDss(a, definite=True)
        except SingularError:
            pass
    return CuDss(a, definite=False)
