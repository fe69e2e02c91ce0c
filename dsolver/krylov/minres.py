"""MINRES for symmetric matrices, definite or not. Sees neither arrays nor Dask."""

import math
from typing import Final

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.engines.repetition import Repetition, Samples
from dsolver.kernels.contract import AXPBY, ROTATION
from dsolver.krylov.method import KrylovMethod

FLAT: Final = 1e-8
"""‖A r‖ / (‖A‖ ‖r‖), in the norms of M, at which r is taken for least, and A for singular. Rounding keeps it from
falling further: below 1e-9 it seldom came, and x grew without bound. ‖r‖ is then least up to its square."""


class MinimalResidual(KrylovMethod):
    """MINRES with a symmetric positive definite M (Paige and Saunders, SIAM J. Numer. Anal. 12, 1975).

    With M as in Elman, Silvester and Wathen, Finite Elements and Fast Iterative Solvers (2nd ed.), algorithm 4.1. What
    is least in each iteration is r . M r; the residual itself follows from that of the iteration before by
    r = s² r - c s phi v (Choi, Paige and Saunders, SIAM J. Sci. Comput. 33, 2011, section 5).

    Where A is singular and no x reaches b, r becomes a vector with A M r = 0, and a further step would divide by
    rounding: ‖A r‖ is known of the same rotation, and ends the iterations (section 5 there).

    Lanczos' vectors v are orthonormal in M, z = M v; t becomes the next v. w are the columns by which x moves.
    """

    def __init__(self, engine: Engine, layout: PerChunk) -> None:
        super().__init__(engine, layout)
        self._v, self._v_old, self._t, self._z, self._q = (engine.field(layout) for _ in range(5))
        self._w, self._w_old, self._u = (engine.field(layout) for _ in range(3))
        self._delta, self._square, self._flat = (engine.scalar(value) for value in (0.0, 0.0, FLAT))
        self._state = tuple(engine.scalar(0.0) for _ in range(6))
        self._size, self._normal = engine.scalar(0.0), engine.scalar(0.0)
        self._steps = tuple(engine.scalar(0.0) for _ in range(8))
        self._fresh = True

    def _begin(self) -> None:
        self._fresh = True

    def advance(self, steps: int, how: Repetition, *, recorded: bool) -> Samples:
        """See `KrylovMethod.advance`. An M that is not positive definite is told of in the first."""
        if self._fresh:
            square = self._first()
            if not square > 0.0:
                return [(*self._engine.read(self.rr), square, 1.0)]
            self._fresh = False
        return super().advance(steps, how, recorded=recorded)

    def step(self) -> None:
        """One iteration."""
        engine, zero = self._engine, self._zero
        v, v_old, z, t, q, u, w, w_old = self._v, self._v_old, self._z, self._t, self._q, self._u, self._w, self._w_old
        beta = self._state[0]
        self.operator.multiply_dot(z, t, self._delta)
        self._add(-1.0, beta, v_old, t)
        self._add(-1.0, self._delta, v, t)
        self.precondition(t, q)
        self._dot(t, q, self._square)
        guards, state = (self.rr, self._limit, self._ceiling, self._flat), (*self._state, self._size)
        engine.calculate(ROTATION, self._delta, self._square, *guards, *state, *self._steps, self._normal)
        scale, w1, w2, w3, tau, keep, move, on = self._steps
        engine.run(AXPBY, 1.0, w1, z, zero, u)
        self._add(1.0, w2, w, u)
        self._add(1.0, w3, w_old, u)
        self._add(1.0, tau, u, self.x)
        engine.run(AXPBY, 1.0, move, t, keep, self.r)
        self._dot(self.r, self.r, self.rr)
        for factor, new, old in ((on, w, w_old), (on, u, w), (on, v, v_old), (scale, t, v), (scale, q, z)):
            engine.run(AXPBY, 1.0, factor, new, zero, old)

    @property
    def watched(self) -> tuple[Scalar, ...]:
        """The product of the next v with M times it, and ‖A r‖ of the r before."""
        return self._square, self._normal

    def health(self, *watched: float) -> float:
        """Negative where M is not positive definite, zero where r is least though it is not small."""
        square, normal = watched
        if -math.inf < square < 0.0:
            return square
        if not (math.isfinite(square) and math.isfinite(normal)):
            return math.nan
        return 0.0 if normal <= FLAT else square

    def _first(self) -> float:
        """Make the first v and z of r; returns r . M r."""
        engine = self._engine
        self.precondition(self.r, self._q)
        self._dot(self.r, self._q, self._square)
        (square,) = engine.read(self._square)
        if square > 0.0:
            beta = math.sqrt(square)
            self._set(*zip(self._state, (beta, beta, 1.0, 0.0, 1.0, 0.0), strict=True), (self._steps[0], 1.0 / beta))
            self._set((self._size, 0.0))
            # What old values are multiplied by is zero, which leaves NaN of a solve that broke down.
            self._clear(self._v_old, self._v, self._z, self._w, self._w_old, self._u)
            for new, old in ((self.r, self._v), (self._q, self._z)):
                engine.run(AXPBY, 1.0, self._steps[0], new, self._zero, old)
        return square

    @property
    def _work(self) -> tuple[Field, Field]:
        return self._u, self._t
