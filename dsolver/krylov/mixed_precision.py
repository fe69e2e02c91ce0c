"""A preconditioner in a smaller value type under conjugate gradients in float64."""

from typing import cast

from dsolver.engines.base import Engine, Field, PartialSums, PerChunk, Scalar
from dsolver.kernels.contract import DOT_NARROWED, NARROW, UNSCALE, UPDATE_P_NARROWED, WIDEN
from dsolver.krylov.cg import apply_with_dot
from dsolver.krylov.method import ApproximateInverse, Guesser


class Lowered:
    """M, applied in the value type of a view of the engine.

    r is multiplied by a power of two near 1/‖r‖ as it is narrowed, so a residual of any size has the whole range of
    the smaller type before it. M is linear, and the scale exact: the same M as without it.

    `view`: ``engine.lowered(dtype)``, on which M was made. `layout`: the finest level's `Layout` of every chunk, of the
    view.
    """

    def __init__(self, engine: Engine, view: Engine, inner: ApproximateInverse, layout: PerChunk) -> None:
        self._engine, self._view = engine, view
        self.inner = inner
        self._r, self._z = view.field(layout), view.field(layout)
        self._rr, self._parts = engine.scalar(0.0), engine.partial_sums()

    @property
    def ready(self) -> bool:
        """Whether M makes nothing when it is applied for the first time."""
        return bool(getattr(self.inner, "ready", False))

    def apply(self, r: Field, z: Field) -> None:
        """z = M r, both in float64."""
        self._engine.dot(r, r, self._parts, self._rr)
        self._view.run(NARROW, r, self._rr, self._r)
        self.inner.apply(self._r, self._z)
        self._view.run(WIDEN, self._z, self._rr, z)

    def scaled(self, r: Field, rr: Scalar) -> tuple[Engine, Field]:
        """z = s M r in the smaller type, and the engine for it, where rr is r . r; s as of `make_direction`."""
        self._view.run(NARROW, r, rr, self._r)
        self.inner.apply(self._r, self._z)
        return self._view, self._z

    def guess(self, b: Field, x: Field) -> None:
        """x = what M guesses for b, both in float64, where M does guess."""
        self._engine.dot(b, b, self._parts, self._rr)
        self._view.run(NARROW, b, self._rr, self._r)
        cast(Guesser, self.inner).guess(self._r, self._z)
        self._view.run(WIDEN, self._z, self._rr, x)

    def make_direction(
        self, r: Field, rr: Scalar, rz: Scalar, rz_old: Scalar, pap: Scalar, p: Field, parts: PartialSums
    ) -> None:
        """rz = r . z and p = z + (rz/rz_old) p, with z = s M r in the smaller type and the scale s left in it.

        rr is r . r, pap that of the p before. Conjugate gradients do not notice a factor s of M, even one that changes
        from step to step: with z and rz, p has the factor s, alpha = rz/pAp has 1/s, and x and r take alpha p and
        alpha A p. The powers of two leave no rounding of their own. So nothing is widened, and 32 bytes a row move
        where float64 moves 40; or 20, where M brings the dot product with it: then that is of the narrow r, whose
        rounding is that of z.
        """
        view = self._view
        view.run(NARROW, r, rr, self._r)
        made = apply_with_dot(self.inner, self._r, self._z, parts)
        if not made:
            view.run(DOT_NARROWED, r, self._z, parts)
        view.total(parts, rz)
        if made:
            view.calculate(UNSCALE, rr, rz)
        view.run(UPDATE_P_NARROWED, self._z, rz, rz_old, pap, p)
