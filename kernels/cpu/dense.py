"""Inverses of small matrices on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy.typing as npt

from dsolver.kernels.cpu.loops.compiled import compiled
from dsolver.kernels.cpu.sell.loops import column, count
from dsolver.kernels.formats.dense import DenseInverse

Real = npt.NDArray[Any]


@final
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
