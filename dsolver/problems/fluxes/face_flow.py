"""Volume that flows through faces, from velocities at centers or at faces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dsolver.kernels.formats.layout import Array
from dsolver.problems.coefficient_names import VELOCITY
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.axes import part_of


def face_flow(
    rule: Diffusion,
    xp: Any,
    asarray: Callable[[Any], Array],
    sizes: Sequence[Array],  # of the cells along each axis, to broadcast
    axis: int,
    field: Callable[[str], Any],
) -> Array:
    """Volume that flows through each face along an axis, in its direction: of the grid's shape with one more.

    `xp`, `asarray`, `field`: as of `FluxForm`.
    """
    number, n = rule.velocity[axis], rule.grid[axis]
    first, second = (size for other, size in enumerate(sizes) if other != axis)
    area = first * second
    if number is not None:
        shape = [size + (other == axis) for other, size in enumerate(rule.grid)]
        return xp.broadcast_to(asarray(np.array(number)) * area, shape)
    velocity = asarray(field(VELOCITY[axis]))
    if velocity.shape[axis] == n:  # at centers
        size = sizes[axis]
        first, last = (velocity[part_of(axis, end)] for end in (slice(None, 1), slice(-1, None)))
        if rule.boundary.periodic[axis]:
            first = last = _interpolated(velocity, size, part_of(axis, slice(-1, None)), part_of(axis, slice(None, 1)))
        between = _interpolated(velocity, size, part_of(axis, slice(None, -1)), part_of(axis, slice(1, None)))
        velocity = xp.concatenate([first, between, last], axis=axis)
    flow: Array = velocity * area
    return flow


def _interpolated(values: Array, size: Array, low: tuple[Any, ...], high: tuple[Any, ...]) -> Array:
    """Values at faces by those at the centers on both sides."""
    here, there = size[low], size[high]
    return (values[low] * there + values[high] * here) / (here + there)
