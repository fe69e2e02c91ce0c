"""Products and sweeps of Jacobi on a GPU, each in one pass over the entries of a chunk's matrix."""

from abc import ABC, abstractmethod
from typing import Any

from dsolver.kernels.formats.base import SweepsInParts
from dsolver.kernels.formats.layout import Array


class MatrixPasses(SweepsInParts, ABC):
    """Matrices whose kernels form a product, or a whole sweep, while they read each entry once."""

    partials: Any
    stored: Any  # the end of the name of a product's kernel: "" where entries have the value type of vectors

    @abstractmethod
    def run_pass(self, name: str, *vectors: Array) -> None:
        """Launch a kernel over all entries, the diagonal too."""

    def spmv(self, x: Array, y: Array) -> None:
        self.run_pass("spmv" + self.stored, x, y)

    def spmv_dot(self, x: Array, y: Array, dot: Array) -> None:
        self.run_pass("spmv_dot" + self.stored, x, y, self.partials)
        self._add_up(dot)

    def residual(self, r: Array, x: Array, y: Array) -> None:
        if self.stored:
            super().residual(r, x, y)
        else:
            self.run_pass("residual", r, x, y)

    def jacobi_sweep(self, scaled: Any, r: Array, x: Array, z: Array) -> None:
        if self.stored:
            super().jacobi_sweep(scaled, r, x, z)
        else:
            self.run_pass("jacobi_sweep", scaled.diagonal, r, x, z)

    def jacobi_sweep_dot(self, scaled: Any, r: Array, x: Array, z: Array, dot: Array) -> None:
        if self.stored:
            super().jacobi_sweep_dot(scaled, r, x, z, dot)
        else:
            self.run_pass("jacobi_sweep_dot", scaled.diagonal, r, x, z, self.partials)
            self._add_up(dot)

    def _add_up(self, dot: Array) -> None:
        self.vectors.sum(self.partials, len(self.partials), dot)
