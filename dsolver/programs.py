"""Programs: what is run on an engine, from set-up to result.

A program is made on an engine and driven by calling its methods. On the `resident` engine every rank makes its own
instance and runs the same methods at the same time; each returns plain numbers that are the same on every rank. So
arguments and results are small and picklable, and blocks of data go in and out by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from dsolver import hierarchy
from dsolver.batch import Batch
from dsolver.breakdown import by_rounding
from dsolver.conductor import conducted
from dsolver.cycle import MultigridCycle
from dsolver.drive import Drive
from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.hierarchy import Level, Rows
from dsolver.kernels import Backend
from dsolver.krylov import ConjugateGradient, Preconditioner
from dsolver.legs import Driven
from dsolver.levels import ChunkLevel, Hierarchy
from dsolver.lowered import Lowered
from dsolver.nullspace import Excess
from dsolver.operator import Operator
from dsolver.preconditioners import Hpcg, Noise, Recipe, Site
from dsolver.problems import Problem
from dsolver.rules import Patch
from dsolver.solution import Status
from dsolver.system import System


@final
@dataclass(frozen=True, kw_only=True)
class BuildLevels:
    """Builds the levels of a chunk on its owner.

    Attributes:
        hierarchy: the recipe.
        test_diagonal: scale the finest diagonal as HPCG's TestCG does.
        products_only: nothing but products is wanted of the finest matrix: store it in less, where that loses nothing.
    """

    hierarchy: Hierarchy
    test_diagonal: bool = False
    products_only: bool = False

    def __call__(self, backend: Backend, number: int, patch: Patch | None = None) -> tuple[ChunkLevel, ...]:
        """All levels of one chunk, finest first; the patch has its coefficients, if there are any."""
        levels = self.hierarchy.build(backend, number, patch)
        if self.test_diagonal:
            factors = backend.asarray(test_factors(self.hierarchy, number))
            matrix = backend.scale_diagonal(levels[0].matrix, factors)
            levels = (replace(levels[0], matrix=matrix), *levels[1:])
        if self.products_only:
            levels = (replace(levels[0], matrix=backend.compacted(levels[0].matrix)), *levels[1:])
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
        preconditioner: how M is made; the hierarchy has as many levels as it needs.
        test_diagonal: scale the finest diagonal as HPCG's TestCG does.
        precond_dtype: the value type of multigrid, "float64" or "float32". A itself is in float64 always.
    """

    hierarchy: Hierarchy
    preconditioner: Recipe = field(default_factory=Hpcg)
    test_diagonal: bool = False
    precond_dtype: str = "float64"

    @property
    def lowered(self) -> bool:
        """Whether the preconditioner has levels of its own, in another value type than A."""
        return self.preconditioner.lowerable and self.precond_dtype != "float64"

    @property
    def build(self) -> BuildLevels:
        """What builds the levels of a chunk."""
        return BuildLevels(hierarchy=self.hierarchy, test_diagonal=self.test_diagonal)

    def made(self, site: Site) -> Preconditioner | None:
        """The preconditioner on a site whose levels have its value type; None for the identity."""
        if not self.lowered:
            return self.preconditioner.on(site)
        view = site.engine.lowered(self.precond_dtype)
        inner = self.preconditioner.on(replace(site, engine=view, operator=Operator(view, site.levels[0])))
        assert inner is not None
        return Lowered(site.engine, view, inner, site.layout)


@final
@dataclass(frozen=True, kw_only=True)
class MakeWeights:
    """Makes the weights of a chunk's rows of the matrix."""

    problem: Problem

    def __call__(self, backend: Backend, _: int, patch: Patch | None = None) -> Any:
        """float64 (K rows,), offset after offset, or (K,) for a constant stencil; the patch has the coefficients."""
        return self.problem.values(backend.xp, patch).reshape(-1)


def _rows(system: System, spec: SolveSpec) -> Rows:
    """The finest level's rows of the matrix."""
    problem, partition = spec.hierarchy.problem, spec.hierarchy.partitions[0]
    weights = system.per_chunk(MakeWeights(problem=problem))
    return Rows(
        partition=partition,
        offsets=problem.offsets,
        weights=weights,
        constant=problem.rule is None,
        masked=problem.masked,
        singular=system.singular,
        raised=system.raised,
    )


