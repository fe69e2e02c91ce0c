"""Points around a chunk that its rows read, by chunk and direction, and the exchange of their values."""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from dsolver.grid.box import DIRECTIONS, Box, Flags, Offsets, Triple, triple

Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Extents of the chunks along each axis, as Dask writes the chunks of an array."""


@dataclass(frozen=True, kw_only=True)
class HaloPlan:
    """Halo exchange of a chunk, as rows and slots: nothing here knows of a grid."""

    # per neighbor, its chunk number and the own rows whose values it reads, in the order of its slots.
    sends: tuple[tuple[int, npt.NDArray[np.int64]], ...]
    # per neighbor, its chunk number and the number of slots that it fills; slots are numbered through, neighbor after
    # neighbor in ascending chunk number.
    receives: tuple[tuple[int, int], ...]

    @property
    def neighbors(self) -> tuple[int, ...]:
        """The chunks that values are exchanged with, ascending."""
        return tuple(sorted({number for number, _ in (*self.sends, *self.receives)}))

    @property
    def slots(self) -> int:
        """Length of the halo."""
        return sum(count for _, count in self.receives)


@dataclass(frozen=True, kw_only=True)
class HaloPiece:
    """A box of points around a chunk that its rows read, all of one chunk."""

    source: int  # the chunk that owns the points: a neighbor, or the chunk itself across a periodic axis
    box: Box
    seen: Box  # where the rows find them: the box, moved by whole periods


@lru_cache(maxsize=4096)  # set-up asks for the same ones again and again: a chunk's for each coefficient and level
def pieces_around(cuts: Sizes, periodic: Flags, place: Triple, offsets: Offsets) -> tuple[HaloPiece, ...]:
    """The pieces around the chunk at a place; cuts: where chunks begin and end along each axis."""
    counts = triple(len(along) - 1 for along in cuts)
    found: list[HaloPiece] = []
    for direction, widths in _directions(offsets):
        sides = [
            _side(along, wraps, *steps)
            for along, wraps, *steps in zip(cuts, periodic, place, direction, widths, strict=True)
        ]
        found += [_piece(counts, *pieces) for pieces in product(*sides)]
    return tuple(sorted(found, key=lambda piece: piece.source))


def _side(cuts: tuple[int, ...], wraps: bool, place: int, toward: int, width: int) -> list[tuple[int, int, int, int]]:
    """The next points on one side along an axis, by chunk: (place, first, last + 1, by how much they are moved)."""
    if toward == 0:
        return [(place, cuts[place], cuts[place + 1], 0)]
    count, n = len(cuts) - 1, cuts[-1]
    found = []
    moved = 0
    while width > 0:
        place += toward
        if not 0 <= place < count:
            if not wraps:
                break
            place %= count
            moved += toward * n
        low, high = cuts[place], cuts[place + 1]
        low, high = (low, min(high, low + width)) if toward > 0 else (max(low, high - width), high)
        found.append((place, low, high, moved))
        width -= high - low
    return found


def _piece(counts: Triple, *sides: tuple[int, int, int, int]) -> HaloPiece:
    place, lo, hi, moved = (triple(side[i] for side in sides) for i in range(4))
    box = Box(lo=lo, hi=hi)
    return HaloPiece(source=number_of(counts, place), box=box, seen=box.shifted(moved))


def number_of(counts: Triple, place: Triple) -> int:
    """The number of the chunk at a place among so many along each axis."""
    return place[0] + counts[0] * (place[1] + counts[1] * place[2])


@cache
def _directions(offsets: Offsets) -> tuple[tuple[Triple, Triple], ...]:
    """The directions of offsets, and their longest step along each axis."""
    out = []
    for direction in DIRECTIONS:
        reaching = [o for o in offsets if _reaches(o, direction)]
        if reaching:
            out.append((direction, triple(max(abs(o[axis]) for o in reaching) for axis in range(3))))
    return tuple(out)


def _reaches(offset: Triple, direction: Triple) -> bool:
    """Whether a row can read a point that lies in this direction: it must step that way along each crossed axis."""
    return all(d == 0 or o * d > 0 for o, d in zip(offset, direction, strict=True))
