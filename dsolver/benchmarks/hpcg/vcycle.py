"""HPCG's V-cycle, from zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.kernels.contract import (
    POSTSMOOTH,
    PRESMOOTH,
    PRESMOOTH_RESTRICT,
    PROLONG,
    PROLONG_POSTSMOOTH,
    RESIDUAL_HALO,
    RESTORE,
    RESTRICT,
    SUBTRACT_HALO,
    SYMGS,
    TIMES_HALO,
)


@final
class _Level:
    """Handles of one level.

    e and c are what the half sweeps keep: (U x)/d of the pre-smoother and the prolonged correction. w is the smoother's
    work space, kept the right-hand side at the boundary rows, product what the halo adds there.
    """

    def __init__(self, engine: Engine, level: PerChunk) -> None:
        layout, self.local, self.ghost = level.at("layout"), level.at("local"), level.at("ghost")
        self.transfer, self.correction_matrix = level.at("transfer"), level.at("correction_matrix")
        self.halo, self.correction = engine.halo(level.at("halo")), engine.halo(level.at("correction"))
        self.e, self.c, self.w = (engine.field(layout) for _ in range(3))
        self.kept, self.product = (engine.field(self.ghost) for _ in range(2))


@final
class VCycle:
    """HPCG's V-cycle: injection between levels, one SymGS before and after, one on the last level.

    Chunks are coupled as in block Jacobi: a halo is exchanged before a SymGS and frozen during its two sweeps
    (Dongarra, Heroux, Luszczek, HPCG 3.1; the half sweeps are derived in docs/theory.md).
    """

    def __init__(self, engine: Engine, levels: Sequence[PerChunk]) -> None:
        self._engine = engine
        self._last = levels[-1].at("local")
        self._levels = [_Level(engine, level) for level in levels[:-1]]
        self._coarse = [tuple(engine.field(level.at("layout")) for _ in range(2)) for level in levels[1:]]

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""
        self._cycle(0, r, z)

    def _cycle(self, depth: int, r: Field, x: Field) -> None:
        if depth == len(self._levels):
            self._engine.run(SYMGS, self._last, r, x)
        elif self._engine.coupled:
            self._coupled(depth, r, x)
        else:
            level, (rc, xc) = self._levels[depth], self._coarse[depth]
            self._engine.run(PRESMOOTH_RESTRICT, level.local, level.transfer, r, x, level.e, rc)
            self._cycle(depth + 1, rc, xc)
            self._engine.run(PROLONG_POSTSMOOTH, level.local, level.transfer, r, xc, level.e, x, level.c, level.w)

    def _coupled(self, depth: int, r: Field, x: Field) -> None:
        """One level with neighbors. What the halo adds is subtracted from r at the boundary rows, in place.

        The halo of the pre-smoothed x travels beside the restriction. The post-smoother's halo is that and the coarse
        solution's, which is an eighth of the points and travels beside the prolongation. What either multiplies is
        worked out as soon as it has come.
        """
        run, run_after = self._engine.run, self._engine.run_after
        level, (rc, xc) = self._levels[depth], self._coarse[depth]
        run(PRESMOOTH, level.local, r, x, level.e)
        self._engine.exchange(x, level.halo)
        run_after(level.halo, TIMES_HALO, level.ghost, level.halo, level.product)
        run(RESTRICT, level.local, level.transfer, r, x, level.e, rc)
        run(RESIDUAL_HALO, level.ghost, level.transfer, level.product, r, rc, level.kept)
        self._cycle(depth + 1, rc, xc)
        self._engine.exchange(xc, level.correction)
        run_after(level.correction, SUBTRACT_HALO, level.correction_matrix, level.correction, r)
        run(PROLONG, level.transfer, xc, level.c)
        run(POSTSMOOTH, level.local, r, level.c, level.e, x, level.w)
        if depth == 0:  # the caller still needs r; below, it was made for this cycle
            run(RESTORE, level.ghost, level.kept, r)
