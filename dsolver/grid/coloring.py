"""Colorings: the order in which a smoother visits the rows of a chunk.

An order is a color for every point: rows of one color do not read each other and are visited together, colors one after
the other. Parity classes color a 7- or 27-point stencil that way, and so does the natural order where no axis is
periodic; red and black color a 7-point stencil.

Around a periodic axis with an odd number of points two points of equal parity meet. Its last plane is then a third
class; that matters only where a chunk has the whole axis, for colors order the rows of one chunk.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.errors import InputError, in_a_line
from dsolver.grid.box import BOX_OFFSETS, Box, Flags, Offsets, Triple
from dsolver.grid.partition import Partition
from dsolver.kernels.backend import Backend
from dsolver.kernels.colorings import COLORINGS, colored
from dsolver.kernels.colorings.graph import Graph
from dsolver.kernels.cpu.colorings.setup import HostSweeps
from dsolver.kernels.formats.layout import Layout

PARITIES = 8

BEST_CLASSES = (7, 5, 6, 1, 2, 3, 4, 0)
"""Visits the coarse points (class 0) last going forward, so that the coarse grid sees the residual that is left; the
best of the orders measured for the 27-point problem (docs/decisions/interpolation-from-the-matrix.md)."""

MULTIGRID_CLASSES: Final = (7, 6, 5, 3, 4, 2, 1, 0)
"""Parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) in the order of the forward sweep. Coarse points come first: the
sweep that precedes the coarse correction then leaves its residual where the correction looks for it."""

RED_BLACK: Final = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=np.int32)
"""The colors of a star's rows by parity along z, y, x: points with an odd sum of indices come first."""

NOWHERE: Final[Flags] = (False, False, False)


