"""Set-up of layouts: storage orders of rows, and routes of items between vectors."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import SLICE, Array, Layout, Route

T = TypeVar("T")


class LayoutSetup(ABC):
    """Storage orders on a device; guard: zero items before the first and behind the last of vectors."""

    def __init__(self, xp: Any, guard: int) -> None:
        self.xp = xp
        self.guard = guard

    @abstractmethod
    def colored(self, color: Array, colors: int, shape: tuple[int, int, int]) -> Layout:
        """Storage order of rows whose colors (int32 (rows,), 0 .. colors - 1) are given in lattice order."""

    def plain(self, shape: tuple[int, int, int]) -> Layout:
        """The storage order of a box of rows that is their lattice order: one color."""
        made = self.colored(self.xp.zeros(math.prod(shape), dtype=np.int32), 1, shape)
        return replace(made, in_order=True)

    def kept(self, kind: str, rows: int, key: Hashable, make: Callable[[], T]) -> T:
        """Result of `make`: arrays of about so many rows, not to be written to, that follow from a key of this kind.

        A device may keep it for other set-ups.
        """
        return make()

    def permuted(self, layout: Layout, order: Array) -> Layout:
        """A storage order, of one color, for the same rows in another order: int32 (rows,), the row at each place."""
        order, row = self.xp.asarray(order), layout.row.copy()
        position = self.xp.empty_like(layout.position)
        row[layout.position], position[order] = order, layout.position
        return replace(layout, position=position, row=row, in_order=False)

    def lattice(
        self, classes: Sequence[npt.NDArray[np.int_]], colors: npt.NDArray[np.int32], shape: tuple[int, int, int]
    ) -> Layout:
        """The storage order of a box of rows whose colors follow from a class along each axis.

        `classes`: of the places along x, y, z: (nx,), (ny,), (nz,), in 0 .. k - 1. `colors`: int32 (k, k, k), the color
        of the classes along z, y, x; each from 0 to the largest is there.
        """
        x, y, z = (self.xp.asarray(axis) for axis in classes)
        kinds = len(colors)
        number = x[None, None, :] + kinds * (y[None, :, None] + kinds * z[:, None, None])
        color = self.xp.asarray(colors.reshape(-1))[number.reshape(-1)]
        return self.colored(color, int(colors.max()) + 1, shape)

    def opened(self, layout: Layout, closed: Array) -> Layout:
        """The storage order without the rows that are closed: these lie in the last guard, where vectors are zero.

        In its first place: a run that reads it in any lane stays inside the vector.

        `layout`: of all rows. `closed`: bool (rows,), rows without couplings, not asked for. Where vectors have no
        guards, they stay.
        """
        if not self.guard:
            return layout
        xp, colors = self.xp, layout.colors
        made = self.colored(xp.where(closed, np.int32(colors), layout.color), colors + 1, layout.shape)
        color_slices = made.color_slices[:-1]
        size = int(color_slices[-1] + 1) * SLICE
        row = made.row[:size].copy()
        row[size - SLICE :] = -1  # the first of those that are closed
        position = xp.where(closed, np.int32(size - SLICE), made.position)
        return replace(made, size=size, color_slices=color_slices, position=position, row=row, color=layout.color)

    def some(self, shape: tuple[int, int, int], kept: Array) -> Layout:
        """The storage order of some rows of a box, int32, in lattice order; the others lie in the last guard.

        As `opened` makes it of the box's plain order, but without a sort.
        """
        plain, color_slices = self.plain(shape), np.array([1, 1 - -len(kept) // SLICE], dtype=np.int64)
        size = int(color_slices[-1] + 1) * SLICE
        position, row = self._places_of(kept, plain.rows, size)
        return replace(plain, size=size, color_slices=color_slices, position=position, row=row, in_order=False)

    def _places_of(self, kept: Array, rows: int, size: int) -> tuple[Array, Array]:
        """Positions of all rows, of which those that are kept are stored in their order, and the row at each."""
        position, row = np.full(rows, size - SLICE, dtype=np.int32), np.full(size, -1, dtype=np.int32)
        position[kept] = np.arange(SLICE, SLICE + len(kept), dtype=np.int32)
        row[SLICE : SLICE + len(kept)] = kept
        return position, row

    def route(self, source: Array, target: Array) -> Route:
        """Items that go from places of one vector to places of another; see `Route`."""
        source, target = (self.xp.asarray(places, dtype=np.int32) for places in (source, target))
        return Route(source=source, target=target)
