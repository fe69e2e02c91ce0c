"""Parities on a GPU: restriction and prolongation between levels of eight colors, with their launches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.streams import follow
from dsolver.kernels.cuda.vectors import CudaVectors, vectors
from dsolver.kernels.formats.base import SeparateSum
from dsolver.kernels.formats.checkered.parities import CLASSES, Parities, fits, starts
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening

FILE: Final = "sell/parities.cu"
THREADS, ROWS = 256, 2
"""Threads of a block, and rows of a thread of `prolong_add`, as in parities.cu."""
LEVELS: Final = np.dtype(
    [
        ("n", np.int32, 3),
        ("c", np.int32, 3),
        ("halved", np.int32),
        ("wraps", np.int32),
        ("fine", np.int32, CLASSES),
        ("coarse", np.int32, CLASSES),
        ("start", np.int32, CLASSES),
    ],
    align=True,
)


@final
@dataclass(frozen=True, kw_only=True)
class CudaParities(SeparateSum, Parities):
    """R and P with their kernels and the launches of these."""

    @cached_property
    def vectors(self) -> CudaVectors:
        """The vector kernels."""
        return vectors(self.values.dtype.name)

    @cached_property
    def levels(self) -> npt.NDArray[np.void]:
        """`Levels` of parities.cu."""
        made = np.zeros(1, LEVELS)
        made["n"], made["c"] = self.layout.shape, self.coarse.shape
        made["halved"] = sum(1 << axis for axis, factor in enumerate(self.factors) if factor == 2)
        made["wraps"] = sum(1 << axis for axis, wrap in enumerate(self.wraps) if wrap)
        made["fine"], made["coarse"] = _firsts(self.layout), _firsts(self.coarse)
        made["start"] = starts(self.layout.shape, self.factors)[:CLASSES]
        return made

    @cached_property
    def fine_blocks(self) -> int:
        """Threads for a row each of the largest class, in blocks."""
        return -(-math.prod((n + 1) // 2 for n in self.layout.shape) // THREADS)

    def batched(self, width: int) -> Columns:
        return ParityColumns(self, width)

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.restrict_columns(y, rc, 1)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.prolong_columns(xc, x, 1)

    def restrict_columns(self, y: Array, rc: Array, width: int) -> None:
        """`restrict_full` of so many columns."""
        nx, ny, nz = self.coarse.shape
        along, parities_along = (nx, 1) if self.factors[0] == 2 else ((nx + 1) // 2, 2)
        grid = -(-(along * ny * nz) // THREADS), parities_along
        self._launch(f"restrict_full_{self.levels['halved'][0]}", grid, width, (self.layout.size, self.coarse.size), y, rc)

    def prolong_columns(self, xc: Array, x: Array, width: int) -> None:
        """`prolong_add` of so many columns."""
        grid = -(-self.fine_blocks // ROWS), CLASSES - 1
        self._launch("prolong_add", grid, width, (self.coarse.size, self.layout.size), xc, x)

    def _launch(self, name: str, grid: tuple[int, int], width: int, sizes: tuple[int, int], *given: Array) -> None:
        arguments: tuple[Any, ...] = (self.levels, self.values, *given)
        if width > 1:
            name, arguments = "columns_" + name, (*arguments, *map(np.int64, sizes), np.int32(width))
        follow(kernel(FILE, name, self.values.dtype.name), grid, (THREADS,), arguments)


@final
class ParityColumns(SeparateSum, Columns):
    """`CudaParities` for several columns: weights are read once."""

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.one.restrict_columns(y, rc, self.width)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.one.prolong_columns(xc, x, self.width)


def parities(made: Coarsening, p: Array, rows: Layout, coarse: Layout, dtype: np.dtype[Any]) -> CudaParities | None:
    """See `FormatBuilder.half_transfer`."""
    alone = made.lo == (0, 0, 0) and made.shape == made.grid
    colored = rows.parities is not None and coarse.parities is not None
    if not (alone and colored and fits(made.grid, made.periodic, made.factors)):
        return None
    values = cupy.empty(SLICE * starts(made.grid, made.factors)[-1], dtype)
    found = CudaParities(layout=rows, coarse=coarse, values=values, factors=made.factors, wraps=made.periodic)
    arguments = found.levels, cupy.ascontiguousarray(p), values
    kernel(FILE, "pick", dtype.name)((found.fine_blocks, CLASSES - 1), (THREADS,), arguments)
    settle()  # passes read it before they wait for earlier launches
    return found


def _firsts(layout: Layout) -> list[int]:
    """Where the rows of each parity class begin in a vector."""
    assert layout.parities is not None
    return [SLICE * int(layout.color_slices[color]) for color in layout.parities]
