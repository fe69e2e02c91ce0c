"""What a level without lattice does in a cycle."""

from __future__ import annotations

from typing import Final, final

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import CHEBYSHEV, COPY, JACOBI, PROLONG_ADD, RESTRICT_FULL, SPMV, WAXPBY

RATIO: Final = 4.0
"""The smoother damps eigenvalues of D⁻¹A between the largest / RATIO and the largest."""


def polynomial(ratio: float) -> tuple[float, float, float]:
    """Two steps of the Chebyshev iteration for eigenvalues in 1/ratio .. 1 (Saad, Iterative Methods, algorithm 12.1).

    The first is x += first D⁻¹ r; the second goes on in that direction d: d = keep d + gain D⁻¹ (r - A x), x += d.

    Returns:
        first, keep and gain.
    """
    center, half = (1.0 + 1.0 / ratio) / 2.0, (1.0 - 1.0 / ratio) / 2.0
    before = half / center
    rho = 1.0 / (2.0 / before - before)
    return 1.0 / center, rho * before, 2.0 * rho / half


@final
class AlgebraicStep:
    """What a level without lattice does in a cycle: V(1,1) with a polynomial of degree two before and after.

    Gauss-Seidel with the 20 to 30 colors that such rows need takes as many iterations and as many launches a sweep as
    this takes in all.

    Attributes:
        rc: the coarser level's right-hand side.
        xc: its solution.
    """

    def __init__(self, engine: Engine, level: PerChunk) -> None:
        self._engine = engine
        self._matrix, self._damped = level.at("matrix"), level.at("damped")
        self._restriction, self._prolongation = level.at("restriction"), level.at("prolongation")
        layout, coarse = level.at("layout"), level.at("lattice")
        self._w, self._y, self._d = (engine.field(layout) for _ in range(3))
        self.rc, self.xc = engine.field(coarse), engine.field(coarse)
        self._first, self._keep, self._gain = polynomial(RATIO)

    def descend(self, r: Field, x: Field) -> None:
        """The pre-smoother from zero, and the residual restricted."""
        run = self._engine.run
        run(JACOBI, self._damped, r, self._first, x)
        run(COPY, x, self._d)
        self._step(r, x, self._keep, self._gain)
        self.residual(r, x, self._y)
        run(RESTRICT_FULL, self._restriction, self._y, self.rc)

    def ascend(self, r: Field, x: Field) -> None:
        """The correction, and the post-smoother."""
        self._engine.run(PROLONG_ADD, self._prolongation, self.xc, x)
        self._step(r, x, 0.0, self._first)
        self._step(r, x, self._keep, self._gain)

    def residual(self, r: Field, x: Field, out: Field) -> None:
        """out = r - A x."""
        self._engine.run(SPMV, self._matrix, x, self._w)
        self._engine.run(WAXPBY, 1.0, r, -1.0, self._w, out)

    def _step(self, r: Field, x: Field, keep: float, gain: float) -> None:
        self._engine.run(SPMV, self._matrix, x, self._w)
        self._engine.run(CHEBYSHEV, self._damped, r, self._w, keep, gain, self._d, x)
