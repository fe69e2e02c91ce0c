"""Preconditioned conjugate gradients. Sees neither arrays nor Dask."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Final, Protocol, final, runtime_checkable

from dsolver.engines.base import BatchedEngine, Engine, Field, Parts, PerChunk, Scalar
from dsolver.kernels.contract import LOAD, UPDATE_P, UPDATE_X_R, WAXPBY
from dsolver.operator import Operator

DIVERGED: Final = 1e10
"""Growth of the residual beyond which a solve is given up."""


class Preconditioner(Protocol):
    """Approximates A⁻¹, symmetric and positive definite."""

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""


class Guesser(Protocol):
    """A preconditioner that makes first guesses, too."""

    def guess(self, b: Field, x: Field) -> None:
        """x = something nearer to A⁻¹ b than zero."""


@runtime_checkable
class Turner(Preconditioner, Protocol):
    """A preconditioner that makes the next direction itself, because z is not in the value type of r."""

    def turn(self, r: Field, rr: Scalar, rz: Scalar, rz_old: Scalar, pap: Scalar, p: Field, parts: Parts) -> None:
        """rz = r . z and p = z + (rz/rz_old) p with z = M r; rr is r . r, pap the curvature of the p before."""


@final
class ConjugateGradient:
    """Conjugate gradients for A x = b (Saad, Iterative Methods for Sparse Linear Systems, algorithm 9.1).

    A step is the same operations on the same handles each time, and no scalar leaves the device. Once r . r <= limit,
    or r . r has grown beyond all measure, or a curvature is not positive, a step no longer changes x and r: steps may
    be launched ahead of knowing whether they are needed, and x is the iterate that the last residual tells of.

    Args:
        engine: runs the kernels.
        layout: the finest level's `Layout` of every chunk.

    Attributes:
        operator: A, which whoever makes this sets.
        preconditioner: M, or None for the identity.
    """

    operator: Operator

    def __init__(self, engine: Engine, layout: PerChunk) -> None:
        self._engine = engine
        self.preconditioner: Preconditioner | None = None
        self.b, self.x, self.r = (engine.field(layout) for _ in range(3))
        self._z, self._p, self._ap = (engine.field(layout) for _ in range(3))
        self._layout = layout
        self._parts = engine.parts()
        self.rr, self.rz, self.pap = (engine.scalar(0.0) for _ in range(3))
        self._rz_old, self._limit, self._ceiling = engine.scalar(1.0), engine.scalar(0.0), engine.scalar(math.inf)

    def start(self, limit: float) -> float:
        """Begin from the x and b that are set; finished when r . r <= limit. Returns the first r . r."""
        rr = self.residual()
        self.begin(limit, rr)
        return rr

    def begin(self, limit: float, rr: float) -> None:
        """Begin from a residual r that is set, with r . r = rr."""
        engine = self._engine
        engine.fill(self._layout, 0.0, self._p)
        for scalar, value in (
            (self._rz_old, 1.0),
            (self.pap, 1.0),
            (self._limit, limit),
            (self._ceiling, DIVERGED * DIVERGED * rr),
        ):
            engine.assign(scalar, engine.scalar(value))

    def freeze(self) -> None:
        """From now on steps leave x and r as they are, until the next start."""
        self._engine.assign(self._limit, self._engine.scalar(math.inf))

    def column(self, number: int, engine: Engine, operator: Operator) -> ConjugateGradient:
        """One column of this, where this runs on a batched view of the engine: all but `step` may be asked of it."""
        view = self._engine
        assert isinstance(view, BatchedEngine)
        made = copy(self)
        made._engine, made.operator, made.preconditioner, made._parts = engine, operator, None, engine.parts()
        for name, value in vars(self).items():
            if isinstance(value, Field):
                setattr(made, name, view.column(value, number))
            elif isinstance(value, Scalar):
                setattr(made, name, view.column_of(value, number))
        return made

    def step(self) -> None:
        """One iteration. The first has p = 0 and rz_old = 1, which makes p = z."""
        engine = self._engine
        self._turn()
        self.operator.apply_dot(self._p, self._ap, self.pap)
        guards = self.rr, self._limit, self._ceiling
        engine.run(UPDATE_X_R, self._p, self._ap, self.rz, self.pap, *guards, self.x, self.r, self._parts)
        engine.total(self._parts, self.rr)
        engine.assign(self._rz_old, self.rz)

    def _turn(self) -> None:
        """z = M r, rz = r . z and p = z + (rz/rz_old) p."""
        engine = self._engine
        if isinstance(self.preconditioner, Turner):
            self.preconditioner.turn(self.r, self.rr, self.rz, self._rz_old, self.pap, self._p, self._parts)
            return
        if self.preconditioner is None:
            engine.copy(self.r, self._z)
        else:
            self.preconditioner.apply(self.r, self._z)
        engine.dot(self.r, self._z, self._parts, self.rz)
        engine.run(UPDATE_P, self._z, self.rz, self._rz_old, self.pap, self._p)

    def matrix_norm(self, rough: PerChunk) -> float:
        """‖A v‖ / ‖v‖ for blocks of a rough v: within a small factor below ‖A‖. May be asked between two steps."""
        engine, v, av = self._engine, self._z, self._ap
        engine.run(LOAD, self._layout, rough, v)
        self.operator.apply(v, av)
        squares = [engine.scalar(0.0) for _ in range(2)]
        for field, square in zip((v, av), squares, strict=True):
            engine.dot(field, field, self._parts, square)
        below, above = engine.read(*squares)
        return math.sqrt(above / below)

    def curvatures(self, changed: Callable[[Field], PerChunk]) -> tuple[float, float]:
        """pᵀAp of the newest p, and wᵀAw of the w that `changed` makes of it. The next `start` forgets that."""
        engine = self._engine
        engine.run(LOAD, self._layout, changed(self._p), self._z)
        found = [engine.scalar(0.0) for _ in range(2)]
        for field, curvature in zip((self._p, self._z), found, strict=True):
            self.operator.apply(field, self._ap)
            engine.dot(field, self._ap, self._parts, curvature)
        first, second = engine.read(*found)
        return first, second

    def residual(self) -> float:
        """Set r = b - A x, the true residual, and return r . r."""
        engine = self._engine
        self.operator.apply(self.x, self._ap)
        engine.run(WAXPBY, 1.0, self.b, -1.0, self._ap, self.r)
        engine.dot(self.r, self.r, self._parts, self.rr)
        return engine.read(self.rr)[0]
