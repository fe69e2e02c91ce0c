"""Size of the factors that a matrix would have, looked for when somebody asks, and no further than that."""

from __future__ import annotations

from typing import Any, Final, final

from dsolver.kernels.direct.fill import Fill, fill_of, full_fill
from dsolver.matrices.checked import on_host

FULL: Final = 100
"""Rows up to which factors are taken to be full: there is nothing to be gained by looking."""


@final
class Elimination:
    """Elimination of a matrix, on paper.

    Args:
        rows: the matrix, as `checked` has it.
        mirrored: whether it has an entry (j, i) for each entry (i, j).
    """

    def __init__(self, rows: Any, *, mirrored: bool) -> None:
        self._rows, self._mirrored = rows, mirrored
        self._found: Fill | None = None
        self._beyond: list[Fill] = []

    @property
    def entries(self) -> int:
        """Entries of the matrix itself."""
        return int(self._rows.nnz)

    def within(self, most: Fill) -> Fill | None:
        """The fill of its factors; None where it is beyond a bound."""
        full = full_fill(self._rows.shape[0])
        if self._found is None and self._rows.shape[0] <= FULL:
            self._found = full
        if self._found is None and self.entries <= most.entries and not any(most.within(b) for b in self._beyond):
            self._found = fill_of(on_host(self._rows), most, mirrored=self._mirrored)
            self._beyond.append(most)
        return self._found if self._found is not None and self._found.within(most) else None
