"""R and P without columns on a GPU: the launches that corners and parities share."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.streams import launch_early
from dsolver.kernels.cuda.vectors.vectors import CudaVectors, vectors
from dsolver.kernels.formats.base import SeparateSum
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening, Triple

LINES: Final = 8  # lines of a block's threads, as in parities.cu and faces.cuh: a warp goes along x
THREADS: Final = LINES * SLICE
ROWS: Final = 2  # rows of a thread of `prolong_add`, one behind the other along z, as in both sources
Blocks = tuple[int, int, int]


class ColumnlessTransfer(SeparateSum, ABC):
    """R and P of rows of all colors but the last, for one column or several, whose weights are then read once."""

    file: ClassVar[str]
    layout: Layout
    coarse: Layout  # the storage order of the restricted residual
    values: Array
    factors: Triple

    @property
    @abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of all kernels: the levels and the weights."""

    @abstractmethod
    def restrict_full(self, y: Array, rc: Array, width: int = 1) -> None: ...

    @abstractmethod
    def prolong_add(self, xc: Array, x: Array, width: int = 1) -> None: ...

    @cached_property
    def vectors(self) -> CudaVectors:
        """The vector kernels."""
        return vectors(type_of(self.values))

    def batched(self, width: int) -> Columns:
        return CheckeredTransferColumns(self, width)

    def launch(self, name: str, grid: Blocks, width: int, sizes: tuple[int, int], *given: Array) -> None:
        """Launch a kernel, or that of several columns.

        `sizes`: how far columns are apart, of what is read and of what is written. `given`: what is read and written.
        """
        arguments = (*self.arguments, *given)
        if width > 1:
            name, arguments = "columns_" + name, (*arguments, *map(np.int64, sizes), np.int32(width))
        launch_early(kernel(self.file, name, type_of(self.values)), grid, (THREADS,), arguments)


class CheckeredTransferColumns(SeparateSum, Columns):
    """A `ColumnlessTransfer` for several columns: weights are read once."""

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.one.restrict_full(y, rc, self.width)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.one.prolong_add(xc, x, self.width)


def alone(made: Coarsening) -> bool:
    """Whether a chunk is its whole grid."""
    return made.lo == (0, 0, 0) and made.shape == made.grid


def halved(factors: Triple) -> int:
    """The axes that are coarsened, as bits."""
    return sum(1 << axis for axis, factor in enumerate(factors) if factor == 2)


def blocks(across: int, lines: int, planes: int) -> Blocks:
    """Blocks for so many threads along x and y, and as many as planes along z."""
    return -(-across // SLICE), -(-lines // LINES), planes
