"""Corners on a GPU: restriction and prolongation of the first color. See `FormatBuilder.half_transfer`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import cupy
import numpy as np

from dsolver.kernels.cuda.checkered.transfer import ROWS, THREADS, ColumnlessTransfer, alone, blocks, halved
from dsolver.kernels.cuda.faces.matrix import board_of, launches
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.formats.checkered.corners import Corners
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.lattice.coarsening import Coarsening


@dataclass(frozen=True, kw_only=True)
class CudaCorners(ColumnlessTransfer, Corners):
    """R and P with their kernels and the launches of these."""

    file: ClassVar[str] = "checkered/corners.cu"

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        sizes = (np.int32(n) for n in (*self.coarse.shape, halved(self.factors)))
        return (*board_of(self), *sizes, self.values, np.int64(self.values.shape[1]))

    def restrict_full(self, y: Array, rc: Array, width: int = 1) -> None:
        sizes = self.layout.size, self.coarse.size
        self.launch("restrict_full", blocks(*self.coarse.shape), width, sizes, self.coarse.position, y, rc)

    def prolong_add(self, xc: Array, x: Array, width: int = 1) -> None:
        nx, ny, nz = self.layout.shape
        sizes = xc.shape[-1], self.layout.size
        self.launch("prolong_add", blocks(nx // 2, ny, -(-nz // ROWS)), width, sizes, xc, x)


def corners(made: Coarsening, p: Array, rows: Layout, coarse: Layout, dtype: np.dtype[Any]) -> CudaCorners | None:
    along = zip(made.grid, made.periodic, made.factors, strict=True)
    second = all(factor == 1 or not (periodic and (n % 2 or n == 2)) for n, periodic, factor in along)
    if not (
        alone(made)
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
    arguments = (*board_of(found), np.int32(halved(made.factors)), cupy.ascontiguousarray(p), values, np.int64(count))
    kernel(found.file, "pick", dtype.name)(blocks(nx // 2, ny, nz), (THREADS,), arguments)
    settle()  # passes read it before they wait for earlier launches
    return found
