"""Inverses of small matrices on a CPU."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.loops.scratch import fill, scratch
from dsolver.kernels.cpu.sell.loops import column, count
from dsolver.kernels.formats.dense import DenseInverse

Real = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class CpuInverse(DenseInverse):
    """An inverse with its kernel."""

    together = frozenset({"dense_solve"})

    def dense_solve(self, r: Real, x: Real) -> None:
        _product(self.position, self.values, r, x)


@compiled()
def _product(position: Any, values: Any, r: Any, x: Any) -> None:
    """x = values r, both at these positions; each row is added first to last."""
    for i in range(len(position)):
        for n in range(count(r)):
            rn, xn = column(r, n), column(x, n)
            total = 0.0
            for j in range(len(position)):
                total += values[i, j] * rn[position[j]]
            xn[position[i]] = total


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
