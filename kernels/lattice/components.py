"""Connected cells of a box, in NumPy: the text that every backend follows.

Cells are lattices (nz, ny, nx). Components are named by labels: float64, of a component the smallest of its cells'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dsolver.kernels.formats.layout import Array
from dsolver.kernels.views import layer

GROUNDED: Final = 0.5
"""The label of components whose solution is fixed: smaller than every cell's."""
SOLID: Final = 2.0**53
"""The label of cells that are left out: larger than every cell's."""
Links = tuple[Array, Array, Array]
"""For x, y and z, whether cells on both sides of a face are linked: bool (nz, ny, nx) with one more along the axis."""
Numbering = tuple[int, int, int]
"""The number of a box's first cell in the whole grid, and the steps to the next one along y and along z."""


def linked(around: Array, ends: Sequence[tuple[int, int]]) -> Links:
    """Links between cells that both conduct.

    Args:
        around: float64 (nz + 2, ny + 2, nx + 2), κ of the cells and of a layer around them, positive where they
            conduct.
        ends: axes and sides (0 or 1) at whose faces no link leaves the box.
    """
    conducts, made = around > 0.0, []
    for axis in range(3):
        along = conducts[tuple(slice(None) if i == 2 - axis else slice(1, -1) for i in range(3))]
        low, high = (
            along[tuple(slice(side, side - 1 or None) if i == 2 - axis else slice(None) for i in range(3))]
            for side in (0, 1)
        )
        faces = low & high
        for end, side in ends:
            if end == axis:
                faces[layer(axis, side)] = False
        made.append(faces)
    x, y, z = made
    return x, y, z


def cell_labels(ground: Array, solid: Array, numbers: Numbering) -> Array:
    """The labels of single cells, float64: their number in the whole grid and one more, unless fixed or left out.

    `ground`: bool, cells whose solution is fixed; it may say anything of those that are left out. `solid`: bool, these.
    """
    (nz, ny, nx), (first, along_y, along_z) = solid.shape, numbers
    lines = along_y * np.arange(ny)[:, None] + along_z * np.arange(nz)[:, None, None]
    labels = np.where(ground, GROUNDED, (first + 1.0) + (lines + np.arange(nx)))
    return np.where(solid, SOLID, labels)


def labels_seen(labels: Array) -> tuple[Array, Array]:
    """Cells in components that nothing fixes, bool; and the numbers of these and of fixed cells, float64 (2,)."""
    closed = (labels > GROUNDED) & (labels < SOLID)
    return closed, np.array([np.count_nonzero(closed), np.count_nonzero(labels <= GROUNDED)], dtype=np.float64)


def least_of_connected(labels: Array, links: Links) -> Array:
    """For each cell the smallest label of all that it hangs together with, by any path inside the box.

    Sets have a root, to which each of their cells points. Where linked cells point to two, the later root points to the
    earlier one, until there are none.

    `labels`: float64 (nz, ny, nx), none negative. `links`: what the outermost faces say is not read.
    """
    numbers = np.arange(labels.size).reshape(labels.shape)
    root, pairs = numbers.reshape(-1), [np.zeros((2, 0), dtype=np.int64)]
    for axis, linked in zip((2, 1, 0), links, strict=True):
        inner = np.moveaxis(linked, axis, 0)[1:-1]
        cells = np.moveaxis(numbers, axis, 0)
        pairs.append(np.stack([cells[:-1][inner], cells[1:][inner]]))
    one, other = np.concatenate(pairs, axis=1)
    while (root[one] != root[other]).any():
        ends: Any = root[one], root[other]
        root = root.copy()
        np.minimum.at(root, np.maximum(*ends), np.minimum(*ends))
        while (root[root] != root).any():
            root = root[root]
    least = np.full(labels.size, np.inf)
    np.minimum.at(least, root, labels.reshape(-1))
    return least[root].reshape(labels.shape)
