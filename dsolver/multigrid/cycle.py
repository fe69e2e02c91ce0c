"""The multigrid preconditioner: one V-cycle from zero, whatever the levels were made of."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Self

from dsolver.engines.base import Field, PartialSums
from dsolver.kernels.contract import WAXPBY
from dsolver.multigrid.coarse_solve import Coarsest, coarsest
from dsolver.multigrid.level import Level, Step

VISITED: Final = 2
"""Number of coarse levels that are visited twice, if any: on smaller ones launches would cost more than they bring."""


class MultigridCycle:
    """V(1,1): a smoother before, its transpose after the coarse correction, so that M is symmetric.

    Args:
        steps: the part of each level but the coarsest, finest first.
        levels: those that the steps were made of, where levels may be visited again.
        visits: 1, or 2 for `VISITED` coarse levels that are visited twice.
    """

    def __init__(
        self, steps: Sequence[Step], coarsest: Coarsest, levels: Sequence[Level] = (), visits: int = 1
    ) -> None:
        self._steps, self._coarsest, self._levels = steps, coarsest, levels
        self._twice = range(1, min(VISITED + 1, len(self._steps))) if visits > 1 else range(0)
        self._second = {depth: _SecondVisit(levels[depth]) for depth in self._twice}

    @classmethod
    def of(cls, levels: Sequence[Level], sweeps: int = 1, visits: int = 1) -> Self:
        """The cycle of a hierarchy: coarse matrices are PᵀAP with P that follows the coefficients (docs/theory.md).

        `levels`: of `dsolver.multigrid.hierarchy.build`, finest first. `sweeps`: 1, or 2 for a forward and a backward
        sweep both before and after on the finest level; on coarser ones more brings nothing
        (docs/decisions/interpolation-from-the-matrix.md). Where nothing of the finest level is stored it keeps to 1.
        """
        steps = [fine.step(coarse, 1 if depth else sweeps) for depth, (fine, coarse) in enumerate(pairwise(levels))]
        return cls(steps, coarsest(levels[-1]), levels, visits)

    @property
    def ready(self) -> bool:
        """Whether levels are known to be of one vector and one chunk: then neither M nor A makes anything."""
        known = bool(self._levels) and not self._levels[0].engine.coupled
        return known and all(level.engine.width == 1 for level in self._levels)

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""
        self._cycle(0, r, z)

    def apply_dot(self, r: Field, z: Field, parts: PartialSums) -> bool:
        """z = M r, and r . z of each chunk if that costs no pass of its own. Returns whether there is one."""
        if not self._steps:
            self.apply(r, z)
            return False
        step = self._steps[0]
        step.descend(r, z)
        self._cycle(1, step.rc, step.xc)
        return step.ascend_dot(r, z, parts)

    def guess(self, b: Field, x: Field) -> None:
        """x = what full multigrid makes of b: the coarsest level is solved, and on each finer one a V-cycle follows.

        On the way down levels are smoothed before they are restricted (Trottenberg, Oosterlee, Schüller, Multigrid, 2.4
        and 2.6: an F-cycle), so that the coarse levels see what the finest one leaves and not b. It takes about as long
        as `apply`: what it does twice and more is on coarse levels.
        """
        self._full(0, b, x)

    def _cycle(self, depth: int, r: Field, x: Field) -> None:
        """x = a cycle for r from this level down."""
        if depth == len(self._steps):
            self._coarsest.apply(r, x)
            return
        self._visit(depth, r, x)
        if depth in self._twice:
            self._visit_again(depth, r, x)

    def _full(self, depth: int, b: Field, x: Field) -> None:
        if depth == len(self._steps):
            self._coarsest.apply(b, x)
            return
        step = self._steps[depth]
        step.descend(b, x)
        self._full(depth + 1, step.rc, step.xc)
        step.ascend(b, x)
        if depth > 0:
            self._visit_again(depth, b, x)

    def _visit(self, depth: int, r: Field, x: Field) -> None:
        step = self._steps[depth]
        step.descend(r, x)
        self._cycle(depth + 1, step.rc, step.xc)
        step.ascend(r, x)

    def _visit_again(self, depth: int, r: Field, x: Field) -> None:
        """x += a visit for the residual that x leaves: in all 2 M - M A M in place of M."""
        if depth not in self._second:  # made when a guess needs it, which in most solves it never does
            self._second[depth] = _SecondVisit(self._levels[depth])
        second = self._second[depth]
        second.begin(r, x)
        self._visit(depth, second.r, second.x)
        second.end(x)


class _SecondVisit:
    """The vectors of a second visit of a level: r is what the first one has left, x what the second one adds."""

    def __init__(self, level: Level) -> None:
        self._engine, self._a = level.engine, level.matrix
        self.r, self.x, self._work = (level.engine.field(level.layout) for _ in range(3))

    def begin(self, r: Field, x: Field) -> None:
        """Take r - A x."""
        self._a.residual(r, x, self.r, self._work)

    def end(self, x: Field) -> None:
        """x += what was found."""
        self._engine.run(WAXPBY, 1.0, x, 1.0, self.x, self._work)
        self._engine.copy(self._work, x)
