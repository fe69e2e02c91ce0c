"""Batches: right-hand sides that are iterated on together, one or several, so that the matrix is read once for all."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final, Self, final

from dsolver.distributed.called import FunctionOperator
from dsolver.distributed.complex_matrix import OnBothParts
from dsolver.distributed.matrix import Matrix
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.complex import ComplexEngine
from dsolver.engines.repetition import Repetition
from dsolver.grid.partition import Partition
from dsolver.krylov.control.requests import Sample
from dsolver.krylov.control.supersteps import Pace
from dsolver.krylov.kept import KeptIterate
from dsolver.krylov.method import ApproximateInverse, KrylovMethod
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners.base import Site, make
from dsolver.preconditioners.relaxation.chebyshev import noise
from dsolver.preconditioners.relaxation.jacobi import DiagonalInverse
from dsolver.problems import Problem
from dsolver.program.batches.column import Column, Sides
from dsolver.program.operators import complex_inverse, complex_matrix
from dsolver.program.spec import SolveSpec

AT_ONCE: Final = 8
"""Right-hand sides that are solved together at most: with more, vectors are nearly all that an iteration moves."""
SHORT: Final = 0.06
"""Seconds of a superstep, an eighth of what one should take, below which ranks do not agree anew how long it took."""
TRUSTED: Final = 200  # iterations after which they do in any case: a machine may have become slower
ROUNDED_UP: Final = 1.05  # a vector's length over its rows, at most, for chunks whose size matters


@final
class Batch:
    """A batch of right-hand sides with the same matrix, and the method that iterates on them.

    Each column has its own b, x, coefficients, limit and end; one that has ended is frozen by the guards of the update
    of x and r while others go on. One column runs on the engine itself, several run on a view of it, and what is asked
    of a single one of them on a view of its vectors.

    `each`: each by itself. `pace`: of its iterations with the present matrix and preconditioner.
    """

    def __init__(self, engine: Engine, layout: PerChunk, spec: SolveSpec, width: int = 1) -> None:
        view = engine if width == 1 else engine.batched(width)
        assert view is not None
        self._engine, self._view, self.layout = engine, view, layout
        self.width = width
        self.method = spec.traits.make(view, layout, spec.restart, spec.most)
        self.each: Sequence[Column] = ()
        self._kept = [KeptIterate(engine, layout) for _ in range(width)]

    def set_up(self, system: Sides, site: Site, spec: SolveSpec) -> None:
        """Take a matrix and a preconditioner, which is made at `site` for one vector."""
        if isinstance(self._engine, ComplexEngine):
            assert isinstance(self._view, ComplexEngine)
            self._set_up_complex(self._engine, self._view, system, site, spec)
            return
        method, engine, view, width, matrix = self.method, self._engine, self._view, self.width, site.matrix
        given = _given(engine, site, spec)
        if width > 1:
            site = replace(site, engine=view, matrix=Matrix(view, site.chunks, spec.problem.senders), method=method)
        called = called_operator(engine, site.matrix.layout, spec.problem)
        method.operator = called or site.matrix
        method.given = given if width == 1 else _given(view, site, spec)
        method.preconditioner = make(spec.preconditioner, site, spec.precond_dtype)
        single = [method] if width == 1 else [method.column(number, engine, matrix, given) for number in range(width)]
        projecting = spec.preconditioner.chosen(site.levels).projecting
        inverse = None if called else _divisor(engine, matrix.local, spec.problem)
        self._take_columns(single, system, spec, inverse, projecting=projecting)

    def _set_up_complex(
        self, engine: ComplexEngine, view: ComplexEngine, system: Sides, site: Site, spec: SolveSpec
    ) -> None:
        """`set_up` of complex columns."""
        method, parts = self.method, engine.by_parts
        called = called_operator(engine, site.matrix.layout, spec.problem)
        method.operator = called or complex_matrix(view, site)
        method.preconditioner = complex_inverse(view, site, spec)
        single = [method]
        if self.width > 1:
            matrix = complex_matrix(parts, site)
            single = [method.column(number, parts, matrix) for number in range(self.width)]
        inverse = None if called else _divisor(site.engine, site.matrix.local, spec.problem)
        self._take_columns(single, system, spec, inverse and OnBothParts(inverse, wide=False))

    def _take_columns(
        self,
        single: Sequence[KrylovMethod],
        system: Sides,
        spec: SolveSpec,
        diagonal: ApproximateInverse | None,
        *,
        projecting: bool = False,
    ) -> None:
        """Have each column by itself, whose operators are made."""
        engine = self._engine
        norm = cache(lambda: single[0].matrix_norm(engine.per_chunk(partial(noise, engine.partition))))
        distance = spec.preconditioner.asymmetry if spec.traits.symmetric else lambda: 0.0
        self.each = [
            Column(
                engine=engine,
                system=system,
                layout=self.layout,
                dtype=spec.dtype,
                method=one,
                kept=kept,
                diagonal=diagonal,
                uneven=isinstance(spec.problem, MatrixProblem) and spec.problem.uneven,
                matrix_norm=norm,
                asymmetry=distance,
                projecting=projecting,
                alone=self.width == 1,
            )
            for one, kept in zip(single, self._kept, strict=True)
        ]
        self._recorded = spec.preconditioner.can.recorded and spec.problem.operator is None
        self.pace, self._unasked = Pace(), 0

    def take_method(self, spec: SolveSpec) -> None:
        """Go on with another method; b and x stay. It has no matrix until one is set up."""
        before, self.method = self.method, spec.traits.make(self._view, self.layout, spec.restart, spec.most)
        for old, new in ((before.b, self.method.b), (before.x, self.method.x)):
            self._view.copy(old, new)

    def laid_out(self, layout: PerChunk, spec: SolveSpec) -> Self:
        """These columns in another layout: each b and x, and what is kept of x."""
        made, engine, before = Batch(self._engine, layout, spec, self.width), self._engine, self.layout

        def bring(old: Field, new: Field) -> None:
            engine.load(engine.unload(old, before), layout, new)

        for number, (kept, to_keep) in enumerate(zip(self._kept, made._kept, strict=True)):
            bring(self._column(self.method.b, number), made._column(made.method.b, number))
            bring(self._column(self.method.x, number), made._column(made.method.x, number))
            kept.lay_out(to_keep, bring)
        return made

    def _column(self, field: Field, number: int) -> Field:
        return field if self.width == 1 else self._view.column(field, number)

    def record(self) -> None:
        """Record an iteration, if that is possible before one has run."""
        if self._recorded:
            self.method.record()

    def release(self) -> None:
        """Give back the matrix and the preconditioner. Each column's b and x stay."""
        self.each = ()
        self.method.preconditioner = self.method.given = None
        del self.method.operator

    def start(self, limits: Mapping[int, float]) -> dict[int, float]:
        """‖b - A x‖ of some columns, which begin there. A column is finished when its residual is at most its limit."""
        found = self._residuals(list(limits))
        for number, limit in limits.items():
            self.each[number].method.begin(limit * limit, found[number])
        return {number: math.sqrt(square) for number, square in found.items()}

    def advance(
        self, steps: int, measured: bool = False, balances: Mapping[int, Sequence[int]] | None = None
    ) -> list[list[Sample]]:
        """Samples of each column for each of so many iterations, of which the last one may be measured.

        From the one whose health is not positive on, x stays what it was. `balances`: columns whose residuals are
        balanced behind some of them, by how many these are.
        """
        width, method = self.width, self.method
        between = {after: partial(self._balance, numbers) for after, numbers in (balances or {}).items()}
        rows = method.advance(steps, Repetition(measured=measured, between=between), recorded=self._recorded)
        return [[(math.sqrt(row[i]), method.health(*row[width + i :: width])) for i in range(width)] for row in rows]

    def _balance(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.each[number].balance_going_on()

    def true_residuals(self, numbers: Sequence[int]) -> dict[int, float]:
        """‖b - A x‖ of some columns, computed anew; the recursions go on from it."""
        return {number: math.sqrt(square) for number, square in self._residuals(numbers).items()}

    def agreed_seconds(self, seconds: float, steps: int) -> float:
        """Seconds that so many iterations took, by the clock of one rank: clocks differ, and what follows must not.

        Where they are few by the pace that all ranks know, it is not asked, for that is a sum over all and a wait.
        """
        pace = self.pace
        if not pace.seconds * steps < SHORT or self._unasked + steps > TRUSTED:
            pace.seconds, self._unasked = self._engine.broadcast(seconds) / steps, 0
        else:
            self._unasked += steps
        return pace.seconds * steps

    def _residuals(self, numbers: Sequence[int]) -> dict[int, float]:
        """r . r with r = b - A x of some columns: by one product where all are asked for, else one after the other."""
        if len(numbers) == self.width:
            return dict(enumerate(self.method.residual()))
        return {number: self.each[number].method.residual()[0] for number in numbers}


def _divisor(engine: Engine, a: PerChunk, problem: Problem) -> DiagonalInverse | None:
    """D⁻¹ of A, where the sizes of rows may differ; None where they do not, or D has zeros."""
    return None if problem.constant or problem.hollow else DiagonalInverse(engine, a)


def _given(engine: Engine, site: Site, spec: SolveSpec) -> Matrix | None:
    """The matrix whose residuals count, where it is another one than A."""
    if site.given is None:
        return None
    assert isinstance(spec.problem, MatrixProblem)
    return Matrix(engine, site.given, spec.problem.given_senders)


def called_operator(engine: Engine, layout: PerChunk, problem: Problem) -> FunctionOperator | None:
    """A where it is a function, as the system of its rows was brought to scale; None where it is none."""
    if problem.operator is None:
        return None
    sign, exponent = (problem.negated, problem.exponent) if isinstance(problem, MatrixProblem) else (False, 0)
    return FunctionOperator(engine, layout, problem.operator, math.ldexp(-1.0 if sign else 1.0, exponent))


def most_columns(partition: Partition, parts: int = 1) -> int:
    """Most right-hand sides, of 2 `parts` if complex, at once: beyond, a chunk's items have no 32-bit numbers."""
    return int(2**31 / (ROUNDED_UP * parts * math.prod(map(max, partition.sizes))))


@final
class BatchesByWidth:
    """A batch of one right-hand side, and one of another number of them, for which there is room."""

    def __init__(self) -> None:
        self._batches: dict[int, Batch] = {}
        self._chosen = 1

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches.values())

    def __contains__(self, width: int) -> bool:
        return width in self._batches

    @property
    def single(self) -> Batch:
        """The batch of one, which is made first."""
        return self._batches[1]

    @property
    def chosen(self) -> Batch:
        """The batch whose right-hand sides are solved together, or were."""
        return self._batches[self._chosen]

    def choose(self, width: int) -> None:
        """Take the batch of so many, which has been added."""
        self._chosen = width

    def add(self, batch: Batch) -> None:
        """Have a batch beside those that are there."""
        self._batches[batch.width] = batch

    def clear(self) -> None:
        """Have none."""
        self._batches, self._chosen = {}, 1

    def narrow(self) -> bool:
        """Have the batch of one alone; whether there was another one."""
        wide = len(self._batches) > 1
        if wide:
            self._batches, self._chosen = {1: self._batches[1]}, 1
        return wide

    def lay_out(self, layout: PerChunk, spec: SolveSpec) -> None:
        """Bring all b and x to the layout of another matrix."""
        self._batches = {width: batch.laid_out(layout, spec) for width, batch in self._batches.items()}
