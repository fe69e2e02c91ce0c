"""How a chunk's rows and matrix entries lie in memory.

Rows are stored color after color, in lattice order inside a color, each color padded to whole slices of
`SLICE` rows. One guard slice of zeros stands before the first and after the last row, so that a load at
``base + lane`` of a run slice is always inside the vector. Padding rows have diagonal 1 and no entries.

The entries of a slice are three runs of equally long columns, lane fastest::

    lower (columns of earlier colors) | upper, not coarse | upper, coarse points

so a half sweep reads half a slice, SpMV reads it whole, and the post-smoother's correction reads its tail. A slice
whose k-th entries all lie at ``base_k + lane`` stores one int32 base per k (a *run* slice: 8.1 bytes an entry);
any other stores all 32 columns (an *explicit* slice: 12 bytes an entry). Holes have value 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SLICE = 32
"""Rows of a slice: a warp's width, and eight or four registers of a CPU."""

Array = Any
"""A NumPy or CuPy array; kernels of one backend only ever see one of the two."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The storage order of one chunk's rows.

    Attributes:
        rows: number of rows (without padding).
        size: length of a vector in storage order, guards and padding included.
        color_slices: int64 (colors + 1,) on the host; color c is slices [color_slices[c], color_slices[c + 1]).
        position: int32 (rows,), row to storage position.
        row: int32 (size,), storage position to row, or -1 for padding.
        color: int32 (rows,), the color of each row, in 0 .. colors - 1.
        shape: the chunk's extent (nx, ny, nz) when its rows are a lattice with x fastest, else (rows, 1, 1).
    """

    rows: int
    size: int
    color_slices: npt.NDArray[np.int64]
    position: Array
    row: Array
    color: Array
    shape: tuple[int, int, int]

    @property
    def colors(self) -> int:
        """Number of colors, empty ones included."""
        return len(self.color_slices) - 1


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Sliced ELL entries. All arrays are on the device that owns the chunk; S is the number of slices.

    Attributes:
        start: int64 (S + 1,), slice s holds values [start[s], start[s + 1]), a multiple of `SLICE` long.
        upper: int32 (S,), index of the first entry column of slice s that is upper (lower ones come first).
        coarse: int32 (S,), index of the first entry column of slice s that is upper and a coarse point.
        column_start: int64 (S + 1,), where the columns of slice s start in `columns`.
        values: (start[-1],) of the backend's value type, entry k of lane l of slice s at start[s] + k * SLICE + l.
        columns: int32; a run slice has one base per k, an explicit slice `SLICE` columns per k. A slice is a run
            exactly when column_start[s + 1] - column_start[s] is the number of its entry columns.
    """

    start: Array
    upper: Array
    coarse: Array
    column_start: Array
    values: Array
    columns: Array


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The local, square part of one chunk's rows; `HaloMatrix` is the rest.

    Attributes:
        layout: the storage order.
        diagonal: (layout.size,) of the backend's value type, 1 on padding and guards.
        local: entries off the diagonal whose column this chunk owns; columns are storage positions. Slice 0 of
            `local` is the first slice of rows, storage slice 1.
    """

    layout: Layout
    diagonal: Array
    local: Slices


@dataclass(frozen=True, kw_only=True)
class HaloMatrix:
    """The part of one chunk's rows that multiplies a halo.

    Attributes:
        boundary: int32 (B,), storage positions of the rows that read the halo, ascending.
        slices: their entries, slices of `SLICE` consecutive items of `boundary`; all are lower ones, and columns index
            the halo vector, which has a guard slice of zeros on both sides.
    """

    boundary: Array
    slices: Slices

    @property
    def size(self) -> int:
        """Length of a vector with one item for each boundary row."""
        return len(self.boundary)


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Injection between a level and the next coarser one, inside a chunk.

    Attributes:
        coarse_of: int32 (fine size,), coarse storage position of a fine storage position, or -1.
        fine_of: int32 (coarse size,), fine storage position of a coarse one, or -1 for padding.
        slices: (first, last + 1) storage slices of the fine level that hold all coarse points.
    """

    coarse_of: Array
    fine_of: Array
    slices: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Product:
    """A rectangular matrix: rows of one vector, columns of another.

    Attributes:
        slices: the entries of `SLICE` consecutive rows each; all are lower ones, columns index the vector that is read.
        target: int32 (slices x SLICE,), where each row's result belongs in the vector that is written, or -1.
    """

    slices: Slices
    target: Array


@dataclass(frozen=True, kw_only=True)
class Route:
    """Items that go from one vector to another.

    Attributes:
        source: int32, their places in the vector that is read.
        target: int32, as many different places in the vector that is written.
    """

    source: Array
    target: Array


@dataclass(frozen=True, kw_only=True)
class DenseInverse:
    """The inverse of a small matrix, or what takes its place where there is none.

    Attributes:
        position: int32 (rows,), storage positions of the rows, in lattice order.
        values: float64 (rows, rows), in lattice order.
    """

    position: Array
    values: Array


@dataclass(frozen=True, kw_only=True)
class HaloLayout:
    """Where a chunk's exchanged values lie: in the buffer that it packs and in the halo vector that it receives.

    Attributes:
        send_rows: int32, storage positions to pack, neighbor after neighbor.
        sends: per neighbor (chunk number, first, last + 1) in the packed buffer.
        receives: per neighbor (chunk number, first, last + 1) in the halo vector, guard included.
        size: length of the halo vector, guards included.
        items: length of the vectors that are packed; None where it is not known.
    """

    send_rows: Array
    sends: tuple[tuple[int, int, int], ...]
    receives: tuple[tuple[int, int, int], ...]
    size: int
    items: int | None = None

    def widened(self, width: int, xp: Any) -> HaloLayout:
        """The same for vectors of so many columns, column after column, with an item's columns side by side on the way.

        Raises:
            ValueError: the vectors' length is not known, or beyond what a row number reaches.
        """
        if self.items is None or self.items * width >= 2**31:
            raise ValueError(f"vectors of {self.items} items cannot be exchanged {width} at a time")
        columns = self.items * xp.arange(width, dtype=np.int32)
        return HaloLayout(
            send_rows=(self.send_rows[:, None] + columns[None, :]).astype(np.int32).reshape(-1),
            sends=tuple((chunk, width * first, width * last) for chunk, first, last in self.sends),
            receives=tuple((chunk, width * first, width * last) for chunk, first, last in self.receives),
            size=width * self.size,
            items=width * self.items,
        )
