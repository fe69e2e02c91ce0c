"""Velocities of a flow on a grid of cells, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, check_computed, float_of, in_a_line
from dsolver.foreign_arrays import without_package
from dsolver.problems.coefficient_names import VELOCITY
from dsolver.problems.coordinates import Cells
from dsolver.problems.discretization import evaluated
from dsolver.problems.embedding import WORDS, Embedding

F64 = npt.NDArray[np.float64]


def velocities_of(space: Embedding, cells: Cells, velocity: Any) -> Sequence[float | F64]:
    """Velocities along x, y, z, numbers or arrays at centers or faces; () for none. InputError: one cannot be right."""
    if velocity is None:
        return ()
    check_computed("velocity", velocity)
    given = without_package("velocity", velocity)
    if not isinstance(given, list | tuple) and tuple(getattr(given, "shape", ()))[:1] != (space.dimensions,):
        given = ()
    if len(given) != space.dimensions:
        raise InputError(f"velocity must be {WORDS[space.dimensions]}, along {space.listed}, not {in_a_line(velocity)}")
    found = [_along(space, cells, axis, value) for axis, value in enumerate(given)]
    return space.entries(found, 0.0)


def _along(space: Embedding, cells: Cells, axis: int, value: Any) -> float | F64:
    name = VELOCITY[axis]
    check_computed(name, value)
    value = without_package(name, value)
    if isinstance(value, Real) or getattr(value, "shape", None) == ():
        found = np.asarray(float_of(value))
    elif callable(value) and not hasattr(value, "shape"):
        return _finite(name, _at_faces(space, cells, axis, value))
    else:
        value = value.data if hasattr(value, "dims") else value
        value = value.compute() if hasattr(value, "compute") else value
        found = np.asarray(value.get() if hasattr(value, "get") else value)
        at_faces = tuple(n + (other == axis) for other, n in enumerate(space.shape))
        if found.shape not in (space.shape, at_faces) or found.dtype.kind not in "fiu":
            raise InputError(
                f"{name} must be a number, a function, or real numbers at the cells' centers, {space.shape}, or at "
                f"their faces, {at_faces}, not {in_a_line(value)}"
            )
        embedded: F64 = space.array(found.astype(np.float64))
        return _finite(name, embedded)
    return float(_finite(name, found))


def _at_faces(space: Embedding, cells: Cells, axis: int, function: Any) -> F64:
    """Values of a function at the centers of faces along an axis."""
    points = [cells.centers(other) for other in range(3)]
    points[axis] = cells.face(axis, 0) + np.concatenate([[0.0], np.cumsum(cells.sizes[axis])])
    shape = [len(along) for along in points]
    x, y, z = (along.reshape([-1 if a == b else 1 for b in range(3)]) for a, along in enumerate(points))
    values = evaluated(np, VELOCITY[axis], space.function(function), (x, y, z), shape)
    return np.array(values, dtype=np.float64)


def _finite(name: str, values: F64) -> F64:
    if not np.isfinite(values).all():
        raise InputError(f"{name} has values that are NaN or infinite")
    return values
