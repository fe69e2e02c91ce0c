"""Points of a lattice as loops see them: kinds, corners and steps."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dsolver.kernels.lattice.coarsening import BETWEEN, LOWER, UPPER


@njit(inline="always")
def leaves(step: Any, open_sides: Any) -> Any:
    """Whether a step leaves the domain."""
    return (step < 0 and not open_sides & LOWER) or (step > 0 and not open_sides & UPPER)


@njit(inline="always")
def bit(number: Any, axis: Any) -> Any:
    """A corner's 0 or 1 along an axis."""
    return (number >> axis) & 1


@njit(inline="always")
def step(number: Any) -> Any:
    """The steps -1, 0 or 1 along x, y and z with this number, 0 .. 26."""
    return number % 3 - 1, number // 3 % 3 - 1, number // 9 - 1


@njit(inline="always")
def is_constant(w: Any) -> Any:
    """Whether all rows have the same weights."""
    return w.shape[1] * w.shape[2] * w.shape[3] == 1  # the box of a stored lattice has its ghost layers


@njit(inline="always")
def has(kind: Any, bit: Any) -> Any:
    """Whether a point of this kind has a corner 0 or 1."""
    return (kind == BETWEEN) | (kind == bit)  # a tuple would have its own function compiled


F64 = npt.NDArray[np.float64]
CENTER = 13
