"""Kernels on one chunk's arrays: described in `contract`, specified in `reference`, fast in `cpu` and `cuda`.

This package knows nothing of grids' partitions, engines or Dask. In all of it `vectors` are a backend's vector kernels,
with the threads of a host, `xp` is its array module, `dtype` a value type, "float64" or "float32", `layout` a storage
order of rows; columns of a sparse matrix ascend in each row where that is not said.
"""

import os
from functools import cache
from typing import Any

from dsolver.kernels.backend import Backend

__all__ = ["DENSE_ROWS", "DTYPES", "Backend", "compile_kind", "compiles", "load", "usable_cpus"]

DTYPES = ("float64", "float32")  # the value types for which there are kernels

DENSE_ROWS: dict[str, int] = {"numpy": 300, "cpu": 300, "cuda": 2000}
"""Rows of a matrix that a backend inverts, and whose inverse it stores, at most. A GPU multiplies 2000² values in less
time than a level of as many rows needs for its launches."""


def load(name: str, threads: int = 1, dtype: str = "float64") -> Backend:
    """The backend of this name, one instance per process, number of threads and value type.

    Args:
        name: "numpy" (text-book, the specification), "cpu" (numba) or "cuda" (CuPy).
        threads: threads that share a chunk's loops; read by "cpu" alone.
        dtype: the value type of vectors and matrices, "float64" or "float32".

    Raises:
        ValueError: there is no such backend or value type.
        ImportError: "cuda" without CuPy, or with CuPy that finds no driver.
    """
    if dtype not in DTYPES:
        raise ValueError(f"no kernels for {dtype!r}: choose {' or '.join(DTYPES)}")
    return _loaded(name, threads if name == "cpu" else 1, dtype)


def compile_kind(name: str, kind: str) -> None:
    """Have the kernels for a kind of solve compiled beside what goes on, if need be ("cuda"); set-up waits for them."""
    if name == "cuda":
        from dsolver.kernels.cuda.launch import loader

        loader.begin(kind)


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiles() -> bool:
    """Whether the loops of "cpu" are compiled: where NUMBA_DISABLE_JIT is set, numba leaves them to Python."""
    import numba

    config: Any = numba.config  # its attributes are made when it is imported
    return not config.DISABLE_JIT


@cache
def _loaded(name: str, threads: int, dtype: str) -> Backend:
    if name == "numpy":
        from dsolver.kernels.reference.backend import NumpyBackend

        return NumpyBackend(dtype)
    if name == "cpu":
        from dsolver.kernels.cpu.backend import CpuBackend

        return CpuBackend(threads, dtype)
    if name == "cuda":
        from dsolver.kernels.cuda.backend import CudaBackend

        return CudaBackend(dtype)
    raise ValueError(f"no kernels called {name!r}: choose numpy, cpu or cuda")
