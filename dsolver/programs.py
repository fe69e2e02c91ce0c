"""Programs: what is run on an engine, from set-up to result.

A program is made on an engine and driven by calling its methods. On the `resident` engine every rank makes its own
instance and runs the same methods at the same time; each returns plain numbers that are the same on every rank. So
arguments and results are small and picklable, and blocks of data go in and out by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.krylov import ConjugateGradient, Preconditioner
from dsolver.levels import ChunkLevel, Hierarchy
from dsolver.lowered import Lowered
from dsolver.multigrid import VCycle
from dsolver.operator import Operator


@final
@dataclass(frozen=True, kw_only=True)
class BuildLevels:
    """Builds the levels of a chunk on its owner.

    Attributes:
        hierarchy: the recipe.
        test_diagonal: scale the finest diagonal as HPCG's TestCG does.
    """

    hierarchy: Hierarchy
    test_diagonal: bool = False

    def __call__(self, backend: Backend, number: int) -> tuple[ChunkLevel, ...]:
        """All levels of one chunk, finest first."""
        levels = self.hierarchy.build(backend, number)
        if self.test_diagonal:
            factors = backend.asarray(test_factors(self.hierarchy, number))
            matrix = backend.scale_diagonal(levels[0].matrix, factors)
            levels = (replace(levels[0], matrix=matrix), *levels[1:])
        return levels


def test_factors(hierarchy: Hierarchy, number: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What HPCG's TestCG multiplies the diagonal and b by: (id + 2) 1e6 at global rows below 9, else 1e6."""
    partition = hierarchy.partitions[0]
    box = partition[number].box
    nx, ny, _ = partition.grid
    i, j, k = np.ogrid[box.slices]
    row = i + nx * (j + ny * k)
    return np.where(row < 9, (row + 2) * 1e6, 1e6)


@final
@dataclass(frozen=True, kw_only=True)
class SolveSpec:
    """What a `Solve` needs to know.

    Attributes:
        hierarchy: the system and its levels.
        preconditioned: whether the V-cycle is used.
        test_diagonal: scale the finest diagonal as HPCG's TestCG does.
        precond_dtype: the value type of the V-cycle, "float64" or "float32". A itself is in float64 always.
    """

    hierarchy: Hierarchy
    preconditioned: bool = True
    test_diagonal: bool = False
    precond_dtype: str = "float64"


def _levels(engine: Engine, hierarchy: Hierarchy, spec: SolveSpec) -> list[PerChunk]:
    """The levels of a hierarchy in the engine's value type, finest first."""
    chunks = engine.per_chunk(BuildLevels(hierarchy=hierarchy, test_diagonal=spec.test_diagonal))
    return [chunks.at(i) for i in range(hierarchy.depth)]


@final
class Solve:
    """Conjugate gradients on one system, set up once and started as often as wanted."""

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        self._engine = engine
        lowered = spec.preconditioned and spec.precond_dtype != "float64"
        levels = _levels(engine, spec.hierarchy.finest() if lowered else spec.hierarchy, spec)
        self.layout = levels[0].at("layout")
        self.operator = Operator(engine, levels[0])
        self.preconditioner: Preconditioner | None = None
        if lowered:
            view = engine.lowered(spec.precond_dtype)
            narrow = _levels(view, spec.hierarchy, spec)
            self.preconditioner = Lowered(engine, view, VCycle(view, narrow), narrow[0].at("layout"))
        elif spec.preconditioned:
            self.preconditioner = VCycle(engine, levels)
        self.cg = ConjugateGradient(engine, self.operator, self.preconditioner, self.layout)

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        """Set b or x from blocks by chunk number."""
        self._engine.load(blocks, self.layout, self._field(name))

    def unload(self, name: str) -> Mapping[int, Any]:
        """b or x as blocks by chunk number."""
        return self._engine.unload(self._field(name), self.layout)

    def fill(self, name: str, value: float) -> None:
        """Set every row of b or x to a value."""
        self._engine.fill(self.layout, value, self._field(name))

    def b_from_x(self) -> None:
        """b = A x."""
        self.operator.apply(self.cg.x, self.cg.b)

    def norms(self) -> tuple[float, float]:
        """(‖b‖, ‖x‖)."""
        engine, parts = self._engine, self._engine.parts()
        bb, xx = engine.scalar(0.0), engine.scalar(0.0)
        engine.dot(self.cg.b, self.cg.b, parts, bb)
        engine.dot(self.cg.x, self.cg.x, parts, xx)
        squares = engine.read(bb, xx)
        return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))

    def start(self, limit: float = 0.0) -> float:
        """Begin at the x that is set; returns ‖b - A x‖. Finished when the residual's norm is at most the limit."""
        return float(np.sqrt(self.cg.start(limit * limit)))

    def advance(self, steps: int) -> list[tuple[float, float]]:
        """Run iterations; for each (‖r‖ of the recursion, the smaller of pᵀAp and rᵀMr).

        Both are positive for a positive definite A and M; the one that is not shows that A or M is not.
        """
        samples = self._engine.repeat(self.cg.step, steps, (self.cg.rr, self.cg.pap, self.cg.rz))
        return [(float(np.sqrt(rr)), min(pap, rz)) for rr, pap, rz in samples]

    def true_residual(self) -> float:
        """‖b - A x‖, computed anew; the recursion goes on from it."""
        return float(np.sqrt(self.cg.residual()))

    def _field(self, name: str) -> Field:
        """b or x."""
        field: Field = getattr(self.cg, name)
        return field
