"""Decides how a solve goes on: supersteps, judgement, true residual. Numbers alone: no arrays, no Dask, no caller."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, final

from dsolver.krylov.method import DIVERGED
from dsolver.krylov.pace import Pace
from dsolver.status import Status

R = TypeVar("R")
T = TypeVar("T")

SUPERSTEP_SECONDS: Final = 0.5
"""Seconds that a superstep should take: long beside what it costs to begin one, short for who watches or cancels."""
SUPERSTEP_ITERATIONS: Final = 50
GROWTH: Final = 8
"""Times as many iterations as the superstep before may one have: at first the pace is known of one iteration alone."""
OVERSHOOT: Final = 8
"""A superstep may launch a part of 1/OVERSHOOT of the iterations made so far beyond those that the pace so far tells
are needed: what is launched past the last one costs as much as what is needed."""
CLEAR: Final = 0.1
"""Residual over that of x = 0 up to which the difference is no rounding."""
ATTAINABLE: Final = 2.0**-53
"""Limit down to which the recursion is followed, as a part of ‖b‖ or of the true residual that it begins anew from:
below what rounding leaves it tells nothing about the truth, and its squares would end at zero."""
STAGNATION: Final = 200
"""Iterations without a new smallest residual after which a solve is given up, unless more are asked for."""
ONE_LEVEL: Final = 10
"""Times as many are allowed a solve whose preconditioner, if it has one, has no coarse grid. With log-normal κ
on 24³ cells plain conjugate gradients stay at 1e-2 ‖b‖ for 243 iterations on end, and converge after 2838."""
ONE_LEVEL_DOWN_TO: Final = 2.0**-26
"""Part of ‖b‖ down to which that holds: below √ε a residual that stays is taken for what rounding leaves."""
UNSYMMETRIC: Final = 0.01
"""Asymmetry of M, as a part of its size, from which on it is taken for the reason why a residual no longer falls, where
the method needs M = Mᵀ. Incomplete LU factors (spilu) of Laplacians had 0.03 to 0.45; with 0.01 and less conjugate
gradients still converged on log-normal κ, if in more iterations."""
UNSYMMETRIC_FROM: Final = 200
"""Iterations after which M is looked at for that, if the residual hardly falls."""
HARDLY: Final = 0.95
"""Smallest residual over the one of half as many iterations, from which on the residual hardly falls. With such factors
it was 0.98 and more; where M was nearly symmetric and conjugate gradients converged in the end, at most 0.89."""
LEAST_DECREASE: Final = 1e-9
"""Decrease, as a part of itself, that the smallest residual must have become to count: where rounding alone is left
of a recursion, each iteration may take some units in the last place off, for ever."""
DRIFT_INTERVAL: Final = 100
"""Iterations between looks at the drift between the recursion and the truth: the same for all engines, however fast, so
that they give the same bits. What a shorter solve has drifted is found at its end."""
EPS: Final = 2.0**-53
DRIFTED: Final = EPS**0.5
"""Drift, as a part of the residual, at which the recursion takes the true residual."""
GROWN: Final = 1.1
"""Growth of the drift since then that makes it worth while again."""
RISEN: Final = 300.0
"""Growth of the residual in a first iteration after which a preconditioner is given up, where there is another one to
go on with. Multigrid in float32 loses a constant that only a tiny σ fixes: residuals grew by 500 to 2e7 times, and
solves took up to 850 iterations in place of 24. Elsewhere they grew by 220 at most."""

WORSE: Final = 2.0
"""Times the smallest residual of a recursion that the one of its end must be, for the iterations up to the smallest one
to be made again: that takes as long as they took."""

ALIKE: Final = 2.0
"""Times what rounding makes of b - A x that a residual may be for it to be that: it is 0.8 to 1.4 times as much."""
ROUNDED: Final = 1e-5
"""Part of ‖b‖ that it may be."""

ROWS: Final = 1e4
"""Times the tolerance that ‖D⁻¹r‖ / ‖D⁻¹b‖ may be with D = diag(A), and the fall of a residual within two iterations
after which that is looked at: rows with a penalty of 1e10 are solved in the first one, and no other row counts then."""
ROWS_WANTED: Final = 10.0
"""Times the tolerance at which such a solve aims when it goes on."""
ROUNDS: Final = 4
"""Times that it does so."""

SLOW_FROM: Final = 20
"""Iterations after which it is looked at whether too many more are needed, for the first time."""
SLOW_EVERY: Final = 10
"""Iterations between such looks."""

Sample = tuple[float, float]
"""‖r‖ of the recursion after an iteration, and its health: see `dsolver.krylov.method.KrylovMethod.health`."""


class ColumnIterations(Protocol):
    """Iterations for one right-hand side, and what can be asked between two of them."""

    def balance(self) -> None:
        """Take from the recursion's residual what rounding has left of a part that no x can reach."""

    def rounded(self) -> bool:
        """Whether rounding explains that a matrix seems not to be positive definite."""

    def asymmetry(self) -> float:
        """Asymmetry of M, as a part of its size; 0 where the method needs no symmetric one."""

    def magnitude(self) -> float:
        """About ‖A‖ ‖x‖, the size of what rounding is relative to in b - A x."""

    def rounding(self) -> float:
        """About what rounding makes of b - A x, in another order of its sums."""

    def true_residual(self) -> float:
        """‖b - A x‖, computed anew; the recursion goes on from it."""

    def take_unreachable(self) -> float:
        """Take from b a part that no x can reach, as the true residual tells of it; its length, or zero."""

    def by_rows(self) -> float:
        """‖D⁻¹r‖ / ‖D⁻¹b‖ of the true residual, with D = diag(A); NaN where that is not to be looked at."""

    def keep(self) -> None:
        """Keep x as it is."""

    def keep_zero(self) -> None:
        """Keep zero, which takes no memory; what was kept gives its own back."""

    def recall(self) -> None:
        """x = what is kept."""

    def exchange(self) -> None:
        """x = what is kept, and x is kept."""


