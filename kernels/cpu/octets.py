"""Octets on a CPU with their kernels, and how they are made from compressed rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dsolver.kernels.batched import Columns
from dsolver.kernels.cpu.loops import octets as loops
from dsolver.kernels.cpu.vectors import CpuVectors
from dsolver.kernels.formats.base import SeparateDot
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.octets import LANES, NO_BASE, WINDOW, Octets, count_of

Real = npt.NDArray[Any]
"""Numbers of the backend's value type."""
F64 = npt.NDArray[np.float64]
WORTH_A_THREAD = 128
WINDOWS_WORTH_A_THREAD = 16
AT_ONCE = 512
"""Octets that one vector after the other is multiplied with, as of `compressed.AT_ONCE`."""


@final
@dataclass(frozen=True, kw_only=True)
class CpuOctets(Octets):
    """A matrix in octets with its kernels.

    Attributes:
        vectors: the vector kernels, and the threads.
    """

    vectors: CpuVectors

    def batched(self, width: int) -> Columns:
        return OctetsColumns(self, width)

    def spmv(self, x: Real, y: Real) -> None:
        self.vectors.team.run(loops.spmv, 0, self.count, *self.head, x, y, worth=WORTH_A_THREAD)

    def spmv_dot(self, x: Real, y: Real, dot: F64) -> None:
        self.spmv(x, y)
        self.vectors.dot(x, y, dot)

    @cached_property
    def head(self) -> tuple[Any, ...]:
        """The first arguments of the loop after a range of octets."""
        return self.shape[0], self.octets, self.lanes, self.indices, self.indices.view(np.int32), self.values


@final
class OctetsColumns(SeparateDot, Columns):
    """Octets for several vectors: entries are read once."""

    def spmv(self, x: Real, y: Real) -> None:
        """See `dsolver.kernels.contract.SPMV`."""
        a = self.one
        multiply: Any = loops.spmv

        def loop(first: int, last: int) -> None:
            for begin in range(first, last, AT_ONCE):
                for n in range(self.width):
                    multiply(begin, min(begin + AT_ONCE, last), *a.head, x[n], y[n])

        a.vectors.team.run(loop, 0, a.count, worth=WORTH_A_THREAD)


def made(matrix: Csr, columns: int, vectors: CpuVectors) -> CpuOctets:
    """A matrix in octets.

    Args:
        matrix: its columns ascend in each row.
        columns: of the matrix.
        vectors: the vector kernels, and the threads.
    """
    rows, team = matrix.size, vectors.team
    count, windows = count_of(rows), -(-rows // WINDOW)
    lanes, found = np.empty(count * LANES, dtype=np.uint8), np.empty((count, 2), dtype=np.int64)
    lines = (matrix.start, matrix.columns)
    team.run(loops.measure, 0, windows, *lines, lanes, found, worth=WINDOWS_WORTH_A_THREAD)
    width, base = found.T
    octets = np.zeros((count + 1, 3), dtype=np.uint32)
    np.cumsum(width, out=octets[1:, 0])
    np.cumsum(np.where(base == NO_BASE, 2 * width, width), out=octets[1:, 1])
    octets[:-1, 2] = base
    values = np.empty(int(octets[-1, 0]) * LANES, dtype=matrix.values.dtype)
    indices = np.empty(int(octets[-1, 1]) * LANES, dtype=np.uint16)
    arrays = (octets, lanes, indices, indices.view(np.int32), values)
    team.run(loops.fill, 0, count, *matrix, *arrays, worth=WORTH_A_THREAD)
    return CpuOctets(shape=(rows, columns), octets=octets, lanes=lanes, indices=indices, values=values, vectors=vectors)
