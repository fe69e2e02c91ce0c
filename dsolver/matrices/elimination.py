"""Size of the factors that a matrix would have, looked for when somebody asks, and no further than that."""

from __future__ import annotations

from typing import Any, final

from dsolver.kernels.direct.fill import Fill, fill_of
from dsolver.matrices.checked import on_host


@final
class Elimination:
    """Elimination of a matrix, on paper.

    Args:
        rows: the matrix, as `checked` has it.
    """

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._found: Fill | None = None
        self._looked = 0.0

    def within(self, entries: float) -> Fill | None:
        """The fill of its factors; None where these have more than so many entries.

        Of a small matrix whose factors could not have more if they were full, they are taken to be so.
        """
        rows = float(self._rows.shape[0])
        if self._found is None and rows * rows <= entries:
            return Fill(entries=rows * rows, products=rows**3 / 3.0)
        if self._found is None and entries > self._looked:
            self._found, self._looked = fill_of(on_host(self._rows), entries), entries
        return self._found if self._found is not None and self._found.entries <= entries else None
