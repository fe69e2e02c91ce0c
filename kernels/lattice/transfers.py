"""The entries of restriction and prolongation, and copies of lattices: the text that every backend follows.

All functions take the array module and work on arrays (..., z, y, x).
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.coarsening import GHOST, Axis, Coarsening, Triple


def restriction(xp: Any, made: Coarsening, p: Array, around: Array) -> tuple[Array, Array]:
    """R = Pᵀ at a chunk's coarse points: columns are the fine points within one step of point 2I + 1.

    Args:
        around: int32 (nz + 2, ny + 2, nx + 2), the numbers of the fine points.

    Returns:
        The columns, int32, -1 for none, and the values, float64: of steps (z, y, x) in ascending order, (steps, rows).
    """
    along = [
        {step: _pick(xp, axis, n, factor, step) for step in range(-axis.reach, axis.reach + 1)}
        for axis, n, factor in zip(made.axes, made.coarse_shape, made.factors, strict=True)
    ]
    steps = list(product(*reversed(along)))
    columns, values = _room(xp, len(steps), made.coarse_shape)
    for place, step in enumerate(steps):
        x, y, z = picks = [of_step[d] for of_step, d in zip(along, step[::-1], strict=True)]
        value = values[place].reshape(made.coarse_shape[::-1])
        corner = p[x.corner + 2 * y.corner + 4 * z.corner].reshape(made.ghosted)
        value[...] = corner[z.places, y.places, x.places]
        for i, pick in enumerate(picks):
            if len(pick.others):
                value[(slice(None),) * (2 - i) + (pick.others,)] = 0.0
        found = around[z.neighbors[:, None, None], y.neighbors[None, :, None], x.neighbors[None, None, :]]
        columns[place] = xp.where(value != 0.0, found, np.int32(-1)).reshape(-1)
    return columns, values


def _room(xp: Any, count: int, shape: Triple) -> tuple[Array, Array]:
    """Room for so many entries of every row."""
    rows = shape[0] * shape[1] * shape[2]
    return xp.empty((count, rows), dtype=np.int32), xp.empty((count, rows))


class _Pick(NamedTuple):
    """Fine points one step from each coarse point along one axis."""

    corner: int  # which of their two coarse points it is
    places: slice  # where they are in an array with ghost layers
    others: Array  # the coarse points of which that corner is another one
    neighbors: Array  # their places in an array with one layer around the chunk


def _pick(xp: Any, axis: Axis, count: int, factor: int, step: int) -> _Pick:
    places = axis.first + step + factor * np.arange(count)
    corner = 1 if step < 0 else 0
    last = len(axis.base) - 2 * GHOST + 1
    return _Pick(
        corner=corner,
        places=slice(axis.first + step, axis.first + step + factor * max(count - 1, 0) + (count > 0), factor),
        others=xp.asarray(np.flatnonzero(axis.base[places] + corner != np.arange(count))),
        neighbors=xp.asarray(np.clip(places - GHOST + 1, 0, last)),  # what lies farther is of `others`
    )


def prolongation(xp: Any, made: Coarsening, p: Array, around: Array, base: Triple) -> tuple[Array, Array]:
    """P at a chunk's own fine points: columns are their two coarse points along each coarsened axis.

    Args:
        around: int32 (nz + 2, ny + 2, nx + 2), the numbers of the coarse points.
        base: where the chunk's first coarse point is in that array, without its layer.

    Returns:
        As `restriction`, of corners (z, y, x) in ascending order.
    """
    corners = list(product(*(range(1 + axis.reach) for axis in reversed(made.axes))))
    columns, values = _room(xp, len(corners), made.shape)
    own = slice(GHOST, -GHOST)
    for place, corner in enumerate(corners):
        number = sum(2**i * bit for i, bit in enumerate(reversed(corner)))
        values[place] = p[number].reshape(made.ghosted)[own, own, own].reshape(-1)
        x, y, z = (
            # A single coarse point along a periodic axis is found on both sides, but not as a neighbor of itself.
            xp.asarray(np.ones_like(axis.base[own]) if axis.folded else axis.base[own] + bit + 1 + first)
            for axis, bit, first in zip(made.axes, reversed(corner), base, strict=True)
        )
        found = around[z[:, None, None], y[None, :, None], x[None, None, :]].reshape(-1)
        columns[place] = xp.where(values[place] != 0.0, found, np.int32(-1))
    return columns, values


def framed(xp: Any, values: Array, width: int) -> Array:
    """Values (K, nz, ny, nx) with so many layers of zeros around each box."""
    count, *shape = values.shape
    out = xp.zeros((count, *(n + 2 * width for n in shape)), dtype=values.dtype)
    own = slice(width, -width)
    out[:, own, own, own] = values
    return out


def spread(xp: Any, values: Array, like: Sequence[Any]) -> Array:
    """Values (K, nz, ny, nx) on a larger box: its point (x, y, z) is like point like[0][x], like[1][y], like[2][z]."""
    for axis, places in enumerate(like):
        values = xp.take(values, xp.asarray(places), axis=3 - axis)
    return values
