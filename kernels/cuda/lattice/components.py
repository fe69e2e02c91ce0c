"""Connected cells of a box on a GPU: see `dsolver.kernels.lattice.components`."""

from __future__ import annotations

from collections.abc import Sequence

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.formats.layout import Array

FILE, DTYPE = "lattice/components.cu", "float64"
THREADS = 256


def least_of_connected(labels: Array, links: Sequence[Array]) -> Array:
    """See `dsolver.kernels.lattice.components.least_of_connected`; labels: fewer than 2³¹."""
    labels = cupy.ascontiguousarray(labels)
    x, y, z = (cupy.ascontiguousarray(link) for link in links)
    _, ny, nx = (np.int32(n) for n in labels.shape)
    root, least, out = cupy.empty(labels.shape, dtype=np.int32), labels.copy(), cupy.empty_like(labels)
    _launch("first_roots", nx, x, root)
    _launch("join_linked", nx, ny, x, y, z, root)
    _launch("take_least", labels, root, least)
    _launch("spread_least", root, least, out)
    return out


def _launch(name: str, *arguments: Array | np.int32) -> None:
    """Launch a kernel with a thread a cell; the number of cells stands before the first array."""
    sizes = [one for one in arguments if isinstance(one, np.int32)]
    arrays = [one for one in arguments if not isinstance(one, np.int32)]
    cells = arrays[-1].size
    if cells:
        kernel(FILE, name, DTYPE)((-(-cells // THREADS),), (THREADS,), (*sizes, np.int32(cells), *arrays))