@dataclass(frozen=True)
class Order:
    """A coloring of points."""

    # the parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) in the order of the forward sweep, or None for the natural
    # order: there the color is i + 2 j + 4 k. Every neighbor with a smaller row number has a smaller color, so visiting
    # colors in order is Gauss-Seidel in natural order, with whole wavefronts at a time.
    classes: tuple[int, ...] | None
    red_black: bool = False  # the color is the parity of i + j + k, for 7-point stencils alone; classes is None then
    # a name of `dsolver.kernels.colorings.COLORINGS`, for the graph of 27 points; classes is None then.
    coloring: str | None = None

    def __post_init__(self) -> None:
        if self.red_black and self.classes is not None:
            raise InputError("red and black points are ordered by their color, not by classes")
        if self.classes is not None and sorted(self.classes) != list(range(PARITIES)):
            raise InputError(f"an order names each of the classes 0 to 7 once, not {self.classes}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """An order by its name: natural, color8, color2, a coloring's, or eight classes with blanks; or InputError."""
        if text == "natural":
            return cls(None)
        if text == "color8":
            return cls(BEST_CLASSES)
        if text == "color2":
            return cls(None, red_black=True)
        if text in COLORINGS:
            return cls(None, coloring=text)
        try:
            return cls(tuple(int(word) for word in text.split()))
        except (AttributeError, ValueError) as error:
            raise InputError(
                f"unknown order {in_a_line(text)}: use natural, color8, or eight classes such as '7 5 2 6 1 4 3 0', or "
                f"a coloring, {', '.join(COLORINGS)}"
            ) from error

    def count(self, shape: Triple, wrapped: Flags = NOWHERE) -> int:
        """Number of colors of a box of this extent, empty ones included."""
        nx, ny, nz = shape
        if self.coloring is not None:
            return int(_colored(self.coloring, shape).max()) + 1
        if self.red_black:
            return 3 if any(_odd(shape, wrapped)) else 2
        if self.classes is not None:
            return math.prod(3 if third else 2 for third in _odd(shape, wrapped))
        return nx + 2 * (ny - 1) + 4 * (nz - 1)

    def colors(self, xp: Any, shape: Triple, wrapped: Flags = NOWHERE) -> Any:
        """Color of every row of a box: int32 (rows,), made by the array module xp.

        `wrapped`: along which axes the box's last point is followed by its first. InputError: the natural order, or a
        coloring by name, of a box that is wrapped.
        """
        if self.classes is None and not self.red_black:
            if any(wrapped):
                raise InputError(f"order={str(self)!r} is for grids that are not periodic: use color8")
            if self.coloring is not None:
                return xp.asarray(_colored(self.coloring, shape))
            i, j, k = (xp.arange(n, dtype=xp.int32) for n in shape)
            color = i[None, None, :] + 2 * j[None, :, None] + 4 * k[:, None, None]
            return color.reshape(-1)
        odd = _odd(shape, wrapped)
        i, j, k = (xp.asarray(_parities(0, n, n if third else None)) for n, third in zip(shape, odd, strict=True))
        if self.red_black:
            sums = i[None, None, :] + j[None, :, None] + k[:, None, None]
            color = (sums % self.count(shape, wrapped)).astype(xp.int32)
        else:
            color = xp.asarray(self._table(odd))[k[:, None, None], j[None, :, None], i[None, None, :]]
        return color.reshape(-1)

    def _table(self, odd: Flags) -> npt.NDArray[np.int32]:
        """The color of each class along z, y, x; a third class comes after that of even points, whose parity it has."""
        assert self.classes is not None
        places = {c: place for place, c in enumerate(self.classes)}
        return _numbered(
            [3 if third else 2 for third in odd],
            lambda x, y, z: (places[x % 2 + 2 * (y % 2) + 4 * (z % 2)], x // 2 + y // 2 + z // 2),
        )

    def __str__(self) -> str:
        if self.coloring is not None:
            return self.coloring
        if self.classes is None:
            return "color2" if self.red_black else "natural"
        return "color8" if self.classes == BEST_CLASSES else " ".join(map(str, self.classes))


@lru_cache(maxsize=8)
def _colored(name: str, shape: Triple) -> npt.NDArray[np.int32]:
    """Colors of the points of a box by name, made on the host: int32 (rows,)."""
    nx, ny, nz = shape
    number = np.pad(np.arange(nx * ny * nz, dtype=np.int32).reshape(nz, ny, nx), 1, constant_values=-1)
    around = [
        number[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
        for i, j, k in BOX_OFFSETS
        if (i, j, k) != (0, 0, 0)
    ]
    columns = np.stack(around, axis=1)  # ascending in each row, since the offsets are
    start = np.concatenate([[0], np.cumsum((columns >= 0).sum(axis=1))])
    return colored(HostSweeps(), Graph(start, columns[columns >= 0]), name, 0)


def _odd(shape: Triple, wrapped: Flags) -> Flags:
    """The axes around which parities do not alternate."""
    x, y, z = (wraps and n % 2 == 1 for n, wraps in zip(shape, wrapped, strict=True))
    return x, y, z


def colored_layout(backend: Backend, partition: Partition, box: Box, offsets: Offsets) -> Layout:
    """The storage order of a box of rows of multigrid: two colors for a star, else eight; more where periods are odd.

    Colors follow from global indices, so that all chunks agree on them.
    """
    odd = _odd(partition.grid, partition.periodic)
    classes = [
        _parities(a, b, n if third else None)
        for a, b, n, third in zip(box.lo, box.hi, partition.grid, odd, strict=True)
    ]
    if all(sum(map(abs, o)) <= 1 for o in offsets) and not any(odd):
        return backend.layouts.lattice(classes, RED_BLACK, box.shape)
    return backend.layouts.lattice(classes, _class_colors(3 if any(odd) else 2), box.shape)


@cache
def _class_colors(kinds: int) -> npt.NDArray[np.int32]:
    """The color of each class of multigrid along z, y, x, where axes have so many classes."""
    return _numbered([kinds] * 3, lambda x, y, z: MULTIGRID_CLASSES.index((x > 0) + 2 * (y > 0) + 4 * (z > 0)))


@lru_cache(maxsize=256)
def _parities(lo: int, hi: int, period: int | None) -> npt.NDArray[np.int_]:
    """0 or 1 by parity at places lo .. hi - 1 of an axis, and 2 at the last point of an odd period, if there is one.

    Not to be written to: every set-up of a grid asks for the same ones.
    """
    places = np.arange(lo, hi)
    found = np.where(places + 1 == period, 2, places & 1)
    found.setflags(write=False)
    return found


def _numbered(kinds: Sequence[int], key: Callable[[int, int, int], Any]) -> npt.NDArray[np.int32]:
    """The color of each class along z, y, x, where axes have so many classes: in ascending order of key(x, y, z)."""
    x, y, z = kinds
    table = np.zeros((z, y, x), dtype=np.int32)
    classes = sorted(product(range(z), range(y), range(x)), key=lambda c: key(*c[::-1]))
    for number, at in enumerate(classes):
        table[at] = number
    return table