class Request(Generic[R]):
    """Something that columns do together, answered by an R."""


@final
@dataclass(frozen=True)
class Start(Request[float]):
    """Beginning at the x that is set, finished when the residual's norm is at most the limit. Answer: ‖b - A x‖."""

    limit: float


@final
@dataclass(frozen=True)
class Advance(Request[tuple[Sequence[Sample], float]]):
    """Iterations, so many or fewer. Answer: a sample of each, and the seconds that they took, the same on all ranks."""

    steps: int


@final
class End(Request[float]):
    """End of the iterations. Answer: the true residual."""


@final
class Pause(Request[bool]):
    """Pause after an iteration for the callback. Answer: whether to stop."""


Steps = Generator[Request[Any], Any, T]
"""Requests, one after the other, and what comes of them."""


def asked(request: Request[R]) -> Steps[R]:
    """Answer to a request."""
    answer: R = yield request
    return answer


@final
class Control:
    """A method's iterations until the true residual is small enough or there is a reason to stop.

    It asks for steps of its column, and is given the answers. These are the same on all ranks, so a control on each of
    them asks for the same: no rank has to wait until another has decided.

    Args:
        limit: the residual at which the solve is finished.
        b_norm: ‖b‖.
        maxiter: iterations at most.
        at_zero: whether x is zero at first.
        stagnation: iterations without a new smallest residual after which it is given up.
        fallback: the same until it is resumed, if that is sooner: where there is another preconditioner to go on with,
            for which a residual that grows in the first iteration is a reason as well.
        patience: further iterations beyond which a solve is given up as `Status.SLOW` until it is resumed, where there
            is another preconditioner to go on with; None for any number.
        interruptible: whether it pauses after each iteration, for a callback that may stop it there.
        singular: whether a part of b is out of A's reach, so that what rounding leaves of it in r is to be taken.
        one_level: whether M has no coarse grid; see `ONE_LEVEL`.
        replaces: whether the recursion can take the true residual on the way; if not, it does so at its end alone.
        checked: whether the true residual is looked at on the way, though the recursion does not follow from it.
        breakdown: the status where an iteration's health is zero.
        projects: whether M solves for least squares: after one iteration the residual is what no x can reach.
        pace: of earlier solves with this matrix and this M, from which this one learns how long its first superstep may
            be, and which learns from this one; None where that is to be one iteration.

    Attributes:
        limit, maxiter: as given.
        b_norm: ‖b‖, of that part of b which x can reach.
        residuals: ‖b - A x‖ by the recursion, from the first guess on.
        true_residual: the newest that was computed anew.
        at: after which iteration x is what it is, once the solve has ended: the last one, or a better one.
        by_rows: ‖D⁻¹r‖ / ‖D⁻¹b‖ with D = diag(A), where the solve went on as it was large; else None.
        attained: whether it has stagnated with a residual that rounding alone makes.
        unreachable: the length of what was taken from b on the way, since no x can reach it.
        replacements: how often the recursion has taken it on the way.
    """

    def __init__(
        self,
        *,
        limit: float,
        b_norm: float,
        maxiter: int,
        at_zero: bool = False,
        stagnation: int = STAGNATION,
        fallback: int | None = None,
        patience: int | None = None,
        interruptible: bool = False,
        singular: bool = False,
        one_level: bool = False,
        replaces: bool = True,
        checked: bool = False,
        breakdown: Status = Status.INDEFINITE,
        projects: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self.limit = limit
        self.maxiter = maxiter
        self.b_norm, self._at_zero = b_norm, at_zero
        self._may_resume = fallback is not None
        self._allowed = stagnation if fallback is None else min(stagnation, fallback)
        self._allowed_later = stagnation
        self._risen = DIVERGED if fallback is None else RISEN
        self._far = ONE_LEVEL_DOWN_TO * b_norm if one_level else math.inf
        self._patience = patience
        self._interruptible = interruptible
        self._singular = singular
        self._replaces, self._checked = replaces, checked
        self._breakdown = breakdown
        self._projects = projects
        self._pace = pace or Pace()
        self._best, self._best_at = math.inf, 0
        self._target = max(limit, ATTAINABLE * b_norm)
        self._goal, self._rounds = limit, 0
        self.by_rows: float | None = None
        self.attained = False
        self._drift = _Drift()
        self.unreachable = 0.0
        self._kept, self._kept_at, self._repeatable = math.inf, 0, False
        self._suspicious = True
        self.residuals: list[float] = []
        self.true_residual = math.inf
        self.at = 0
        self.replacements = 0

    def begin(self, column: ColumnIterations) -> Steps[Status]:
        """From the b and x that are set to the end. x is then the best iterate, or zero if none is better.

        Where the solve converges, or the callback has stopped it, it is the last one.
        """
        self.true_residual = yield from self._start(column)
        self.residuals = [self.true_residual]
        self._keep(column, zero=self._at_zero)
        return (yield from self._with_best(column))

    def adopt(self, *, replaces: bool, checked: bool, breakdown: Status) -> None:
        """Know the method that a solve goes on with: see the arguments of the same names."""
        self._replaces, self._checked, self._breakdown = replaces, checked, breakdown

    def resume(self, column: ColumnIterations) -> Steps[Status]:
        """Go on from the x that is set, as after a change of the preconditioner; the history is continued."""
        self._allowed, self._risen, self._patience = self._allowed_later, DIVERGED, None
        self._may_resume = False
        self._pace = Pace()  # M is another one
        self._best, self._best_at = math.inf, len(self.residuals) - 1
        known = self.true_residual if math.isfinite(self.true_residual) else 0.0
        self._target = max(self._goal, ATTAINABLE * known)
        self.true_residual = yield from self._start(column)
        self._keep(column)
        return (yield from self._with_best(column))

    def _with_best(self, column: ColumnIterations) -> Steps[Status]:
        """To the end, and back to a better iterate than the last one."""
        status = yield from self._until_ended(column)
        self.at = len(self.residuals) - 1
        if self._reached():
            column.keep_zero()  # which gives memory back
        if self._reached() or status in (Status.STOPPED, Status.SLOW):
            return status
        if self._is_worth_repeating():
            yield from self._repeat(column)
        if not self.true_residual <= self._kept:
            column.recall()
            self.true_residual, self.at = self._kept, self._kept_at
        if not self._beats_zero(column):
            column.keep_zero()
            column.recall()
            self.true_residual, self.at = self.b_norm, 0
        status = self._reached() or status
        self.attained = status is Status.STAGNATED and self._is_rounding(column)
        return status

    def _is_rounding(self, column: ColumnIterations) -> bool:
        """Whether rounding makes the residual that is left. An x that has grown makes a larger one, which does not."""
        return self.true_residual <= ROUNDED * self.b_norm and self.true_residual <= ALIKE * column.rounding()

    def _beats_zero(self, column: ColumnIterations) -> bool:
        """Whether the residual is below that of x = 0 in any order of its sums: x may have grown beyond all digits."""
        clear = self.true_residual <= CLEAR * self.b_norm  # rounding would be in this residual, too
        return clear or self.true_residual + column.rounding() <= self.b_norm

    def _keep(self, column: ColumnIterations, *, zero: bool = False) -> None:
        """Keep the x that the recursion begins from, unless what is kept is better."""
        self._repeatable = self._begun <= self._kept
        if not self._repeatable:
            return
        self._kept, self._kept_at = self._begun, self._begun_at
        if zero:
            column.keep_zero()
        else:
            column.keep()

    def _is_worth_repeating(self) -> bool:
        """Whether the recursion has seen a better x than that of its beginning, and one much better than at its end.

        The residual of conjugate gradients may rise for a while, and without bound where A is singular, or not
        definite; that of BiCGStab does as it likes.
        """
        if not self._repeatable or self._may_resume or not self._begun_at < self._best_at < len(self.residuals) - 1:
            return False
        bound = min(WORSE * self._best, self._kept)
        return self._best < self._kept and not (self.residuals[-1] <= bound or self.true_residual <= bound)

    def _repeat(self, column: ColumnIterations) -> Steps[None]:
        """Make the iterations up to the best one again, with the same bits, and keep the better of both ends.

        So a solve that goes well copies no x, and there is nothing beside it to copy to.
        """
        if self.true_residual < self._kept:
            column.exchange()
            self._kept, self._kept_at = self.true_residual, self.at
        else:
            column.recall()
        self.at = self._best_at
        again = Control(
            limit=0.0,
            b_norm=0.0,
            maxiter=self.at,
            stagnation=self.at + 1,
            singular=self._singular,
            replaces=self._replaces,
            breakdown=self._breakdown,
        )
        again.residuals, again._suspicious = self.residuals[: self._begun_at + 1], False
        yield from again._start(column)
        yield from again._recursion(column)
        self.true_residual = yield from asked(End())

    def _until_ended(self, column: ColumnIterations) -> Steps[Status]:
        while True:
            status = self._judged_start() or (yield from self._recursion(column))
            if status is Status.INDEFINITE and column.rounded():
                status = Status.STAGNATED
            before = self.true_residual
            self.true_residual = yield from asked(End())
            reached = self._reached()
            if reached and not self._goes_on(column, status):
                self._pace.learn(self._begun, self.residuals[-1], len(self.residuals) - 1 - self._begun_at)
                return reached
            if not reached:
                if self._projects:
                    self._projects, before = False, math.inf
                    self._has_taken(column)
                elif status is Status.INCOMPATIBLE_RHS:
                    status = Status.BREAKDOWN
                    before = math.inf if self._has_taken(column) else before
                if status not in (Status.CONVERGED, Status.BREAKDOWN):
                    return status
                if self.true_residual > before / 2:
                    if self.unreachable > self.limit:
                        return Status.INCOMPATIBLE_RHS
                    return Status.STAGNATED if status is Status.CONVERGED else status
            # The recursion drifted away from the truth, or broke down: begin anew from x, whose residual is now known.
            self._target = max(self._goal, ATTAINABLE * self.true_residual)
            self.true_residual = yield from self._start(column)
            self._keep(column)
            self._best, self._best_at = math.inf, len(self.residuals) - 1

    def _goes_on(self, column: ColumnIterations, status: Status) -> bool:
        """Whether a solve whose residual is small enough goes on, as it is so in rows of a large scale alone."""
        done = self.residuals[self._begun_at :]
        fell = any(norm < done[k] / ROWS for k in range(len(done)) for norm in done[k + 1 : k + 3])
        if not fell and not self._rounds:
            return False
        part, tolerance = column.by_rows(), self.limit / self.b_norm if self.b_norm else math.inf
        self.by_rows = part if self._rounds else None
        if not part > ROWS * tolerance or status is not Status.CONVERGED or self._rounds == ROUNDS:
            return False
        goal = max(self.true_residual * ROWS_WANTED * tolerance / part, ATTAINABLE * self.b_norm)
        if goal >= self.true_residual or len(self.residuals) - 1 >= self.maxiter:
            return False
        self._goal, self._rounds = goal, self._rounds + 1
        return True

    def _reached(self) -> Status | None:
        """The status where the true residual is small enough."""
        if not self.true_residual <= self.limit:
            return None
        return Status.INCOMPATIBLE_RHS if self.unreachable > self.limit else Status.CONVERGED

    def _has_taken(self, column: ColumnIterations) -> bool:
        """Whether a part of b was out of reach and is taken from it: with what is left the solve can go on."""
        if not math.isfinite(self.true_residual):
            return False
        taken = column.take_unreachable()
        self.unreachable = math.hypot(self.unreachable, taken)
        # b - A x of any x has that part, and nothing else has changed.
        self._kept, self.b_norm = (math.sqrt(max(0.0, norm**2 - taken**2)) for norm in (self._kept, self.b_norm))
        return taken > 0.0

    def _start(self, column: ColumnIterations) -> Steps[float]:
        self._begun = yield from asked(Start(self._target))
        self._drift.begin(0.0, self._begun)
        self._begun_at = self._looked_at = max(0, len(self.residuals) - 1)
        self._balance_at = self._begun_at + 1
        if self._singular:
            column.balance()
        return self._begun

    def _judged_start(self) -> Status | None:
        if not math.isfinite(self.true_residual):
            return Status.NOT_FINITE
        return Status.CONVERGED if self.true_residual <= self._goal else None

    def _recursion(self, column: ColumnIterations) -> Steps[Status]:
        """Supersteps until the recursion's residual says that the solve has ended."""
        steps = self._first()
        while True:
            room = self.maxiter - (len(self.residuals) - 1)
            if room == 0:
                return Status.UNSYMMETRIC_M if self._is_unsymmetric(column, ended=True) else Status.MAX_ITERATIONS
            samples, seconds = yield from asked(Advance(min(steps, room, self._to_look())))
            status = yield from self._judged(samples)
            if status is not None or self._projects:
                return status or self._breakdown
            if self._is_unsymmetric(column):
                return Status.UNSYMMETRIC_M
            if self._is_slow():
                return Status.SLOW
            if self._drifted(column):
                return Status.CONVERGED
            self._balanced(column)
            steps = self._next(len(samples), seconds)

    def _first(self) -> int:
        """Iterations of the first superstep: most of those that earlier solves tell are needed, or one to learn from.

        What is left then is known well: a solve of 15 iterations is looked at three times in place of five.
        """
        if self._interruptible:
            return 1
        needed = int(min(self._pace.needed(self._begun, self._target), SUPERSTEP_ITERATIONS))
        wanted = int(min(SUPERSTEP_SECONDS / self._pace.seconds, SUPERSTEP_ITERATIONS))
        return max(1, min(wanted, needed - needed // OVERSHOOT))

    def _next(self, steps: int, seconds: float) -> int:
        """Iterations of the next superstep: one at a time where the callback may stop after any."""
        if self._interruptible:
            return 1
        wanted = int(steps * SUPERSTEP_SECONDS / max(seconds, 1e-6))
        return max(1, min(wanted, GROWTH * steps, SUPERSTEP_ITERATIONS, self._expected()))

    def _expected(self) -> int:
        """Further iterations that are needed at the mean pace since the beginning, rounded down, or somewhat more."""
        done, norm = len(self.residuals) - 1 - self._begun_at, self.residuals[-1]
        if not 0.0 < self._target < norm < self._begun:
            return SUPERSTEP_ITERATIONS
        left = done * math.log(norm / self._target) / math.log(self._begun / norm)
        return max(int(min(left, SUPERSTEP_ITERATIONS)), done // OVERSHOOT)

    def _to_look(self) -> int:
        """Iterations until something is done that does not depend on how long supersteps are."""
        done = len(self.residuals) - 1
        look = 1 if self._projects else DRIFT_INTERVAL - done % DRIFT_INTERVAL
        if self._patience is not None:
            look = min(look, max(SLOW_FROM - done, SLOW_EVERY - done % SLOW_EVERY))
        return min(look, self._balance_at - done) if self._singular else look

    def _further(self) -> float:
        """Iterations that are still needed at the mean pace of the last half of them."""
        done = len(self.residuals) - 1
        before, norm = self.residuals[done - done // 2], self.residuals[done]
        if not 0.0 < self._target < norm:
            return 0.0
        return (done // 2) * math.log(norm / self._target) / math.log(before / norm) if norm < before else math.inf

    def _is_slow(self) -> bool:
        """Whether more iterations are needed than there is patience for; asked at numbers that do not depend on pace.

        Conjugate gradients become faster as they go on, so what the last half of them tells is rather too much. It
        tells nothing where the recursion has begun anew in it, and no other M helps where no iterations are left.
        """
        done = len(self.residuals) - 1
        if self._patience is None or done < SLOW_FROM or done % SLOW_EVERY:
            return False
        if done >= self.maxiter or done - done // 2 < self._begun_at:
            return False
        return self._further() > self._patience

    def _is_unsymmetric(self, column: ColumnIterations, *, ended: bool = False) -> bool:
        """Whether M is not symmetric, and the residual hardly falls or has not reached its limit when a solve ended.

        M is asked once, which applies it twice. Where κ jumps, the residual of such a solve may fall in steps for
        thousands of iterations, and no pace tells it from that of a symmetric M: only the end does.
        """
        done, residuals = len(self.residuals) - 1, self.residuals
        if not self._suspicious or done < UNSYMMETRIC_FROM:
            return False
        if not ended and min(residuals) < HARDLY * min(residuals[: done // 2 + 1]):
            return False
        self._suspicious = column.asymmetry() > UNSYMMETRIC
        return self._suspicious

    def _balanced(self, column: ColumnIterations) -> None:
        """Take from r, where A is singular, what rounding has left of the part that no x can reach.

        An iteration leaves what is relative to its step: the first ones most of it, while r is still large. So r is
        balanced after 1, 3, 7, 15 iterations and so on, which costs little.
        """
        done = len(self.residuals) - 1
        if self._singular and done == self._balance_at:
            column.balance()
            self._balance_at += done - self._begun_at + 1

    def _drifted(self, column: ColumnIterations) -> bool:
        """In a long solve, take the true residual where the recursion is about to drift from it.

        The search direction is kept, so the convergence is (van der Vorst and Ye, SIAM J. Sci. Comput. 22, 2000: their
        rule, looked at now and then with the norms that are known then). Returns whether that ends the solve.
        """
        iteration = len(self.residuals) - 1
        if iteration % DRIFT_INTERVAL:
            return False
        if not self._replaces:
            return self._checked and self._parted(column)
        norm, magnitude = self.residuals[-1], column.magnitude()
        self._drift.add(iteration - self._looked_at, magnitude + max(self.residuals[self._looked_at :]))
        self._looked_at = iteration
        if not self._drift.crosses(norm):
            return False
        norm = column.true_residual()
        if self._singular:
            column.balance()
        self.residuals[-1] = norm
        self._drift.begin(magnitude, norm)
        self._best, self._best_at = norm, iteration
        self.replacements += 1
        return norm <= self._target

    def _parted(self, column: ColumnIterations) -> bool:
        """In a long solve, whether the recursion has parted from the truth, where that cannot be mended on the way.

        Where A is singular, x may grow without bound while the recursion's residual stays: the x before is kept.
        """
        norm = self.residuals[-1]
        if EPS * DRIFT_INTERVAL * column.magnitude() <= DRIFTED * norm:
            return False
        self.residuals[-1] = truth = column.true_residual()
        if truth < self._kept:
            self._kept, self._kept_at, self._repeatable = truth, len(self.residuals) - 1, False
            column.keep()
        return not truth <= WORSE * norm

    def _judged(self, samples: Sequence[Sample]) -> Steps[Status | None]:
        """Add iterations to the history up to the first that ends the solve; later ones changed nothing.

        That the residual does not fall is looked at after the last one, since those changed something.
        """
        for norm, health in samples:
            self.residuals.append(norm)
            stop = self._interruptible and (yield from asked(Pause()))
            status = self._verdict(norm, health) or (Status.STOPPED if stop else None)
            if status is not None:
                return status
        allowed = self._allowed * (ONE_LEVEL if self._best > self._far else 1)
        return Status.STAGNATED if len(self.residuals) - 1 - self._best_at >= allowed else None

    def _verdict(self, norm: float, health: float) -> Status | None:
        iteration = len(self.residuals) - 1
        if norm <= self._target:
            return Status.CONVERGED
        if health <= 0.0:
            return Status.INDEFINITE if health < 0.0 else self._breakdown
        if not math.isfinite(norm) or not math.isfinite(health):
            return Status.NOT_FINITE
        if norm > (self._risen if iteration == self._begun_at + 1 else DIVERGED) * self._begun:
            return Status.DIVERGED  # after a solve that converged, more iterations have been run: x is theirs
        if norm < (1.0 - LEAST_DECREASE) * self._best:
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
