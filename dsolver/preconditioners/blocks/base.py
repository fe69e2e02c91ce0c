"""Preconditioners of blocks: what they have in common, their fields, and each field's own preconditioner."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Self, final

import numpy as np

from dsolver.distributed.forecast import F64, MatrixForecast, Part
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import JACOBI, MOVE, WAXPBY
from dsolver.kernels.formats.layout import Layout, Route
from dsolver.krylov.method import ApproximateInverse
from dsolver.matrices.composed.blocks import FieldMatrix, field_matrices
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.base import BLOCK_BYTES, Built, Capabilities, Forecast, Preconditioner, Site, make
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.relaxation.jacobi import Jacobi
from dsolver.problems import Problem

AUTO: Final = "auto"
Chooser = Callable[[Any, Problem], Preconditioner]
"""Maker of the preconditioner that an argument M stands for with a system."""


@dataclass(frozen=True, kw_only=True)
class BlockPreconditioner(Preconditioner):
    """Preconditioner of a system that `dsolver.block` has made, from one for each field."""

    can: ClassVar[Capabilities] = Capabilities()
    basis: ClassVar[int | None] = 60  # with 30, flows around obstacles take twice as many iterations
    products: ClassVar[int] = 0
    """Matrices, the last ones, that are multiplied with, and need no preconditioner."""
    # of each field, as of `dsolver.solve`: a tuple, or one for all. By default algebraic multigrid where the field's
    # matrix is symmetric, else what suits it; and for a Schur complement the diagonal, unless the fields before it are
    # like theirs, as mass matrices are.
    M: Any = AUTO
    # of each field, what that is made from: a sparse matrix or a problem; "block", its block on the diagonal; or
    # "diagonal", its Schur complement with the diagonals of the blocks of the fields before it: A_ff - Σ A_fk
    # diag(A_kk)⁻¹ A_kf. By default "block" for the first field and for those that the ones before do not reach, and
    # "diagonal" for the others. Signs are found.
    matrices: Sequence[Any] = ()
    # the preconditioner of each field, once they are known.
    parts: tuple[Preconditioner, ...] = field(default=(), repr=False, compare=False)
    # the matrix that they are known for, and the matrices of its fields.
    made: Any = field(default=None, repr=False, compare=False)

    def with_parts(self, problem: Problem, choose: Chooser) -> Self:
        """The preconditioner with those of a system's fields. InputError: no fields, or M is not for one of them."""
        if not isinstance(problem, MatrixProblem) or not problem.fields:
            raise InputError(f"M={type(self).__name__} is for systems of real blocks, as dsolver.block makes them")
        matrices = self._matrices(problem)
        count = len(matrices) - self.products
        given = self.M if isinstance(self.M, tuple | list) else (self.M,) * count
        if len(given) != count:
            raise InputError(f"M={type(self).__name__} has {len(given)} preconditioners for {count} matrices")
        parts: list[Preconditioner] = []
        for number, (m, each) in enumerate(zip((*given, *(None,) * self.products), matrices, strict=True)):
            usual = self._usual(each, matrices[:number]) if isinstance(m, str) and m == AUTO else None
            parts.append(usual or choose(m, each.problem))
        return replace(self, parts=tuple(parts), made=(problem.matrix, matrices))

    def _usual(self, of_field: FieldMatrix, before: Sequence[FieldMatrix]) -> Preconditioner | None:
        """The preconditioner that suits a field where none was asked for; None where its matrix alone tells."""
        problem = of_field.problem
        if problem.asymmetry or problem.hollow or problem.indefinite or not problem.mirrored:
            return None
        if of_field.coupled and not all(each.like_diagonal for each in before):
            return Jacobi()
        return Algebraic()

    def with_fields(self, problem: Problem) -> Problem:
        """A system, not cut yet, with the matrices of its fields."""
        if not isinstance(problem, MatrixProblem) or problem.cut_fields or problem.matrix is None:
            return problem
        found = self._matrices(problem)
        return replace(problem, inner=tuple(f.problem for f in found), signs=tuple(f.sign for f in found))

    def _matrices(self, problem: MatrixProblem) -> tuple[FieldMatrix, ...]:
        if self.made is not None and self.made[0] is problem.matrix:
            found: tuple[FieldMatrix, ...] = self.made[1]
            return found
        if problem.matrix is None:
            raise InputError(f"M={type(self).__name__} is made where the matrix is, and this one lies on a cluster")
        return field_matrices(problem, self._given(len(problem.fields)))

    def _given(self, fields: int) -> Sequence[Any]:
        """`matrices`, with what stands for those that were not given."""
        given = tuple(self.matrices) or ("block", *["diagonal"] * (fields - 1))
        if len(given) != fields:
            raise InputError(f"matrices has {len(given)} entries, but there are {fields} fields")
        return ["diagonal" if each is None else each for each in given]

    def informed(self, problem: Problem) -> Self:
        """Without matrices, and with each field's preconditioner informed."""
        assert isinstance(problem, MatrixProblem)
        parts = [part.informed(inner) for part, inner in zip(self.parts, problem.inner, strict=True)]
        made = replace(self, parts=tuple(parts), matrices=(), made=None)
        made._look_at_parts()
        return made

    def check(self, problem: Problem, partition: Partition) -> None:
        """Refuse fields that their preconditioners are not made for."""
        assert isinstance(problem, MatrixProblem)
        for part, inner in zip(self.parts, problem.inner, strict=True):
            part.check(inner, _partition_of(inner))
        self._look_at_parts()

    def _look_at_parts(self) -> None:
        """Take notice of parts that cannot be recorded: then an application cannot be."""
        if not all(part.can.recorded for part in self.parts):
            object.__setattr__(self, "can", replace(type(self).can, recorded=False))

    @property
    def asked(self) -> str:
        """Its name with those of the fields' preconditioners."""
        return f"{type(self).__name__}({', '.join(part.asked for part in self.parts)})"

    def beside(self, problem: Problem) -> int:
        """Bytes that the fields' preconditioners take beside what rows and entries tell."""
        assert isinstance(problem, MatrixProblem)
        return sum(part.beside(inner) for part, inner in zip(self.parts, problem.inner, strict=True))

    def build(self, builder: Builder) -> Built:
        """A, and each field's matrix and levels."""
        chunks = builder.stored()
        return chunks, tuple(self._built(builder, number) for number in range(len(self.parts)))

    def _built(self, builder: Builder, number: int) -> BuiltField:
        problem = builder.problem
        assert isinstance(problem, MatrixProblem)
        inner, before = problem.inner[number], problem.cut_fields[: min(number, len(problem.fields) - 1)]
        partition = _partition_of(inner)
        engine = builder.engine.on(partition)
        of_field = Builder(
            engine=engine,
            system=builder.system.of_field(number),
            problem=inner,
            partition=partition,
            order=builder.order,
            dtype=_value_type(self.parts[number]),
        )
        chunks, levels = self.parts[number].build(of_field)
        return BuiltField(
            engine=engine,
            problem=inner,
            chunks=chunks,
            levels=levels,
            first=tuple(map(sum, zip(*before, strict=True))) or (0,) * len(partition),
            sign=problem.signs[number],
            exponent=inner.exponent - problem.exponent,
        )

    def on(self, site: Site) -> ApproximateInverse:
        """The fields' preconditioners, as they work together."""
        return self._together(BlockSystem(self, site))

    @abstractmethod
    def _together(self, system: BlockSystem) -> ApproximateInverse: ...

    def forecast(self, part: Part) -> Forecast:
        """Bytes of A, and of each field's preconditioner with a residual and a correction."""
        problem, a = part.problem, part.stored()
        assert isinstance(problem, MatrixProblem)
        shared, moved = 0, 4 * F64 * a.rows
        for each, inner in zip(self.parts, problem.inner, strict=True):
            value = np.dtype(_value_type(each)).itemsize
            of_field = replace(part, problem=inner, partition=_partition_of(inner), value=value)
            made = each.forecast(of_field)
            first: MatrixForecast = made.levels[0]
            levels = sum(level.matrix + level.way + level.halo_matrix for level in made.levels)
            shared += levels + first.halo + made.exact + made.shared + made.vectors + 2 * F64 * first.size
            moved += made.moved
        return Forecast(levels=(a,), vectors=2 * F64 * a.size, shared=shared, blocks=BLOCK_BYTES, moved=moved)


