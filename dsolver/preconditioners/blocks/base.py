"""Preconditioners of blocks: what they have in common, and each field's own preconditioner."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self

import numpy as np

from dsolver.distributed.forecast import F64, MatrixForecast, Part
from dsolver.errors import InputError
from dsolver.grid.partition import Partition
from dsolver.krylov.method import ApproximateInverse
from dsolver.krylov.methods import FOR_FACTORS
from dsolver.matrices.composed.blocks import FieldMatrix, field_matrices
from dsolver.matrices.multipliers import augmented
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.algebraic.preconditioner import Algebraic
from dsolver.preconditioners.base import BLOCK_BYTES, Built, Capabilities, Forecast, Preconditioner, Site
from dsolver.preconditioners.blocks.fields import BlockSystem, BuiltField, value_type
from dsolver.preconditioners.builder import Builder
from dsolver.preconditioners.relaxation.jacobi import Jacobi
from dsolver.problems import Problem
from dsolver.units import counted

AUTO: Final = "auto"
Chooser = Callable[[Any, Problem], Preconditioner]
"""Maker of the preconditioner that an argument M stands for with a system."""


@dataclass(frozen=True, kw_only=True)
class BlockPreconditioner(Preconditioner):
    """Preconditioner of a system that `dsolver.block` has made, from one for each field."""

    can: ClassVar[Capabilities] = Capabilities()
    basis: ClassVar[int | None] = 60  # with 30, flows around obstacles take twice as many iterations
    augments: ClassVar[bool] = True  # whether the second field's matrix stands for nothing but the Schur complement
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

    def usual_method(self, problem: Problem) -> str:
        """Flexible GMRES, which is for any A."""
        return FOR_FACTORS

    def with_parts(self, problem: Problem, choose: Chooser, dtype: str = AUTO) -> Self:
        """The preconditioner with those of a system's fields. InputError: no fields, or M is not for one of them.

        dtype: value type of algebraic multigrid that names none.
        """
        if not isinstance(problem, MatrixProblem) or not problem.split:
            raise InputError(f"M={type(self).__name__} is for systems of real blocks, as dsolver.block makes them")
        matrices = self._matrices(problem)
        count = len(matrices) - self.products
        given = self.M if isinstance(self.M, tuple | list) else (self.M,) * count
        if len(given) != count:
            raise InputError(f"M={type(self).__name__} has {len(given)} preconditioners for {count} matrices")
        parts: list[Preconditioner] = []
        for number, (m, each) in enumerate(zip((*given, *(None,) * self.products), matrices, strict=True)):
            usual = self._usual(each, matrices[:number]) if isinstance(m, str) and m == AUTO else None
            part = usual or choose(m, each.problem)
            if dtype == "float32" and isinstance(part, Algebraic) and not part.precision:
                part = replace(part, precision=dtype)
            parts.append(part)
        return replace(self, parts=tuple(parts), made=(problem.matrix, matrices))

    def _usual(self, of_field: FieldMatrix, before: Sequence[FieldMatrix]) -> Preconditioner | None:
        """The preconditioner that suits a field where none was asked for; None where its matrix alone tells."""
        problem = of_field.problem
        if problem.asymmetry or problem.hollow or problem.indefinite or not problem.mirrored:
            return None
        if of_field.coupled and (problem.dominated or not all(each.like_diagonal for each in before)):
            return Jacobi()
        return Algebraic()

    def with_fields(self, problem: Problem) -> Problem:
        """A system, not cut yet, with the matrices of its fields."""
        if not isinstance(problem, MatrixProblem) or problem.cut_fields or problem.matrix is None:
            return problem
        found = self._matrices(problem)
        return replace(
            problem, fields=problem.split, inner=tuple(f.problem for f in found), signs=tuple(f.sign for f in found)
        )

    def _matrices(self, problem: MatrixProblem) -> tuple[FieldMatrix, ...]:
        if self.made is not None and self.made[0] is problem.matrix:
            return self.made[1]
        if problem.matrix is None:
            raise InputError(f"M={type(self).__name__} is made where the matrix is, and this one lies on a cluster")
        if problem.multipliers and self.augments and not self.matrices:
            whole = -problem.to_scipy() if problem.negated else problem.to_scipy()
            return field_matrices(problem, augmented(whole, problem.multipliers))
        return field_matrices(problem, self._given(len(problem.split)))

    def _given(self, fields: int) -> Sequence[Any]:
        """`matrices`, with what stands for those that were not given."""
        given = tuple(self.matrices) or ("block", *["diagonal"] * (fields - 1))
        if len(given) != fields:
            raise InputError(f"matrices has {counted(len(given), 'entry', 'entries')}, but there are {fields} fields")
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
        """Name of M with those of the fields' preconditioners."""
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
            dtype=value_type(self.parts[number]),
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
        return self._together(BlockSystem(self.parts, site))

    @abstractmethod
    def _together(self, system: BlockSystem) -> ApproximateInverse: ...

    def forecast(self, part: Part) -> Forecast:
        """Bytes of A, and of each field's preconditioner with a residual and a correction."""
        problem, a = part.problem, part.stored()
        assert isinstance(problem, MatrixProblem)
        shared, moved = 0, 4 * F64 * a.rows
        for each, inner in zip(self.parts, problem.inner, strict=True):
            value = np.dtype(value_type(each)).itemsize
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
