"""Connected cells of a box, in NumPy: the text that every backend follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dsolver.kernels.formats.layout import Array


def least_of_connected(labels: Array, links: Sequence[Array]) -> Array:
    """For each cell the smallest label of all that it hangs together with, by any path inside the box.

    Sets have a root, to which each of their cells points. Where linked cells point to two, the later root points to the
    earlier one, until there are none.

    `labels`: float64 (nz, ny, nx), none negative. `links`: for x, y and z, whether cells on both sides of a face are
    linked: bool (nz, ny, nx) with one more along the axis. What the outermost faces say is not read.
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
