"""Where the levels of a multigrid hierarchy lie: their partitions, the colors of their rows, and what chunks exchange.

Along a coarsened axis the points with odd 0-based indices are coarse: point i = 2I + 1 is coarse point I. Along a
periodic axis of odd extent the last point is coarse, too. A chunk's coarse points stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.backend import Backend, StencilRows
from dsolver.kernels.layout import HaloLayout, Layout
from dsolver.numbering import with_halo
from dsolver.partition import Box, Offsets, Partition, Triple, three

THIN: Final = 2
"""A cut axis keeps chunks of so many points at least; a level with thinner ones lives whole on every owner."""
SMALL_CHUNK: Final = 32**3
SMALL_GRID: Final = 64**3
"""A level with so few points lives whole on every owner: halos would cost more than its work."""

CLASSES: Final = (7, 6, 5, 3, 4, 2, 1, 0)
"""Parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) in the order of the forward sweep. Coarse points come first: the
sweep that precedes the coarse correction then leaves its residual where the correction looks for it."""

RED_BLACK: Final = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=np.int32)
"""The colors of a star's rows by parity along z, y, x: points with an odd sum of indices come first."""


def partition_of(grid: Triple, sizes: Any, periodic: Sequence[bool]) -> Partition:
    """A partition whose periodic axes of one point are not: no row reads itself."""
    x, y, z = (bool(p) and n > 1 for p, n in zip(periodic, grid, strict=True))
    return Partition(grid, sizes, (x, y, z))


@final
@dataclass(frozen=True, kw_only=True)
class Coarse:
    """The next coarser level of a partition.

    Attributes:
        factors: 2 along coarsened axes, else 1.
        partition: of the coarser level; one chunk where it is gathered.
        boxes: the coarse points of each fine chunk; of a gathered level they may be empty.
        gathered: whether the level lives whole on every owner while the finer one is distributed.
    """

    factors: Triple
    partition: Partition
    boxes: tuple[Box, ...]
    gathered: bool

    @classmethod
    def of(cls, fine: Partition, factors: Triple, *, early: bool = False) -> Coarse:
        """The level below a partition; early: gathered as soon as it is small, however few chunks share it."""
        partition, gathered = coarser(fine, factors, early=early)
        return cls._of(fine, factors, _cuts_below(fine, factors), partition, gathered=gathered)

    @classmethod
    def same(cls, fine: Partition) -> Coarse:
        """The same points, whole on every owner."""
        return cls._of(fine, (1, 1, 1), _cuts(fine), partition_of(fine.grid, (1, 1, 1), fine.periodic), gathered=True)

    @classmethod
    def _of(
        cls,
        fine: Partition,
        factors: Triple,
        cuts: Sequence[Sequence[int]],
        partition: Partition,
        *,
        gathered: bool,
    ) -> Coarse:
        boxes = []
        for number in range(len(fine)):
            along = list(zip(cuts, fine.place(number), strict=True))
            boxes.append(Box(lo=three("lo", (c[i] for c, i in along)), hi=three("hi", (c[i + 1] for c, i in along))))
        return cls(factors=factors, partition=partition, boxes=tuple(boxes), gathered=gathered)


def coarser(fine: Partition, factors: Triple, *, early: bool = False) -> tuple[Partition, bool]:
    """The level below a partition, and whether it is gathered; see `Coarse`."""
    cuts = _cuts_below(fine, factors)
    grid = three("grid", (c[-1] for c in cuts))
    sizes = [tuple(b - a for a, b in pairwise(c)) for c in cuts]
    gathered = len(fine) > 1 and _whole(grid, sizes, early)
    return partition_of(grid, (1, 1, 1) if gathered else tuple(sizes), fine.periodic), gathered


def _cuts_below(fine: Partition, factors: Triple) -> list[list[int]]:
    return [_halved(*along) for along in zip(_cuts(fine), factors, fine.periodic, strict=True)]


def _cuts(partition: Partition) -> list[tuple[int, ...]]:
    return [tuple(np.cumsum((0, *sizes)).tolist()) for sizes in partition.sizes]


