"""Axes of arrays whose last ones are x, y, z."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

AXES: Final = (0, 1, 2)


def along(axis: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values along an axis, to broadcast."""
    return values.reshape([-1 if other == axis else 1 for other in AXES])


def part_of(axis: int, part: slice) -> tuple[Any, ...]:
    """Index of a part along an axis, in an array whose last axes are x, y, z."""
    return (Ellipsis, *(part if other == axis else slice(None) for other in AXES))
