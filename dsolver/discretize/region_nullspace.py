"""Null space of a problem with closed regions: a constant on each of them."""

from __future__ import annotations

from typing import final

import numpy as np

from dsolver.discretize.closed_regions import ClosedRegions
from dsolver.distributed.nullspace import CONSISTENT, Inconsistency, NullSpace, dots
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.grid.partition import Triple


@final
class RegionConstants(NullSpace):
    """The vectors of ones on each closed region.

    Args:
        engine: runs the kernels.
        regions: the regions.
        layout: of vectors.
    """

    def __init__(self, engine: Engine, regions: ClosedRegions, layout: PerChunk) -> None:
        self._engine, self._regions, self._layout = engine, regions, layout
        self._parts, self._work = engine.partial_sums(), engine.field(layout)

    def project(self, b: Field) -> Inconsistency:
        """As in `NullSpace`."""
        (square,) = dots(self._engine, self._parts, (b, b))
        sums = self._regions.sums("x", self._layout, b)
        norm = float(np.sqrt(square))
        missed, beyond, worst, label = self._regions.missed(sums, CONSISTENT * norm)
        self._regions.less(self._layout, b, sums, b, right=True)
        if not norm > 0.0:
            return Inconsistency(closed=self._regions.count)
        return Inconsistency(
            closed=self._regions.count,
            part=float(np.sqrt(missed)) / norm,
            regions=int(beyond),
            worst=float(np.sqrt(worst)) / norm,
            cell=self._cell(int(label)),
        )

    def balance(self, r: Field) -> None:
        """As in `NullSpace`."""
        self._regions.less_mean(self._layout, r, r)

    def centered(self, x: Field) -> Field:
        """As in `NullSpace`."""
        sums = self._regions.sums("x times volumes", self._layout, x)
        self._regions.less(self._layout, x, sums, self._work, right=False)
        return self._work

    def _cell(self, label: int) -> Triple:
        """The cell that a label is made of."""
        nx, ny, _ = self._engine.partition.grid
        row = label - 1
        return row % nx, row // nx % ny, row // (nx * ny)
