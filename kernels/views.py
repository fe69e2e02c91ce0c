"""Views of arrays: one without its base, and the index of a layer of a box."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsolver.kernels.formats.layout import Array


def without_base(view: "Array") -> "Array":
    """A contiguous view as an array without a base, in the same memory; another view as it is.

    For every view of an array of more than 2 GB, however small, CuPy compiles kernels with 64-bit indices beside those
    that a process has: 0.07 s for each operation.
    """
    return type(view)(view.shape, view.dtype, view.data) if view.flags.c_contiguous else view


def layer(axis: int, side: int, across: slice = slice(None)) -> tuple[slice, slice, slice]:
    """Index of the first (side 0) or last (side 1) layer along x, y or z in an array (nz, ny, nx)."""
    places = [across] * 3
    places[2 - axis] = slice(0, 1) if side == 0 else slice(-1, None)
    z, y, x = places
    return z, y, x
