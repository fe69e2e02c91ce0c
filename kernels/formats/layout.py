"""Storage order of a chunk's vectors, and index maps between vectors.

Rows are stored color after color, in lattice order inside a color, each color padded to whole slices of
`SLICE` rows. One guard slice of zeros stands before the first and after the last row, so that a load at
``base + lane`` of a run slice is always inside the vector. Padding rows have diagonal 1 and no entries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SLICE = 32  # rows of a slice: a warp's width, and eight or four registers of a CPU

Array = Any  # a NumPy or CuPy array; kernels of one backend only ever see one of the two


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The storage order of one chunk's rows."""

    rows: int  # number of rows (without padding)
    size: int  # length of a vector in storage order, guards and padding included
    # int64 (colors + 1,) on the host; color c is slices [color_slices[c], color_slices[c + 1]).
    color_slices: npt.NDArray[np.int64]
    position: Array  # int32 (rows,), row to storage position; that of the last guard for rows that are not stored
    row: Array  # int32 (size,), storage position to row, or -1 for padding
    color: Array  # int32 (rows,), the color of each row, in 0 .. colors - 1.
    # the chunk's extent (nx, ny, nz) when its rows are a lattice with x fastest, else (rows, 1, 1).
    shape: tuple[int, int, int]
    in_order: bool = False  # whether it is known that positions ascend with the rows
    # the color of the first row where two colors are known to alternate along each axis as on a checkerboard, with all
    # rows stored; else None.
    checkered: int | None = None
    # the colors of parity classes (i & 1) + 2 (j & 1) + 4 (k & 1) of the chunk's points where these are known to be
    # eight colors, with all rows stored; else None.
    parities: tuple[int, ...] | None = None

    @property
    def colors(self) -> int:
        """Number of colors, empty ones included."""
        return len(self.color_slices) - 1

    @property
    def places(self) -> Any:
        """`position`, or a slice where it is known that positions follow each other: no index is read then."""
        if not self.in_order or self.colors > 1:
            return self.position
        first = int(self.color_slices[0]) * SLICE
        return slice(first, first + self.rows)


@dataclass(frozen=True, kw_only=True)
class Route:
    """Items that go from one vector to other places of another: int32."""

    source: Array
    target: Array


@dataclass(frozen=True, kw_only=True)
class HaloLayout:
    """Layout of a chunk's exchanged values: in the buffer that it packs and in the halo vector that it receives."""

    send_rows: Array  # int32, storage positions to pack, neighbor after neighbor
    sends: tuple[tuple[int, int, int], ...]  # per neighbor (chunk number, first, last + 1) in the packed buffer
    # per neighbor (chunk number, first, last + 1) in the halo vector, guard included.
    receives: tuple[tuple[int, int, int], ...]
    size: int  # length of the halo vector, guards included
    items: int | None = None  # length of the vectors that are packed; None where it is not known

    def widened(self, width: int, xp: Any) -> "HaloLayout":
        """The layout for so many columns, an item's side by side on the way. ValueError: beyond row numbers."""
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
