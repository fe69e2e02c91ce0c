"""Sums in a fixed tree, of all items or of groups of them.

Sums over groups are additions of whole arrays: NumPy and CuPy give the same bits, and one large group takes no longer
than many small ones.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np

from dsolver.kernels.contract import FAN_IN
from dsolver.kernels.formats.layout import Array

T = TypeVar("T", float, Array)


def tree_sum(parts: list[T]) -> T:
    """The fixed tree of the kernel `total`: groups of `FAN_IN` are added in order, then groups of their sums.

    Of arrays item by item.

    Not the built-in sum, which compensates rounding from Python 3.12 on and so would not give a device's bits.
    """
    while len(parts) > 1:
        parts = [reduce(add, parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return parts[0]


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Items in groups, group after group."""

    keys: Array  # float64 (groups,), ascending
    of: Array  # int32 (items,), the number of each item's group
    starts: Array  # int64 (groups,), each group's first item
    counts: Array  # int64 (groups,), how many items it has
    longest: int  # how many items the largest group has

    @property
    def depth(self) -> int:
        """Steps of the tree: sums of `FAN_IN` items, of `FAN_IN` such sums and so on, until each group is one."""
        steps, nodes = 0, self.longest
        while nodes > 1:
            steps, nodes = steps + 1, -(-nodes // FAN_IN)
        return steps

    def steps(self, xp: Any) -> tuple[Array, ...]:
        """Steps from the items up: int32 (FAN_IN, nodes), what each node adds, in order, of the step before.

        A number that is none of these stands for nothing. Kernels for GPUs find nodes by `starts` alone.
        """
        known = self.__dict__  # as functools.cached_property keeps it
        if "known steps" not in known:
            known["known steps"] = tuple(_steps(xp, self))
        return known["known steps"]

    def sums(self, xp: Any, values: Array) -> Array:
        """The sum of each group's items: float64 (groups,), of float64 (items,)."""
        for step in self.steps(xp):
            padded = xp.concatenate([values, xp.zeros(1)])
            values = padded[step[0]]
            for places in step[1:]:
                values += padded[places]
        return values


@dataclass(frozen=True, kw_only=True)
class GroupedPlaces:
    """Places of a vector in groups, for sums over each group and what is subtracted from its items."""

    # int32 (items,), of different items of the vector, group after group; None for all of its items.
    places: Array | None
    groups: Groups
    weights: Array | None = None  # float64 (items,), by which items are multiplied; None for ones


def grouped(xp: Any, keys: Array) -> tuple[Array, Groups]:
    """Items with equal keys, float64 (items,), as groups.

    Returns:
        int64 (items,), the items in the order of their groups, in a group as they were; and the groups.
    """
    order = xp.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = xp.ones(len(keys), dtype=np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    starts = xp.flatnonzero(begins)
    counts = xp.diff(xp.concatenate([starts, xp.full(1, len(keys), dtype=starts.dtype)]))
    return order, Groups(
        keys=ordered[starts],
        of=(xp.cumsum(begins) - 1).astype(np.int32),
        starts=starts,
        counts=counts,
        longest=int(_on_host(counts).max(initial=0)),
    )


def _steps(xp: Any, groups: Groups) -> list[Array]:
    steps = []
    starts, counts, items, known = groups.starts, groups.counts, len(groups.of), _on_host(groups.counts)
    for _ in range(groups.depth):
        nodes, known = -(-counts // FAN_IN), -(-known // FAN_IN)
        ends = xp.cumsum(nodes)
        node = xp.arange(int(known.sum()))
        group = xp.searchsorted(ends, node, side="right")
        first = starts[group] + FAN_IN * (node - (ends - nodes)[group])
        places = first + xp.arange(FAN_IN)[:, None]
        steps.append(xp.where(places < (starts + counts)[group], places, items).astype(np.int32))
        starts, counts, items = ends - nodes, nodes, len(node)
    return steps


def _on_host(numbers: Array) -> Any:
    return numbers if isinstance(numbers, np.ndarray) else numbers.get()


def some(flags: Any) -> bool:
    """Whether any flag is set, of NumPy or CuPy, which compiles `any`, `min` and the like for 4 to 5 s on first use."""
    return bool(flags.any()) if isinstance(flags, np.ndarray) else float(flags.astype(np.float64).sum()) > 0.0
