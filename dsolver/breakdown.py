"""Breakdowns of conjugate gradients: whether A is not positive definite, or rounding is all that pᵀAp has left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

from dsolver.coefficients import cells
from dsolver.engines.base import Engine, PerChunk
from dsolver.kernels import Backend
from dsolver.kernels.layout import Layout
from dsolver.krylov import ConjugateGradient
from dsolver.partition import Partition

ROUNDING: Final = 1e-13
"""What rounding leaves of pᵀAp where its terms cancel, as a part of them: some units in the last place for each entry
of a row, of the matrix itself as of the product."""


@final
@dataclass(frozen=True, kw_only=True)
class Alternating:
    """A chunk's part of a vector with the signs of a checkerboard."""

    partition: Partition

    def __call__(self, backend: Backend, number: int, layout: Layout, x: Any) -> Any:
        """A block (nx, ny, nz)."""
        xp, box = backend.xp, self.partition[number].box
        i, j, k = (xp.arange(low, high) % 2 for low, high in zip(box.lo, box.hi, strict=True))
        odd = i[None, None, :] ^ j[None, :, None] ^ k[:, None, None]
        return (cells(backend, layout, x) * (1.0 - 2.0 * odd)).T


def by_rounding(engine: Engine, layout: PerChunk, cg: ConjugateGradient) -> bool:
    """Whether the breakdown that a step has met tells nothing about A.

    It does if pᵀAp is far below zero, or rᵀMr is not positive. What is far follows from w, which is p with the signs of
    a checkerboard: with entries of one sign off the diagonal no terms of wᵀAw cancel where all of pᵀAp do.
    """
    (rz,) = engine.read(cg.rz)
    if not rz > 0.0:
        return False
    signs = Alternating(partition=engine.partition)
    curvature, uncancelled = cg.curvatures(lambda p: engine.per_chunk(signs, layout, p))
    return curvature >= -ROUNDING * abs(uncancelled)
