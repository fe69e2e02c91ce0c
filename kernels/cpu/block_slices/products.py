"""Slices of rows on a CPU with their kernels, and how they are made from compressed rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu.block_slices import loops
from dsolver.kernels.cpu.loops.team import ENTRIES_WORTH_A_THREAD, SLICES_WORTH_A_THREAD, worth_of
from dsolver.kernels.cpu.vectors import CpuVectors, Real
from dsolver.kernels.formats.base import SeparateDot
from dsolver.kernels.formats.block_slices import NEAR, RUN, UNIT, BlockSlices
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import SLICE

AT_ONCE = 128  # slices that one vector after the other is multiplied with, as of `products.AT_ONCE` of compressed rows


@dataclass(frozen=True, kw_only=True)
class CpuBlockSlices(SeparateDot, BlockSlices):
    """A matrix in slices of rows with its kernels."""

    vectors: CpuVectors

    def batched(self, width: int) -> Columns:
        return SlicesColumns(self, width)

    def spmv(self, x: Real, y: Real) -> None:
        self.vectors.team.run(loops.spmv, 0, len(self.slices), *self.head, x, y, worth=self.worth)

    @cached_property
    def worth(self) -> int:
        """Slices that are worth a thread."""
        return worth_of(ENTRIES_WORTH_A_THREAD, len(self.slices), self.values.size)

    @cached_property
    def head(self) -> tuple[Any, ...]:
        """The first arguments of the loop after a range of slices."""
        return self.slices, self.indices, self.indices.view(np.int32), self.values.reshape(-1), self.shape[0]


class SlicesColumns(SeparateDot, Columns):
    """Slices for several vectors: entries are read once."""

    def spmv(self, x: Real, y: Real) -> None:
        a = self.one
        sizes = {"at_once": AT_ONCE, "worth": a.worth}
        a.vectors.team.run_columns(loops.spmv, len(a.slices), a.head, zip(x, y, strict=True), **sizes)


def made(matrix: Csr, columns: int, vectors: CpuVectors) -> CpuBlockSlices:
    """A matrix in slices of its rows in their own order."""
    rows, team = matrix.size, vectors.team
    found = np.empty((-(-rows // SLICE), 3), dtype=np.int64)
    shape, worth = (rows, columns, matrix.values.dtype.itemsize), SLICES_WORTH_A_THREAD
    team.run(loops.measure_rows, 0, len(found), 1, 1, *matrix[:2], *shape, found, worth=worth)
    width, kind, base = found.T
    units = np.where(kind == RUN, -(-width // (UNIT // 2)), width * np.where(kind == NEAR, 1, 2))
    head = (np.cumsum(width) - width, np.cumsum(units) - units, 4 * width + kind, base)
    slices = np.stack(head, axis=1).astype(np.uint32)
    indices = np.zeros(int(units.sum()) * UNIT, dtype=np.uint16)
    values = np.zeros((int(width.sum()), 1, SLICE), dtype=matrix.values.dtype)
    arrays = slices, indices, indices.view(np.int32), values[:, 0]
    team.run(loops.fill_rows, 0, len(found), *matrix, rows, *arrays, worth=worth)
    return CpuBlockSlices(
        shape=(rows, columns), block=1, slices=slices, indices=indices, values=values, row=None, vectors=vectors
    )
