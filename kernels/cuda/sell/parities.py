"""Parities on a GPU: restriction and prolongation between levels of eight colors, with their launches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel, type_of
from dsolver.kernels.cuda.launch.streams import follow
from dsolver.kernels.cuda.vectors import CudaVectors, vectors
from dsolver.kernels.formats.base import SeparateSum
from dsolver.kernels.formats.checkered.parities import CLASSES, Flags, Parities, Triple, fits, starts
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening

FILE: Final = "sell/parities.cu"
LINES, ROWS = 8, 2
"""Lines of a block's threads, and rows of a thread of `prolong_add`, as in parities.cu."""
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
        fine, coarse = self.layout, self.coarse
        return _levels(fine.shape, coarse.shape, self.factors, self.wraps, _firsts(fine), _firsts(coarse))

    def fine_blocks(self, rows: int) -> tuple[int, int, int]:
        """Blocks for the points of all classes but the first, so many of them a thread along z."""
        x, y, z = ((n + 1) // 2 for n in self.layout.shape)
        return (CLASSES - 1) * -(-x // SLICE), -(-y // LINES), -(-z // rows)

    def batched(self, width: int) -> Columns:
        return ParityColumns(self, width)

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.restrict_columns(y, rc, 1)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.prolong_columns(xc, x, 1)

    def restrict_columns(self, y: Array, rc: Array, width: int) -> None:
        """`restrict_full` of so many columns."""
        nx, ny, nz = self.coarse.shape
        along = -(-nx // SLICE) if self.factors[0] == 2 else 2 * -(-nx // (2 * SLICE))
        grid = along, -(-ny // LINES), nz
        name = f"restrict_full_{_halved(self.factors)}"
        self._launch(name, grid, width, (self.layout.size, self.coarse.size), y, rc)

    def prolong_columns(self, xc: Array, x: Array, width: int) -> None:
        """`prolong_add` of so many columns."""
        self._launch("prolong_add", self.fine_blocks(ROWS), width, (self.coarse.size, self.layout.size), xc, x)

    def _launch(self, name: str, grid: tuple[int, int, int], width: int, sizes: tuple[int, int], *given: Array) -> None:
        arguments: tuple[Any, ...] = (self.levels, self.values, *given)
        if width > 1:
            name, arguments = "columns_" + name, (*arguments, *map(np.int64, sizes), np.int32(width))
        follow(kernel(FILE, name, type_of(self.values)), grid, (LINES * SLICE,), arguments)


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
    follow(kernel(FILE, "pick", type_of(values)), found.fine_blocks(1), (LINES * SLICE,), arguments)
    settle()  # passes read it before they wait for earlier launches
    return found


@lru_cache(maxsize=64)
def _levels(
    fine: Triple, coarse: Triple, factors: Triple, wraps: Flags, fine_firsts: bytes, coarse_firsts: bytes
) -> npt.NDArray[np.void]:
    """`Levels` of two grids, whose rows of each parity class begin there."""
    made = np.zeros(1, LEVELS)
    made["n"], made["c"], made["halved"] = fine, coarse, _halved(factors)
    made["wraps"] = sum(1 << axis for axis, wrap in enumerate(wraps) if wrap)
    made["fine"], made["coarse"] = (np.frombuffer(firsts, np.int64) for firsts in (fine_firsts, coarse_firsts))
    made["start"] = starts(fine, factors)[:CLASSES]
    return made


def _halved(factors: Triple) -> int:
    """The axes that are coarsened, as bits."""
    return sum(1 << axis for axis, factor in enumerate(factors) if factor == 2)


def _firsts(layout: Layout) -> bytes:
    """First places of the rows of each parity class in a vector, int64."""
    firsts = layout.color_slices[list(layout.parities or ())]
    return (SLICE * firsts).astype(np.int64).tobytes()
