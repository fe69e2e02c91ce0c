"""The multigrid preconditioner: one V-cycle from zero, whatever the grid, the coefficients and the cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, final

from dsolver.algebraic_step import AlgebraicStep
from dsolver.engines.base import Engine, Field, Halo, PerChunk
from dsolver.hierarchy import Level
from dsolver.kernels.contract import (
    BACKWARD,
    DENSE_SOLVE,
    FORWARD,
    LOWER_RESIDUAL,
    MOVE,
    PROLONG_ADD,
    RESTRICT_FULL,
    SPMV,
    SPMV_HALO,
    STAR_DOWN,
    STAR_UP,
    SUBTRACT_HALO,
    UPPER_RESIDUAL,
    WAXPBY,
)
from dsolver.kernels.star import COARSE_LAYERS, LAYERS
from dsolver.partition import BOX_OFFSETS, Offsets, Partition
from dsolver.star_descents import reach

VISITED: Final = 2
"""How many coarse levels are visited twice, if any: on smaller ones launches would cost more than they bring."""


@final
class MultigridCycle:
    """V(1,1): a forward Gauss-Seidel sweep before, a backward one after the coarse correction, so M is symmetric.

    Coarse matrices are PᵀAP with interpolation that follows the coefficients (docs/theory.md). Sweeps are local to a
    chunk and see its neighbors as they were before, but for those of a level that stores nothing; the coarsest level is
    solved.

    Args:
        levels: of `dsolver.hierarchy.build`.
        sweeps: 1, or 2 for a forward and a backward sweep both before and after on the finest level; on coarser ones
            more brings nothing (docs/decisions.md). Where nothing of the finest level is stored it keeps to 1.
        visits: 1, or 2 for `VISITED` coarse levels that are visited twice.
    """

    def __init__(self, levels: Sequence[Level], sweeps: int = 1, visits: int = 1) -> None:
        self._coarsest_engine, self._inverse = levels[-1].engine, levels[-1].inverse
        self._steps = [
            _step(fine, coarse, 1 if depth else sweeps) for depth, (fine, coarse) in enumerate(pairwise(levels))
        ]
        # No level is kept: its descent has the coarser matrix's rows, which nobody needs any more.
        self._places = [(level.engine, level.chunks.at("layout")) for level in levels]
        self._again = [
            _Again(*place, step) if visits > 1 and 0 < depth <= VISITED and not isinstance(step, _StarStep) else None
            for depth, (place, step) in enumerate(zip(self._places, self._steps, strict=False))
        ]
        self._again_in_guess = list(self._again)

    def apply(self, r: Field, z: Field) -> None:
        """z = M r."""
        self._cycle(0, r, z)

    def guess(self, b: Field, x: Field) -> None:
        """x = what full multigrid makes of b: the coarsest level is solved, and on each finer one a V-cycle follows.

        On the way down levels are smoothed before they are restricted (Trottenberg, Oosterlee, Schüller, Multigrid, 2.4
        and 2.6: an F-cycle), so that the coarse levels see what the finest one leaves and not b. It takes about as long
        as `apply`: what it does twice and more lies on coarse levels.
        """
        self._full(0, b, x)

    def _full(self, depth: int, r: Field, x: Field) -> None:
        if depth == len(self._steps):
            self._cycle(depth, r, x)
            return
        step = self._steps[depth]
        step.descend(r, x)
        self._full(depth + 1, step.rc, step.xc)
        step.ascend(r, x)
        if depth > 0:
            assert not isinstance(step, _StarStep)  # only of the finest level nothing may be stored
            again = self._again_in_guess[depth] or _Again(*self._places[depth], step)
            self._again_in_guess[depth] = again  # made when it is needed, which in most solves it never is
            self._once_more(depth, again, r, x)

    def _cycle(self, depth: int, r: Field, x: Field) -> None:
        if depth == len(self._steps):
            assert self._inverse is not None
            self._coarsest_engine.run(DENSE_SOLVE, self._inverse, r, x)
            return
        step = self._steps[depth]
        step.descend(r, x)
        self._cycle(depth + 1, step.rc, step.xc)
        step.ascend(r, x)
        again = self._again[depth]
        if again is not None:
            self._once_more(depth, again, r, x)

    def _once_more(self, depth: int, again: _Again, r: Field, x: Field) -> None:
        """x += a cycle from this level down for what x leaves of r."""
        again.residual(r, x)
        again.step.descend(again.r, again.x)
        self._cycle(depth + 1, again.step.rc, again.step.xc)
        again.step.ascend(again.r, again.x)
        again.add(x)


@final
class _Below:
    """The next coarser level as a level's step sees it: how the residual comes there, and the solution back.

    Attributes:
        rc: its right-hand side.
        xc: its solution.
        own_rc: what the residual is restricted to: `rc`, or where that is gathered, the chunks' parts of it.

    Args:
        level: the finer level, whose descent says what is exchanged of the solution, for rows that read `offsets`.
        below: the coarser one.
        offsets: the same.
    """

    def __init__(self, level: Level, below: Level, offsets: Offsets) -> None:
        assert level.descent is not None
        assert level.in_order is not None
        coarse, descent = below.chunks.at("layout"), level.descent
        self.rc, self.xc = below.engine.field(coarse), below.engine.field(coarse)
        self._engine, self._below = level.engine, below.engine
        self._gathering, self._in_order = level.gathering, level.in_order
        self._lattice = below.engine.field(descent.at("lattice"))
        self.neighbors = level.engine.coupled and level.gathering is None
        if self.neighbors:
            self.halo = _halo(level.engine, descent.at("solution_halo"), below.partition, offsets)
        self.own_rc = self.rc if level.gathering is None else level.engine.field(descent.at("coarse"))

    def gather(self) -> None:
        """rc = the parts of it that are there; where they are not gathered, they are it."""
        if self._gathering is not None:
            self._engine.exchange(self.own_rc, self._gathering.halo)
            self._below.run(MOVE, self._gathering.own, self.own_rc, self.rc)
            self._below.run(MOVE, self._gathering.others, self._gathering.halo, self.rc)

    def solution(self) -> Field:
        """xc in lattice order, as the finer level reads it. Where that has `neighbors`, `halo` is under way."""
        if self.neighbors:
            self._engine.exchange(self.xc, self.halo)
        self._below.run(MOVE, self._in_order, self.xc, self._lattice)
        return self._lattice if self._gathering is None else self._engine.shared(self._lattice)


@final
class _StarStep:
    """A finest level of which nothing is stored: a pass over r down, and one up.

    With neighbors, r of the layers around the chunk is exchanged once for both.

    Attributes:
        rc: the coarser level's right-hand side.
        xc: its solution.
    """

    def __init__(self, level: Level, below: Level) -> None:
        assert level.descent is not None
        engine, descent = level.engine, level.descent
        self._engine, self._transfer = engine, descent.at("transfer")
        self._below = _Below(level, below, reach(below.partition, COARSE_LAYERS))
        self.rc, self.xc = self._below.rc, self._below.xc
        self._halo = _halo(engine, descent.at("halo"), level.partition, reach(level.partition, LAYERS))
        self._received = descent.at("received")

    def descend(self, r: Field, _: Field) -> None:
        """rc = R (r - A x) with x = (D + L)⁻¹ r, which is not kept."""
        if self._engine.coupled:
            self._engine.exchange(r, self._halo)
        self._engine.run(STAR_DOWN, self._transfer, r, self._halo, self._below.own_rc)
        self._below.gather()

    def ascend(self, r: Field, x: Field) -> None:
        """The backward sweep from that x and P xc."""
        xc = self._below.solution()
        if self._below.neighbors:
            self._engine.run(MOVE, self._received, self._below.halo, xc)
        self._engine.run(STAR_UP, self._transfer, r, self._halo, xc, x)


@final
class _Step:
    """What one level does in a cycle, and its way to the next coarser one.

    Exchanges start as soon as what they send is there, and are waited for behind the work inside the chunk.

    Attributes:
        rc: the coarser level's right-hand side.
        xc: its solution.
    """

    def __init__(self, level: Level, below: Level, sweeps: int) -> None:
        assert level.descent is not None
        engine, descent = level.engine, level.descent
        layout = level.chunks.at("layout")
        self._engine, self._coupled = engine, engine.coupled
        self._matrix, self._halo_matrix = level.chunks.at("matrix"), level.chunks.at("halo_matrix")
        self._restriction, self._restriction_halo = descent.at("restriction"), descent.at("restriction_halo")
        self._prolongation, self._prolongation_halo = descent.at("prolongation"), descent.at("prolongation_halo")
        self._y = engine.field(layout)  # the residual, then the post-smoother's right-hand side
        self._t = engine.field(layout) if sweeps > 1 else None
        self._below = _Below(level, below, BOX_OFFSETS)
        self.rc, self.xc = self._below.rc, self._below.xc
        if self._coupled:
            self._x_halo = _halo(engine, level.chunks.at("halo"), level.partition, level.offsets)
            self._y_halo = _halo(engine, descent.at("residual_halo"), level.partition, BOX_OFFSETS)

    def descend(self, r: Field, x: Field) -> None:
        """The pre-smoother, and the residual restricted."""
        self.smooth_from_zero(r, x)
        if self._t is not None:
            self.smooth(r, x)
            self.residual(r, x, self._t)
            self._engine.copy(self._t, self._y)
        self.restrict()

    def ascend(self, r: Field, x: Field) -> None:
        """The correction, and the post-smoother."""
        self.correct(x)
        if self._t is not None:
            self.smooth_forward(r, x, self._t)
        self.smooth(r, x)

    def smooth_from_zero(self, r: Field, x: Field) -> None:
        """x = (D + L)⁻¹ r and y = r - A x."""
        run = self._engine.run
        run(FORWARD, self._matrix, r, x)
        if self._coupled:
            self._engine.exchange(x, self._x_halo)
        run(UPPER_RESIDUAL, self._matrix, x, self._y)
        if self._coupled:
            run(SUBTRACT_HALO, self._halo_matrix, self._x_halo, self._y)

    def restrict(self) -> None:
        """rc = R y."""
        run, own = self._engine.run, self._below.own_rc
        if self._coupled:
            self._engine.exchange(self._y, self._y_halo)
        run(RESTRICT_FULL, self._restriction, self._y, own)
        if self._coupled:
            run(SPMV_HALO, self._restriction_halo, self._y_halo, own)
        self._below.gather()

    def correct(self, x: Field) -> None:
        """x += P xc."""
        run, lattice = self._engine.run, self._below.solution()
        run(PROLONG_ADD, self._prolongation, lattice, x)
        if self._below.neighbors:
            run(SPMV_HALO, self._prolongation_halo, self._below.halo, x)

    def smooth(self, r: Field, x: Field) -> None:
        """x = x + (D + U)⁻¹ (r - A x), where the chunk's own part of A is meant by D and U."""
        run = self._engine.run
        if self._coupled:
            self._engine.exchange(x, self._x_halo)
        run(LOWER_RESIDUAL, self._matrix, r, x, self._y)
        if self._coupled:
            run(SUBTRACT_HALO, self._halo_matrix, self._x_halo, self._y)
        run(BACKWARD, self._matrix, self._y, x)

    def smooth_forward(self, r: Field, x: Field, t: Field) -> None:
        """x = x + (D + L)⁻¹ (r - A x), likewise; t is work space."""
        run = self._engine.run
        if self._coupled:
            self._engine.exchange(x, self._x_halo)
        run(UPPER_RESIDUAL, self._matrix, x, self._y)
        if self._coupled:
            run(SUBTRACT_HALO, self._halo_matrix, self._x_halo, self._y)
        run(WAXPBY, 1.0, r, 1.0, self._y, t)
        run(FORWARD, self._matrix, t, x)

    def residual(self, r: Field, x: Field, out: Field) -> None:
        """out = r - A x for any x."""
        run = self._engine.run
        if self._coupled:
            self._engine.exchange(x, self._x_halo)
        run(SPMV, self._matrix, x, self._y)
        if self._coupled:
            run(SPMV_HALO, self._halo_matrix, self._x_halo, self._y)
        run(WAXPBY, 1.0, r, -1.0, self._y, out)


