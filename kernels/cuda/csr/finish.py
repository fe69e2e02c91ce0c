"""Products on a GPU that end in a residual or a sweep of Jacobi in the same pass: see finish.cuh."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, final

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.formats.layout import Array

NOTHING: Final = np.uint64(0)
"""The address of an array that is not there."""


class Finished(ABC):
    """A format whose product may end in something else than y = A x."""

    def batched(self, width: int) -> Columns:
        """The kernels for vectors of so many columns."""
        return FinishedColumns(self, width)

    @property
    def finishes(self) -> bool:
        """Whether its kernels see whole rows."""
        return True

    def residual(self, r: Array, x: Array, y: Array) -> None:
        """y = r - A x."""
        self._finish("residual", (x, r, NOTHING, y, NOTHING))

    def jacobi_sweep(self, w: Array, r: Array, x: Array, z: Array) -> None:
        """z = x + w (r - A x), w being the reciprocal of a diagonal."""
        self._finish("sweep", (x, r, w, z, NOTHING))

    @abstractmethod
    def jacobi_sweep_dot(self, w: Array, r: Array, x: Array, z: Array, dot: Array) -> None:
        """`jacobi_sweep`, and dot = r . z."""

    def jacobi_first(self, w: Array, r: Array, x: Array, y: Array) -> None:
        """x = w r, y = r - A x."""
        self._finish("first", (NOTHING, r, w, y, x))

    @abstractmethod
    def _finish(self, name: str, vectors: tuple[Any, ...]) -> None:
        """Launch the kernel of this name; vectors: `Finish` of finish.cuh."""


@final
class FinishedColumns(Columns):
    """Such a format for several columns: each gets the kernels that it would have alone, and so its bits."""

    def jacobi_sweep(self, w: Array, r: Array, x: Array, z: Array) -> None:
        """See `Finished.jacobi_sweep`; w is of all columns."""
        for number in range(self.width):
            self.one.jacobi_sweep(w, r[number], x[number], z[number])

    def jacobi_sweep_dot(self, w: Array, r: Array, x: Array, z: Array, dot: Array) -> None:
        """See `Finished.jacobi_sweep_dot`; w is of all columns."""
        for number in range(self.width):
            self.one.jacobi_sweep_dot(w, r[number], x[number], z[number], dot[number])

    def jacobi_first(self, w: Array, r: Array, x: Array, y: Array) -> None:
        """See `Finished.jacobi_first`; w is of all columns."""
        for number in range(self.width):
            self.one.jacobi_first(w, r[number], x[number], y[number])
