"""In which order a smoother visits the rows of a chunk.

An order is a color for every point: rows of one color do not read each other and are visited together, colors one after
the other. Parity classes color a 7- or 27-point stencil that way, and so does the natural order where no axis is
periodic; red and black color a 7-point stencil.

Around a periodic axis with an odd number of points two points of equal parity meet. Its last plane is then a third
class; that matters only where a chunk has the whole axis, for colors order the rows of one chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from dsolver.errors import InputError
from dsolver.partition import Flags, Triple

PARITIES = 8

BEST_CLASSES = (7, 5, 6, 1, 2, 3, 4, 0)
"""Visits the coarse points (class 0) last going forward, so that the coarse grid sees the residual that is left; the
best of the orders measured for the 27-point problem (docs/decisions.md)."""

NOWHERE: Final[Flags] = (False, False, False)


@dataclass(frozen=True)
class Order:
    """How points are colored.

    Attributes:
        classes: the parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) in the order of the forward sweep, or None for the
            natural order: there the color is i + 2 j + 4 k. Every neighbor with a smaller row number has a smaller
            color, so visiting colors in order is Gauss-Seidel in natural order, with whole wavefronts at a time.
        red_black: the color is the parity of i + j + k, for 7-point stencils alone; classes is None then.
    """

    classes: tuple[int, ...] | None
    red_black: bool = False

    def __post_init__(self) -> None:
        if self.red_black and self.classes is not None:
            raise InputError("red and black points are ordered by their color, not by classes")
        if self.classes is not None and sorted(self.classes) != list(range(PARITIES)):
            raise InputError(f"an order names each of the classes 0 to 7 once, not {self.classes}")

    @classmethod
    def parse(cls, text: str) -> Order:
        """An order from its name: natural, color8, color2, or the eight classes separated by blanks.

        Raises:
            InputError: the text is none of these.
        """
        if text == "natural":
            return cls(None)
        if text == "color8":
            return cls(BEST_CLASSES)
        if text == "color2":
            return cls(None, red_black=True)
        try:
            return cls(tuple(int(word) for word in text.split()))
        except (AttributeError, ValueError) as error:
            raise InputError(
                f"unknown order {text!r}: use natural, color8, or eight classes such as '7 5 2 6 1 4 3 0'"
            ) from error

    def count(self, shape: Triple, wrapped: Flags = NOWHERE) -> int:
        """Number of colors of a box of this extent, empty ones included."""
        nx, ny, nz = shape
        if self.red_black:
            return 3 if any(_odd(shape, wrapped)) else 2
        if self.classes is not None:
            return len(self._table(_odd(shape, wrapped)))
        return nx + 2 * (ny - 1) + 4 * (nz - 1)

    def colors(self, xp: Any, shape: Triple, lo: Triple = (0, 0, 0), wrapped: Flags = NOWHERE) -> Any:
        """Color of every row of a box: int32 (rows,), made by the array module xp.

        Args:
            xp: the array module.
            shape: extent of the box.
            lo: what is added to its indices before parities are taken.
            wrapped: along which axes the box's last point is followed by its first.

        Raises:
            InputError: the natural order of a box that is wrapped.
        """
        if self.classes is None and not self.red_black:
            if any(wrapped):
                raise InputError("the natural order is for grids that are not periodic: use color8")
            i, j, k = (xp.arange(n, dtype=xp.int32) for n in shape)
            color = i[None, None, :] + 2 * j[None, :, None] + 4 * k[:, None, None]
            return color.reshape(-1)
        odd = _odd(shape, wrapped)
        i, j, k = (_classes(xp, *axis) for axis in zip(shape, lo, odd, strict=True))
        if self.red_black:
            color = (i[None, None, :] + j[None, :, None] + k[:, None, None]) % self.count(shape, wrapped)
        else:
            table = np.zeros((3, 3, 3), dtype=np.int32)
            for (x, y, z), number in self._table(odd).items():
                table[z, y, x] = number
            color = xp.asarray(table)[k[:, None, None], j[None, :, None], i[None, None, :]]
        return color.reshape(-1)

    def _table(self, odd: Flags) -> dict[Triple, int]:
        """The color of each class along x, y, z; a third class comes after that of odd points.

        Multigrid takes it for one, too: its coarse points are the odd points and, there, the last.
        """
        assert self.classes is not None
        digits = [range(3) if third else range(2) for third in odd]
        places = {c: place for place, c in enumerate(self.classes)}
        found = [(x, y, z) for z, y, x in product(*reversed(digits))]
        found.sort(
            key=lambda c: (places[c[0] % 2 + 2 * (c[1] % 2) + 4 * (c[2] % 2)], c[0] // 2 + c[1] // 2 + c[2] // 2)
        )
        return {c: number for number, c in enumerate(found)}

    def __str__(self) -> str:
        if self.classes is None:
            return "color2" if self.red_black else "natural"
        return "color8" if self.classes == BEST_CLASSES else " ".join(map(str, self.classes))


def _odd(shape: Triple, wrapped: Flags) -> Flags:
    """The axes around which parities do not alternate."""
    x, y, z = (wraps and n % 2 == 1 for n, wraps in zip(shape, wrapped, strict=True))
    return x, y, z


def _classes(xp: Any, n: int, lo: int, third: bool) -> Any:
    """0 or 1 by parity along an axis, and 2 at the last point where there is a third class: int32 (n,)."""
    out = (xp.arange(n, dtype=xp.int32) + lo) % 2
    if third:
        out[-1] = 2
    return out
