"""Products of compressed rows by oneMKL's inspector and executor, for comparison: `pip install mkl` has the library."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

OPERATION_NON_TRANSPOSE, GENERAL, INDEX_BASE_ZERO, OK = 10, 20, 0, 0
MANY = 1000
"""Products that are announced, so that the analysis may take its time."""


os.environ["KMP_BLOCKTIME"] = "0"  # else its threads keep the cores busy for 200 ms after a product, in others' turns


class _Description(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))


class MklRows:
    """A matrix of SciPy in compressed rows with 32-bit columns, analyzed for many products.

    Args:
        library: path of libmkl_rt.
        host: the matrix; its arrays are used where they are.
        threads: that share a product.
    """

    def __init__(self, library: Path, host: Any, threads: int) -> None:
        self._mkl, self._host, self._handle = ctypes.CDLL(str(library)), host, ctypes.c_void_p()
        self._mkl.MKL_Set_Num_Threads(threads)
        self._general = _Description(GENERAL, 0, 0)
        start = host.indptr.ctypes.data
        arrays = (start, start + host.indptr.itemsize, host.indices.ctypes.data, host.data.ctypes.data)
        self._checked(
            self._mkl.mkl_sparse_d_create_csr,
            ctypes.byref(self._handle),
            INDEX_BASE_ZERO,
            *host.shape,
            *map(ctypes.c_void_p, arrays),
        )
        self._checked(self._mkl.mkl_sparse_set_mv_hint, self._handle, OPERATION_NON_TRANSPOSE, self._general, MANY)
        self._checked(self._mkl.mkl_sparse_optimize, self._handle)

    def spmv(self, x: Any, y: Any) -> None:
        """y = A x."""
        vectors = (ctypes.c_void_p(x.ctypes.data), ctypes.c_double(0.0), ctypes.c_void_p(y.ctypes.data))
        one = ctypes.c_double(1.0)
        multiply = self._mkl.mkl_sparse_d_mv
        self._checked(multiply, OPERATION_NON_TRANSPOSE, one, self._handle, self._general, *vectors)

    def _checked(self, function: Any, *arguments: Any) -> None:
        status = function(*arguments)
        if status != OK:
            raise RuntimeError(f"{function.__name__} ended with status {status}")
