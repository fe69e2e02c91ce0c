"""Control of a solve: supersteps, true residual, the way back to a better x."""

import math
from collections.abc import Sequence

from dsolver.krylov.control.best_iterate import BestIterate
from dsolver.krylov.control.drift import DRIFT_INTERVAL, Drift, has_parted
from dsolver.krylov.control.giving_up import STAGNATION, GivingUp
from dsolver.krylov.control.norms import LEAST_DECREASE, ResidualNorms
from dsolver.krylov.control.requests import Advance, ColumnIterations, End, Pause, Sample, Start, Steps, asked
from dsolver.krylov.control.rounding import ATTAINABLE, Balancing, RowScales, beats_zero, is_rounding
from dsolver.krylov.control.supersteps import Pace, Supersteps
from dsolver.status import Status


class Control:
    """A method's iterations until the true residual is small enough or there is a reason to stop.

    It asks for steps of its column, and is given the answers. These are the same on all ranks, so a control on each of
    them asks for the same: no rank has to wait until another has decided.

    Attributes:
        b_norm: ‖b‖, of that part of b which x can reach.
        true_residual: the newest that was computed anew.
        at: after which iteration x is what it is, once the solve has ended: the last one, or a better one.
        attained: whether it has stagnated with a residual that rounding alone makes.
        unreachable: the length of what was taken from b on the way, since no x can reach it.
        replacements: how often the recursion has taken it on the way.
    """

    def __init__(
        self,
        *,
        limit: float,  # the residual at which the solve is finished
        b_norm: float,
        maxiter: int,
        at_zero: bool = False,  # whether x is zero at first
        stagnation: int = STAGNATION,  # iterations without a new smallest residual after which it is given up
        decrease: float = LEAST_DECREASE,  # part of the smallest one by which a new one has to be smaller
        # the same until it is resumed, if that is sooner: where there is another preconditioner to go on with, for
        # which a residual that grows in the first iteration is a reason as well.
        fallback: int | None = None,
        # further iterations beyond which a solve is given up as `Status.SLOW` until it is resumed, where there is
        # another preconditioner to go on with; None for any number.
        patience: int | None = None,
        interruptible: bool = False,
        # whether a part of b is out of A's reach, so that what rounding leaves of it in r is to be taken.
        singular: bool = False,
        one_level: bool = False,  # whether M has no coarse grid; see `ONE_LEVEL`
        # whether the recursion can take the true residual on the way; if not, it does so at its end alone.
        replaces: bool = True,
        # whether the true residual is looked at on the way, though the recursion does not follow from it.
        checked: bool = False,
        breakdown: Status = Status.INDEFINITE,  # the status where an iteration's health is zero
        # whether M solves for least squares: after one iteration the residual is what no x can reach.
        projects: bool = False,
        # of earlier solves with this matrix and this M, from which this one learns how long its first superstep may be,
        # and which learns from this one; None where that is to be one iteration.
        pace: Pace | None = None,
    ) -> None:
        self.limit, self.maxiter, self.b_norm = limit, maxiter, b_norm
        self._at_zero, self._interruptible = at_zero, interruptible
        self._may_resume = fallback is not None
        self._replaces, self._checked, self._projects = replaces, checked, projects
        self._norms = ResidualNorms(max(limit, ATTAINABLE * b_norm), decrease)
        self._supersteps = Supersteps(pace or Pace(), single=interruptible)
        self._giving_up = GivingUp(
            maxiter=maxiter,
            b_norm=b_norm,
            stagnation=stagnation,
            fallback=fallback,
            patience=patience,
            one_level=one_level,
            breakdown=breakdown,
        )
        self._drift = Drift()
        self._kept = BestIterate()
        self._rows = RowScales(limit)
        self._balancing = Balancing() if singular else None
        self.attained = False
        self.unreachable = 0.0
        self.true_residual = math.inf
        self.at = 0
        self.replacements = 0

    @property
    def residuals(self) -> list[float]:
        """‖b - A x‖ by the recursion, from the first guess on."""
        return self._norms.history

    @property
    def by_rows(self) -> float | None:
        """`ColumnIterations.by_rows`, where it is large or the solve went on as it was."""
        return self._rows.part

    def begin(self, column: ColumnIterations) -> Steps[Status]:
        """From the b and x that are set to the end. x is then the best iterate, or zero if none is better.

        Where the solve converges, or the callback has stopped it, it is the last one.
        """
        yield from self._start(column)
        self._kept.keep_beginning(column, self._norms, zero=self._at_zero)
        return (yield from self._with_best(column))

    def adopt(self, *, replaces: bool, checked: bool, breakdown: Status) -> None:
        """Know the method that a solve goes on with: see the arguments of the same names."""
        self._replaces, self._checked, self._giving_up.breakdown = replaces, checked, breakdown

    def resume(self, column: ColumnIterations, patience: int | None = None) -> Steps[Status]:
        """Go on from the x that is set, as after a change of the preconditioner; the history is continued."""
        self._giving_up.resume(patience)
        self._supersteps.forget()
        self._may_resume = False
        known = self.true_residual if math.isfinite(self.true_residual) else 0.0
        self._norms.target = max(self._rows.goal, ATTAINABLE * known)
        yield from self._start(column)
        self._kept.keep_beginning(column, self._norms)
        return (yield from self._with_best(column))

    def _with_best(self, column: ColumnIterations) -> Steps[Status]:
        """The end of a solve, and the way back to a better iterate than the last one."""
        status = yield from self._until_ended(column)
        self.at = self._norms.done
        if self._reached():
            column.keep_zero()  # which gives memory back
        if self._reached() or status in (Status.STOPPED, Status.SLOW):
            return status
        if not self._may_resume and self._kept.is_passed(self._norms, self.true_residual):
            yield from self._repeat(column)
        if not self.true_residual <= self._kept.norm:
            column.recall()
            self.true_residual, self.at = self._kept.norm, self._kept.at
        if not beats_zero(self.true_residual, self.b_norm, column):
            column.keep_zero()
            column.recall()
            self.true_residual, self.at = self.b_norm, 0
        status = self._reached() or status
        ended = status in (Status.STAGNATED, Status.BREAKDOWN)
        self.attained = ended and is_rounding(self.true_residual, self.b_norm, column)
        return Status.STAGNATED if self.attained else status

    def _repeat(self, column: ColumnIterations) -> Steps[None]:
        """Make the iterations up to the best one again, with the same bits, and keep the better of both ends.

        So a solve that goes well copies no x, and there is nothing beside it to copy to.
        """
        self._kept.exchange(column, self.true_residual, self.at)
        self.at = self._norms.best_at
        again = Control(
            limit=0.0,
            b_norm=0.0,
            maxiter=self.at,
            stagnation=self.at + 1,
            singular=self._balancing is not None,
            replaces=self._replaces,
            breakdown=self._giving_up.breakdown,
        )
        again._norms.history = self.residuals[: self._norms.begun_at + 1]
        again._giving_up.trust()
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
            gone_on = status is Status.SLOW and self._rows.rounds  # for rows of small scales, and so does the next M
            reached = None if gone_on else self._reached()
            if reached and not self._goes_on(column, status):
                self._supersteps.learn(self._norms)
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
            self._norms.target = max(self._rows.goal, ATTAINABLE * self.true_residual)
            yield from self._start(column)
            self._kept.keep_beginning(column, self._norms)

    def _goes_on(self, column: ColumnIterations, status: Status) -> bool:
        """Whether a solve whose residual is small enough goes on, as it is so in rows of a large scale alone."""
        if not (self._rows.rounds or column.uneven or self._norms.fell_at_once()):
            return False
        may = status is Status.CONVERGED and self._norms.done < self.maxiter
        return self._rows.go_on(column, self.true_residual, self.limit, self.b_norm, may=may)

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
        kept, self.b_norm = (math.sqrt(max(0.0, norm**2 - taken**2)) for norm in (self._kept.norm, self.b_norm))
        self._kept.norm = kept
        return taken > 0.0

    def _start(self, column: ColumnIterations) -> Steps[None]:
        """Let the recursion begin from x, whose residual is then known."""
        self.true_residual = yield from asked(Start(self._norms.target))
        self._norms.begin(self.true_residual)
        self._drift.begin(0.0, self._norms, self.true_residual)
        if self._balancing is not None:
            self._balancing.begin(column, self._norms)

    def _judged_start(self) -> Status | None:
        if not math.isfinite(self.true_residual):
            return Status.NOT_FINITE
        return Status.CONVERGED if self.true_residual <= self._rows.goal else None

    def _recursion(self, column: ColumnIterations) -> Steps[Status]:
        """Supersteps until the recursion's residual says that the solve has ended."""
        steps = self._supersteps.first(self._norms)
        while True:
            room = self.maxiter - self._norms.done
            if room == 0:
                unsymmetric = self._giving_up.is_unsymmetric(column, self._norms, ended=True)
                return Status.UNSYMMETRIC_M if unsymmetric else Status.MAX_ITERATIONS
            steps = min(steps, room, self._to_look(column))
            balances = () if self._balancing is None else self._balancing.within(steps, column, self._norms)
            samples, seconds = yield from asked(Advance(steps, balances))
            status = yield from self._judged(samples)
            if status is not None or self._projects:
                return status or self._giving_up.breakdown
            if self._giving_up.is_unsymmetric(column, self._norms):
                return Status.UNSYMMETRIC_M
            if self._giving_up.is_slow(self._norms):
                return Status.SLOW
            if self._drifted(column):
                return Status.CONVERGED
            if self._balancing is not None:
                self._balancing.follow(column, self._norms)
            steps = self._supersteps.following(len(samples), seconds, self._norms)

    def _to_look(self, column: ColumnIterations) -> int:
        """Iterations until something is done that does not depend on how long supersteps are."""
        done = self._norms.done
        look = min(
            1 if self._projects else DRIFT_INTERVAL - done % DRIFT_INTERVAL, self._giving_up.to_look(self._norms)
        )
        return int(look if self._balancing is None else min(look, self._balancing.to_look(column, self._norms)))

    def _drifted(self, column: ColumnIterations) -> bool:
        """Take the true residual in a long solve where the recursion is about to drift from it.

        The search direction is kept, so the convergence is. Returns whether that ends the solve.
        """
        if self._norms.done % DRIFT_INTERVAL:
            return False
        if not self._replaces:
            return self._checked and has_parted(column, self._norms, self._kept)
        magnitude = column.magnitude()
        if not self._drift.crosses(magnitude, self._norms):
            return False
        truth = column.true_residual()
        if self._balancing is not None:
            column.balance()
        self._norms.replace(truth)
        self._drift.begin(magnitude, self._norms, truth)
        self.replacements += 1
        return truth <= self._norms.target

    def _judged(self, samples: Sequence[Sample]) -> Steps[Status | None]:
        """Add iterations to the history up to the first that ends the solve; later ones changed nothing.

        That the residual does not fall is looked at after the last one, since those changed something.
        """
        for norm, health in samples:
            self.residuals.append(norm)
            stop = self._interruptible and (yield from asked(Pause()))
            status = self._giving_up.verdict(self._norms, health) or (Status.STOPPED if stop else None)
            if status is not None:
                return status
        return Status.STAGNATED if self._giving_up.stagnates(self._norms) else None
