"""BiCGStab for unsymmetric matrices. Sees neither arrays nor Dask."""

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.kernels.contract import AXPBY
from dsolver.krylov.method import KrylovMethod


class BiConjugateGradientStabilized(KrylovMethod):
    """BiCGStab with M on the right, so that r is the residual of A x = b itself.

    van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992; Saad, Iterative Methods for Sparse Linear Systems, algorithm
    7.7, for A M y = b and x = M y. Two products with A and two with M in an iteration; the vectors do not grow in
    number.

    A number that is zero or not finite makes beta, then alpha, then omega NaN, and nothing changes any more.
    """

    def __init__(self, engine: Engine, layout: PerChunk) -> None:
        super().__init__(engine, layout)
        self._shadow, self._p, self._v, self._t, self._z = (engine.field(layout) for _ in range(5))
        self._rho, self._rho_old, self._alpha, self._omega = (engine.coefficient() for _ in range(4))
        self._beta, self._back, self._along, self._ts, self._tt = (engine.coefficient() for _ in range(5))

    def _begin(self) -> None:
        self._engine.copy(self.r, self._shadow)
        self._clear(self._p, self._v)
        self._set((self._rho_old, 1.0), (self._alpha, 1.0), (self._omega, 1.0))

    def step(self) -> None:
        """One iteration. The first has p = v = 0, which makes p = r; s = r - alpha v is kept in r."""
        one, p, v, t, r = self._one, self._p, self._v, self._t, self.r
        self._dot(self._shadow, r, self._rho)
        self._quotient(self._rho, self._rho_old, self._alpha, self._omega, self._beta)
        self._quotient(self._beta, one, self._omega, one, self._back)
        self._engine.run(AXPBY, 1.0, one, r, self._beta, p)
        self._add(-1.0, self._back, v, p)

        z = self._preconditioned(p, self._z)
        self.operator.multiply(z, v)
        self._dot(self._shadow, v, self._along)
        self._quotient(self._rho, self._along, self._beta, self._beta, self._alpha)
        self._add(1.0, self._alpha, z, self.x)
        self._add(-1.0, self._alpha, v, r)

        z = self._preconditioned(r, self._z)
        self.operator.multiply(z, t)
        self._dot(t, r, self._ts)
        self._dot(t, t, self._tt)
        self._quotient(self._ts, self._tt, self._alpha, self._alpha, self._omega)
        self._add(1.0, self._omega, z, self.x)
        self._add(-1.0, self._omega, t, r)
        self._dot(r, r, self.rr)
        self._engine.assign(self._rho_old, self._rho)

    @property
    def watched(self) -> tuple[Scalar, ...]:
        """Products with the shadow residual, and t . s."""
        return self._rho, self._along, self._ts

    def health(self, *watched: float) -> float:
        """Zero where r is orthogonal to the shadow residual, or t to s."""
        return self._unbroken(*watched)

    @property
    def _work(self) -> tuple[Field, Field]:
        return self._z, self._t
