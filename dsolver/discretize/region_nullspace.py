"""Null space of a problem with closed regions: a constant on each of them."""

import numpy as np

from dsolver.discretize.closed_regions import ClosedRegions
from dsolver.distributed.nullspace import CONSISTENT, Inconsistency, NullSpace, share
from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.grid.box import Triple
from dsolver.kernels.contract import LESS_MEANS, LESS_MEANS_GOING_ON


class RegionConstants(NullSpace):
    """The vectors of ones on each closed region."""

    def __init__(self, engine: Engine, regions: ClosedRegions, layout: PerChunk) -> None:
        self._engine, self._regions = engine, regions
        self._parts, self._work = engine.partial_sums(), engine.field(layout)
        self._cells, self._volumes = regions.placed(layout)
        self._sizes = regions.endless_alone

    def project(self, b: Field) -> Inconsistency:
        """As in `NullSpace`."""
        square = self._engine.scalar(0.0)
        self._engine.dot(b, b, self._parts, square)
        sums = self._regions.sums(self._cells, b)
        self._engine.run(LESS_MEANS, self._volumes, sums, self._regions.volumes, b)
        norm = float(np.sqrt(self._engine.read(square)[0]))  # once all is under way
        missed, beyond, worst, label = self._regions.missed(sums, CONSISTENT * norm)
        if not norm > 0.0:
            return Inconsistency(closed=self._regions.count)
        return Inconsistency(
            closed=self._regions.count,
            part=share(float(np.sqrt(missed)), norm),
            regions=int(beyond),
            worst=float(np.sqrt(worst)) / norm,
            cell=self._cell(int(label)),
        )

    def balance(self, r: Field) -> None:
        """As in `NullSpace`."""
        self._engine.run(LESS_MEANS, self._cells, self._regions.sums(self._cells, r), self._sizes, r)

    @property
    def quiet(self) -> bool:
        """Whether `balance` waits for nothing: regions go on in no other chunk."""
        return len(self._engine.partition) == 1

    def balance_going_on(self, r: Field, guards: tuple[Scalar, ...]) -> None:
        """`balance` unless iterations have ended, as guards tell: see the contract's `LESS_MEANS_GOING_ON`."""
        sums = self._regions.sums(self._cells, r)
        self._engine.run(LESS_MEANS_GOING_ON, self._cells, sums, self._sizes, *guards, r)

    def centered(self, x: Field) -> Field:
        """As in `NullSpace`."""
        self._engine.copy(x, self._work)
        sums = self._regions.sums(self._volumes, x)
        self._engine.run(LESS_MEANS, self._cells, sums, self._regions.volumes, self._work)
        return self._work

    @property
    def has_lone_cells(self) -> bool:
        """Whether a region is a single cell, whose row has a diagonal where A has nothing."""
        return self._regions.alone > 0

    def without_means(self, y: Field) -> None:
        """y less its mean over the cells of each region: for y = A x rounding, but of lone cells all."""
        self._engine.run(LESS_MEANS, self._cells, self._regions.sums(self._cells, y), self._regions.cells, y)

    def _cell(self, label: int) -> Triple:
        """The cell that a label is made of."""
        nx, ny, _ = self._engine.partition.grid
        row = label - 1
        return row % nx, row // nx % ny, row // (nx * ny)
