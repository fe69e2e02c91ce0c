"""Slices of rows of blocks: SELL-C-σ of B x B blocks, C = 32 (Kreutzer et al. 2014; B = 1 is plain sliced ELL).

The rows of blocks are cut into slices of `SLICE`, in their own order or sorted by length, longest first, within windows
of σ rows. A slice is as wide as its longest row. Of each entry column it stores 32 blocks, lane fastest, and their
columns in one of three ways::

    WIDE   32 int32                    12 bytes an entry for B = 1
    NEAR   32 uint16, from a base      10 bytes: the slice's columns lie within 65,536
    RUN    one int32: lane l has it + l    8.1 bytes: rows of a lattice, one entry column for each distance

Holes have value 0. In a run, a row without an entry at some distance has a hole there.
"""

from dataclasses import dataclass
from typing import Final

from dsolver.kernels.formats.base import Format
from dsolver.kernels.formats.layout import SLICE, Array

BLOCKS: Final = (1, 2, 3, 4, 6)  # B for which there are kernels
WIDE, NEAR, RUN = 0, 1, 2
UNIT: Final = 32
"""Items of `indices` in which places are counted: 64 bytes, a cache line of columns; 32 bits reach 1.4e11."""
NEAR_REACH: Final = 65535
WINDOW: Final = 1024  # rows of blocks that are sorted together at most


@dataclass(frozen=True, kw_only=True)
class BlockSlices(Format):
    """A matrix in slices of rows of blocks. K is the number of entry columns of all slices, S that of slices."""

    shape: tuple[int, int]  # rows and columns of the matrix, multiples of `block`
    block: int
    # uint32 (S, 4): entry columns of the slices before it, place of its columns in `indices` / UNIT, 4 times its entry
    # columns plus how its columns are stored, the base of NEAR columns.
    slices: Array
    indices: Array  # uint16, columns in blocks; int32 as two of them
    values: Array  # (K, B * B, SLICE) of the backend's value type; entry (i, j) of a block at i * B + j
    # int32 (S * SLICE,), the row of blocks of each lane, -1 for none; None where they are in their own order.
    row: Array | None

    @property
    def nbytes(self) -> int:
        arrays = (self.slices, self.indices, self.values, *(() if self.row is None else (self.row,)))
        return sum(int(array.nbytes) for array in arrays)


def require(shape: tuple[int, int], block: int, window: int) -> None:
    """Refuse a block size or a window that has no kernels, or does not divide the shape; raises ValueError."""
    if block not in BLOCKS or any(n % block for n in shape):
        raise ValueError(f"a matrix of {shape[0]} x {shape[1]} has no {block} x {block} blocks: sizes are {BLOCKS}")
    if window != 1 and (window & (window - 1) or not SLICE <= window <= WINDOW):
        raise ValueError(f"rows are sorted in windows of 32, 64, ... {WINDOW} rows of blocks, not {window}")
