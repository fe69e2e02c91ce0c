"""Counts of the slices of a chunk of a grid, in a storage order: rows with padding, entries, columns."""

import math
from enum import Enum
from itertools import product

from dsolver.grid.box import Triple
from dsolver.kernels.formats.layout import SLICE


class Colors(Enum):
    """Storage orders: by the parity of each index, by the parity of their sum, in wavefronts, or as rows come."""

    PARITY = "parity"
    RED_BLACK = "red-black"
    NATURAL = "natural"
    LATTICE = "lattice"


def padded_rows(shape: Triple, colors: Colors) -> int:
    """Rows with the padding of each color to whole slices."""
    rows = math.prod(shape)
    if colors is Colors.NATURAL:  # a color is padded by half a slice on average
        nx, ny, nz = shape
        return SLICE * -(-rows // SLICE) + SLICE // 2 * (nx + 2 * (ny - 1) + 4 * (nz - 1))
    halves = [((n + 1) // 2, n // 2) for n in shape]
    counts = {
        Colors.PARITY: [math.prod(along) for along in product(*halves)],
        Colors.RED_BLACK: [(rows + 1) // 2, rows // 2],
        Colors.LATTICE: [rows],
    }
    return sum(SLICE * -(-count // SLICE) for count in counts[colors])


def entries_of_row(shape: Triple, *, star: bool) -> float:
    """Entries off the diagonal that a slice has room for in each row, on average.

    A slice has room for its longest row. Along x it always holds a row in the middle; along y, where it reaches over
    lines; along z, where it reaches over planes.
    """
    nx, ny, nz = shape
    line, plane = (nx + 1) // 2, ((nx + 1) // 2) * ((ny + 1) // 2)
    x = min(nx, 3)
    y = min(ny, 3) if line < SLICE else (3 * ny - 2) / ny
    z = min(nz, 3) if plane < SLICE else (3 * nz - 2) / nz
    return (x - 1) + (y - 1) + (z - 1) if star else x * y * z - 1


def explicit_share(shape: Triple, colors: Colors) -> float:
    """The share of slices that store every column.

    They reach over the end of a line into one that goes on differently. With parity colors these are lines of odd
    extents, whose neighbors have lines of another length; red and black change places from line to line where the
    extent is even.
    """
    nx = next((n for n in shape if n > 1), 1)
    if colors in (Colors.NATURAL, Colors.LATTICE):
        return 1.0
    if nx == 1 or (nx % 2 == 0) == (colors is Colors.PARITY):
        return 0.0
    return sum(_crossing_share(m) for m in (nx // 2 + nx % 2, max(1, nx // 2))) / 2


def _crossing_share(line: int) -> float:
    """The share of slices that reach over the end of a line of so many rows, where lines follow each other."""
    period = math.lcm(line, SLICE)
    slices = period // SLICE
    return min(slices, period // line - 1) / slices
