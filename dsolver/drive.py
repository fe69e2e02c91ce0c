"""Decides how a solve goes on: supersteps, judgement, true residual. Numbers alone: no arrays, no Dask, no caller."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, Final, TypeVar, final

from dsolver.krylov import DIVERGED
from dsolver.solution import Status

T = TypeVar("T")
SUPERSTEP_SECONDS: Final = 0.5
"""What a superstep should take: long beside what it costs to begin one, short for who watches or cancels."""
SUPERSTEP_ITERATIONS: Final = 50
AHEAD: Final = 8
"""A superstep may launch a part of 1/AHEAD of the iterations made so far beyond those that the pace so far tells are
needed: what is launched past the last one costs as much as what is needed."""
REACH: Final = 2.0**-53
"""How far the recursion is followed, as a part of ‖b‖ or of the true residual that it begins anew from: below what
rounding leaves it tells nothing about the truth, and its squares would end at zero."""
PATIENCE: Final = 200
"""Iterations without a new smallest residual after which a solve is given up, unless more are asked for."""
SLOWER: Final = 10
"""Times as many are allowed a solve whose preconditioner, if it has one, does not see the whole grid. With log-normal κ
on 24³ cells plain conjugate gradients stay at 1e-2 ‖b‖ for 243 iterations on end, and converge after 2838."""
NEAR: Final = 2.0**-26
"""Part of ‖b‖ down to which that holds: below √ε a residual that stays is taken for what rounding leaves."""
FALL: Final = 1e-9
"""How much smaller, as a part of itself, the smallest residual must have become to count: where rounding alone is left
of a recursion, each iteration may take some units in the last place off, for ever."""
WATCH: Final = 100
"""Iterations between looks at the drift between the recursion and the truth: the same for all engines, however fast, so
that they give the same bits. What a shorter solve has drifted is found at its end."""
EPS: Final = 2.0**-53
DRIFTED: Final = EPS**0.5
"""Drift, as a part of the residual, at which the recursion takes the true residual."""
GROWN: Final = 1.1
"""Growth of the drift since then that makes it worth while again."""

Request = tuple[Any, ...]
"""The name of a method of the program and its arguments, or one of those below."""
ADVANCE: Final = "advance"
"""So many iterations; the answer is what the program tells of them, and the seconds that they took."""
END: Final = "end"
"""`true_residual`, of a solve that goes no further."""
PAUSE: Final = "pause"
"""Whoever follows the solve may have a look: always, where the argument is True; the answer is whether to stop."""
Steps = Generator[Request, Any, T]
"""What a drive wants of its program, one after the other, and how it ends."""


@final
class Drive:
    """Conjugate gradients until the true residual is small enough or there is a reason to stop.

    It tells what is to be asked of the program, and is given the answers. These are the same on all ranks, so a drive
    on each of them asks for the same: no rank has to wait until somebody elsewhere has decided.

    Args:
        limit: the residual at which the solve is finished.
        b_norm: ‖b‖.
        maxiter: iterations at most.
        patience: iterations without progress after which it is given up.
        doubt: the same until it is resumed, if that is sooner: where there is another preconditioner to go on with.
        heard: whether it pauses after each iteration, since whoever follows may want to stop there.
        singular: whether a part of b is out of A's reach, so that what rounding leaves of it in r is to be taken.
        slow: whether M does not see the whole grid; see `SLOWER`.

    Attributes:
        residuals: ‖b - A x‖ by the recursion, from the first guess on.
        true_residual: the newest that was computed anew.
        replacements: how often the recursion has taken it on the way.
    """

    def __init__(
        self,
        *,
        limit: float,
        b_norm: float,
        maxiter: int,
        patience: int = PATIENCE,
        doubt: int | None = None,
        heard: bool = False,
        singular: bool = False,
        slow: bool = False,
    ) -> None:
        self._limit = limit
        self._maxiter = maxiter
        self._patience = patience if doubt is None else min(patience, doubt)
        self._later = patience
        self._far = NEAR * b_norm if slow else math.inf
        self._heard = heard
        self._singular = singular
        self._best, self._best_at = math.inf, 0
        self._target = max(limit, REACH * b_norm)
        self._drift = _Drift()
        self.residuals: list[float] = []
        self.true_residual = math.inf
        self.replacements = 0

    def steps(self) -> Steps[Status]:
        """From the b and x that are set to the end. x is then the iterate that residuals[-1] tells of."""
        self.true_residual = yield from self._begin()
        self.residuals = [self.true_residual]
        return (yield from self._until_ended())

    def resumed_steps(self) -> Steps[Status]:
        """Go on from the x that is set, as after a change of the preconditioner; the history is continued."""
        self._patience = self._later
        self._best, self._best_at = math.inf, len(self.residuals) - 1
        known = self.true_residual if math.isfinite(self.true_residual) else 0.0
        self._target = max(self._limit, REACH * known)
        self.true_residual = yield from self._begin()
        return (yield from self._until_ended())

    def _until_ended(self) -> Steps[Status]:
        while True:
            status = self._judged_start() or (yield from self._recursion())
            if status is Status.INDEFINITE and (yield ("rounded",)):
                status = Status.STAGNATED
            before = self.true_residual
            self.true_residual = yield (END,)
            if status is not Status.CONVERGED:
                return Status.CONVERGED if self.true_residual <= self._limit else status
            if self.true_residual <= self._limit:
                return Status.CONVERGED
            if self.true_residual > before / 2:
                return Status.STAGNATED
            # The recursion drifted away from the truth: begin anew from x, whose true residual is now known.
            self._target = max(self._limit, REACH * self.true_residual)
            yield from self._begin()
            self._best, self._best_at = math.inf, len(self.residuals) - 1

    def _begin(self) -> Steps[float]:
        self._begun = float((yield ("start", self._target)))
        self._drift.begin(0.0, self._begun)
        self._begun_at = self._looked_at = max(0, len(self.residuals) - 1)
        self._balance_at = self._begun_at + 1
        if self._singular:
            yield ("balance",)
        return self._begun

    def _judged_start(self) -> Status | None:
        if not math.isfinite(self.true_residual):
            return Status.NOT_FINITE
        return Status.CONVERGED if self.true_residual <= self._limit else None

    def _recursion(self) -> Steps[Status]:
        """Supersteps until the recursion's residual says that the solve has ended."""
        steps = 1
        while True:
            room = self._maxiter - (len(self.residuals) - 1)
            if room == 0:
                return Status.MAX_ITERATIONS
            samples, seconds = yield (ADVANCE, min(steps, room, self._to_look()))
            status = yield from self._judged(samples)
            if status is not None:
                return status
            if (yield from self._drifted()):
                return Status.CONVERGED
            yield from self._balanced()
            if not self._heard:
                yield (PAUSE, False)
            steps = self._next(len(samples), seconds)

    def _next(self, steps: int, seconds: float) -> int:
        """Iterations of the next superstep. Whoever may stop after any gets them one at a time."""
        if self._heard:
            return 1
        wanted = int(steps * SUPERSTEP_SECONDS / max(seconds, 1e-6))
        return max(1, min(wanted, 4 * steps, SUPERSTEP_ITERATIONS, self._expected()))

    def _expected(self) -> int:
        """How many more iterations it takes at the mean pace since the beginning, rounded down, or somewhat more."""
        done, norm = len(self.residuals) - 1 - self._begun_at, self.residuals[-1]
        if not 0.0 < self._target < norm < self._begun:
            return SUPERSTEP_ITERATIONS
        left = done * math.log(norm / self._target) / math.log(self._begun / norm)
        return max(int(min(left, SUPERSTEP_ITERATIONS)), done // AHEAD)

    def _to_look(self) -> int:
        """Iterations until something is done that does not depend on how long supersteps are."""
        done = len(self.residuals) - 1
        look = WATCH - done % WATCH
        return min(look, self._balance_at - done) if self._singular else look

    def _balanced(self) -> Steps[None]:
        """Where A is singular, take from r what rounding has left of the part that no x can reach.

        An iteration leaves what is relative to its step: the first ones most of it, while r is still large. So r is
        balanced after 1, 3, 7, 15 iterations and so on, which costs little.
        """
        done = len(self.residuals) - 1
        if self._singular and done == self._balance_at:
            yield ("balance",)
            self._balance_at += done - self._begun_at + 1

    def _drifted(self) -> Steps[bool]:
        """In a long solve, take the true residual where the recursion is about to drift from it.

        The search direction is kept, so the convergence is (van der Vorst and Ye, SIAM J. Sci. Comput. 22, 2000: their
        rule, looked at now and then with the norms that are known then). Returns whether that ends the solve.
        """
        iteration = len(self.residuals) - 1
        if iteration % WATCH:
            return False
        norm, magnitude = self.residuals[-1], (yield ("magnitude",))
        self._drift.add(iteration - self._looked_at, magnitude + max(self.residuals[self._looked_at :]))
        self._looked_at = iteration
        if not self._drift.crosses(norm):
            return False
        norm = float((yield ("true_residual",)))
        if self._singular:
            yield ("balance",)
        self.residuals[-1] = norm
        self._drift.begin(magnitude, norm)
        self._best, self._best_at = norm, iteration
        self.replacements += 1
        return norm <= self._target

    def _judged(self, samples: Sequence[tuple[float, float]]) -> Steps[Status | None]:
        """Add iterations to the history up to the first that ends the solve; later ones changed nothing.

        That the residual does not fall is looked at after the last one, since those changed something.
        """
        for norm, curvature in samples:
            self.residuals.append(norm)
            stop = self._heard and (yield (PAUSE, True))
            status = self._verdict(norm, curvature) or (Status.STOPPED if stop else None)
            if status is not None:
                return status
        allowed = self._patience * (SLOWER if self._best > self._far else 1)
        return Status.STAGNATED if len(self.residuals) - 1 - self._best_at >= allowed else None

    def _verdict(self, norm: float, curvature: float) -> Status | None:
        iteration = len(self.residuals) - 1
        if norm <= self._target:
            return Status.CONVERGED
        if curvature <= 0.0:
            return Status.INDEFINITE
        if not math.isfinite(norm) or not math.isfinite(curvature):
            return Status.NOT_FINITE
        if norm > DIVERGED * self._begun:
            return Status.DIVERGED
        if norm < (1.0 - FALL) * self._best:
            self._best, self._best_at = norm, iteration
        return None


class _Drift:
    """A bound of how far rounding has taken the recursion's residual from the true one."""

    def __init__(self) -> None:
        self._first = self._now = 0.0
        self._small = True

    def begin(self, scale: float, norm: float) -> None:
        """A residual of this norm was computed anew from numbers of this size."""
        self._first = self._now = EPS * (scale + norm)
        self._small = self._now <= DRIFTED * norm

    def add(self, steps: int, scale: float) -> None:
        """So many iterations have added numbers of this size."""
        self._now += EPS * steps * scale

    def crosses(self, norm: float) -> bool:
        """Whether it begins to spoil a residual of this norm, and to compute it anew would help."""
        was_small, self._small = self._small, self._now <= DRIFTED * norm
        return was_small and not self._small and self._now > GROWN * self._first