@final
class _Again:
    """What a second visit of a level needs: 2 M - M A M in place of M.

    Attributes:
        step: of the level.
        r: what the first visit left.
        x: what the second one adds.

    Args:
        engine: of the level.
        layout: of the level's rows.
        step: of the level.
    """

    def __init__(self, engine: Engine, layout: PerChunk, step: _Step | AlgebraicStep) -> None:
        self.step = step
        self._engine = engine
        self.r, self.x, self._sum = (engine.field(layout) for _ in range(3))

    def residual(self, r: Field, x: Field) -> None:
        """The residual that is left."""
        self.step.residual(r, x, self.r)

    def add(self, x: Field) -> None:
        """x += what the second visit found."""
        self._engine.run(WAXPBY, 1.0, x, 1.0, self.x, self._sum)
        self._engine.copy(self._sum, x)


def _step(level: Level, below: Level, sweeps: int) -> _StarStep | _Step | AlgebraicStep:
    if level.star:
        return _StarStep(level, below)
    return AlgebraicStep(level.engine, level.chunks) if level.algebraic else _Step(level, below, sweeps)


def _halo(engine: Engine, plan: PerChunk, partition: Partition, offsets: Offsets) -> Halo:
    return engine.halo(plan, [partition.neighbors(number, offsets) for number in range(len(partition))])
