"""Blocks: several vectors side by side, for methods that iterate on all of them. Sees neither arrays nor Dask.

Products of all pairs of vectors and combinations of them are made chunk by chunk in one pass over a block. Where the
engine has no fields of several columns, a block is as many fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import COMBINE, LOAD, TIMES
from dsolver.kernels.formats.layout import Layout
from dsolver.krylov.blocks.rounds import Numbers

F64 = npt.NDArray[np.float64]

WIDTH: Final = 8  # most columns of a group, for which kernels on matrices are compiled


class Block:
    """Vectors of one layout.

    `columns`: each by itself. `together`: all, where the engine has such fields; else None.
    """

    def __init__(self, engine: Engine, layout: PerChunk, count: int) -> None:
        self._engine, self._layout = engine, layout
        view = engine.batched(count) if count > 1 else None
        self.together: Field | None = None
        if view is None:
            self.columns: Sequence[Field] = [engine.field(layout) for _ in range(count)]
        else:
            self._view, self.together = view, view.field(layout)
            self.columns = [view.column(self.together, number) for number in range(count)]

    def __len__(self) -> int:
        return len(self.columns)

    def part(self, first: int, last: int) -> Self:
        """Columns first .. last, in the same memory."""
        made = type(self).__new__(type(self))
        made.__dict__ |= self.__dict__
        made.columns = self.columns[first:last]
        if self.together is not None:
            made.together = self._view.columns(self.together, first, last)
        return made

    def field(self, first: int, last: int) -> Field:
        """Columns first .. last as a field of the engine with so many; of several, where there are such engines."""
        if last == first + 1:
            return self.columns[first]
        assert self.together is not None
        return self._view.columns(self.together, first, last)

    def copy(self, to: Block) -> None:
        """to = this, as many vectors."""
        for column, target in zip(self.columns, to.columns, strict=True):
            self._engine.copy(column, target)

    def products(self, other: Block) -> Numbers:
        """Dot products of each column with each of the other block, (columns, others)."""
        if self.together is not None and other.together is not None:
            found = self._engine.per_chunk(_products, self.together, other.together)
        else:
            found = self._engine.per_chunk(partial(_products_of, len(self)), *self.columns, *other.columns)
        return Numbers(parts=found, shape=(len(self), len(other)))

    def squares(self) -> Numbers:
        """Dot product of each column with itself, (columns,)."""
        if self.together is not None:
            found = self._engine.per_chunk(_squares, self.together)
        else:
            found = self._engine.per_chunk(_squares_of, *self.columns)
        return Numbers(parts=found, shape=(len(self),))

    def combine(self, coefficients: F64, to: Block, keep: float = 0.0) -> None:
        """to = keep to + this times coefficients (columns, columns of to); to may be some of these where keep is 0."""
        if self.together is not None and to.together is not None:
            numbers: Any = coefficients  # of the host, as all numbers that engines pass on as they are
            self._engine.run(COMBINE, keep, self.together, numbers, to.together)
            return
        make = partial(_combined, coefficients, keep)
        made = self._engine.per_chunk(make, self._layout, *self.columns, *(to.columns if keep else ()))
        for number, column in enumerate(to.columns):
            self._engine.run(LOAD, self._layout, made.at(number), column)

    def times(self, diagonal: Field, to: Block) -> None:
        """to = this, each column item by item times a vector."""
        if self.together is not None and to.together is not None:
            self._engine.run(TIMES, diagonal, self.together, to.together)
            return
        for column, target in zip(self.columns, to.columns, strict=True):
            self._engine.run(TIMES, diagonal, column, target)


def width_for(count: int) -> int:
    """Columns of a group, for so many that are all as wide but for the last."""
    return -(-count // -(-count // WIDTH))


def groups_of(count: int, width: int) -> list[tuple[int, int]]:
    """Ranges of so many columns."""
    return [(first, min(first + width, count)) for first in range(0, count, width)]


def _products(backend: Backend, _: int, s: Any, t: Any) -> Any:
    return backend.vectors.gram(s, t)


def _products_of(count: int, backend: Backend, number: int, *vectors: Any) -> Any:
    s, t = (backend.xp.stack(part) for part in (vectors[:count], vectors[count:]))
    return _products(backend, number, s, t)


def _squares(backend: Backend, _: int, s: Any) -> Any:
    return backend.vectors.squares(s)


def _squares_of(backend: Backend, number: int, *vectors: Any) -> Any:
    return _squares(backend, number, backend.xp.stack(vectors))


def _combined(factors: F64, keep: float, backend: Backend, _: int, layout: Layout, *vectors: Any) -> tuple[Any, ...]:
    """Blocks (nx, ny, nz) of combinations of vectors, to which those behind them are added."""
    count, width = factors.shape
    s = backend.xp.stack(vectors[:count])
    t = backend.xp.stack(vectors[count:]) if keep else backend.xp.zeros((width, s.shape[1]))
    backend.kernel("combine")(keep, s, factors, t)
    return tuple(backend.vectors.unload(layout, column) for column in t)
