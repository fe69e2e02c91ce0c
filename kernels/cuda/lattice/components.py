"""Connected cells of a box on a GPU: see `dsolver.kernels.lattice.components`."""

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.launch.readback import counters, read_back
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.lattice.components import SOLID, Numbering
from dsolver.kernels.reductions import Groups

FILE = "lattice/components.cu"
MOST_BLOCKS = 2048  # blocks of a kernel whose threads take several cells each


def first_labels(ground: Array, solid: Array, numbers: Numbering) -> Array:
    """See `LatticeSetup.first_labels`; fewer than 2³¹ cells. A component's first cell has its smallest number."""
    count, cells, (_, ny, nx), solid = solid.size, np.int32(solid.size), solid.shape, cupy.ascontiguousarray(solid)
    root = _joined(solid)
    grounded, out = cupy.zeros(solid.shape, dtype=np.uint8), cupy.empty(solid.shape)
    for_each(FILE, "mark_grounded", count, cells, cupy.ascontiguousarray(ground), root, grounded)
    sizes = np.int32(nx), np.int32(ny), cells, *map(np.int64, numbers)
    for_each(FILE, "name_components", count, *sizes, root, grounded, solid, out)
    return out


def least_of_connected(labels: Array) -> Array:
    """See `dsolver.kernels.lattice.components.least_of_connected`; labels: fewer than 2³¹."""
    labels = cupy.ascontiguousarray(labels)
    count, cells, root = labels.size, np.int32(labels.size), _joined(labels >= SOLID)
    least, out = labels.copy(), cupy.empty_like(labels)
    for_each(FILE, "take_least", count, cells, labels, root, least)
    for_each(FILE, "spread_least", count, cells, root, least, out)
    return out


def labels_seen(labels: Array) -> tuple[Array, Array]:
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


def _joined(solid: Array) -> Array:
    """The root of every cell's component, some of which lead there by others: int32."""
    (_, ny, nx), root = solid.shape, cupy.empty(solid.shape, dtype=np.int32)
    count, cells = root.size, np.int32(root.size)
    for_each(FILE, "first_roots", count, np.int32(nx), cells, solid, root)
    for_each(FILE, "join_cells", count, np.int32(nx), np.int32(ny), cells, solid, root)
    return root
