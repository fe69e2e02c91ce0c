"""Rows of a matrix before they are stored."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class CandidateRows(Protocol):
    """Rows with the same number K of candidate entries each, some of which may be missing: `StencilRows` or `Ell`.

    Rows are the points (x, y, z) of a box, x fastest; rows without a lattice are one line. Candidate k of a point is in
    column ``numbering[first + x + line * (y + lines * z) + steps[k]]``: an own one, own columns + s for halo slot s, or
    -1 for none.
    """

    @property
    def numbering(self) -> Any:
        """int32, the columns of the candidates."""

    @property
    def weights(self) -> Any:
        """float64 (K,) for one value per candidate, or (K, rows) for one per row."""

    @property
    def halo(self) -> bool:
        """Whether there may be halo slots in the numbering."""

    @property
    def walk(self) -> tuple[int, int, int, int, int]:
        """The box's points along x and y, and `first`, `line` and `lines`."""

    @property
    def star(self) -> tuple[bool, bool, bool] | None:
        """Along which axes a star's last points, with own weights in the order of `STAR`, meet its first; else None."""

    @property
    def box_offsets(self) -> tuple[tuple[int, int, int], ...] | None:
        """Offsets of the candidates, where columns follow from these and the box without halo and wraps; else None."""

    def steps(self) -> npt.NDArray[np.int64]:
        """Offset of each candidate from its row's place, int64 (K,)."""
