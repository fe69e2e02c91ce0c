"""LSMR for least squares. Sees neither arrays nor Dask."""

from typing import Any, Final

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.kernels.contract import BIDIAGONAL_ROTATIONS, HALF_STEP, WAXPBY
from dsolver.least_squares.method import LeastSquaresMethod

LARGE: Final = 1e100  # in place of the smallest rho_bar before the first


class LeastSquaresMinimalResidual(LeastSquaresMethod):
    """LSMR (Fong and Saunders, SIAM J. Sci. Comput. 33, 2011).

    MINRES on AᵀA x = Aᵀb by Golub and Kahan's bidiagonalization: ‖Aᵀr‖ never rises, and in practice ‖r‖ does not. Where
    A has less rank than columns, x is the solution nearest to the first guess.

    u and v are kept without being divided by their norms beta and alpha: that saves a pass over each. h and h_bar are
    the vectors by which x moves.
    """

    def __init__(self, engine: Engine, rows: PerChunk, columns: PerChunk, a: Any, a_t: Any, damp: float) -> None:
        super().__init__(engine, rows, columns, a, a_t, damp)
        self._u, self._v, self._h, self._h_bar = self.r, *(engine.field(columns) for _ in range(3))
        self._q = engine.field(rows)
        self._alpha, self._per_alpha, self._u_back = (engine.scalar(0.0) for _ in range(3))
        self._beta, self._per_beta, self._v_back = (engine.scalar(0.0) for _ in range(3))
        self._square = engine.scalar(0.0)
        self._state = tuple(engine.scalar(0.0) for _ in range(16))
        self._keep, self._move, self._turn = (engine.scalar(0.0) for _ in range(3))
        self._first = engine.field(columns) if damp else None

    def _begin(self) -> tuple[float, float]:
        engine, zero = self._engine, self._zero
        if self._first is not None:
            engine.copy(self.x, self._first)
        self._dot(self._u, self._u, self._square)
        engine.calculate(HALF_STEP, self._square, self._one, self._beta, self._per_beta, self._v_back)
        self._backward.multiply(self._u, self.s)
        engine.fill(self._columns, 0.0, self._v)
        engine.fill(self._columns, 0.0, self._h)
        engine.fill(self._columns, 0.0, self._h_bar)
        self._combine(self._per_beta, self.s, zero, self._v)
        self._dot(self._v, self._v, self._square)
        engine.calculate(HALF_STEP, self._square, self._beta, self._alpha, self._per_alpha, self._u_back)
        self._combine(self._per_alpha, self._v, zero, self._h)
        alpha, beta = engine.read(self._alpha, self._beta)
        rotations = alpha, 1.0, 1.0, 1.0, 0.0, 0.0, alpha * beta
        norms = beta, 0.0, 1.0, 0.0, 0.0, 0.0, alpha * alpha, 0.0, LARGE
        for scalar, value in zip(self._state, (*rotations, *norms), strict=True):
            engine.set(scalar, value)
        return beta * beta, (alpha * beta) ** 2

    def step(self) -> None:
        """One iteration."""
        engine, one, x, h, h_bar = self._engine, self._one, self.x, self._h, self._h_bar
        back = self._per_beta, self._v_back
        self._half(self._forward, self._v, (self._per_alpha, self._u_back), self._q, self._u, (self._beta, *back))
        forth = self._per_alpha, self._u_back
        self._half(self._backward, self._u, back, self.s, self._v, (self._alpha, *forth))
        found = self._keep, self._move, self._turn, self._rr, self._ss, self._aa, self._cond
        engine.calculate(BIDIAGONAL_ROTATIONS, self._alpha, self._beta, self._damp, self._stop, *self._state, *found)
        self._combine(one, h, self._keep, h_bar)
        self._combine(self._move, h_bar, one, x)
        self._combine(self._per_alpha, self._v, self._turn, h)
        self._settle()

    def _half(
        self, a: Any, x: Field, factors: tuple[Scalar, Scalar], product: Field, y: Field, found: tuple[Scalar, ...]
    ) -> None:
        """y = factor A x + other factor y; its norm, and the factors of the next half."""
        per, keep = factors
        a.multiply(x, product)
        self._combine(per, product, keep, y)
        self._dot(y, y, self._square)
        other = self._alpha if y is self._u else self._beta
        self._engine.calculate(HALF_STEP, self._square, other, *found)

    def damped(self) -> Field:
        """The change of the first guess, as in SciPy."""
        assert self._first is not None
        self._engine.run(WAXPBY, 1.0, self.x, -1.0, self._first, self._h_bar)
        return self._h_bar
