"""Connected cells of a box on a GPU: see `dsolver.kernels.lattice.components`."""

from __future__ import annotations

from collections.abc import Sequence

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.counters import counters
from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import read_back
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.components import Links, Numbering
from dsolver.kernels.reductions import Groups

FILE = "lattice/components.cu"
MOST_BLOCKS = 2048
"""Blocks of a kernel whose threads take several cells each."""


def linked(around: Array, ends: Sequence[tuple[int, int]]) -> Links:
    """See `components.linked`."""
    nz, ny, nx = (n - 2 for n in around.shape)
    x, y, z = (cupy.empty((nz + (axis == 2), ny + (axis == 1), nx + (axis == 0)), dtype=np.bool_) for axis in range(3))
    shut = sum(1 << 2 * axis + side for axis, side in ends)
    sizes, corners = (np.int32(n) for n in (nx, ny, nz, shut)), (nx + 1) * (ny + 1) * (nz + 1)
    for_each(FILE, "link_cells", corners, *sizes, cupy.ascontiguousarray(around), x, y, z)
    return x, y, z


def first_labels(links: Links, ground: Array, solid: Array, numbers: Numbering) -> Array:
    """See `LatticeSetup.first_labels`; fewer than 2³¹ cells. A component's first cell has its smallest number."""
    count, cells, (_, ny, nx) = solid.size, np.int32(solid.size), solid.shape
    root = _joined(links, solid.shape)
    grounded, out = cupy.zeros(solid.shape, dtype=np.uint8), cupy.empty(solid.shape)
    for_each(FILE, "mark_grounded", count, cells, cupy.ascontiguousarray(ground), root, grounded)
    sizes = np.int32(nx), np.int32(ny), cells, *map(np.int64, numbers)
    for_each(FILE, "name_components", count, *sizes, root, grounded, cupy.ascontiguousarray(solid), out)
    return out


def least_of_connected(labels: Array, links: Links) -> Array:
    """See `dsolver.kernels.lattice.components.least_of_connected`; labels: fewer than 2³¹."""
    labels = cupy.ascontiguousarray(labels)
    count, cells, root = labels.size, np.int32(labels.size), _joined(links, labels.shape)
    least, out = labels.copy(), cupy.empty_like(labels)
    for_each(FILE, "take_least", count, cells, labels, root, least)
    for_each(FILE, "spread_least", count, cells, root, least, out)
    return out


def labels_seen(labels: Array) -> tuple[Array, Array]:
    """See `components.labels_seen`."""
    labels = cupy.ascontiguousarray(labels)
    closed, counts = cupy.empty(labels.shape, dtype=np.bool_), cupy.zeros(2)
    for_each(FILE, "look_at_labels", labels.size, np.int32(labels.size), labels, closed, counts, most=MOST_BLOCKS)
    return closed, counts


def grouped(keys: Array) -> tuple[Array, Groups]:
    """See `reductions.grouped`. It waits for the number of groups, and for the items of the largest one."""
    items, order, found = len(keys), cupy.argsort(keys, kind="stable"), counters(2)
    begins, of = cupy.empty(items, dtype=np.int8), cupy.empty(items, dtype=np.int32)
    for_each(FILE, "begin_groups", items, keys, order, np.int32(items), begins)
    before = starts_of(begins, found)
    count = int(read_back(found)[0])
    starts, counts, group_keys = cupy.empty(count, np.int64), cupy.empty(count, np.int64), cupy.empty(count)
    for_each(FILE, "number_groups", items, keys, order, before, np.int32(items), of, starts, group_keys)
    for_each(FILE, "count_items", count, starts, np.int32(count), np.int32(items), counts, found[1:])
    return order, Groups(keys=group_keys, of=of, starts=starts, counts=counts, longest=int(read_back(found)[1]))


def _joined(links: Links, shape: tuple[int, ...]) -> Array:
    """The root of every cell's component, some of which lead there by others: int32."""
    x, y, z = (cupy.ascontiguousarray(link) for link in links)
    (_, ny, nx), root = shape, cupy.empty(shape, dtype=np.int32)
    count, cells = root.size, np.int32(root.size)
    for_each(FILE, "first_roots", count, np.int32(nx), cells, x, root)
    for_each(FILE, "join_linked", count, np.int32(nx), np.int32(ny), cells, x, y, z, root)
    return root
