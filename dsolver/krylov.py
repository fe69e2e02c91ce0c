"""Preconditioned conjugate gradients. Sees neither arrays nor Dask."""

from __future__ import annotations

from typing import Protocol, final

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import UPDATE_P, UPDATE_X_R, WAXPBY
from dsolver.lowered import Lowered
from dsolver.operator import Operator


class Preconditioner(Protocol):
    """Approximates A⁻¹, symmetric and positive definite."""

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""


@final
class ConjugateGradient:
    """Conjugate gradients for A x = b (Saad, Iterative Methods for Sparse Linear Systems, algorithm 9.1).

    A step is the same operations on the same handles each time, and no scalar leaves the device. Once r . r <= limit a
    step no longer changes x and r, so steps may be launched ahead of knowing whether they are needed.

    Args:
        engine: runs the kernels.
        operator: A.
        preconditioner: M, or None for the identity.
        layout: the finest level's `Layout` of every chunk.
    """

    def __init__(
        self, engine: Engine, operator: Operator, preconditioner: Preconditioner | None, layout: PerChunk
    ) -> None:
        self._engine = engine
        self._operator = operator
        self._preconditioner = preconditioner
        self.b, self.x, self.r = (engine.field(layout) for _ in range(3))
        self._z, self._p, self._ap = (engine.field(layout) for _ in range(3))
        self._layout = layout
        self._parts = engine.parts()
        self.rr, self.rz, self.pap = (engine.scalar(0.0) for _ in range(3))
        self._rz_old, self._limit = engine.scalar(1.0), engine.scalar(0.0)

    def start(self, limit: float) -> float:
        """Begin from the x and b that are set; finished when r . r <= limit. Returns the first r . r."""
        engine = self._engine
        rr = self.residual()
        engine.fill(self._layout, 0.0, self._p)
        engine.assign(self._rz_old, engine.scalar(1.0))
        engine.assign(self._limit, engine.scalar(limit))
        return rr

    def step(self) -> None:
        """One iteration. The first has p = 0 and rz_old = 1, which makes p = z."""
        engine = self._engine
        self._turn()
        self._operator.apply_dot(self._p, self._ap, self.pap)
        engine.run(UPDATE_X_R, self._p, self._ap, self.rz, self.pap, self.rr, self._limit, self.x, self.r, self._parts)
        engine.total(self._parts, self.rr)
        engine.assign(self._rz_old, self.rz)

    def _turn(self) -> None:
        """z = M r, rz = r . z and p = z + (rz/rz_old) p."""
        engine = self._engine
        if isinstance(self._preconditioner, Lowered):
            self._preconditioner.turn(self.r, self.rr, self.rz, self._rz_old, self._p, self._parts)
            return
        if self._preconditioner is None:
            engine.copy(self.r, self._z)
        else:
            self._preconditioner.apply(self.r, self._z)
        engine.dot(self.r, self._z, self._parts, self.rz)
        engine.run(UPDATE_P, self._z, self.rz, self._rz_old, self._p)

    def residual(self) -> float:
        """Set r = b - A x, the true residual, and return r . r."""
        engine = self._engine
        self._operator.apply(self.x, self._ap)
        engine.run(WAXPBY, 1.0, self.b, -1.0, self._ap, self.r)
        engine.dot(self.r, self.r, self._parts, self.rr)
        return engine.read(self.rr)[0]
