"""A problem on an engine: its coefficients, what turns a source into a right-hand side, and what it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from dsolver.closed import ClosedRegions
from dsolver.coefficients import Coefficients, cells
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD
from dsolver.kernels.layout import Layout
from dsolver.nullspace import Constants, Excess, NullSpace
from dsolver.partition import Partition
from dsolver.problems import Problem
from dsolver.regions import is_grounded, labelled
from dsolver.rules import CellRule, Patch, Source


@final
@dataclass(frozen=True, kw_only=True)
class MakeSource:
    """Builds what makes a chunk's right-hand side."""

    rule: CellRule

    def __call__(self, _: Backend, number: int, patch: Patch) -> Source:
        """Of one chunk."""
        return self.rule.source(patch)


@final
@dataclass(frozen=True, kw_only=True)
class Assemble:
    """A chunk's part of b from the source f, or x with zeros at cells that are left out."""

    right: bool

    def __call__(self, backend: Backend, number: int, layout: Layout, x: Any, source: Source) -> Any:
        """A block (nx, ny, nz)."""
        values = cells(backend, layout, x)
        return (source.assembled(values) if self.right else source.cleared(values)).T


@final
@dataclass(frozen=True, kw_only=True)
class Volumes:
    """The volumes of a chunk's cells."""

    def __call__(self, backend: Backend, number: int, source: Source, ones: Any) -> Any:
        """A block (nx, ny, nz)."""
        return (source.volumes() * ones.T).T


@final
@dataclass(frozen=True, kw_only=True)
class Ones:
    """A block of ones."""

    partition: Partition

    def __call__(self, backend: Backend, number: int) -> Any:
        """A block (nx, ny, nz)."""
        return backend.xp.ones(self.partition[number].box.shape)


@final
@dataclass(frozen=True, kw_only=True)
class Unmasked:
    """Ones at the cells that are not left out and zeros elsewhere."""

    rule: CellRule

    def __call__(self, backend: Backend, _: int, patch: Patch) -> Any:
        """A block (nx, ny, nz)."""
        solid = self.rule.solid(patch)
        ones = backend.xp.ones(patch.shape)
        return (ones if solid is None else ones * ~solid).T


@final
class System:
    """A problem on an engine.

    First its coefficients are loaded, then `prepare`d; `per_chunk` builds what needs them; once vectors have a layout,
    `settle` finds what right-hand sides and solutions need, and the coefficients are let go.

    Args:
        engine: runs the kernels.
        problem: what is solved; of its coefficients only the names matter here.
        partition: the chunks.
    """

    def __init__(self, engine: Engine, problem: Problem, partition: Partition) -> None:
        self._engine = engine
        self._problem = problem
        self._partition = partition
        rule = problem.rule
        self._coefficients = None if rule is None else Coefficients(engine, rule, partition)
        self._ones: PerChunk | None = None
        self._closed: ClosedRegions | None = None
        self._source: PerChunk | None = None
        self._null_space: NullSpace | None = None
        self._layout: PerChunk | None = None

    def load(self, name: str, blocks: Mapping[int, Any]) -> None:
        """Set a coefficient from blocks by chunk number."""
        assert self._coefficients is not None
        self._coefficients.load(name, blocks)

    def prepare(self) -> None:
        """Check the coefficients that are loaded, exchange what rows need of neighbors, and see what nothing fixes.

        Raises:
            InputError: a value makes no sense.
        """
        rule, coefficients, singular = self._problem.rule, self._coefficients, self._problem.singular
        if rule is not None and coefficients is not None:
            coefficients.prepare()
            if singular is not False and isinstance(rule, CellRule) and rule.masked:
                found = ClosedRegions(self._engine, coefficients, rule, labelled(self._engine, coefficients, rule))
                if found.whole:
                    self._ones = coefficients.per_chunk(Unmasked(rule=rule))
                elif found.count:
                    self._closed = found
                return
            singular = singular is not False and not is_grounded(self._engine, coefficients, rule)
        if singular:
            self._ones = self._engine.per_chunk(Ones(partition=self._partition))

    def per_chunk(self, make: Callable[..., Any], engine: Engine | None = None) -> PerChunk:
        """make(backend, number, patch) on the owner of each chunk; the patch is None where rows need none.

        Args:
            make: picklable.
            engine: a view of the engine, whose backend is to make it.
        """
        if self._coefficients is None:
            return (engine or self._engine).per_chunk(make)
        return self._coefficients.per_chunk(make, engine=engine)

    def settle(self, layout: PerChunk) -> None:
        """Make what right-hand sides and solutions in this layout need, and let the coefficients go."""
        self._layout = layout
        rule, coefficients, ones = self._problem.rule, self._coefficients, self._ones
        self._coefficients = self._ones = None
        if isinstance(rule, CellRule) and coefficients is not None:
            self._source = coefficients.per_chunk(MakeSource(rule=rule))
        if ones is not None:
            self._null_space = self._space(ones, self._volumes(ones))
        elif self._closed is not None:
            self._null_space = self._closed.constants(layout)

    @property
    def singular(self) -> bool:
        """Whether constants on all cells that are not left out solve A x = 0; known once it is prepared."""
        return self._ones is not None or isinstance(self._null_space, Constants)

    @property
    def closed_regions(self) -> int:
        """How many regions have a constant of their own that nothing fixes; the whole grid may be one.

        Known once it is prepared.
        """
        return int(self.singular) if self._closed is None else self._closed.count

    @property
    def raised(self) -> PerChunk | None:
        """What the diagonal is multiplied by where a preconditioner is made; None for ones: see `ClosedRegions`."""
        return None if self._closed is None else self._closed.factors

    def assemble(self, b: Field) -> Excess:
        """b, which holds the source, becomes the right-hand side. Returns how inconsistent it was."""
        if self._source is not None:
            self._rebuilt(Assemble(right=True), b)
        return Excess() if self._null_space is None else self._null_space.project(b)

    def balance(self, r: Field) -> None:
        """Take from a residual what rounding has left of a part that no x can reach: see `NullSpace`."""
        if self._null_space is not None:
            self._null_space.balance(r)

    def clear(self, x: Field) -> None:
        """x = 0 at cells that are left out."""
        if self._problem.masked:
            self._rebuilt(Assemble(right=False), x)

    def centered(self, x: Field) -> Field:
        """The solution with mean zero in each region where it is open. x stays, the result until the next call."""
        return x if self._null_space is None else self._null_space.centered(x)

    def _rebuilt(self, make: Assemble, x: Field) -> None:
        assert self._layout is not None
        assert self._source is not None
        blocks = self._engine.per_chunk(make, self._layout, x, self._source)
        self._engine.run(LOAD, self._layout, blocks, x)

    def _volumes(self, ones: PerChunk) -> PerChunk:
        return ones if self._source is None else self._engine.per_chunk(Volumes(), self._source, ones)

    def _space(self, ones: PerChunk, volumes: PerChunk) -> Constants:
        assert self._layout is not None
        fields = [self._engine.field(self._layout) for _ in range(3)]
        for x, blocks in zip(fields, (ones, volumes), strict=False):
            self._engine.run(LOAD, self._layout, blocks, x)
        return Constants(self._engine, *fields)
