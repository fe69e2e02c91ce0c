"""Kernels on one chunk's arrays: described in `contract`, specified in `reference`, fast in `cpu` and `cuda`.

This package knows nothing of grids' partitions, engines or Dask.
"""

from __future__ import annotations

from functools import cache

from dsolver.kernels.backend import Backend

__all__ = ["Backend", "load"]


@cache
def load(name: str, threads: int = 1) -> Backend:
    """The backend of this name, one instance per process and number of threads.

    Args:
        name: "numpy" (text-book, the specification), "cpu" (numba) or "cuda" (CuPy).
        threads: threads that share a chunk's loops; read by "cpu" alone.

    Raises:
        ValueError: there is no such backend.
        ImportError: "cuda" without CuPy, or with CuPy that finds no driver.
    """
    if name == "numpy":
        from dsolver.kernels.reference import NumpyBackend

        return NumpyBackend()
    if name == "cpu":
        from dsolver.kernels.cpu import CpuBackend

        return CpuBackend(threads)
    if name == "cuda":
        from dsolver.kernels.cuda import CudaBackend

        return CudaBackend()
    raise ValueError(f"no kernels called {name!r}: choose numpy, cpu or cuda")
