"""Groups of a vector's items on a GPU, a launch for each step of a sum's tree: see `dsolver.kernels.vectors`."""

from __future__ import annotations

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.reductions import GroupedPlaces

FILE, DTYPE = "vectors/groups.cu", "float64"
THREADS: Final = 256
NONE: Final = np.uintp(0)


def group_sums(members: GroupedPlaces, x: Array) -> Array:
    """See `Vectors.group_sums`: the bits of additions of whole arrays."""
    groups, weights = members.groups, NONE if members.weights is None else members.weights
    steps = groups.steps or (NONE,)
    nodes = [len(step[0]) for step in groups.steps] or [len(groups.keys)]
    items, values = len(groups.of), x
    places: Any = NONE if members.places is None else members.places
    for step, count in zip(steps, nodes, strict=True):
        out = cupy.empty(count)
        if count:
            arguments = (values, places, weights, step, np.int32(items), np.int32(count), out)
            launch_early(kernel(FILE, "group_step", DTYPE), (-(-count // THREADS),), (THREADS,), arguments)
        values, places, weights, items = out, NONE, NONE, count
    return values


def less_means(members: GroupedPlaces, totals: Array, sizes: Array, x: Array) -> None:
    """See `dsolver.kernels.contract.LESS_MEANS`."""
    places, weights = (NONE if each is None else each for each in (members.places, members.weights))
    if items := len(members.groups.of):
        arguments = (places, members.groups.of, totals, sizes, weights, np.int32(items), x)
        launch_early(kernel(FILE, "less_means", DTYPE), (-(-items // THREADS),), (THREADS,), arguments)
