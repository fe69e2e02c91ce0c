"""Matrix rows of a box of grid points."""

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

Real = npt.NDArray[Any]
Triple = tuple[int, int, int]

OFFSETS: Final[tuple[Triple, ...]] = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
CENTER: Final = OFFSETS.index((0, 0, 0))
STAR: Final = tuple(offset for offset in OFFSETS if sum(map(abs, offset)) <= 1)  # the offsets of 7 points


@dataclass(frozen=True, kw_only=True)
class StencilRows:
    """Matrix rows of a box of grid points: the same K offsets in every row, a value for each."""

    shape: tuple[int, int, int]  # points of the box along x, y, z; row number i + nx * (j + ny * k)
    # int32 ((nx + 2) * (ny + 2) * (nz + 2),), the box with one more layer on each side, x fastest: the row number of an
    # own point, rows + s for halo slot s, -1 outside the domain.
    numbering: Array
    # the K offsets (di, dj, dk), each in -1 .. 1; (0, 0, 0) is the diagonal and must be among them.
    offsets: tuple[tuple[int, int, int], ...]
    weights: Array  # float64 (K,) for one value per offset, or (K, rows) for one per row
    halo: bool = True  # whether there may be halo slots in the numbering
    # along which axes the box's last points are next to its first ones; None where only the numbering tells.
    wraps: tuple[bool, bool, bool] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def walk(self) -> tuple[int, int, int, int, int]:
        nx, ny, _ = self.shape
        line, lines = nx + 2, ny + 2
        return nx, ny, 1 + line * (1 + lines), line, lines

    @property
    def star(self) -> tuple[bool, bool, bool] | None:
        return self.wraps if self.offsets == STAR and self.weights.ndim > 1 else None

    @property
    def box_offsets(self) -> tuple[tuple[int, int, int], ...] | None:
        return None if self.halo or self.wraps is None or any(self.wraps) else self.offsets

    def steps(self) -> npt.NDArray[np.int64]:
        """Distance of each offset in `numbering`: int64 (K,)."""
        *_, line, lines = self.walk
        return np.array([i + line * (j + lines * k) for i, j, k in self.offsets], dtype=np.int64)
