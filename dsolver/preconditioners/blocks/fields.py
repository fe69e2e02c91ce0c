"""Fields of a system of blocks: their parts of vectors, and their preconditioners, as others apply them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.contract import JACOBI, MOVE, WAXPBY
from dsolver.kernels.formats.layout import Layout, Route
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.base import Preconditioner, Site, make


def value_type(m: Preconditioner) -> str:
    """The value type of a field's preconditioner: the one that it names, where it has levels of its own."""
    return (m.can.lowered and m.precision) or "float64"


@dataclass(frozen=True, kw_only=True)
class BuiltField:
    """A field's matrix and the levels of its preconditioner."""

    engine: Engine
    problem: MatrixProblem  # the matrix, without its arrays
    chunks: PerChunk
    levels: Sequence[Any]
    first: tuple[int, ...]  # the field's first row in each chunk
    sign: float  # of its pivot, over that of the matrix
    exponent: int  # of two, by which its entries were multiplied, over those of A


class BlockField:
    """A field of a system: its part of vectors, and its preconditioner.

    Args:
        whole: the `Layout` of every chunk of the system's vectors.
        positive: whether M is to be as of a positive definite matrix, else it has the sign of the pivot.
        turns: how often M is applied, each time to the residual that is left.
    """

    def __init__(
        self, built: BuiltField, m: Preconditioner, whole: PerChunk, *, positive: bool, turns: int = 1
    ) -> None:
        engine, layout = built.engine, built.chunks.at("layout")
        self._engine, self._scale = engine, math.ldexp(1.0 if positive else built.sign, built.exponent)
        self._matrix = Matrix(engine, built.chunks, built.problem.senders)
        site = Site(
            engine=engine,
            chunks=built.chunks,
            levels=built.levels,
            matrix=self._matrix,
            symmetric=not built.problem.asymmetry,
            method=None,
        )
        self._m = make(m, site, value_type(m))
        routes = engine.per_chunk(partial(_routes, first=built.first), whole, layout)
        self._gather, self._scatter = routes.at("gather"), routes.at("scatter")
        self._r, self._z, self._layout = engine.field(layout), engine.field(layout), layout
        self._turns = turns
        if turns > 1:
            self._left, self._more = engine.field(layout), engine.field(layout)

    def apply(self, r: Field, z: Field) -> None:
        """z = M r in the rows of the field; the others stay. After further turns z = Σ (I - M A)ⁿ M r."""
        engine = self._engine
        engine.run(MOVE, self._gather, r, self._r)
        self._once(self._r, self._z)
        for _ in range(self._turns - 1):
            self._matrix.residual(self._r, self._z, self._left, self._more)
            self._once(self._left, self._more)
            engine.run(WAXPBY, 1.0, self._z, 1.0, self._more, self._z)
        if self._scale != 1.0:
            engine.run(WAXPBY, self._scale, self._z, 0.0, self._z, self._z)
        engine.run(MOVE, self._scatter, self._z, z)

    def multiply(self, r: Field, z: Field) -> None:
        """z = A r with the field's matrix A in its rows; the others stay."""
        engine = self._engine
        engine.run(MOVE, self._gather, r, self._r)
        self._matrix.multiply(self._r, self._z)
        engine.run(WAXPBY, 1.0 / self._scale, self._z, 0.0, self._z, self._z)
        engine.run(MOVE, self._scatter, self._z, z)

    def _once(self, r: Field, z: Field) -> None:
        if self._m is None:
            self._engine.copy(r, z)
        else:
            self._m.apply(r, z)

    def apply_diagonal(self, r: Field, z: Field) -> None:
        """z = D⁻¹ r in the rows of the field, with the diagonal D of its matrix; the others stay."""
        engine = self._engine
        engine.run(MOVE, self._gather, r, self._r)
        engine.run(JACOBI, self._matrix.local, self._r, self._scale, self._z)
        engine.run(MOVE, self._scatter, self._z, z)


class BlockSystem:
    """A system of blocks and the preconditioners (`parts`) of its fields; layout: of its vectors."""

    def __init__(self, parts: Sequence[Preconditioner], site: Site) -> None:
        self._parts, self._site = parts, site
        self.engine, self.matrix, self.layout = site.engine, site.matrix, site.matrix.layout

    def fields(self, *, positive: bool, turns: Sequence[int] = ()) -> tuple[BlockField, ...]:
        """The fields; positive: as of `BlockField`, and of cycles of multigrid `turns`, 1 where they are not given."""
        parts = self._parts
        counts = [count if m.can.multilevel else 1 for m, count in zip(parts, turns or (1,) * len(parts), strict=True)]
        each = zip(self._site.levels, parts, counts, strict=True)
        return tuple(BlockField(built, m, self.layout, positive=positive, turns=count) for built, m, count in each)

    def field(self) -> Field:
        """A vector of the whole system."""
        return self.engine.field(self.layout)


class Routes(NamedTuple):
    """Ways of a chunk's part of a field from vectors of the system, and back."""

    gather: Route
    scatter: Route


def _routes(_: Backend, number: int, whole: Layout, own: Layout, *, first: tuple[int, ...]) -> Routes:
    places = whole.position[first[number] : first[number] + len(own.position)]
    return Routes(Route(source=places, target=own.position), Route(source=own.position, target=places))
