"""Preconditioned conjugate gradients, and whether rounding explains their breakdowns. Sees neither arrays nor Dask."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from dsolver.engines.base import Engine, Field, PartialSums, PerChunk, Scalar
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.contract import AXPBY, DOT, LOAD, QUOTIENT, UPDATE_P, UPDATE_X_R
from dsolver.kernels.formats.layout import Layout
from dsolver.krylov.method import ApproximateInverse, KrylovMethod


def apply_with_dot(m: ApproximateInverse, r: Field, z: Field, parts: PartialSums) -> bool:
    """z = M r, and r . z of each chunk if M brings it, by an `apply_dot`. Returns whether there is one."""
    apply_dot: Callable[..., bool] | None = getattr(m, "apply_dot", None)
    if apply_dot is not None:
        return apply_dot(r, z, parts)
    m.apply(r, z)
    return False


class ConjugateGradient(KrylovMethod):
    """Conjugate gradients for A x = b (Saad, Iterative Methods for Sparse Linear Systems, algorithm 9.1).

    Flexible ones let M change from step to step (Notay, SIAM J. Sci. Comput. 22, 2000): the new direction is made
    orthogonal to A times the old one by beta = -(z . Ap)/(p . Ap). That is Polak and Ribiere's z . (r - r_old) over
    rz_old, since r - r_old = -(rz_old/pap) Ap. It costs a dot product and a vector.

    `flexible`: whether M may change.
    """

    def __init__(self, engine: Engine, layout: PerChunk, *, flexible: bool = False) -> None:
        super().__init__(engine, layout)
        self._z, self._p, self._ap = (engine.field(layout) for _ in range(3))
        self.rz, self.pap = (engine.scalar(0.0) for _ in range(2))
        self._rz_old = engine.scalar(1.0)
        self._rz_parts, self._rr_parts, self._pap_parts = map(engine.partial_sums_of, (self.rz, self.rr, self.pap))
        self._flexible = flexible
        self._free = engine.field(layout) if flexible else self._ap
        self._zap, self._sound, self._beta, self._most = (engine.scalar(value) for value in (0.0, 0.0, 0.0, math.inf))
        self._minus = engine.scalar(-1.0)

    def _begin(self) -> None:
        self._clear(self._p)
        if self._flexible:
            self._clear(self._ap)
        self._set((self._rz_old, 1.0), (self.pap, 1.0))

    def step(self) -> None:
        """One iteration. The first has p = 0 and rz_old = 1, which makes p = z."""
        engine = self._engine
        if self._flexible:
            self._make_direction_flexibly()
        else:
            self._make_direction()
        self.operator.multiply_dot(self._p, self._ap, self.pap, self._pap_parts)
        guards = self.rr, self._limit, self._ceiling
        engine.run(UPDATE_X_R, self._p, self._ap, self.rz, self.pap, *guards, self.x, self.r, self._rr_parts)
        engine.total(self._rr_parts, self.rr)
        engine.assign(self._rz_old, self.rz)

    @property
    def guards(self) -> tuple[Scalar, ...]:
        """As of `KrylovMethod`."""
        return self.rz, self.pap, self.rr, self._limit, self._ceiling

    @property
    def ready(self) -> bool:
        """Whether M makes nothing when it is applied for the first time, so that it may be recorded before it has run.

        The rest makes nothing. It is asked in each superstep: to compare M with a protocol takes Python 40 us.
        """
        return not self._flexible and bool(getattr(self.preconditioner, "ready", False))

    @property
    def watched(self) -> tuple[Scalar, ...]:
        """p . Ap and r . z."""
        return self.pap, self.rz

    def health(self, *watched: float) -> float:
        """The smaller curvature; or the first that is not positive, of which the second follows, NaN for +inf."""
        pap, rz = watched
        for value in (rz, pap):
            if not 0.0 < value < math.inf:
                return value if value <= 0.0 else math.nan
        return min(pap, rz)

    def curvatures(self, changed: Callable[[Field], PerChunk]) -> tuple[float, float]:
        """pᵀAp of the newest p, and wᵀAw of the w that `changed` makes of it. The next `start` forgets that."""
        engine = self._engine
        engine.run(LOAD, self._layout, changed(self._p), self._z)
        found = [engine.scalar(0.0) for _ in range(2)]
        for field, curvature in zip((self._p, self._z), found, strict=True):
            self.operator.multiply(field, self._ap)
            engine.dot(field, self._ap, self._parts, curvature)
        first, second = engine.read(*found)
        return first, second

    def _make_direction(self) -> None:
        """z = M r, rz = r . z and p = z + (rz/rz_old) p."""
        make_direction: Callable[..., None] | None = getattr(self.preconditioner, "make_direction", None)
        if make_direction is not None:
            make_direction(self.r, self.rr, self.rz, self._rz_old, self.pap, self._p, self._rz_parts)
            return
        made = False
        if self.preconditioner is None:
            self.precondition(self.r, self._z)
        else:
            made = apply_with_dot(self.preconditioner, self.r, self._z, self._rz_parts)
        if not made:
            self._engine.run(DOT, self.r, self._z, self._rz_parts)
        self._engine.total(self._rz_parts, self.rz)
        self._engine.run(UPDATE_P, self._z, self.rz, self._rz_old, self.pap, self._p)

    def _make_direction_flexibly(self) -> None:
        """z = M r, rz = r . z and p = z - (z . Ap / p . Ap) p, with the A p of the p before."""
        self.precondition(self.r, self._z)
        self._dot(self.r, self._z, self.rz)
        self._dot(self._z, self._ap, self._zap)
        one, sound = self._one, self._sound
        # NaN unless pap is positive: then p stays, and so does the breakdown.
        self._engine.calculate(QUOTIENT, one, one, one, one, self.pap, self._zero, self._most, sound)
        self._quotient(self._zap, self.pap, self._minus, sound, self._beta)
        self._engine.run(AXPBY, 1.0, one, self._z, self._beta, self._p)

    @property
    def _work(self) -> tuple[Field, Field]:
        return self._z, self._free


ROUNDING: Final = 1e-13
"""Rounding error of pᵀAp where its terms cancel, as a part of them: some units in the last place for each entry
of a row, of the matrix itself as of the product."""


def alternating(partition: Partition, backend: Backend, number: int, layout: Layout, x: Any) -> Any:
    """Block (nx, ny, nz) of a chunk's vector with the signs of a checkerboard."""
    xp, box = backend.xp, partition[number].box
    i, j, k = (xp.arange(low, high) % 2 for low, high in zip(box.lo, box.hi, strict=True))
    odd = i[None, None, :] ^ j[None, :, None] ^ k[:, None, None]
    return (backend.vectors.unload(layout, x).T * (1.0 - 2.0 * odd)).T


def by_rounding(engine: Engine, layout: PerChunk, cg: ConjugateGradient) -> bool:
    """Whether rounding explains the breakdown that a step has met, so that it tells nothing about A.

    It does not if pᵀAp is far below zero, or rᵀMr is not positive. What is far follows from w, which is p with the
    signs of a checkerboard: with entries of one sign off the diagonal no terms of wᵀAw cancel where all of pᵀAp do.
    """
    (rz,) = engine.read(cg.rz)
    if not rz > 0.0:
        return False
    signs = partial(alternating, engine.partition)
    curvature, uncancelled = cg.curvatures(lambda p: engine.per_chunk(signs, layout, p))
    return curvature >= -ROUNDING * abs(uncancelled)
