"""Boxes of grid points, and steps from point to point. Pure NumPy.

Points are numbered x fastest: point (i, j, k) of a box of extent (nx, ny, nz) is row i + nx (j + ny k).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, in_a_line

Triple = tuple[int, int, int]
Offsets = tuple[Triple, ...]
Flags = tuple[bool, bool, bool]

DIRECTIONS: Offsets = tuple((i, j, k) for i, j, k in product((-1, 0, 1), repeat=3) if (i, j, k) != (0, 0, 0))
"""Directions to neighbors: faces, edges and corners."""

BOX_OFFSETS: Offsets = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
STAR_OFFSETS: Offsets = tuple(o for o in BOX_OFFSETS if sum(map(abs, o)) <= 1)


@dataclass(frozen=True, kw_only=True)
class Box:
    """Grid points lo <= (i, j, k) < hi."""

    lo: Triple
    hi: Triple

    @property
    def shape(self) -> Triple:
        """Extent along x, y, z."""
        (x, y, z), (to_x, to_y, to_z) = self.lo, self.hi
        return to_x - x, to_y - y, to_z - z

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
        lo = triple(max(a, b) for a, b in zip(self.lo, other.lo, strict=True))
        hi = triple(min(a, b) for a, b in zip(self.hi, other.hi, strict=True))
        return Box(lo=lo, hi=hi) if all(a < b for a, b in zip(lo, hi, strict=True)) else None

    def shifted(self, offset: Triple) -> Box:
        """The box moved by an offset."""
        return Box(lo=_add(self.lo, offset), hi=_add(self.hi, offset))

    def around(self, part: Box, width: int = 1, step: int = 1) -> tuple[slice, slice, slice]:
        """Index of a part of this box and the layers around it, in an array with z, y, x as axes and x fastest."""
        x, y, z = (slice(a - b + width, c - b + width, step) for a, c, b in zip(part.lo, part.hi, self.lo, strict=True))
        return z, y, x

    def row_of(self, part: Box, points: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Row numbers of some points of a part of this box, which are numbered in the part's own order: int64."""
        nx, ny, _ = self.shape
        i, j, k = (low - base for low, base in zip(part.lo, self.lo, strict=True))
        first = i + nx * (j + ny * k)
        if part.shape[:2] == (nx, ny):
            return points.astype(np.int64) + first
        lines, x = np.divmod(points.astype(np.int64), part.shape[0])
        planes, y = np.divmod(lines, part.shape[1])
        return first + x + nx * (y + ny * planes)

    def rows_of(self, part: Box, like: Any = None) -> npt.NDArray[np.int64]:
        """Row numbers of the points of a part of this box, in the part's own order: int64 (part.points,).

        like: an array of the device on which they are made; by default it is the host.
        """
        nx, ny, _ = self.shape
        i, j, k = (
            np.arange(low - base, high - base, dtype=np.int64, like=like)
            for low, high, base in zip(part.lo, part.hi, self.lo, strict=True)
        )
        return (i[None, None, :] + nx * (j[None, :, None] + ny * k[:, None, None])).reshape(-1)


def three(name: str, values: Any) -> Triple:
    """Three integers of any kind (a list's, NumPy's) as a tuple of Python's. InputError: they are no such."""
    try:
        x, y, z = map(index, values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be three integers, along x, y and z, not {in_a_line(values)}") from error
    return x, y, z


def _add(a: Triple, b: Triple) -> Triple:
    return triple(x + y for x, y in zip(a, b, strict=True))


def triple(items: Iterator[int] | list[int]) -> Triple:
    """Three integers as a tuple."""
    x, y, z = items
    return x, y, z


def wrapping(grid: Triple, periodic: Flags) -> Flags:
    """The axes along which neighbors are found around the end: with one or two cells the weights hold it all."""
    x, y, z = (wraps and n > 2 for n, wraps in zip(grid, periodic, strict=True))
    return x, y, z
