"""Casts of values to a narrower type: exact ones, and what becomes of values out of its range."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dsolver.kernels.formats.layout import Array


def lossless(values: "Array") -> "Array":
    """Values as float32 if that changes none of them, else as they are."""
    narrow = narrowed(values, np.dtype(np.float32))
    return narrow if bool((narrow == values).all()) else values


def narrowed(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values in another type; what exceeds its range becomes infinite, and shows in whatever it multiplies."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def in_range(diagonal: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A diagonal in another value type; NaN where it leaves that type's range of normal numbers.

    It is divided by, and the result must tell: a preconditioner of zeros or of huge numbers would pass for a poor one.
    """
    if diagonal.dtype == dtype:
        return diagonal
    limits, size = np.finfo(dtype), np.abs(diagonal)
    inside = (size >= float(limits.tiny)) & (size <= float(limits.max))
    return np.where(inside, diagonal, np.nan).astype(dtype)
