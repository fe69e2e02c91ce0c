"""In which order a smoother visits the rows of a chunk.

An order is a color for every point: rows of one color do not read each other and are visited together, colors one after
the other. Both orders here color a 7- or 27-point stencil that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsolver.errors import InputError
from dsolver.partition import Triple

PARITIES = 8

BEST_CLASSES = (7, 5, 6, 1, 2, 3, 4, 0)
"""Visits the coarse points (class 0) last going forward, so that the coarse grid sees the residual that is left; the
best of the orders measured for the 27-point problem (docs/decisions.md)."""


@dataclass(frozen=True)
class Order:
    """How points are colored.

    Attributes:
        classes: the parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) in the order of the forward sweep, or None for the
            natural order: there the color is i + 2 j + 4 k. Every neighbor with a smaller row number has a smaller
            color, so visiting colors in order is Gauss-Seidel in natural order, with whole wavefronts at a time.
    """

    classes: tuple[int, ...] | None

    def __post_init__(self) -> None:
        if self.classes is not None and sorted(self.classes) != list(range(PARITIES)):
            raise InputError(f"an order names each of the classes 0 to 7 once, not {self.classes}")

    @classmethod
    def parse(cls, text: str) -> Order:
        """An order from its name: natural, color8, or the eight classes separated by blanks.

        Raises:
            InputError: the text is none of these.
        """
        if text == "natural":
            return cls(None)
        if text == "color8":
            return cls(BEST_CLASSES)
        try:
            return cls(tuple(int(word) for word in text.split()))
        except (AttributeError, ValueError) as error:
            raise InputError(
                f"unknown order {text!r}: use natural, color8, or eight classes such as '7 5 2 6 1 4 3 0'"
            ) from error

    def count(self, shape: Triple) -> int:
        """Number of colors of a box of this extent."""
        nx, ny, nz = shape
        return PARITIES if self.classes else nx + 2 * (ny - 1) + 4 * (nz - 1)

    def colors(self, xp: Any, shape: Triple) -> Any:
        """Color of every row of a box: int32 (rows,), made by the array module xp."""
        i, j, k = (xp.arange(n, dtype=xp.int32) for n in shape)
        if self.classes is None:
            color = i[None, None, :] + 2 * j[None, :, None] + 4 * k[:, None, None]
        else:
            table = [self.classes.index(c) for c in range(PARITIES)]
            parity = (i % 2)[None, None, :] + 2 * (j % 2)[None, :, None] + 4 * (k % 2)[:, None, None]
            color = xp.asarray(table, dtype=xp.int32)[parity]
        return color.reshape(-1)

    def __str__(self) -> str:
        if self.classes is None:
            return "natural"
        return "color8" if self.classes == BEST_CLASSES else " ".join(map(str, self.classes))
