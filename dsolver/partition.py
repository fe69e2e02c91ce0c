"""The grid, its chunks, their owners, and what neighbors exchange. Pure NumPy.

Points are numbered x fastest: point (i, j, k) of a box of extent (nx, ny, nz) is row i + nx (j + ny k).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError

Triple = tuple[int, int, int]
Offsets = tuple[Triple, ...]

DIRECTIONS: Offsets = tuple((i, j, k) for i, j, k in product((-1, 0, 1), repeat=3) if (i, j, k) != (0, 0, 0))
"""Where neighbors lie: faces, edges and corners."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Grid points lo <= (i, j, k) < hi."""

    lo: Triple
    hi: Triple

    @property
    def shape(self) -> Triple:
        """Extent along x, y, z."""
        return _triple(h - low for low, h in zip(self.lo, self.hi, strict=True))

    @property
    def points(self) -> int:
        """Number of grid points."""
        nx, ny, nz = self.shape
        return nx * ny * nz

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Index of the box in a global array of shape (nx, ny, nz)."""
        x, y, z = (slice(low, high) for low, high in zip(self.lo, self.hi, strict=True))
        return x, y, z

    def intersect(self, other: Box) -> Box | None:
        """The points of both, or None."""
        lo = _triple(max(a, b) for a, b in zip(self.lo, other.lo, strict=True))
        hi = _triple(min(a, b) for a, b in zip(self.hi, other.hi, strict=True))
        return Box(lo=lo, hi=hi) if all(a < b for a, b in zip(lo, hi, strict=True)) else None

    def halved(self, whole: Box) -> Box | None:
        """The coarse points of this part of a box, by their indices in that box's coarse lattice; None for none.

        Coarse point (I, J, K) of a box is its point (2I, 2J, 2K).
        """
        lo = _triple((a - base + 1) // 2 for a, base in zip(self.lo, whole.lo, strict=True))
        hi = _triple((a - base + 1) // 2 for a, base in zip(self.hi, whole.lo, strict=True))
        return Box(lo=lo, hi=hi) if all(a < b for a, b in zip(lo, hi, strict=True)) else None

    def shifted(self, offset: Triple) -> Box:
        """The box moved by an offset."""
        return Box(lo=_add(self.lo, offset), hi=_add(self.hi, offset))

    def rows_of(self, part: Box) -> npt.NDArray[np.int64]:
        """Row numbers of the points of a part of this box, in the part's own order: int64 (part.points,)."""
        nx, ny, _ = self.shape
        i, j, k = (
            np.arange(low - base, high - base, dtype=np.int64)
            for low, high, base in zip(part.lo, part.hi, self.lo, strict=True)
        )
        return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One box of the grid, the unit of work.

    Attributes:
        number: its place among all chunks, x fastest; dot products are summed in this order.
        box: its points.
    """

    number: int
    box: Box


@dataclass(frozen=True, kw_only=True)
class HaloPlan:
    """What a chunk exchanges, as rows and slots: nothing here knows of a grid.

    Attributes:
        sends: per neighbor, its chunk number and the own rows whose values it reads, in the order of its slots.
        receives: per neighbor, its chunk number and the number of slots that it fills; slots are numbered
            through, neighbor after neighbor in ascending chunk number.
    """

    sends: tuple[tuple[int, npt.NDArray[np.int64]], ...]
    receives: tuple[tuple[int, int], ...]

    @property
    def slots(self) -> int:
        """Length of the halo."""
        return sum(count for _, count in self.receives)


class Partition:
    """A grid cut into chunks along the three axes.

    Args:
        grid: global points along x, y, z.
        chunks: how many chunks along x, y, z.

    Raises:
        InputError: a size or a count is not a positive integer, or there are more chunks than points along an axis.
    """

    def __init__(self, grid: Triple, chunks: Triple = (1, 1, 1)) -> None:
        grid, chunks = three("grid", grid), three("chunks", chunks)
        for axis, n, p in zip("xyz", grid, chunks, strict=True):
            if n < 1:
                raise InputError(f"the grid has {n} points along {axis}: every size must be at least 1")
            if p < 1:
                raise InputError(f"{p} chunks along {axis}: every count must be at least 1")
            if p > n:
                raise InputError(f"{p} chunks along {axis}, but the grid has only {n} points there: use fewer chunks")
        self.grid = grid
        self.counts = chunks
        self._cuts = tuple(tuple(n * i // p for i in range(p + 1)) for n, p in zip(grid, chunks, strict=True))

    def __len__(self) -> int:
        return self.counts[0] * self.counts[1] * self.counts[2]

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self.all)

    def __getitem__(self, number: int) -> Chunk:
        return self.all[number]

    @cached_property
    def all(self) -> tuple[Chunk, ...]:
        """Every chunk, in order."""
        return tuple(Chunk(number=n, box=self._box(n)) for n in range(len(self)))

    @property
    def domain(self) -> Box:
        """The whole grid."""
        return Box(lo=(0, 0, 0), hi=self.grid)

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Extents of the chunks along each axis, as Dask writes the chunks of an array."""
        return tuple(tuple(b - a for a, b in pairwise(c)) for c in self._cuts)

    def place(self, number: int) -> Triple:
        """Where a chunk lies among the chunks along x, y, z."""
        px, py, _ = self.counts
        return number % px, (number // px) % py, number // (px * py)

    def number(self, place: Triple) -> int:
        """The number of the chunk at a place."""
        px, py, _ = self.counts
        return place[0] + px * (place[1] + py * place[2])

    def neighbors(self, number: int) -> tuple[int, ...]:
        """The chunks that touch this one at a face, an edge or a corner, ascending."""
        near = (_add(self.place(number), d) for d in DIRECTIONS)
        inside = (p for p in near if all(0 <= a < n for a, n in zip(p, self.counts, strict=True)))
        return tuple(sorted(self.number(p) for p in inside))

    def coarsened(self) -> Partition:
        """The partition of every second point.

        Raises:
            InputError: a chunk's extent is odd, so that its coarse points are not half of it.
        """
        for axis, extents in zip("xyz", self.sizes, strict=True):
            if any(n % 2 for n in extents):
                raise InputError(f"chunks of {sorted(set(extents))} points along {axis} cannot be halved")
        return Partition(_triple(n // 2 for n in self.grid), self.counts)

    def halo_boxes(self, number: int, offsets: Offsets) -> list[tuple[int, Box]]:
        """Per neighbor in ascending order, the box of its points that rows of this chunk read.

        Two chunks of a regular cut share one face, edge or corner, so it is one box; neighbors that no offset reaches
        are left out.
        """
        own = self[number].box
        found = []
        for neighbor in self.neighbors(number):
            direction = _triple(b - a for a, b in zip(self.place(number), self.place(neighbor), strict=True))
            if not any(_reaches(o, direction) for o in offsets):
                continue
            box = self[neighbor].box.intersect(_shell(own, direction))
            if box is not None:
                found.append((neighbor, box))
        return found

    def halo_plan(self, number: int, offsets: Offsets) -> HaloPlan:
        """What a chunk exchanges when its rows read the given offsets and their opposites."""
        own = self[number].box
        backward = tuple(_triple(-d for d in o) for o in offsets)
        sends = []
        for neighbor, _ in self.halo_boxes(number, backward):
            wanted = next(box for n, box in self.halo_boxes(neighbor, offsets) if n == number)
            sends.append((neighbor, own.rows_of(wanted)))
        receives = tuple((n, box.points) for n, box in self.halo_boxes(number, offsets))
        return HaloPlan(sends=tuple(sends), receives=receives)

    def coarse_halo_plan(self, number: int, offsets: Offsets) -> HaloPlan:
        """The part of `halo_plan` that is coarse points. The rows to send are those of the coarser level."""
        own = self[number].box
        backward = tuple(_triple(-d for d in o) for o in offsets)
        lattice = Box(lo=(0, 0, 0), hi=_triple((n + 1) // 2 for n in own.shape))
        sends, receives = [], []
        for neighbor, _ in self.halo_boxes(number, backward):
            wanted = next(box for n, box in self.halo_boxes(neighbor, offsets) if n == number).halved(own)
            if wanted is not None:
                sends.append((neighbor, lattice.rows_of(wanted)))
        for neighbor, box in self.halo_boxes(number, offsets):
            found = box.halved(self[neighbor].box)
            if found is not None:
                receives.append((neighbor, found.points))
        return HaloPlan(sends=tuple(sends), receives=tuple(receives))

    def _box(self, number: int) -> Box:
        place = self.place(number)
        lo = _triple(cuts[i] for cuts, i in zip(self._cuts, place, strict=True))
        hi = _triple(cuts[i + 1] for cuts, i in zip(self._cuts, place, strict=True))
        return Box(lo=lo, hi=hi)

    def __repr__(self) -> str:
        return f"Partition(grid={self.grid}, chunks={self.counts})"


def three(name: str, values: Any) -> Triple:
    """Three integers of any kind (a list's, NumPy's) as a tuple of Python's.

    Raises:
        InputError: they are not three, or not integers.
    """
    try:
        x, y, z = (index(value) for value in values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be three integers, along x, y and z, not {values!r}") from error
    return x, y, z


def _reaches(offset: Triple, direction: Triple) -> bool:
    """Whether a row can read a point that lies in this direction: it must step that way along each crossed axis."""
    return all(d in (0, o) for o, d in zip(offset, direction, strict=True))


def _shell(box: Box, direction: Triple) -> Box:
    """The layer of points just outside a box in a direction (a face, an edge or a corner)."""
    lo, hi = [], []
    for low, high, d in zip(box.lo, box.hi, direction, strict=True):
        lo.append((low - 1, low, high)[d + 1])
        hi.append((low, high, high + 1)[d + 1])
    return Box(lo=_triple(lo), hi=_triple(hi))


def _add(a: Triple, b: Triple) -> Triple:
    return _triple(x + y for x, y in zip(a, b, strict=True))


def _triple(items: Iterator[int] | list[int]) -> Triple:
    x, y, z = items
    return x, y, z
