"""Groups of a vector's items on a GPU, a launch for three steps of a sum's tree: see `dsolver.kernels.vectors`."""

from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.contract import FAN_IN
from dsolver.kernels.cuda.launch.loader import NOTHING, kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.reductions import GroupedPlaces

FILE: Final = "vectors/groups.cu"
THREADS: Final = 256
STEPS: Final = 3  # steps of the tree that a launch takes, as groups.cu says too
SPAN: Final = FAN_IN**STEPS  # items that a block adds up
BLOCK: Final = (FAN_IN ** (STEPS - 1),)


def group_sums(members: GroupedPlaces, x: Array) -> Array:
    """See `Vectors.group_sums`: the bits of additions of whole arrays."""
    groups, depth = members.groups, members.groups.depth
    count = len(groups.keys)
    places, weights = (NOTHING if each is None else each for each in (members.places, members.weights))
    sums = groups.starts, np.int32(len(groups.of)), np.int32(count)
    run, values, room, before = kernel(FILE, "sum_groups", type_of(x)), x, len(groups.of), 0
    while depth > STEPS:
        room = room // SPAN + count
        out = cupy.empty(room)
        launch_early(run, (room,), BLOCK, (values, places, weights, *sums, *map(np.int32, (before, STEPS, 0)), out))
        run = kernel(FILE, "sum_groups", type_of(out))
        values, places, weights, before, depth = out, NOTHING, NOTHING, before + 1, depth - STEPS
    out = cupy.empty(count)
    if count:
        launch_early(run, (count,), BLOCK, (values, places, weights, *sums, *map(np.int32, (before, depth, 1)), out))
    return out


def less_means(members: GroupedPlaces, totals: Array, sizes: Array, x: Array) -> None:
    places, weights = (NOTHING if each is None else each for each in (members.places, members.weights))
    if items := len(members.groups.of):
        arguments = (places, members.groups.of, totals, sizes, weights, np.int32(items), x)
        launch_early(kernel(FILE, "less_means", type_of(x)), (-(-items // THREADS),), (THREADS,), arguments)


def less_means_going_on(*operands: Any) -> None:
    members, totals, sizes, *given = operands
    places, weights = (NOTHING if each is None else each for each in (members.places, members.weights))
    if items := len(members.groups.of):
        arguments = (places, members.groups.of, totals, sizes, weights, np.int32(items), *given)
        run = kernel(FILE, "less_means_going_on", type_of(given[-1]))
        launch_early(run, (-(-items // THREADS),), (THREADS,), arguments)