def _halved(cuts: tuple[int, ...], factor: int, periodic: bool) -> list[int]:
    """The coarse points begin and end where along an axis."""
    if factor == 1:
        return list(cuts)
    halved = [c // 2 for c in cuts]
    if periodic:
        halved[-1] = (cuts[-1] + 1) // 2
    return halved


def _whole(grid: Triple, sizes: list[tuple[int, ...]], early: bool) -> bool:
    """Whether a level should live whole on every owner."""
    thin = any(len(along) > 1 and min(along) < THIN for along in sizes)
    largest = max(sizes[0]) * max(sizes[1]) * max(sizes[2])
    return thin or ((early or largest <= SMALL_CHUNK) and grid[0] * grid[1] * grid[2] <= SMALL_GRID)


# -- colors ------------------------------------------------------------------------------------------------------------


def colored(backend: Backend, partition: Partition, box: Box, offsets: Offsets) -> Layout:
    """The storage order of a box of rows: two colors for a star, else eight; more where a periodic extent is odd.

    Colors follow from global indices, so that all chunks agree on them.
    """
    odd = [p and n % 2 == 1 for p, n in zip(partition.periodic, partition.grid, strict=True)]
    places = [np.arange(a, b) for a, b in zip(box.lo, box.hi, strict=True)]
    if all(sum(map(abs, o)) <= 1 for o in offsets) and not any(odd):
        return backend.lattice_layout([place & 1 for place in places], RED_BLACK, box.shape)
    # A last plane that meets the first one is a third class along its axis.
    classes = [
        np.where(place == n - 1, 2, place & 1) if is_odd else place & 1
        for place, n, is_odd in zip(places, partition.grid, odd, strict=True)
    ]
    base = 3 if any(odd) else 2
    return backend.lattice_layout(classes, _ranks(base).reshape(base, base, base), box.shape)


def _ranks(base: int) -> npt.NDArray[np.int32]:
    """The color of each class of a number system with this base: by parity class first."""
    classes = [(i, j, k) for k, j, i in product(range(base), repeat=3)]
    parity = [CLASSES.index((i > 0) + 2 * (j > 0) + 4 * (k > 0)) for i, j, k in classes]
    order = sorted(range(len(classes)), key=lambda c: (parity[c], c))
    ranks = np.empty(len(classes), dtype=np.int32)
    ranks[order] = np.arange(len(classes))
    return ranks


def in_lattice_order(backend: Backend, shape: Triple) -> Layout:
    """A storage order that is the lattice's."""
    return backend.plain_layout(shape)


# -- numbers of points around a chunk ----------------------------------------------------------------------------------


def numbered(backend: Backend, partition: Partition, number: int, offsets: Offsets) -> Any:
    """int32 (nz + 2, ny + 2, nx + 2): rows and halo slots around a chunk, as in `StencilRows.numbering`."""
    box = partition[number].box
    slots = [(seen, 1) for _, seen in partition.halo_boxes(number, offsets)]
    return with_halo(backend.xp, backend.numbers(box.shape), box, slots, partition.wrapped(number, offsets))


def own_number(partition: Partition, number: int) -> int:
    """The chunk's number; where a level lives whole on every owner, the number of its only chunk."""
    return 0 if len(partition) == 1 else number


def by_offset(weights: Any, offsets: Offsets) -> Any:
    """Weights as `StencilRows` has them: (K, rows), or (K,) for a constant stencil; they may come in any shape."""
    return weights if weights.size == len(offsets) and weights.ndim == 1 else weights.reshape(len(offsets), -1)


def stencil_rows(backend: Backend, partition: Partition, number: int, offsets: Offsets, weights: Any) -> StencilRows:
    """The matrix rows of a chunk: weights (K rows,), offset after offset, or (K,), in any shape."""
    return StencilRows(
        shape=partition[number].box.shape,
        numbering=numbered(backend, partition, number, offsets).reshape(-1),
        offsets=offsets,
        weights=by_offset(weights, offsets),
        halo=has_halo(partition, number, offsets),
    )


def has_halo(partition: Partition, number: int, offsets: Offsets) -> bool:
    """Whether rows of a chunk read others' points."""
    return bool(partition.neighbors(number, offsets))


def halo_layout(backend: Backend, layout: Layout, partition: Partition, number: int, offsets: Offsets) -> HaloLayout:
    """What a chunk exchanges of a vector when rows read these offsets."""
    plan = partition.halo_plan(number, offsets)
    return backend.halo_layout(layout, list(plan.sends), list(plan.receives))


def direct_layout(backend: Backend, sends: list[tuple[int, int]], receives: list[tuple[int, int]]) -> HaloLayout:
    """An exchange of vectors that hold what is sent, neighbor after neighbor, and nothing else.

    Args:
        backend: whose halo vectors are filled.
        sends: per neighbor, its chunk number and how many items it gets.
        receives: per neighbor, its chunk number and how many items come from it.
    """
    guard = backend.guard
    return HaloLayout(
        send_rows=backend.xp.arange(sum(size for _, size in sends), dtype=np.int32),
        sends=_ranges(sends, 0),
        receives=_ranges(receives, guard),
        size=sum(size for _, size in receives) + 2 * guard,
        items=sum(size for _, size in sends),
    )


def to_hosts(
    backend: Backend, number: int, hosts: Sequence[int], sizes: Sequence[int], rows: Layout | None = None
) -> HaloLayout:
    """An exchange by which every host gets what all other chunks have, in the order of their numbers.

    Args:
        backend: where the plan is made.
        number: of the chunk.
        hosts: the chunks that receive.
        sizes: how many items each chunk has.
        rows: the storage order of its vector, whose items go in lattice order; None where it holds nothing else.
    """
    sends = [(host, sizes[number]) for host in hosts if host != number]
    receives = [(other, sizes[other]) for other in others_of(number, hosts, len(sizes))]
    own = backend.xp.arange(sizes[number], dtype=np.int32) if rows is None else rows.position
    repeated = backend.xp.tile(own, len(sends)) if sends else own[:0]
    items = sizes[number] if rows is None else rows.size
    return replace(direct_layout(backend, sends, receives), send_rows=repeated, items=items)


def others_of(number: int, hosts: Sequence[int], chunks: int) -> list[int]:
    """Whom a chunk gets something from in such an exchange of so many chunks."""
    return [other for other in range(chunks) if other != number] if number in hosts else []


def _ranges(counts: list[tuple[int, int]], first: int) -> tuple[tuple[int, int, int], ...]:
    out = []
    for chunk, count in counts:
        out.append((chunk, first, first + count))
        first += count
    return tuple(out)
