"""Corners: the interpolation to the first color of a checkerboard of points from every second point along each axis.

After a sweep from zero in two colors the residual is zero on the second one, and a sweep in the opposite order begins with
the second one, whatever was there before. So restriction reads the first color alone, and prolongation need not correct
the other one. With coarse points at odd indices, a point of the first color is a coarse one or lies in the middle of a
square of four coarse ones: it has four weights at most, and which points these are of follows from its indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.layout import Array, Layout

CORNERS: Final = 4
"""Coarse points that a point of the first color is interpolated from, at most."""


@dataclass(frozen=True, kw_only=True)
class Corners(Format):
    """R and P of one chunk that is the whole grid.

    Attributes:
        layout: the storage order of the fine rows, with two colors as on a checkerboard.
        coarse: that of the restricted residual; what is prolonged is in lattice order.
        values: (4, rows of the first color), the weights of a point's corners, along the first of its two even axes
            fastest. A coarse point has its own weight in the first place, and the others are not read.
        wraps: along which axes the grid is periodic.
    """

    layout: Layout
    coarse: Layout
    values: Array
    wraps: tuple[bool, bool, bool]
