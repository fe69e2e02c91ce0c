"""Vectors that a matrix makes zero or small, and that its user knows, such as rigid motions of an elastic body."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError

NULL: Final = 1e-8  # largest ‖A n‖ / ‖|A| |n|‖ of a null vector: rounding of assembly, and of coordinates
DEPENDENT: Final = 1e-10  # part of a vector beyond the others from which it counts as one more


def orthonormal(rows: Any, nullspace: Any, *, constants: bool) -> npt.NDArray[np.float64]:
    """Orthonormal vectors with the span of a null space, float64 (n, k).

    Args:
        nullspace: (n,) or (n, k), independent vectors N with A N = 0.
        constants: whether constants are in it, too; N need not have them.

    Raises:
        InputError: they have another shape, are not independent or not finite, or A times one of them is not zero.
    """
    count = rows.shape[0]
    scaled = _independent("nullspace", nullspace, count, to_host)
    q = np.linalg.qr(scaled)[0]
    for number, vector in enumerate(scaled.T):
        missed, size = np.linalg.norm(rows @ vector), np.linalg.norm(abs(rows) @ abs(vector))
        if missed > NULL * size:
            raise InputError(f"A times vector {number} of nullspace is not 0, but {missed / size:.1e} of |A| times it")
    if constants:
        ones = np.full(count, 1.0 / np.sqrt(count))
        rest = ones - q @ (q.T @ ones)
        if np.linalg.norm(rest) > DEPENDENT:
            q = np.linalg.qr(np.column_stack([q, rest / np.linalg.norm(rest)]))[0]
    return np.ascontiguousarray(q)


def near_null(
    count: int, given: Any, nullspace: npt.NDArray[np.float64] | None, *, constants: bool, asarray: Callable[[Any], Any]
) -> Any:
    """Near-null space for multigrid, float64 (n, k): null vectors, and of those given what lies beyond them.

    Args:
        given: (n,) or (n, k), independent; None for none.
        nullspace: orthonormal null vectors (n, k), or None.
        constants: whether constants are null vectors, too.

    Raises:
        InputError: the vectors have another shape, are not independent or not finite.
    """
    known = [] if nullspace is None else list(nullspace.T)
    if constants:
        known.append(np.ones(count) / np.sqrt(count))
    vectors = None if given is None else _independent("near_nullspace", given, count, asarray)
    if vectors is not None and not known:
        return vectors
    found = np.array(known).reshape(-1, count).T
    q = found
    for vector in () if vectors is None else to_host(vectors).T:
        rest = vector - q @ (q.T @ vector)
        rest -= q @ (q.T @ rest)
        size = np.linalg.norm(rest)
        if size > DEPENDENT * np.linalg.norm(vector):
            found, q = np.column_stack([found, vector]), np.column_stack([q, rest / size])
    return asarray(np.ascontiguousarray(found))


def to_host(vectors: Any) -> npt.NDArray[np.float64]:
    """An array of NumPy or CuPy in memory of the host."""
    return vectors if isinstance(vectors, np.ndarray) else vectors.get()


def rigid_body_modes(coordinates: Any) -> Any:
    """Rigid motions of points: translations, then rotations about their center, as vectors of displacements.

    For `dsolver.matrix(A, near_nullspace=..., block_size=...)` where A has the displacements of each point in rows that
    follow each other: (x, y) or (x, y, z) of the first point, then those of the second.

    Args:
        coordinates: (points, 2) or (points, 3), of NumPy or CuPy.

    Returns:
        float64 (2 points, 3) or (3 points, 6), too.

    Raises:
        InputError: the coordinates have another shape, or are not finite.
    """
    try:
        x = _float64(coordinates)
    except (TypeError, ValueError) as error:
        raise InputError(f"coordinates must be real numbers (points, 2) or (points, 3): {error}") from error
    if x.ndim != 2 or x.shape[1] not in (2, 3) or not len(x):
        raise InputError(f"coordinates must have the shape (points, 2) or (points, 3), not {x.shape}")
    if not bool(np.isfinite(x).all()):
        raise InputError("coordinates has values that are NaN or infinite")
    points, axes = x.shape
    x = x - x.mean(axis=0)
    planes = [(0, 1)] if axes == 2 else [(1, 2), (2, 0), (0, 1)]
    modes = np.zeros_like(x, shape=(points, axes, axes + len(planes)))
    for axis in range(axes):
        modes[:, axis, axis] = 1.0
    for number, (a, b) in enumerate(planes, start=axes):
        modes[:, a, number], modes[:, b, number] = -x[:, b], x[:, a]
    return modes.reshape(points * axes, -1)


def _independent(name: str, given: Any, count: int, asarray: Callable[[Any], Any]) -> Any:
    """Vectors times powers of two, so that the largest item of each is less than 1: float64 (n, k).

    Powers of two change no bit of what is made of them. InputError: no such vectors, dependent or not finite.
    """
    try:
        array = _float64(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of real numbers ({count},) or ({count}, k): {error}") from error
    vectors = array[:, None] if array.ndim == 1 else array
    if vectors.ndim != 2 or vectors.shape[0] != count or not 1 <= vectors.shape[1] <= count:
        raise InputError(f"{name} has shape {array.shape}, but must be ({count},) or ({count}, k): A has {count} rows")
    vectors = asarray(vectors)
    rows = vectors.T.copy()  # each vector in one piece
    largest = to_host(np.stack([abs(row).max() for row in rows]))
    if not np.isfinite(largest).all():
        raise InputError(f"{name} has values that are NaN or infinite")
    powers = 2.0 ** -np.frexp(largest)[1].astype(np.float64)
    powers = asarray(np.where(np.isfinite(powers), powers, 1.0))
    dependent = np.flatnonzero(~(_beyond(rows * powers[:, None]) > DEPENDENT))
    if len(dependent):
        raise InputError(f"vector {int(dependent[0])} of {name} is zero, or a sum of those before it: leave it out")
    return vectors * powers


def _beyond(rows: Any) -> npt.NDArray[np.float64]:
    """Part of each vector, (k, n), beyond those before it: float64 (k,); arbitrary behind the first that has none."""
    q, parts = np.zeros_like(rows), np.zeros_like(rows, shape=len(rows))
    with np.errstate(divide="ignore", invalid="ignore"):
        for number, vector in enumerate(rows):
            before = q[:number]
            rest = vector / np.sqrt(vector @ vector)
            for _ in range(2 if number else 0):  # what rounding has left is taken by the second turn
                rest = rest - (before @ rest) @ before
            size = np.sqrt(rest @ rest)
            q[number], parts[number] = rest / size, size
    return to_host(parts)


def _float64(given: Any) -> Any:
    """An array of NumPy or CuPy in float64."""
    if type(given).__module__.partition(".")[0] == "cupy":
        return given.astype(np.float64, copy=False)
    return np.asarray(given, dtype=np.float64)
