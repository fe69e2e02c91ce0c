"""Operators on blocks of vectors: those on a vector, on several columns at once where there are such."""

from collections.abc import Callable, Collection
from functools import partial

from dsolver.engines.base import Engine, Field
from dsolver.krylov.blocks.block import Block, groups_of
from dsolver.krylov.blocks.pencil import BlockOperator

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
