"""Right-hand sides so small, or so large, that squares of their values are no numbers: times a power of two.

Norms are roots of sums of squares, which vanish below 1e-162 and lose digits below 1e-138. With b times 2ᵉ the same
bits are worked out in the middle of what numbers there are, and x is divided again.
"""

import math
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError

FAR: Final = 400  # exponents of two beyond which, up or down, a right-hand side is lifted
FAR_IN_FLOAT32: Final = 60
LARGEST: Final = 1100  # exponent of two by which any number there is, times it, is at least 1


class OutOfRangeError(InputError):
    """Error of a right-hand side whose norm is out of range, and the exponent of two by which it comes into range."""

    def __init__(self, message: str, exponent: int) -> None:
        super().__init__(message)
        self.exponent = exponent


def exponent_for(norm: float, dtype: str = "float64") -> int:
    """Exponent of two by which b comes into range of the vectors' dtype, from its norm; 0 where it is in range.

    Of a norm that is no number, 0 or infinite, a step towards it.
    """
    far, step = (FAR, 700) if dtype == "float64" else (FAR_IN_FLOAT32, 150)
    if norm == 0.0 or math.isinf(norm):
        return step if norm == 0.0 else -step
    exponent = math.frexp(norm)[1]
    return -exponent if abs(exponent) > far else 0


def times(values: Any, exponent: int) -> Any:
    """Values of any kind of array times a power of two, of any size."""
    half = exponent // 2
    with np.errstate(over="ignore"):
        return values if exponent == 0 else values * math.ldexp(1.0, half) * math.ldexp(1.0, exponent - half)


def lowered(x: Any, exponent: int, *, here: bool) -> Any:
    """x times a power of two; here: its numbers are in this process. InputError: they are too large, or all too small.

    Below the least number with all digits they lose these, here half of them, and at last vanish.
    """
    made = times(x, exponent)
    if exponent > 0 and here and not abs(made).max() < math.inf:
        raise InputError("x has values beyond the largest number there is: multiply A, or divide b, by a power of ten")
    numbers = np.finfo(np.float32 if made.dtype.itemsize == 4 else np.float64)  # a tensor's type is none of NumPy's
    least = numbers.tiny * math.sqrt(numbers.eps)
    if exponent < 0 and here and abs(made).max() < least and abs(x).max() > 0.0:
        raise InputError(f"x has no value as large as {least:.1e}: divide A, or multiply b, by a power of ten")
    return made
