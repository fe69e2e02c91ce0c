"""Connected cells of a box, in NumPy: the text that every backend follows.

Cells are lattices (nz, ny, nx). Components are named by labels: float64, of a component the smallest of its cells'.
"""

from typing import Any, Final

import numpy as np

from dsolver.kernels.formats.layout import Array

GROUNDED: Final = 0.5  # the label of components whose solution is fixed: smaller than every cell's
SOLID: Final = 2.0**53  # the label of cells that are left out: larger than every cell's
Numbering = tuple[int, int, int]
"""The number of a box's first cell in the whole grid, and the steps to the next one along y and along z."""


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


def least_of_connected(labels: Array) -> Array:
    """The smallest label of all that each cell hangs together with, by any path inside the box.

    Cells hang together through faces, but for those that are left out. Sets have a root, to which each of their cells
    points. Where cells on both sides of a face point to two, the later root points to the earlier one, until there are
    none.

    `labels`: float64 (nz, ny, nx), none negative.
    """
    numbers, opened = np.arange(labels.size).reshape(labels.shape), labels < SOLID
    root, pairs = numbers.reshape(-1), [np.zeros((2, 0), dtype=np.int64)]
    for axis in range(3):
        flags, cells = np.moveaxis(opened, axis, 0), np.moveaxis(numbers, axis, 0)
        both = flags[:-1] & flags[1:]
        pairs.append(np.stack([cells[:-1][both], cells[1:][both]]))
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
