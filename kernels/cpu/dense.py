"""Inverses of small matrices on a CPU."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import fill, scratch
from dsolver.kernels.cpu.sell.loops import column, count
from dsolver.kernels.formats.dense import DenseInverse

Real = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class CpuInverse(DenseInverse):
    """An inverse with its kernel; values lie column after column."""

    together = frozenset({"dense_solve"})

    @classmethod
    def by_columns(cls, *, position: Any, values: Any) -> Self:
        """The inverse of values in any order."""
        return cls(position=position, values=np.asfortranarray(values))

    def dense_solve(self, r: Real, x: Real) -> None:
        _product(self.position, self.values.T, r, x)


@compiled()
def _product(position: Any, columns: Any, r: Any, x: Any) -> None:
    """x = A r by the columns of A, both at these positions; each row is added first to last.

    Sums of a row by itself would wait for each other: 352 rows took 94 us, and take 14.
    """
    sums = scratch(len(position), np.float64)
    for n in range(count(r)):
        rn, xn = column(r, n), column(x, n)
        fill(sums, 0.0)
        for j in range(len(position)):
            item = rn[position[j]]
            for i in range(len(position)):
                sums[i] += columns[j, i] * item
        for i in range(len(position)):
            xn[position[i]] = sums[i]


@compiled()
def multiply(a: Any, b: Any, out: Any) -> None:
    """out = a b, row by row of b, so that sums have one order."""
    for i in range(len(a)):
        fill(out[i], 0.0)
        for k in range(len(b)):
            factor = a[i, k]
            for j in range(len(b)):
                out[i, j] += factor * b[k, j]


@compiled()
def eliminate(a: Any, tolerance: float) -> Any:
    """See `dsolver.kernels.formats.dense.eliminated`, whose bits these are.

    Row by row, in a sixth to a ninth of its time: NumPy passes over the matrix twice for each pivot, and writes the
    product in between to memory.
    """
    rows = len(a)
    diagonal, row, kept = scratch(rows, np.float64), scratch(rows, np.float64), scratch(rows, np.bool_)
    fill(kept, False)
    for i in range(rows):
        diagonal[i] = a[i, i]
    for i in range(rows):
        pivot = a[i, i]
        if not pivot > tolerance * diagonal[i]:
            continue
        kept[i] = True
        for j in range(rows):
            row[j] = a[i, j] / pivot
        for k in range(rows):
            if k != i:
                factor = a[k, i]
                for j in range(rows):
                    a[k, j] -= factor * row[j]
                a[k, i] = -factor / pivot
        for j in range(rows):
            a[i, j] = row[j]
        a[i, i] = 1.0 / pivot
    return kept
