"""Corners on a GPU: restriction and prolongation of the first color, with their launches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import cupy
import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cuda.faces.matrix import LINES, THREADS, board_of, launches
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.streams import follow
from dsolver.kernels.cuda.vectors import CudaVectors, vectors
from dsolver.kernels.formats.base import SeparateSum
from dsolver.kernels.formats.checkered.corners import Corners
from dsolver.kernels.formats.layout import SLICE, Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening, Triple

FILE: Final = "faces/corners.cu"
ROWS: Final = 2
"""Rows of a thread of `prolong_add`: as in corners.cu."""


@final
@dataclass(frozen=True, kw_only=True)
class CudaCorners(SeparateSum, Corners):
    """R and P with their kernels and the launches of these."""

    @cached_property
    def vectors(self) -> CudaVectors:
        """The vector kernels."""
        return vectors(self.values.dtype.name)

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of both kernels."""
        coarse = (np.int32(n) for n in self.coarse.shape)
        return (*board_of(self), *coarse, _halved(self.factors), self.values, np.int64(self.values.shape[1]))

    def batched(self, width: int) -> Columns:
        return CornerColumns(self, width)

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.restrict_columns(y, rc, 1)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.prolong_columns(xc, x, 1)

    def restrict_columns(self, y: Array, rc: Array, width: int) -> None:
        """`restrict_full` of so many columns."""
        sizes = np.int64(self.layout.size), np.int64(self.coarse.size)
        self._launch("restrict_full", _blocks(*self.coarse.shape), width, sizes, self.coarse.position, y, rc)

    def prolong_columns(self, xc: Array, x: Array, width: int) -> None:
        """`prolong_add` of so many columns."""
        nx, ny, nz = self.layout.shape
        sizes = np.int64(xc.shape[-1]), np.int64(self.layout.size)
        self._launch("prolong_add", _blocks(nx // 2, ny, -(-nz // ROWS)), width, sizes, xc, x)

    def _launch(self, name: str, grid: tuple[int, int, int], width: int, sizes: tuple[Any, ...], *given: Array) -> None:
        arguments = (*self.arguments, *given)
        if width > 1:
            name, arguments = "columns_" + name, (*arguments, *sizes, np.int32(width))
        follow(kernel(FILE, name, self.values.dtype.name), grid, (THREADS,), arguments)


@final
class CornerColumns(SeparateSum, Columns):
    """`CudaCorners` for several columns: weights are read once."""

    def restrict_full(self, y: Array, rc: Array) -> None:
        self.one.restrict_columns(y, rc, self.width)

    def prolong_add(self, xc: Array, x: Array) -> None:
        self.one.prolong_columns(xc, x, self.width)


def corners(made: Coarsening, p: Array, rows: Layout, coarse: Layout, dtype: np.dtype[Any]) -> CudaCorners | None:
    """See `FormatBuilder.half_transfer`."""
    alone = made.lo == (0, 0, 0) and made.shape == made.grid
    along = zip(made.grid, made.periodic, made.factors, strict=True)
    second = all(factor == 1 or not (periodic and (n % 2 or n == 2)) for n, periodic, factor in along)
    if not (
        alone
        and second
        and launches(rows.shape)
        and rows.checkered == 1
        and rows.shape[0] % 2 == 0
        and max(made.factors) == 2
    ):
        return None
    nx, ny, nz = rows.shape
    count = rows.rows // 2
    values = cupy.empty((4 if made.factors.count(2) > 1 else 2, count), dtype)
    found = CudaCorners(layout=rows, coarse=coarse, values=values, factors=made.factors, wraps=made.periodic)
    arguments = (*board_of(found), _halved(made.factors), cupy.ascontiguousarray(p), found.values, np.int64(count))
    kernel(FILE, "pick", dtype.name)(_blocks(nx // 2, ny, nz), (THREADS,), arguments)
    settle()  # passes read it before they wait for earlier launches
    return found


def _halved(factors: Triple) -> np.int32:
    """The axes that are coarsened, as bits."""
    return np.int32(sum(1 << axis for axis, factor in enumerate(factors) if factor == 2))


def _blocks(across: int, lines: int, planes: int) -> tuple[int, int, int]:
    return -(-across // SLICE), -(-lines // LINES), planes
