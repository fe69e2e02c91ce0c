"""Sizes and places of the cells, as spacing or coordinates of arrays tell."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError, check_computed, in_a_line
from dsolver.foreign_arrays import on_host, without_package
from dsolver.problems.boundaries.boundary import check_unmasked
from dsolver.problems.coordinates import F64, Cells, agreed, centers_of
from dsolver.problems.embedding import Embedding

LARGEST: Final = 1e50
"""The largest cell size; the smallest is its inverse. Squares of volumes, as in norms, are numbers of float64."""


def cells_of(space: Embedding, spacing: Any, arrays: Sequence[tuple[str, Any]]) -> Cells:
    """The cells that spacing names, or coordinates of arrays. InputError: these cannot be right, or of each other."""
    check_computed("spacing", spacing)
    by_coordinates = hasattr(spacing, "coords") and tuple(spacing.shape) == space.shape
    named = [("spacing", spacing)] * by_coordinates + [*arrays]
    found = agreed(centers_of(name, values, space.numbers) for name, values in named)
    if spacing is None or by_coordinates:
        without = [axis for axis, n in enumerate(space.shape) if n > 1 and axis not in found]
        if without and (found or by_coordinates):
            name = next(iter(found.values())).of if found else "spacing"
            raise InputError(
                f"{name} has no coordinates along its axis {without[0]}, from which sizes of cells would follow: give "
                f"it some, or spacing= a number for each axis"
            )
        spacing = [found[axis].sizes() if axis in found else 1.0 for axis in space.numbers]
    sizes = _cell_sizes(space, spacing)
    starts = [float(found[axis].at[0] - 0.5 * sizes[axis][0]) if axis in found else None for axis in range(3)]
    cells = Cells(sizes=sizes, starts=(starts[0], starts[1], starts[2]))
    cells.check(found)
    return cells


def _cell_sizes(space: Embedding, spacing: Any) -> tuple[F64, F64, F64]:
    """Sizes of the cells along each axis."""
    every = isinstance(spacing, Real) or getattr(spacing, "shape", None) == ()
    axes = [spacing] * space.dimensions if every else spacing
    try:
        if space.dimensions == 1 < space.shape[0] == len(axes):  # those of a line's cells
            axes = [axes]
        given_x, given_y, given_z = space.entries(axes, 1.0)
    except (TypeError, ValueError) as error:
        raise InputError(f"spacing must be a number or one entry for each axis, not {in_a_line(spacing)}") from error
    x, y, z = (
        _sizes_along(axis, n, sizes)
        for axis, n, sizes in zip("xyz", space.grid, (given_x, given_y, given_z), strict=True)
    )
    return x, y, z


def _sizes_along(axis: str, n: int, sizes: Any) -> F64:
    check_unmasked(f"spacing along {axis}", sizes)
    sizes = without_package(f"spacing along {axis}", sizes)
    try:
        values = np.asarray(on_host(sizes), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"spacing along {axis} must be a number or {n} cell sizes, not {in_a_line(sizes)}") from error
    if values.shape not in ((), (n,)):
        raise InputError(f"spacing along {axis} has shape {values.shape}: give a number, or {n} cell sizes")
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise InputError(f"spacing along {axis} must be finite and > 0")
    if not (values.min() >= 1.0 / LARGEST and values.max() <= LARGEST):
        raise InputError(
            f"spacing along {axis} must be between {1.0 / LARGEST:g} and {LARGEST:g}, so that float64 holds volumes: "
            f"take another unit of length"
        )
    return values.copy() if values.shape else np.broadcast_to(values, n)  # of equal ones there need not be n
