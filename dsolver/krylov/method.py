"""Interface of Krylov methods at work: vectors, scalars, a step, and what is asked between two steps."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final, Protocol, Self

from dsolver.engines.base import Engine, Field, PartialSums, PerChunk, Scalar
from dsolver.engines.repetition import Repetition, Samples
from dsolver.kernels.contract import AXPBY, LOAD, QUOTIENT, WAXPBY

DIVERGED: Final = 1e10  # growth of the residual beyond which a solve is given up

FEW: Final = 1 << 22
"""Rows up to which an iteration that has not been recorded is so before it runs. An H200 takes 2.3 ms for one of 256³
rows, in which the host launches it and records it; for one of 128³ rows it takes 0.4, and the host 1.0 for either."""


class Operator(Protocol):
    """A matrix as methods see it."""

    def multiply(self, x: Field, y: Field) -> None:
        """y = A x."""

    def multiply_dot(self, x: Field, y: Field, dot: Scalar, parts: PartialSums | None = None) -> None:
        """y = A x and dot = xᴴy; parts: `Engine.partial_sums_of` the dot product."""


class ApproximateInverse(Protocol):
    """Preconditioner M, applied: linear; symmetric and positive definite where the method needs that.

    One with an `apply_dot` may bring r . z with z (`MultigridCycle`), one with a `make_direction` makes the next
    direction of conjugate gradients itself, since its z is not in the value type of r (`Lowered`).
    """

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""


class Guesser(Protocol):
    """A preconditioner that makes first guesses, too."""

    def guess(self, b: Field, x: Field) -> None:
        """x = something nearer to A⁻¹ b than zero."""


class KrylovMethod(ABC):
    """A Krylov method for A x = b.

    A step is the same operations on the same handles each time, and no scalar leaves the device. Once r . r <= limit,
    or r . r has grown beyond all measure, or the method has broken down, a step no longer changes x and r: steps may
    be launched ahead of knowing whether they are needed, and x is the iterate that the last residual tells of.

    Attributes:
        preconditioner: M, or None for the identity.
        b, x, r: right-hand side, iterate, residual.
        rr: r . r.
    """

    operator: Operator  # A, to be set before the first start
    # the matrix whose residuals count, where A only stands for it; else None. Its r is what A corrects, as in iterative
    # refinement.
    given: Operator | None = None
    # b . b, on the device and here, where x is zero, so that the next residual is b; else None.
    known: tuple[Scalar, float] | None = None

    def __init__(self, engine: Engine, layout: PerChunk) -> None:
        self._engine = engine
        self._layout = layout
        self.preconditioner: ApproximateInverse | None = None
        self.b, self.x, self.r = (engine.field(layout) for _ in range(3))
        self._parts = engine.partial_sums()
        self.rr, self._limit, self._ceiling = engine.scalar(0.0), engine.scalar(0.0), engine.scalar(math.inf)
        self._one, self._zero = engine.scalar(1.0), engine.scalar(0.0)

    # -- what a method is made of ------------------------------------------------------------------------------------

    @abstractmethod
    def step(self) -> None:
        """One iteration."""

    @property
    def ready(self) -> bool:
        """Whether nothing is made when a step runs for the first time; where it is not known, it is not so."""
        return False

    @property
    @abstractmethod
    def watched(self) -> tuple[Scalar, ...]:
        """Scalars beside r . r that tell whether an iteration went well."""

    @abstractmethod
    def health(self, *watched: float) -> float:
        """Health of an iteration, from what was watched: positive where all is well.

        Negative where A or M is not positive definite though the method needs that, zero where the method has broken
        down, NaN where a scalar is not finite.
        """

    @abstractmethod
    def _begin(self) -> None:
        """Begin from a residual r that is set."""

    @property
    @abstractmethod
    def _work(self) -> tuple[Field, Field]:
        """Two fields that are free between two steps."""

    # -- what is asked of it -----------------------------------------------------------------------------------------

    def start(self, limit: float) -> float:
        """Begin from the x and b that are set; finished when r . r <= limit. Returns the first r . r."""
        (rr,) = self.residual()
        self.begin(limit, rr)
        return rr

    def begin(self, limit: float, rr: float) -> None:
        """Begin from a residual r that is set, with r . r = rr."""
        self._set((self._limit, limit), (self._ceiling, DIVERGED * DIVERGED * rr))
        self._begin()

    @property
    def guards(self) -> tuple[Scalar, ...]:
        """Arguments of the contract's `LESS_MEANS_GOING_ON` that tell whether the last step changed x; () for none."""
        return ()

    def advance(self, steps: int, how: Repetition, *, recorded: bool) -> Samples:
        """(r . r, *watched) of every column after each of so many steps, or fewer; how: as of `Engine.repeat`."""
        engine, watched = self._engine, (self.rr, *self.watched)
        if recorded:
            ready = self.ready and engine.partition.domain.points <= FEW
            return engine.repeat(self.step, steps, watched, replace(how, ready=ready))
        samples = []
        for number in range(1, steps + 1):
            self.step()
            samples.append(engine.read(*watched))
            if number in how.between:
                how.between[number]()
        return samples

    def record(self) -> None:
        """Let the engine record a step before one runs, if none makes anything."""
        if self.ready:
            self._engine.record(self.step)

    def freeze(self) -> None:
        """From now on steps leave x and r as they are, until the next start."""
        self._set((self._limit, math.inf))

    def column(self, number: int, engine: Engine, operator: Operator, given: Operator | None = None) -> Self:
        """One column of this, where this runs on a batched view of the engine: all but `step` may be asked of it."""
        view = self._engine
        made = copy(self)
        made._engine, made.operator, made.preconditioner, made._parts = engine, operator, None, engine.partial_sums()
        made.given = given
        for name, value in vars(self).items():
            if isinstance(value, Field):
                setattr(made, name, view.column(value, number))
            elif isinstance(value, Scalar):
                setattr(made, name, view.column_of(value, number))
        return made

    def iterate(self) -> Field:
        """x, between two steps. It stays what it is until the next use of this."""
        return self.x

    def forget(self) -> None:
        """Forget what a solve that was left in the middle would go on with: another b or x is set."""
        self.known = None

    def residual(self) -> tuple[float, ...]:
        """Set r = b - A x, the true residual, and return r . r of each column."""
        engine, ax = self._engine, self._work[1]
        known, self.known = self.known, None
        if known is not None:
            square, value = known
            engine.copy(self.b, self.r)
            engine.assign(self.rr, square)
            return (value,)
        (self.given or self.operator).multiply(self.x, ax)
        engine.run(WAXPBY, 1.0, self.b, -1.0, ax, self.r)
        engine.dot(self.r, self.r, self._parts, self.rr)
        return engine.read(self.rr)

    @property
    def work(self) -> tuple[Field, Field]:
        """Two fields that are free between two steps."""
        return self._work

    def matrix_norm(self, rough: PerChunk) -> float:
        """‖A v‖ / ‖v‖ for blocks of a rough v: within a small factor below ‖A‖. May be asked between two steps."""
        engine, (v, av) = self._engine, self._work
        engine.run(LOAD, self._layout, rough, v)
        self.operator.multiply(v, av)
        squares = [engine.scalar(0.0) for _ in range(2)]
        for field, square in zip((v, av), squares, strict=True):
            engine.dot(field, field, self._parts, square)
        below, above = engine.read(*squares)
        return math.sqrt(above / below)

    # -- operations of several methods ---------------------------------------------------------------------------------

    def precondition(self, r: Field, z: Field) -> None:
        """z = M r."""
        if self.preconditioner is None:
            self._engine.copy(r, z)
        else:
            self.preconditioner.apply(r, z)

    def _preconditioned(self, r: Field, z: Field) -> Field:
        """M r, to be read only: in z, or r itself without M."""
        if self.preconditioner is None:
            return r
        self.preconditioner.apply(r, z)
        return z

    def _dot(self, x: Field, y: Field, out: Scalar) -> None:
        """out = x . y."""
        self._engine.dot(x, y, self._parts, out)

    def _add(self, sign: float, a: Scalar, x: Field, y: Field) -> None:
        """y += sign a x, unless a is not finite."""
        self._engine.run(AXPBY, sign, a, x, self._one, y)

    def _quotient(self, a: Scalar, b: Scalar, c: Scalar, d: Scalar, out: Scalar) -> None:
        """out = (a/b) (c/d) while the solve goes on, else NaN."""
        self._engine.calculate(QUOTIENT, a, b, c, d, self.rr, self._limit, self._ceiling, out)

    def _unbroken(self, *parts: float) -> float:
        """`unbroken` of coefficients as they are read, two numbers of each where they are complex."""
        return unbroken(*(map(abs, self._numbers(parts)) if self._engine.is_complex else parts))

    def _numbers(self, parts: Sequence[float]) -> Sequence[Any]:
        """Coefficients of what is read of them: complex numbers of pairs, or the numbers themselves."""
        return [*map(complex, parts[::2], parts[1::2])] if self._engine.is_complex else parts

    def _set(self, *pairs: tuple[Scalar, float]) -> None:
        for scalar, value in pairs:
            self._engine.set(scalar, value)

    def _clear(self, *fields: Field) -> None:
        for field in fields:
            self._engine.fill(self._layout, 0.0, field)


def unbroken(*factors: float) -> float:
    """Health from numbers that must be finite and not zero: 1, or 0 where one is zero, NaN where one is not finite."""
    if not all(map(math.isfinite, factors)):
        return math.nan
    return 1.0 if all(factors) else 0.0
