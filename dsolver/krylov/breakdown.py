"""Breakdowns of conjugate gradients: whether A is not positive definite, or rounding is all that pᵀAp has left."""

from functools import partial
from typing import Any, Final

from dsolver.engines.base import Engine, PerChunk
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend
from dsolver.kernels.formats.layout import Layout
from dsolver.krylov.cg import ConjugateGradient

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
