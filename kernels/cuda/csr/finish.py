"""Products on a GPU that end in a residual or a sweep of Jacobi in the same pass: see finish.cuh."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np

from dsolver.kernels.formats.layout import Array

NOTHING: Final = np.uint64(0)
"""The address of an array that is not there."""


class Finished(ABC):
    """A format whose product may end in something else than y = A x."""

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
