"""Blocks: several vectors side by side, for methods that iterate on all of them, and the pencil A x = λ B x.

Products of all pairs of vectors and combinations of them are made chunk by chunk in one pass over a block. Where the
engine has no fields of several columns, a block is as many fields. Neither arrays nor Dask are seen here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import COMBINE, LOAD, RESIDUALS
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

    def products(self, other: Block, weights: Field | None = None, weighted: int = 0) -> Numbers:
        """Dot products of each column with each of the other block, (columns, others).

        Items of the first `weighted` of the other ones count times their weights, where there are such.
        """
        given = () if weights is None else (weights,)
        if self.together is not None and other.together is not None:
            found = self._engine.per_chunk(partial(_products, weighted), self.together, other.together, *given)
        else:
            make = partial(_products_of, len(self), len(other), weighted)
            found = self._engine.per_chunk(make, *self.columns, *other.columns, *given)
        return Numbers(parts=found, shape=(len(self), len(other)))

    def residuals(self, values: F64, b: Block | Field | None, sizes: Field, r: Block) -> Numbers:
        """r -= b values for each column; the squares of r, of sizes times this, of this and of b, (4, columns).

        b: a block, the weights of items that make b of this, or None for this.
        """
        if self.together is not None and r.together is not None:
            found = self._engine.per_chunk(partial(_room, len(self)))
            numbers: Any = values  # of the host, as all numbers that engines pass on as they are
            given: Any = b.together if isinstance(b, Block) else b
            self._engine.run(RESIDUALS, numbers, self.together, given, sizes, r.together, found)
            return Numbers(parts=found, shape=(4, len(self)))
        of_b = b.columns if isinstance(b, Block) else () if b is None else (b,)
        make = partial(_residuals_of, values, isinstance(b, Block))
        made = self._engine.per_chunk(make, self._layout, sizes, *self.columns, *r.columns, *of_b)
        for number, column in enumerate(r.columns):
            self._engine.run(LOAD, self._layout, made.at(0, number), column)
        return Numbers(parts=made.at(1), shape=(4, len(self)))

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


def width_for(count: int) -> int:
    """Columns of a group, for so many that are all as wide but for the last."""
    return -(-count // -(-count // WIDTH))


def groups_of(count: int, width: int) -> list[tuple[int, int]]:
    """Ranges of so many columns."""
    return [(first, min(first + width, count)) for first in range(0, count, width)]


def _products(weighted: int, backend: Backend, _: int, s: Any, t: Any, weights: Any = None) -> Any:
    return backend.vectors.gram(s, t, weights, weighted)


def _products_of(rows: int, columns: int, weighted: int, backend: Backend, number: int, *vectors: Any) -> Any:
    s, t = (backend.xp.stack(part) for part in (vectors[:rows], vectors[rows : rows + columns]))
    return _products(weighted, backend, number, s, t, *vectors[rows + columns :])


def _room(count: int, backend: Backend, _: int) -> Any:
    """Room for four numbers of each column, (4, columns)."""
    return backend.xp.empty((4, count))


def _residuals_of(
    values: F64, of_block: bool, backend: Backend, _: int, layout: Layout, sizes: Any, *vectors: Any
) -> tuple[tuple[Any, ...], Any]:
    """Blocks (nx, ny, nz) of residuals, and squares: of columns, their residuals, and what makes b of the columns."""
    count, xp = len(values), backend.xp
    x, r, of_b = xp.stack(vectors[:count]), xp.stack(vectors[count : 2 * count]), vectors[2 * count :]
    b = xp.stack(of_b) if of_block else of_b[0] if of_b else None
    squares = xp.empty((4, count))
    backend.kernel("residuals")(values, x, b, sizes, r, squares)
    return tuple(backend.vectors.unload(layout, column) for column in r), squares


def _combined(factors: F64, keep: float, backend: Backend, _: int, layout: Layout, *vectors: Any) -> tuple[Any, ...]:
    """Blocks (nx, ny, nz) of combinations of vectors, to which those behind them are added."""
    count, width = factors.shape
    s = backend.xp.stack(vectors[:count])
    t = backend.xp.stack(vectors[count:]) if keep else backend.xp.zeros((width, s.shape[1]))
    backend.kernel("combine")(keep, s, factors, t)
    return tuple(backend.vectors.unload(layout, column) for column in t)


class BlockOperator(Protocol):
    """A linear operator on blocks."""

    def apply(self, x: Block, y: Block, wanted: Collection[int]) -> None:
        """y = the operator times x, of the wanted columns at least."""


@dataclass(frozen=True, kw_only=True)
class Pencil:
    """The matrices of an eigenvalue problem, and what is known of them."""

    a: BlockOperator
    b: BlockOperator | None  # B, symmetric positive definite; None for a diagonal
    weights: Field | None  # the diagonal of such a B; None for the identity, too
    m: BlockOperator  # a preconditioner, near A⁻¹ or the identity; any linear operator will do
    sizes: Field  # about those of the rows of A
    size: float  # the usual one of small rows: their geometric mean, about
    sign: float = 1.0  # 1 for the lowest eigenvalues, -1 for the highest
