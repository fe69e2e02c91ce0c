"""Connected cells of a box on a GPU: see `dsolver.kernels.lattice.components`."""

from __future__ import annotations

from collections.abc import Sequence

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.formats.layout import Array

FILE = "lattice/components.cu"


def least_of_connected(labels: Array, links: Sequence[Array]) -> Array:
    """See `dsolver.kernels.lattice.components.least_of_connected`; labels: fewer than 2³¹."""
    labels = cupy.ascontiguousarray(labels)
    x, y, z = (cupy.ascontiguousarray(link) for link in links)
    _, ny, nx = (np.int32(n) for n in labels.shape)
    count, cells = labels.size, np.int32(labels.size)
    root, least, out = cupy.empty(labels.shape, dtype=np.int32), labels.copy(), cupy.empty_like(labels)
    for_each(FILE, "first_roots", count, nx, cells, x, root)
    for_each(FILE, "join_linked", count, nx, ny, cells, x, y, z, root)
    for_each(FILE, "take_least", count, cells, labels, root, least)
    for_each(FILE, "spread_least", count, cells, root, least, out)
    return out
