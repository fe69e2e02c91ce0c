"""Arrays of a chunk's cells on any device: their centers and sizes, numbers at faces, and refusal of wrong values."""

from typing import Any

import numpy as np

from dsolver.errors import InputError
from dsolver.grid.box import Box
from dsolver.kernels.formats.layout import Array
from dsolver.problems.coordinates import F64, Cells
from dsolver.problems.discretization import Patch, evaluated

Sizes = tuple[Array, Array, Array]  # cell sizes along z, y, x, as arrays that broadcast


def centers_in(cells: Cells, xp: Any, box: Box) -> tuple[Array, Array, Array]:
    """Coordinates of the centers in a box along x, y, z, as arrays (nx, 1, 1), (1, ny, 1), (1, 1, nz)."""
    x, y, z = (cells.centers(axis)[low:high] for axis, low, high in zip(range(3), box.lo, box.hi, strict=True))
    return xp.asarray(x[:, None, None]), xp.asarray(y[None, :, None]), xp.asarray(z[None, None, :])


def face_values(cells: Cells, xp: Any, box: Box, axis: int, side: int, value: Any) -> Array | float:
    """A condition's number at each cell of a face: one, or an array (nz, ny, nx) with one cell along the axis."""
    if callable(value):
        x = list(centers_in(cells, xp, box))
        x[axis] = xp.full((1, 1, 1), cells.face(axis, side))
        shape = [n if i != axis else 1 for i, n in enumerate(box.shape)]
        return xp.asarray(evaluated(xp, "a boundary condition", value, x, shape), dtype=np.float64).T
    if isinstance(value, float | complex):
        return value
    part = value[tuple(box.slices[i] for i in range(3) if i != axis)]
    return xp.expand_dims(xp.asarray(part.T), 2 - axis)


def sizes_around(cells: Cells, box: Box, axis: int, wraps: bool) -> F64:
    """Sizes of a box's cells along an axis and of one more at each end; wraps: whether the axis is periodic."""
    index = np.arange(box.lo[axis] - 1, box.hi[axis] + 1)
    sizes = cells.sizes[axis]
    return sizes[index % len(sizes)] if wraps else sizes[index.clip(0, len(sizes) - 1)]


def sizes_in(cells: Cells, patch: Patch) -> Sizes:
    """The sizes of a chunk's cells."""
    box, table = patch.box, patch.backend.table
    x, y, z = (table(np.ascontiguousarray(cells.sizes[axis][box.lo[axis] : box.hi[axis]])) for axis in range(3))
    return z[:, None, None], y[None, :, None], x[None, None, :]


def sizes_of(cells: Cells, patch: Patch, numbers: Array | None = None) -> tuple[Array | float, ...]:
    """The sizes along z, y, x of a chunk's cells, or of those with these numbers: arrays like these.

    A number where all cells of the grid are equal along an axis: it spares dozens of bytes a cell.
    """
    _, ny, nx = patch.shape
    found: list[Array | float] = []
    for known, sizes, axis in zip(cells.sizes[::-1], sizes_in(cells, patch), (2, 1, 0), strict=True):
        if float(np.ptp(known)) == 0.0:
            found.append(float(known[0]))
        elif numbers is None:
            found.append(sizes)
        else:
            at = (numbers % nx, numbers // nx % ny, numbers // (nx * ny))[axis]
            found.append(sizes.reshape(-1)[at])
    return tuple(found)


def check_values(patch: Patch, name: str, must: str, good: Array, solid: Array | None = None) -> None:
    """Refuse values of a chunk that are not good, but in cells that are left out; raises InputError.

    `must`: what they must be, for messages. `good`: which are; those of a face have another shape than the chunk.
    """
    wrong = ~good if solid is None else ~good & ~solid
    bad = int(wrong.sum())
    if not bad:
        return
    if wrong.shape != patch.shape:  # of a face
        raise InputError(f"{name} {must}, but is not in {bad} of the cells of chunk {patch.number}")
    k, j, i = np.unravel_index(int(wrong.argmax()), patch.shape)
    index = tuple(int(low + at) for low, at in zip(patch.box.lo, (i, j, k), strict=True))
    raise InputError(
        f"{name} {must}, but is not in {bad} of the cells of chunk {patch.number}, the first at {index}: mend its "
        f"values, or leave such cells out with mask="
    )
