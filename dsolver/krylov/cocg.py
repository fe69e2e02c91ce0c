"""Conjugate orthogonal conjugate gradients for complex symmetric matrices. Sees neither arrays nor Dask."""

from dsolver.engines.base import Engine, Field, PerChunk, Scalar
from dsolver.kernels.contract import AXPBY
from dsolver.krylov.method import KrylovMethod
from dsolver.krylov.mixed_precision import Lowered


class ConjugateOrthogonal(KrylovMethod):
    """COCG for A = Aᵀ (van der Vorst and Melissen, IEEE Trans. Magn. 26, 1990), with M = Mᵀ.

    Conjugate gradients with xᵀy in the place of xᴴy: one product with A and with M in an iteration, and short
    recurrences. Nothing is least on the way, so the residual may rise for a while. Where rᵀMr or pᵀAp vanishes though
    its vectors do not, it has broken down: alpha or beta is then not finite, and nothing changes any more.
    """

    def __init__(self, engine: Engine, layout: PerChunk) -> None:
        super().__init__(engine, layout)
        self._z, self._p, self._ap = (engine.field(layout) for _ in range(3))
        self._rz, self._rz_old, self._pap, self._alpha, self._beta = (engine.coefficient() for _ in range(5))

    def _begin(self) -> None:
        self._clear(self._p)
        self._set((self._rz_old, 1.0))

    def step(self) -> None:
        """One iteration. The first has p = 0 and rz_old = 1, which makes p = z."""
        engine, one, p, ap = self._engine, self._one, self._p, self._ap
        view, z = engine, self._z
        if isinstance(self.preconditioner, Lowered):
            view, z = self.preconditioner.scaled(self.r, self.rr)  # nothing notices the factor
        else:
            self.precondition(self.r, z)
        view.bilinear(self.r, z, self._parts, self._rz)
        self._quotient(self._rz, self._rz_old, one, one, self._beta)
        view.run(AXPBY, 1.0, one, z, self._beta, p)
        self.operator.multiply(p, ap)
        engine.bilinear(p, ap, self._parts, self._pap)
        self._quotient(self._rz, self._pap, one, one, self._alpha)
        engine.advance(self._alpha, one, p, ap, self.x, self.r, (self._parts, self.rr))
        engine.assign(self._rz_old, self._rz)

    @property
    def watched(self) -> tuple[Scalar, ...]:
        """rᵀMr and pᵀAp."""
        return self._rz, self._pap

    def health(self, *watched: float) -> float:
        """Zero where one of them vanishes."""
        return self._unbroken(*watched)

    @property
    def _work(self) -> tuple[Field, Field]:
        return self._z, self._ap
