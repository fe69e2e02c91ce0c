"""A stand-in for CuPy where no GPU is: arrays are NumPy's, and kernels run thread by thread on the CPU.

Functions that are not here are NumPy's of that name: one that CuPy does not have goes unnoticed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import arrays, cuda
from .arrays import Array
from .arrays import Array as ndarray  # noqa: N813 - CuPy's name
from .kernels import RawKernel, RawModule

__all__ = ["RawKernel", "RawModule", "cuda", "ndarray"]
__version__ = "14.2.0"


def empty(shape: Any, dtype: Any = float, order: str = "C") -> Array:
    return Array.of(arrays.room(shape, dtype, order))


def empty_like(a: Array, dtype: Any = None, *, shape: Any = None) -> Array:
    return empty(a.shape if shape is None else shape, a.dtype if dtype is None else dtype)


def array(a: Any, dtype: Any = None, *, order: Any = "K") -> Array:
    return Array.of(np.array(a.host if isinstance(a, Array) else a, dtype=dtype, order=order))


def asarray(a: Any, dtype: Any = None, *, order: Any = None) -> Array:
    """The array itself where it is what is asked for."""
    found = np.asarray(a.host if isinstance(a, Array) else a, dtype=dtype, order=order)
    return a if isinstance(a, Array) and found is a.host else Array.of(found)


def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    if not isinstance(a, Array):
        raise TypeError("CuPy's ascontiguousarray takes arrays of the device alone")
    return asarray(a, dtype, order="C")


def asnumpy(a: Any) -> Any:
    return a.get() if isinstance(a, Array) else np.asarray(a)


def repeat(a: Array, repeats: Any, axis: int | None = None) -> Array:
    if isinstance(repeats, (Array, np.ndarray)):
        raise TypeError("CuPy repeats each item by an int, not by an array")
    return arrays.lifted(np.repeat)(a, repeats, axis)


def bincount(x: Array, weights: Any = None, minlength: int | None = None) -> Array:
    if not x.size:
        raise ValueError("CuPy's bincount asks for the largest of the numbers, which must be some")
    return arrays.lifted(np.bincount)(x, weights, minlength or 0)


def get_default_memory_pool() -> cuda.Pool:
    return cuda.Pool()


def __getattr__(name: str) -> Any:
    found = getattr(np, name)
    return arrays.lifted(found) if callable(found) and not isinstance(found, type) else found
