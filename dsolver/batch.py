"""Conjugate gradients for several right-hand sides at once: what a program does for `dsolver.conductor`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, final

from dsolver.engines.base import BatchedEngine, Engine, Field, PerChunk, Scalar
from dsolver.krylov import ConjugateGradient, Preconditioner
from dsolver.operator import Operator
from dsolver.partition import Partition
from dsolver.preconditioners import Site

AT_ONCE: Final = 8
"""Right-hand sides that are solved together at most: with more, vectors are nearly all that an iteration moves."""
ROUNDED_UP: Final = 1.05
"""A vector's length over its rows, at most, for chunks whose size matters."""

Samples = list[list[tuple[float, float, float]]]
"""For each iteration, of each column: r . r, pᵀAp, rᵀMr."""


@final
class Batch:
    """Several systems with the same matrix, which is read once for all of them.

    Each column has its own coefficients, limit and end; a column that has ended is frozen by the guards of the update
    of x and r while others go on. What is asked of single columns runs on views of them.

    Args:
        engine: runs the kernels of one vector.
        width: number of columns.
        layout: the finest level's `Layout` of every chunk.

    Attributes:
        columns: the same of each column by itself.
    """

    def __init__(self, engine: Engine, width: int, layout: PerChunk) -> None:
        view = engine.batched(width)
        assert view is not None
        self._view: BatchedEngine = view
        self._engine = engine
        self._cg = ConjugateGradient(view, layout)
        self.columns: list[ConjugateGradient] = []

    def set_up(
        self, finest: PerChunk, operator: Operator, site: Site, make: Callable[[Site], Preconditioner | None]
    ) -> None:
        """Take a matrix and a preconditioner.

        Args:
            finest: the `ChunkLevel` of every chunk with A.
            operator: A, on the engine.
            site: where the preconditioner of one vector was made, which it knows.
            make: makes one on a site.
        """
        view, cg = self._view, self._cg
        cg.operator = Operator(view, finest)
        grids = [grid.batched(self.width) for grid in site.grids]
        cg.preconditioner = make(replace(site, engine=view, operator=cg.operator, cg=cg, grids=grids))
        self.columns = [cg.column(number, self._engine, operator) for number in range(self.width)]

    def release(self) -> None:
        """Give back the matrix and the preconditioner. Each column's b and x stay."""
        self.columns = []
        self._cg.preconditioner = None
        del self._cg.operator

    @property
    def width(self) -> int:
        """Number of columns."""
        return self._view.width

    def take(self, number: int, b: Field, x: Field) -> None:
        """Set b and x of a column."""
        column = self.columns[number]
        self._engine.copy(b, column.b)
        self._engine.copy(x, column.x)

    def start(self, limits: Mapping[int, float]) -> dict[int, float]:
        """Begin some columns from their x; returns r . r. Finished when it is at most the limit."""
        found = self.residuals(list(limits))
        for number, limit in limits.items():
            self.columns[number].begin(limit, found[number])
        return found

    def residuals(self, numbers: Sequence[int]) -> dict[int, float]:
        """Set r = b - A x of some columns and return r . r.

        Of all columns together where all are asked for, else of one after the other.
        """
        if len(numbers) == self.width:
            self._cg.residual()
            return dict(enumerate(self._view.read(self._cg.rr)))
        return {number: self.columns[number].residual() for number in numbers}

    def freeze(self, number: int) -> None:
        """From now on x and r of a column stay what they are, until its next start."""
        self.columns[number].freeze()

    def advance(self, steps: int) -> Samples:
        """Run iterations."""
        cg, width = self._cg, self.width
        watched: tuple[Scalar, ...] = (cg.rr, cg.pap, cg.rz)
        samples = self._view.repeat(cg.step, steps, watched)
        return [
            [(row[number], row[width + number], row[2 * width + number]) for number in range(width)] for row in samples
        ]

    def norm(self, number: int) -> float:
        """‖x‖ of a column."""
        engine, x, xx = self._engine, self.columns[number].x, self._engine.scalar(0.0)
        engine.dot(x, x, engine.parts(), xx)
        return math.sqrt(engine.read(xx)[0])


def numbered(partition: Partition) -> int:
    """For how many right-hand sides at once the rows of every chunk can be numbered."""
    return int(2**31 / (ROUNDED_UP * max(chunk.box.points for chunk in partition)))
