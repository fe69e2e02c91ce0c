"""Operators of methods: on blocks of vectors, by several columns at once where there are such; of complex systems."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from dsolver.distributed.complex_matrix import ComplexMatrix, OnBothParts
from dsolver.distributed.gauge import InGauge
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field
from dsolver.engines.complex import ComplexEngine
from dsolver.krylov.blocks.block import Block, BlockOperator, groups_of
from dsolver.krylov.method import ApproximateInverse
from dsolver.preconditioners.base import Site, make
from dsolver.program.spec import SolveSpec

Apply = Callable[[Field, Field], None]


class OperatorInGroups(BlockOperator):
    """An operator that is read once for a group of columns where it can be, by steps that engines record.

    Args:
        one: the operator on a vector.
        wide: the same on as many columns as a group has; None where there is none.
        recorded: whether `one` may be recorded.
    """

    def __init__(self, engine: Engine, one: Apply, wide: Apply | None, width: int, *, recorded: bool) -> None:
        self._engine, self._one, self._wide, self._width, self._recorded = engine, one, wide, width, recorded
        self._steps: dict[tuple[Field, Field, int], Callable[[], None]] = {}

    def apply(self, x: Block, y: Block, wanted: Collection[int]) -> None:
        """As in `BlockOperator`: groups with two columns that are wanted at once, the others by columns."""
        for first, last in groups_of(len(x), self._width):
            needed = [number for number in range(first, last) if number in wanted]
            if self._wide is not None and last - first == self._width and len(needed) > 1:
                self._engine.replay(self._step(self._wide, x, y, first, last))
                continue
            for number in needed:
                if self._recorded:
                    self._engine.replay(self._step(self._one, x, y, number, number + 1))
                else:
                    self._one(x.columns[number], y.columns[number])

    def _step(self, apply: Apply, x: Block, y: Block, first: int, last: int) -> Callable[[], None]:
        """The operator on columns first .. last, the same object each time, as columns are: parts of blocks are new."""
        key = x.columns[first], y.columns[first], last - first
        if key not in self._steps:
            self._steps[key] = partial(apply, x.field(first, last), y.field(first, last))
        return self._steps[key]


class Emptied(BlockOperator):
    """An operator whose results are changed; change: makes zero of a part of a vector."""

    def __init__(self, inner: BlockOperator, change: Callable[[Field], None]) -> None:
        self._inner, self._change = inner, change

    def apply(self, x: Block, y: Block, wanted: Collection[int]) -> None:
        """As in `BlockOperator`."""
        self._inner.apply(x, y, wanted)
        for number in wanted:
            self._change(y.columns[number])


def complex_matrix(engine: ComplexEngine, site: Site) -> ComplexMatrix:
    """A on complex vectors."""
    view = engine.wide or engine.real
    parts = (Matrix(view, *part) for part in zip(site.parts, site.part_senders, strict=True))
    return ComplexMatrix(engine, *parts)


def complex_inverse(engine: ComplexEngine, site: Site, spec: SolveSpec) -> ApproximateInverse | None:
    """M on an engine's complex vectors: both parts at once where it can be made for several; site: of one real one."""
    m, dtype = spec.preconditioner, spec.precond_dtype
    site = replace(site, method=None)
    if m.can.complex or any(getattr(level, "complex_part", None) is not None for level in site.levels):
        return make(m, replace(site, engine=engine), dtype)
    single = site.single.inner if isinstance(site.single, InGauge) else site.single
    made = single.inner if isinstance(single, OnBothParts) else make(m, site, dtype)
    if made is None:
        return None
    both = _on_both_parts(engine, site, spec, made)
    return InGauge(both, engine, site.engine, site.matrix.layout, site.phases) if site.phases else both


def _on_both_parts(engine: ComplexEngine, site: Site, spec: SolveSpec, made: ApproximateInverse) -> OnBothParts:
    """A real M, which is made for one vector, on both parts."""
    m = spec.preconditioner
    if engine.wide is None or not m.can.batched:
        return OnBothParts(made, wide=False)
    matrix = Matrix(engine.wide, site.chunks, spec.problem.senders)
    both = make(m, replace(site, engine=engine.wide, matrix=matrix, single=made), spec.precond_dtype)
    return OnBothParts(both, wide=True)
