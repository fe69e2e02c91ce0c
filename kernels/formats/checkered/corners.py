"""Corners: the interpolation to the first color of a checkerboard of points from every second point along some axes.

After a sweep from zero in two colors the residual is zero on the second one, and a sweep in the opposite order begins
with the second one, whatever was there before. So restriction reads the first color alone, and prolongation need not
correct the other one. Coarse points are at odd indices. So where all axes are coarsened, a point of the first color is
a coarse one or lies in the middle of a square of four coarse ones, and has four weights at most, as it has where fewer
axes are coarsened. Which points these are of follows from its indices.
"""

from dataclasses import dataclass

from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.layout import Array, Layout


@dataclass(frozen=True, kw_only=True)
class Corners(Format):
    """R and P of one chunk that is the whole grid."""

    layout: Layout  # the storage order of the fine rows, with two colors as on a checkerboard
    coarse: Layout  # that of the restricted residual; what is prolonged is in lattice order
    # (4, or 2 for one axis, rows of the first color): the weights of a point's corners, one or two along each axis that
    # is coarsened, along the first one with two fastest. What a point has no corner for is not read.
    values: Array
    factors: tuple[int, int, int]  # 2 for axes that are coarsened, 1 for the others
    wraps: tuple[bool, bool, bool]  # along which axes the grid is periodic
