"""A grid cut into chunks along its axes. Pure NumPy."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import index
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError
from dsolver.grid.box import DIRECTIONS, Box, Flags, Offsets, Triple, three, triple
from dsolver.grid.halo import HaloPiece, HaloPlan, Sizes, number_of, pieces_around

Cut = Triple | Sizes  # a cut of a grid: a number of chunks along each axis, or their extents

MOST: Final = 2**63 - 1  # most points of a grid, which integers of 64 bits number


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One box of the grid, the unit of work; number: x fastest, the order in which dot products are summed."""

    number: int
    box: Box


class Partition:
    """A grid cut into chunks along the three axes.

    Args:
        grid: global points along x, y, z.
        chunks: how many chunks along x, y, z, as equal as can be; or their extents along each axis, such as
            ``((5, 5, 3), (8,), (4, 4))``, which is how a Dask array's `chunks` are written.
        periodic: along which axes the last point is followed by the first.

    Raises:
        InputError: a size or a count is not a positive integer, there are more points than `MOST`, or more chunks than
            points along an axis, or the extents do not add up to the grid.
    """

    def __init__(self, grid: Triple, chunks: Cut = (1, 1, 1), periodic: Flags = (False, False, False)) -> None:
        grid, chunks = three("grid", grid), cut_of(chunks)
        for axis, n in zip("xyz", grid, strict=True):
            if n < 1:
                raise InputError(f"the grid has {n} points along {axis}: every size must be at least 1")
        if math.prod(grid) > MOST:
            raise InputError(f"the grid {' × '.join(map(str, grid))} has more points than 64 bits can count")
        x, y, z = _cuts(grid, chunks)
        self.grid = grid
        self.counts = (len(x) - 1, len(y) - 1, len(z) - 1)
        self.periodic = periodic
        self._cuts = (x, y, z)
        self._made: dict[int, Chunk] = {}

    def __len__(self) -> int:
        return self.counts[0] * self.counts[1] * self.counts[2]

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self.all)

    def __getitem__(self, number: int) -> Chunk:
        """A chunk; the others need not be made for it."""
        if number not in self._made:
            self._made[number] = Chunk(number=number, box=self._box(range(len(self))[number]))
        return self._made[number]

    @cached_property
    def all(self) -> tuple[Chunk, ...]:
        """Every chunk, in order."""
        return tuple(self[number] for number in range(len(self)))

    @property
    def domain(self) -> Box:
        """The whole grid."""
        return Box(lo=(0, 0, 0), hi=self.grid)

    @cached_property
    def sizes(self) -> Sizes:
        """Extents of the chunks along each axis, as Dask writes the chunks of an array."""
        x, y, z = (tuple(b - a for a, b in pairwise(c)) for c in self._cuts)
        return x, y, z

    @property
    def cut(self) -> tuple[Sizes, Flags]:
        """All that halos follow from: where chunks begin and end along each axis, and which axes are periodic."""
        return self._cuts, self.periodic

    @property
    def whole_axes(self) -> Flags:
        """The periodic axes along which there is one chunk, whose last point is followed by its own first."""
        x, y, z = (wraps and count == 1 for wraps, count in zip(self.periodic, self.counts, strict=True))
        return x, y, z

    def place(self, number: int) -> Triple:
        """The place of a chunk among the chunks along x, y, z."""
        px, py, _ = self.counts
        return number % px, (number // px) % py, number // (px * py)

    def number(self, place: Triple) -> int:
        """The number of the chunk at a place."""
        return number_of(self.counts, place)

    def neighbors(self, number: int, offsets: Offsets = DIRECTIONS) -> tuple[int, ...]:
        """The other chunks whose points rows of this one read, ascending; by default all that touch it."""
        return tuple(sorted({piece.source for piece in self.halo_pieces(number, offsets)} - {number}))

    def halo_pieces(self, number: int, offsets: Offsets) -> tuple[HaloPiece, ...]:
        """The boxes of points around a chunk that its rows read, by source and then by direction.

        Without periodic axes every neighbor has one piece. With them a neighbor may be met on two sides, and a chunk
        may meet itself. A point that is met twice is in two pieces.

        `offsets`: what its rows read. Steps longer than 1 make thicker pieces, which may be of chunks farther away.
        """
        return pieces_around(self._cuts, self.periodic, self.place(number), offsets)

    def fill_around(self, number: int, offsets: Offsets, out: Any, halo: Any, width: int = 1) -> None:
        """Write the values around a chunk into an array that has its own in the middle.

        Args:
            out: (..., nz + 2 width, ny + 2 width, nx + 2 width).
            halo: the values of other chunks, piece after piece; None where there are none.
            width: layers of points around the chunk.
        """
        box, first = self[number].box, 0
        for piece in self.halo_pieces(number, offsets):
            place = out[(..., *box.around(piece.seen, width=width))]
            if piece.source == number:
                place[...] = out[(..., *box.around(piece.box, width=width))]
            else:
                place[...] = halo[first : first + place.size].reshape(place.shape)
                first += place.size

    def halo_boxes(self, number: int, offsets: Offsets) -> list[tuple[int, Box]]:
        """Per neighbor in ascending order, where rows of this chunk find the box of its points that they read.

        Without periodic axes that is where the points are. Neighbors at no offset are left out.
        """
        return [(p.source, p.seen) for p in self.halo_pieces(number, offsets) if p.source != number]

    def wrapped(self, number: int, offsets: Offsets) -> list[tuple[Box, Box]]:
        """The boxes in which rows of a chunk find own points across a periodic axis, and the boxes of these points."""
        return [(p.seen, p.box) for p in self.halo_pieces(number, offsets) if p.source == number]

    def halo_plan(
        self,
        number: int,
        offsets: Offsets,
        # the part that is exchanged of a box of a chunk's points, None for nothing; by default all of it.
        part: Callable[[int, Box], Box | None] | None = None,
        # the box in which the parts' points are numbered, for points of this chunk; by default its own.
        lattice: Box | None = None,
    ) -> HaloPlan:
        """The halo exchange of a chunk whose rows read these offsets and their opposites."""
        if len(self) == 1:
            return HaloPlan(sends=(), receives=())
        part, lattice = part or (lambda _, box: box), lattice or self[number].box
        backward = tuple(triple(-d for d in o) for o in offsets)
        sends, receives = [], []
        for neighbor in self.neighbors(number, backward):
            wanted = [part(number, p.box) for p in self.halo_pieces(neighbor, offsets) if p.source == number]
            rows = [lattice.rows_of(box) for box in wanted if box is not None]
            if rows:
                sends.append((neighbor, np.concatenate(rows)))
        for neighbor in self.neighbors(number, offsets):
            found = [part(neighbor, p.box) for p in self.halo_pieces(number, offsets) if p.source == neighbor]
            if any(found):
                receives.append((neighbor, sum(box.points for box in found if box is not None)))
        return HaloPlan(sends=tuple(sends), receives=tuple(receives))

    def _box(self, number: int) -> Box:
        place = self.place(number)
        lo = triple(cuts[i] for cuts, i in zip(self._cuts, place, strict=True))
        hi = triple(cuts[i + 1] for cuts, i in zip(self._cuts, place, strict=True))
        return Box(lo=lo, hi=hi)

    def __repr__(self) -> str:
        even = Partition(self.grid, self.counts).sizes == self.sizes
        periodic = f", periodic={self.periodic}" if any(self.periodic) else ""
        return f"Partition(grid={self.grid}, chunks={self.counts if even else self.sizes}{periodic})"


def cut_of(chunks: Any) -> Cut:
    """Chunk counts, or extents along each axis, of any kind as tuples of Python's integers. InputError: no such."""
    chunks = tuple(chunks) if isinstance(chunks, Iterator) else chunks
    try:
        x, y, z = (tuple(map(index, extents)) for extents in chunks)
    except (TypeError, ValueError):
        return three("chunks", chunks)
    return x, y, z


@lru_cache(maxsize=256)
def _cuts(grid: Triple, chunks: Cut) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """`_bounds` along each axis: a set-up makes the same partition a dozen times."""
    x, y, z = (_bounds("xyz"[axis], grid[axis], chunks[axis]) for axis in range(3))
    return x, y, z


def _bounds(axis: str, n: int, cut: int | tuple[int, ...]) -> tuple[int, ...]:
    """The ends of the chunks along an axis of n points. InputError: the axis cannot be cut so."""
    if isinstance(cut, int):
        if cut < 1:
            raise InputError(f"{cut} chunks along {axis}: every count must be at least 1")
        if cut > n:
            raise InputError(f"{cut} chunks along {axis}, but the grid has only {n} points there: use fewer chunks")
        return tuple(n * i // cut for i in range(cut + 1))
    if any(extent < 1 for extent in cut):
        raise InputError(f"chunks of {cut} points along {axis}: every extent must be at least 1")
    if sum(cut) != n:
        raise InputError(f"chunks of {cut} points along {axis} add up to {sum(cut)}, but the grid has {n} there")
    return tuple(accumulate(cut, initial=0))
