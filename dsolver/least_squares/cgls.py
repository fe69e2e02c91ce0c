"""Conjugate gradients for least squares. Sees neither arrays nor Dask."""

from typing import Any, Final

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import AXPBY, NORMAL_STEP, QUOTIENT, WAXPBY
from dsolver.least_squares.method import LeastSquaresMethod

CONDITION: Final = 1.0  # condition number where it is not estimated: it ends no iterations


class ConjugateGradientLeastSquares(LeastSquaresMethod):
    """CGLS, conjugate gradients on (Aᵀ A + damp²) x = Aᵀ b with r and s = Aᵀr - damp² x in place of products with AᵀA.

    Björck, Numerical Methods for Least Squares Problems (1996), algorithm 7.4.1. ‖r‖ falls in every iteration, ‖s‖ may
    rise for a while. ‖A‖ is the largest ‖A p‖ / ‖p‖ that was met.
    """

    def __init__(self, engine: Engine, rows: PerChunk, columns: PerChunk, a: Any, a_t: Any, damp: float) -> None:
        super().__init__(engine, rows, columns, a, a_t, damp)
        self._q, self._p = engine.field(rows), engine.field(columns)
        self._ss_old, self._qq, self._pp, self._alpha, self._beta = (engine.scalar(0.0) for _ in range(5))
        self._below = engine.scalar(-1.0)

    def _begin(self) -> tuple[float, float]:
        engine = self._engine
        engine.fill(self._columns, 0.0, self._p)
        self._normal_residual()
        self._dot(self.r, self.r, self._rr)
        for scalar, value in ((self._ss_old, 1.0), (self._aa, 0.0), (self._cond, CONDITION)):
            engine.set(scalar, value)
        rr, ss = engine.read(self._rr, self._ss)
        return rr, ss

    def step(self) -> None:
        """One iteration. The first has p = 0, which makes p = s."""
        engine, one, p, q = self._engine, self._one, self._p, self._q
        guards = self._stop, self._below, self._zero
        engine.calculate(QUOTIENT, self._ss, self._ss_old, one, one, *guards, self._beta)
        engine.assign(self._ss_old, self._ss)
        self._combine(one, self.s, self._beta, p)
        self._forward.multiply(p, q)
        self._dot(q, q, self._qq)
        self._dot(p, p, self._pp)
        norms = self._ss, self._qq, self._pp, self._damp, self._stop
        engine.calculate(NORMAL_STEP, *norms, self._aa, self._alpha)
        self._combine(self._alpha, p, one, self.x)
        engine.run(AXPBY, -1.0, self._alpha, q, one, self.r)
        self._dot(self.r, self.r, self._rr)
        self._normal_residual()
        self._settle()

    def _normal_residual(self) -> None:
        """s = Aᵀr - damp² x, and s . s."""
        self._backward.multiply(self.r, self.s)
        if self._damp_value:
            self._engine.run(WAXPBY, 1.0, self.s, -self._damp_value * self._damp_value, self.x, self.s)
        self._dot(self.s, self.s, self._ss)

    def damped(self) -> Field:
        """x, whatever it was at first."""
        return self.x
