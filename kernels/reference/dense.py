"""Inverses of small matrices in NumPy."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from dsolver.kernels.formats.dense import DenseInverse

Real = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class TextbookInverse(DenseInverse):
    """An inverse with its kernel."""

    def dense_solve(self, r: Real, x: Real) -> None:
        x[self.position] = self.values @ r[self.position]
