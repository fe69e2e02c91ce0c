"""Right-hand sides so small, or so large, that squares of their values are no numbers: times a power of two.

Norms are roots of sums of squares, which vanish below 1e-162 and lose digits below 1e-138. With b times 2ᵉ the same
bits are worked out in the middle of what numbers there are, and x is divided again.
"""

from __future__ import annotations

import math
from typing import Any, Final, final

import numpy as np

from dsolver.errors import InputError

FAR: Final = 400
"""Exponents of two beyond which, up or down, a right-hand side is lifted."""
FAR_IN_FLOAT32: Final = 60
UNKNOWN: Final = 700
"""The exponent of a lift where b's norm is no number."""


@final
class OutOfRangeError(InputError):
    """Error of a right-hand side whose norm is out of range, and the exponent of two by which it comes into range."""

    def __init__(self, message: str, exponent: int) -> None:
        super().__init__(message)
        self.exponent = exponent


def exponent_for(norm: float, dtype: str = "float64") -> int:
    """Exponent of two by which b comes into range of the vectors' dtype, from its norm; 0 where it is in range."""
    if math.isinf(norm):
        return -UNKNOWN
    exponent = math.frexp(norm)[1]
    return -exponent if abs(exponent) > (FAR if dtype == "float64" else FAR_IN_FLOAT32) else 0


def times(values: Any, exponent: int) -> Any:
    """Values of any kind of array times a power of two, of any size."""
    half = exponent // 2
    return values if exponent == 0 else values * math.ldexp(1.0, half) * math.ldexp(1.0, exponent - half)


def lowered(x: Any, exponent: int, *, here: bool) -> Any:
    """x times a power of two; here: its numbers are in this process. InputError: some of them are none then."""
    with np.errstate(over="ignore"):
        made = times(x, exponent)
    if exponent > 0 and here and not abs(made).max() < math.inf:
        raise InputError("x has values beyond the largest number there is: multiply A, or divide b, by a power of ten")
    return made
