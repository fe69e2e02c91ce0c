"""Faces: a symmetric matrix of stars whose rows have the colors of a checkerboard, by its diagonal and upper entries.

A face lies between two neighboring points of a box of rows. Its number is the entry of both their rows, so it is stored
once, with the row that is below it along its axis: three numbers a row, where slices store six and their columns. Which
points are neighbors, and where they are in a vector, follows from the box's shape.
"""

from dataclasses import dataclass

from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.candidate_rows import CandidateRows
from dsolver.kernels.formats.layout import Array, Layout


@dataclass(frozen=True, kw_only=True)
class Faces(Format):
    """The local, square part of one chunk's rows."""

    layout: Layout  # the storage order
    diagonal: Array  # (layout.size,) of the backend's value type, 1 on padding and guards
    # (3, layout.size), the entries in the next points along x, y and z, at the rows' storage positions; 0 where that
    # point is not an own one, and on padding and guards.
    values: Array
    wraps: tuple[bool, bool, bool]  # along which axes the box's last points are next to its first ones


def wraps_of(layout: Layout, rows: CandidateRows) -> tuple[bool, bool, bool] | None:
    """The axes along which rows wrap that can be stored as faces if their matrix is symmetric; None for other rows."""
    wraps = rows.star
    if wraps is None or layout.checkered is None or layout.shape[0] % 2 or not layout.rows:
        return None
    return None if any(wrap and n < 2 for wrap, n in zip(wraps, layout.shape, strict=True)) else wraps