def _levels(system: System, engine: Engine, build: BuildLevels) -> list[PerChunk]:
    """The levels of a hierarchy in the value type of the engine, a view of the system's; finest first."""
    chunks = system.per_chunk(build, engine)
    return [chunks.at(i) for i in range(build.hierarchy.depth)]


@final
@dataclass(frozen=True, kw_only=True)
class Begun:
    """What a program tells of a right-hand side and a first guess before it iterates.

    Attributes:
        excess: what no x can reach of b.
        b_norm: the length of the rest.
        x_norm: of the first guess.
    """

    excess: Excess
    b_norm: float
    x_norm: float


@final
class Solve(Driven):
    """Conjugate gradients on one system, set up once and started as often as wanted.

    Where the matrix follows from coefficients that are arrays, they are loaded first, each by its name, and then
    `set_up` is called; otherwise that has been done when the program is made or updated.
    """

    cg: ConjugateGradient
    preconditioner: Preconditioner | None
    _excess: Excess
    _batch: Batch | None = None

    def __init__(self, engine: Engine, spec: SolveSpec) -> None:
        self._engine = engine
        self._begin(spec)

    def update(self, spec: SolveSpec) -> None:
        """Take another matrix. What belongs to the old one is given back first; b and x are zero again."""
        self._engine.forget()  # recordings of kernels on the old matrix
        for name in ("system", "layout", "operator", "cg", "preconditioner", "_finest", "_site", "_batch"):
            self.__dict__.pop(name, None)
        self._begin(spec)

    def precondition(self, spec: SolveSpec) -> None:
        """Take another preconditioner for the same matrix; all b and x stay. The old one is given back first.

        As for `update`, coefficients that are arrays are loaded again.
        """
        self._engine.forget()
        self.cg.preconditioner = self.preconditioner = None
        del self.cg.operator, self.operator  # A is built anew, too: never two of them
        del self._finest, self._site
        if self._batch is not None:
            self._batch.release()
        excess = self._excess
        self._begin(spec)
        self._excess = excess

    def _begin(self, spec: SolveSpec) -> None:
        self._spec = spec
        self._excess = Excess()
        rule = spec.hierarchy.problem.rule
        self._coefficients = () if rule is None else rule.loaded
        self.system = System(self._engine, spec.hierarchy.problem, spec.hierarchy.partitions[0])
        if not self._coefficients:
            self.set_up()

    def set_up(self) -> None:
        """Build the matrix and its levels from the coefficients.

        Raises:
            InputError: a coefficient makes no sense.
        """
        self.system.prepare()
        self._matrix_norm: float | None = None
        levels, grids = self._built()
        self.layout = levels[0].at("layout")
        self.operator = Operator(self._engine, levels[0])
        if "cg" not in self.__dict__:
            self.cg = ConjugateGradient(self._engine, self.layout)
        self.cg.operator = self.operator
        self._finest = levels[0]
        self._precondition(levels, grids)
        if self._batch is not None:
            self._set_up_batch(self._batch)
        self.system.settle(self.layout)

    def _built(self) -> tuple[list[PerChunk], list[Level]]:
        """The levels of A in float64, and those of `dsolver.hierarchy` for a preconditioner that needs them."""
        engine, spec = self._engine, self._spec
        if spec.preconditioner.bare and not spec.test_diagonal:
            return [hierarchy.finest(engine, _rows(self.system, spec))], []
        if not spec.preconditioner.galerkin:
            build = spec.build
            of_a = replace(build, hierarchy=build.hierarchy.finest(), products_only=True) if spec.lowered else build
            return _levels(self.system, engine, of_a), []
        if not spec.lowered:
            grids = hierarchy.build(engine, _rows(self.system, spec))  # rows that nobody else holds
            return [grids[0].exact], grids
        rows = _rows(self.system, spec)
        grids = hierarchy.build(engine, rows, spec.precond_dtype)
        return [hierarchy.finest(engine, rows)], grids

    def _precondition(self, levels: list[PerChunk], grids: list[Level]) -> None:
        engine, spec = self._engine, self._spec
        self._recorded = spec.preconditioner.recorded
        if spec.lowered:
            view = engine.lowered(spec.precond_dtype)
            levels = [grids[0].chunks] if grids else _levels(self.system, view, spec.build)
        self._site = Site(engine=engine, levels=levels, operator=self.operator, cg=self.cg, grids=grids)
        self.preconditioner = self.cg.preconditioner = spec.made(self._site)

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        """Set a coefficient, b (or the source that it is made from) or x from blocks by chunk number."""
        if name in self._coefficients:
            self.system.load(name, blocks)
            return
        values = self._field(name)
        self._engine.load(blocks, self.layout, values)
        if name == "b":
            self._excess = self.system.assemble(values)
        else:
            self.system.clear(values)

    def unload(self, name: str) -> Mapping[int, Any]:
        """b or x as blocks by chunk number. Of an x that is fixed only up to a constant, the one with mean zero.

        A solve that goes on afterwards does so with the bits that it had.
        """
        values = self._field(name)
        return self._engine.unload(self.system.centered(values) if name == "x" else values, self.layout)

    def fill(self, name: str, value: float) -> None:
        """Set every row of b or x to a value."""
        self._engine.fill(self.layout, value, self._field(name))

    def begin(self, guess: str | None = None, column: int | None = None) -> Begun:
        """Look at the b that is loaded, and at the first guess.

        Args:
            guess: "zero", "fmg" as of `guess`, or None for the x that is there. Where b is zero, x becomes so.
            column: of a batch that takes both.
        """
        if guess == "zero":
            self.fill("x", 0.0)
        elif guess == "fmg":
            self.guess()
        b_norm, x_norm = self.norms()
        if b_norm == 0.0:
            self.fill("x", 0.0)
        if column is not None:
            self.take(column)
        return Begun(excess=self._excess, b_norm=b_norm, x_norm=x_norm)

    def guess(self) -> None:
        """x = what full multigrid makes of b, for a preconditioner that is multigrid of `dsolver.cycle`."""
        assert isinstance(self.preconditioner, MultigridCycle | Lowered)
        self.preconditioner.guess(self.cg.b, self.cg.x)

    def b_from_x(self) -> None:
        """b = A x."""
        self.operator.apply(self.cg.x, self.cg.b)

    def excess(self) -> Excess:
        """What no x can reach of the b that was loaded."""
        return self._excess

    def closed_regions(self) -> int:
        """How many regions have a constant of their own that nothing fixes; the whole grid may be one."""
        return self.system.closed_regions

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

    def advance(self, steps: int, measured: bool = False) -> list[tuple[float, float]]:
        """Run iterations; for each (‖r‖ of the recursion, the smaller of rᵀMr and pᵀAp).

        Both are positive for a positive definite A and M; the one that is not shows that A or M is not. NaN if one is
        not finite. From then on x stays what it was.

        Args:
            steps: how many.
            measured: the last one is measured where the engine runs them by itself; see `Engine.repeat`.
        """
        watched = self.cg.rr, self.cg.pap, self.cg.rz
        if self._recorded:
            samples = self._engine.repeat(self.cg.step, steps, watched, measured=measured)
        else:
            samples = [self._step(*watched) for _ in range(steps)]
        return [(float(np.sqrt(rr)), _curvature(pap, rz)) for rr, pap, rz in samples]

    def balance(self) -> None:
        """Take from the recursion's residual what rounding has left of a part that no x can reach."""
        self.system.balance(self.cg.r)

    def rounded(self) -> bool:
        """Whether rounding explains that a curvature was not positive; see `dsolver.breakdown`."""
        return by_rounding(self._engine, self.layout, self.cg)

    def magnitude(self) -> float:
        """About ‖A‖ ‖x‖, the size of what rounding is relative to in b - A x."""
        engine, cg, parts = self._engine, self.cg, self._engine.parts()
        matrix, xx = self._norm_of_matrix(), engine.scalar(0.0)
        engine.dot(cg.x, cg.x, parts, xx)
        return matrix * float(np.sqrt(engine.read(xx)[0]))

    def _norm_of_matrix(self) -> float:
        if self._matrix_norm is None:
            self._matrix_norm = self.cg.matrix_norm(self._engine.per_chunk(Noise(partition=self._engine.partition)))
        return self._matrix_norm

    # -- several right-hand sides at once, see `dsolver.batch` ------------------------------------------------------

    def widen(self, width: int) -> None:
        """Make room for so many right-hand sides, which `take` then takes one by one."""
        if self._batch is None or self._batch.width != width:
            if self._batch is not None:
                self._batch = None
                self._engine.forget()  # recordings keep what they run on
            batch = Batch(self._engine, width, self.layout)
            self._set_up_batch(batch)
            self._batch = batch

    def _set_up_batch(self, batch: Batch) -> None:
        site = replace(self._site, single=self.preconditioner)
        batch.set_up(self._finest, self.operator, site, self._spec.made)

    def take(self, number: int) -> None:
        """A column's b and x are those that are loaded."""
        self._several.take(number, self.cg.b, self.cg.x)

    def give(self, number: int) -> None:
        """b is a column's, and the x that is unloaded, too."""
        column = self._several.columns[number]
        self._engine.copy(column.b, self.cg.b)
        self._engine.copy(column.x, self.cg.x)

    def start_columns(self, limits: Mapping[int, float]) -> dict[int, float]:
        """`start` of some columns."""
        found = self._several.start({number: limit * limit for number, limit in limits.items()})
        return {number: float(np.sqrt(rr)) for number, rr in found.items()}

    def advance_columns(self, steps: int) -> list[list[tuple[float, float]]]:
        """`advance` of all columns: what it tells, for each iteration, of each."""
        samples = self._several.advance(steps)
        return [[(float(np.sqrt(rr)), _curvature(pap, rz)) for rr, pap, rz in row] for row in samples]

    def conduct(self, drives: Mapping[int, Drive]) -> dict[int, tuple[Status, Drive]]:
        """Solve the systems of some columns, each with its drive; how it ended, and the drive with its history."""
        ended = conducted(self, {number: drive.steps() for number, drive in drives.items()})
        return {number: (status, drives[number]) for number, status in ended.items()}

    def conduct_again(self, drives: Mapping[int, Drive]) -> dict[int, tuple[Status, Drive]]:
        """Go on with solves that have ended, as after a change of the preconditioner."""
        ended = conducted(self, {number: drive.resumed_steps() for number, drive in drives.items()})
        return {number: (status, drives[number]) for number, status in ended.items()}

    def residual_columns(self, numbers: Sequence[int]) -> dict[int, float]:
        """`true_residual` of some columns."""
        return {number: float(np.sqrt(rr)) for number, rr in self._several.residuals(numbers).items()}

    def magnitude_column(self, number: int) -> float:
        """`magnitude` of a column."""
        return self._norm_of_matrix() * self._several.norm(number)

    def balance_column(self, number: int) -> None:
        """`balance` of a column."""
        self.system.balance(self._several.columns[number].r)

    def rounded_column(self, number: int) -> bool:
        """`rounded` of a column."""
        return by_rounding(self._engine, self.layout, self._several.columns[number])

    def freeze_column(self, number: int) -> None:
        """Iterations leave a column's x and r as they are, until its next start."""
        self._several.freeze(number)

    @property
    def _several(self) -> Batch:
        assert self._batch is not None
        return self._batch

    def true_residual(self) -> float:
        """‖b - A x‖, computed anew; the recursion goes on from it."""
        return float(np.sqrt(self.cg.residual()))

    def agreed(self, value: float) -> float:
        """One rank's value, the same one on all ranks."""
        return self._engine.agreed(value)

    def _step(self, *watched: Scalar) -> tuple[float, ...]:
        """One iteration by itself, for what must not be recorded."""
        self.cg.step()
        return self._engine.read(*watched)

    def _field(self, name: str) -> Field:
        """b or x."""
        named: Field = getattr(self.cg, name)
        return named


def _curvature(pap: float, rz: float) -> float:
    """The smaller one; or the first that is not positive, of which the second is a consequence, NaN for +inf."""
    for value in (rz, pap):
        if not 0.0 < value < math.inf:
            return value if value <= 0.0 else math.nan
    return min(pap, rz)
