"""One right-hand side of a batch, and its solution, by itself."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dsolver.discretize.complex_system import ComplexSystem
from dsolver.discretize.system import System
from dsolver.distributed.nullspace import dots
from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import LOAD
from dsolver.kernels.formats.layout import Layout
from dsolver.krylov.cg import ConjugateGradient, by_rounding
from dsolver.krylov.kept import KeptIterate
from dsolver.krylov.method import ApproximateInverse, KrylovMethod
from dsolver.krylov.unreachable import take_residual, take_unreachable
from dsolver.preconditioners.relaxation.chebyshev import noise

Sides = System | ComplexSystem  # a system as right-hand sides and solutions need it
EPS: Final = {"float64": 2.0**-51, "float32": 2.0**-22}
"""Part of the terms of a sum by which orders of it differ: some units in the last place of a value type."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One right-hand side and its solution, by itself."""

    engine: Engine
    system: Sides  # knows what no x can reach
    layout: PerChunk
    dtype: str  # of A, M and vectors
    method: KrylovMethod  # its vectors and scalars; all but `KrylovMethod.step` may be asked of it
    kept: KeptIterate  # an iterate that its solve may go back to
    diagonal: ApproximateInverse | None  # the inverse of A's; None where it is not known, has zeros, or is a number
    uneven: bool  # whether rows or columns of A are known to differ much in size
    matrix_norm: Callable[[], float]  # about ‖A‖
    asymmetry: Callable[[], float]  # of M, as a part of its size; 0 where the method needs no symmetric one
    projecting: bool
    alone: bool  # whether it is the only one

    def freeze(self) -> None:
        """Leave x and r as they are in later iterations, until the next start."""
        self.method.freeze()

    def balance(self) -> None:
        """Take from the recursion's residual what rounding has left of a part that no x can reach."""
        self.system.balance(self.method.r)

    def balance_going_on(self) -> None:
        """`balance` of a quiet column, behind an iteration that may have been past the last one: r stays then."""
        assert isinstance(self.system, System)
        self.system.balance_going_on(self.method.r, self.method.guards)

    @property
    def quiet(self) -> bool:
        """As of `ColumnIterations`."""
        return self.alone and bool(self.method.guards) and isinstance(self.system, System) and self.system.quiet

    def rounded(self) -> bool:
        """Whether rounding explains that a curvature was not positive; see `dsolver.krylov.cg`."""
        method = self.method
        return isinstance(method, ConjugateGradient) and by_rounding(self.engine, self.layout, method)

    def magnitude(self) -> float:
        """About ‖A‖ ‖x‖: what rounding errors of b - A x are relative to."""
        return self.matrix_norm() * math.sqrt(*self._squares(self.method.x)[1])

    def rounding(self) -> float:
        """About what rounding makes of b - A x, from ‖A y‖ of a y with items as large as those of x and other signs."""
        engine, method = self.engine, self.method
        if engine.is_complex:
            return 0.0
        y, ay = method.work
        engine.run(LOAD, self.layout, engine.per_chunk(partial(_roughened, engine.partition), self.layout, method.x), y)
        (method.given or method.operator).multiply(y, ay)
        return EPS[self.dtype] * math.sqrt(*self._squares(ay)[1])

    def true_residual(self) -> float:
        """‖b - A x‖, computed anew; the recursion goes on from it."""
        return math.sqrt(*self.method.residual())

    def take_unreachable(self) -> float:
        """Take from b a part that no x can reach, as r tells of it; its length, or zero."""
        engine, layout = self.engine, self.layout
        if self.projecting:
            return take_residual(engine, self.method)
        rough = partial(_roughened, engine.partition)
        return take_unreachable(engine, layout, self.method, lambda z: engine.per_chunk(rough, layout, z))

    def by_rows(self) -> float:
        """‖D⁻¹r‖ over ‖D⁻¹b‖ or, if less, ‖x‖, of the true residual, with D = diag(A); NaN where that is not known.

        Where columns alone differ in size, D⁻¹b is as large as D⁻¹r, and x is not.
        """
        if self.diagonal is None:
            return math.nan
        z, parts = self.method.work[0], self.engine.partial_sums()
        squares: list[float] = []
        for field in (self.method.r, self.method.b):
            self.diagonal.apply(field, z)
            squares += dots(self.engine, parts, (z, z))
        least = min(squares[1], *self._squares(self.method.x)[1])
        return math.sqrt(squares[0] / least) if least > 0.0 else math.nan

    def keep(self) -> None:
        """Keep x as it is."""
        self.kept.keep(self.method.x)

    def keep_zero(self) -> None:
        """Keep zero, and give back the memory of what was kept."""
        self.kept.keep_zero()

    def recall(self) -> None:
        """x = what is kept."""
        self.kept.recall(self.method.x)

    def exchange(self) -> None:
        """x = what is kept, and x is kept."""
        self.kept.exchange(self.method.x, self.method.work[1])

    def norms(self, *, alone: bool = False, at_zero: bool = False) -> tuple[float, float]:
        """(‖b‖, ‖x‖). Where x is zero, ‖b‖ is the first residual too; a single column keeps it for that."""
        method = self.method
        scalars, squares = self._squares(method.b) if at_zero else self._squares(method.b, method.x)
        method.known = (scalars[0], squares[0]) if alone and at_zero else None
        return math.sqrt(squares[0]), 0.0 if at_zero else math.sqrt(squares[1])

    def _squares(self, *fields: Field) -> tuple[Sequence[Scalar], Sequence[float]]:
        """x . x of fields, on the device and here."""
        engine, parts = self.engine, self.engine.partial_sums()
        scalars = [engine.scalar(0.0) for _ in fields]
        for field, scalar in zip(fields, scalars, strict=True):
            engine.dot(field, field, parts, scalar)
        return scalars, engine.read(*scalars)


def _roughened(partition: Partition, backend: Backend, number: int, layout: Layout, x: Any) -> Any:
    """Block (nx, ny, nz) of a chunk's vector, times rough values."""
    rough, values = noise(partition, backend, number), backend.vectors.unload(layout, x)
    values *= rough
    return values