def _partition_of(inner: MatrixProblem) -> Partition:
    assert inner.chunks is not None
    return Partition(inner.grid, inner.chunks)


def _value_type(m: Preconditioner) -> str:
    """The value type of a field's preconditioner: the one that it names, where it has levels of its own."""
    return (m.can.lowered and m.precision) or "float64"


@final
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


@final
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
        self._m = make(m, site, _value_type(m))
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


@final
class BlockSystem:
    """A system of blocks and the preconditioners of its fields, for those that apply them; layout: of its vectors."""

    def __init__(self, m: BlockPreconditioner, site: Site) -> None:
        self._m, self._site = m, site
        self.engine, self.matrix, self.layout = site.engine, site.matrix, site.matrix.layout

    def fields(self, *, positive: bool, turns: Sequence[int] = ()) -> tuple[BlockField, ...]:
        """The fields; positive: as of `BlockField`, and of cycles of multigrid `turns`, 1 where they are not given."""
        parts = self._m.parts
        counts = [count if m.can.multilevel else 1 for m, count in zip(parts, turns or (1,) * len(parts), strict=True)]
        each = zip(self._site.levels, parts, counts, strict=True)
        return tuple(BlockField(built, m, self.layout, positive=positive, turns=count) for built, m, count in each)

    def field(self) -> Field:
        """A vector of the whole system."""
        return self.engine.field(self.layout)


# -- what is made on the owners ----------------------------------------------------------------------------------------


class Routes(NamedTuple):
    """Ways of a chunk's part of a field from vectors of the system, and back."""

    gather: Route
    scatter: Route


def _routes(_: Backend, number: int, whole: Layout, own: Layout, *, first: tuple[int, ...]) -> Routes:
    places = whole.position[first[number] : first[number] + len(own.position)]
    return Routes(Route(source=places, target=own.position), Route(source=own.position, target=places))
