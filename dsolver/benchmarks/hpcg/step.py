"""HPCG's part in a cycle: symmetric Gauss-Seidel in half sweeps, and injection between levels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import final

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import SUBTRACT_HALO, TIMES_HALO
from dsolver.kernels.formats.hpcg import (
    POSTSMOOTH,
    PRESMOOTH,
    PRESMOOTH_RESTRICT,
    PROLONG,
    PROLONG_POSTSMOOTH,
    RESIDUAL_HALO,
    RESTORE,
    RESTRICT,
    SYMGS,
)
from dsolver.multigrid.coarse_solve import Coarsest
from dsolver.multigrid.cycle import MultigridCycle
from dsolver.multigrid.level import Step


@final
class HpcgStep(Step):
    """A level's part: injection to the next coarser level, one SymGS before and one after.

    Chunks are coupled as in block Jacobi: a halo is exchanged before a SymGS and frozen during its two sweeps
    (Dongarra, Heroux, Luszczek, HPCG 3.1; the half sweeps are derived in docs/theory.md).

    Args:
        fine: the `HpcgLevel` of every chunk.
        coarse: that of the next coarser level.
        keeps: whether r is to be as it was after `ascend`: on the finest level, where the caller still needs it.
    """

    def __init__(self, engine: Engine, fine: PerChunk, coarse: PerChunk, *, keeps: bool) -> None:
        self._engine, self._keeps = engine, keeps
        layout, self._local, self._ghost = fine.at("layout"), fine.at("local"), fine.at("ghost")
        self._transfer, self._correction_matrix = fine.at("transfer"), fine.at("correction_matrix")
        self._halo, self._correction = engine.halo(fine.at("halo")), engine.halo(fine.at("correction"))
        # What the half sweeps keep, (U x)/d and the prolonged correction, and their work space; the right-hand side at
        # the boundary rows, and what the halo adds there.
        self._e, self._c, self._w = (engine.field(layout) for _ in range(3))
        self._kept, self._product = (engine.field(self._ghost) for _ in range(2))
        self.rc, self.xc = (engine.field(coarse.at("layout")) for _ in range(2))

    def descend(self, r: Field, x: Field) -> None:
        """See `Step`. What the halo of the smoothed x adds is subtracted from r at the boundary rows, in place.

        It travels beside the restriction.
        """
        engine = self._engine
        if not engine.coupled:
            engine.run(PRESMOOTH_RESTRICT, self._local, self._transfer, r, x, self._e, self.rc)
            return
        engine.run(PRESMOOTH, self._local, r, x, self._e)
        engine.exchange(x, self._halo)
        engine.run_after(self._halo, TIMES_HALO, self._ghost, self._halo, self._product)
        engine.run(RESTRICT, self._local, self._transfer, r, x, self._e, self.rc)
        engine.run(RESIDUAL_HALO, self._ghost, self._transfer, self._product, r, self.rc, self._kept)

    def ascend(self, r: Field, x: Field) -> None:
        """See `Step`. Of the smoother's halo the coarse solution's part is left: an eighth of the points.

        It travels beside the prolongation.
        """
        engine = self._engine
        if not engine.coupled:
            engine.run(PROLONG_POSTSMOOTH, self._local, self._transfer, r, self.xc, self._e, x, self._c, self._w)
            return
        engine.exchange(self.xc, self._correction)
        engine.run_after(self._correction, SUBTRACT_HALO, self._correction_matrix, self._correction, r)
        engine.run(PROLONG, self._transfer, self.xc, self._c)
        engine.run(POSTSMOOTH, self._local, r, self._c, self._e, x, self._w)
        if self._keeps:
            engine.run(RESTORE, self._ghost, self._kept, r)


@final
class SymmetricSweep(Coarsest):
    """One SymGS from zero; local: the entries of every chunk in own columns."""

    def __init__(self, engine: Engine, local: PerChunk) -> None:
        self._engine, self._local = engine, local

    def apply(self, r: Field, x: Field) -> None:
        """x = M r."""
        self._engine.run(SYMGS, self._local, r, x)


def cycle(engine: Engine, levels: Sequence[PerChunk]) -> MultigridCycle:
    """HPCG's V-cycle; levels: the `HpcgLevel` of every chunk for each level, finest first."""
    steps = [HpcgStep(engine, *pair, keeps=depth == 0) for depth, pair in enumerate(pairwise(levels))]
    return MultigridCycle(steps, SymmetricSweep(engine, levels[-1].at("local")))
