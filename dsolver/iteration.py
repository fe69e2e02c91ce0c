"""Drives a started solve to its end: supersteps, judgement, true residual."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, TypeVar, final

from dsolver.engines.job import Job
from dsolver.errors import InputError, in_a_line
from dsolver.krylov import DIVERGED
from dsolver.monitor.watch import Watch
from dsolver.solution import Status

T = TypeVar("T")
SUPERSTEP_SECONDS: Final = 0.5
"""What a superstep should take: long beside the 10 ms of a call through Dask, short for who watches or cancels."""
SUPERSTEP_ITERATIONS: Final = 50
AHEAD: Final = 8
"""A superstep may launch a part of 1/AHEAD of the iterations made so far beyond those that the pace so far tells are
needed: what is launched past the last one costs as much as what is needed."""
REACH: Final = 2.0**-53
"""How far the recursion is followed, as a part of ‖b‖ or of the true residual that it begins anew from: below what
rounding leaves it tells nothing about the truth, and its squares would end at zero."""
PATIENCE: Final = 200
"""Iterations without a new smallest residual after which a solve is given up, unless more are asked for."""
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


@final
@dataclass(frozen=True, kw_only=True)
class State:
    """What a callback sees after an iteration.

    Attributes:
        iteration: how many iterations have been made.
        residual: ‖b - A x‖₂ by the recursion.
        limit: the residual at which the solve is finished.
    """

    iteration: int
    residual: float
    limit: float


Callback = Callable[[State], bool | None]
"""Called after each iteration; the solve stops when it returns True, or raises StopIteration."""

Progress = Callable[[State], None]
"""Called now and then with the newest state; it cannot stop the solve, and does not slow it."""


@final
@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """When to stop.

    Attributes:
        rtol, atol: finished when ‖b - A x‖₂ <= max(rtol ‖b‖₂, atol), as in SciPy.
        maxiter: iterations at most.

    Raises:
        InputError: a tolerance is no finite number >= 0, or maxiter no integer >= 0.
    """

    rtol: float = 1e-8
    atol: float = 0.0
    maxiter: int = 1000

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not (_is(value, Real) and math.isfinite(value) and value >= 0.0):
                raise InputError(f"{name} must be a finite number >= 0, not {in_a_line(value)}")
        if not (_is(self.maxiter, Integral) and self.maxiter >= 0):
            raise InputError(f"maxiter must be an integer >= 0, not {in_a_line(self.maxiter)}")

    def limit(self, b_norm: float) -> float:
        """The residual at which a solve is finished."""
        return max(self.rtol * b_norm, self.atol)


def _is(value: object, kind: type) -> bool:
    """isinstance, where the annotation says so already and a caller may not have read it."""
    return isinstance(value, kind)


Request = tuple[Any, ...]
"""The name of a program's method and its arguments; `END` is `true_residual` of a solve that goes no further."""
END: Final = "end"
Steps = Generator[Request, Any, T]
"""What a drive wants of its program, one after the other, and how it ends."""


@final
class Drive:
    """Conjugate gradients until the true residual is small enough or there is a reason to stop.

    `run` and `resume` ask a job; `steps` tells what is to be asked, for whoever drives several at once.
    """

    def __init__(
        self,
        job: Job,
        tolerances: Tolerances,
        b_norm: float,
        callback: Callback | None = None,
        progress: Progress | None = None,
        patience: int = PATIENCE,
        watch: Watch | None = None,
    ) -> None:
        self._job = job
        self._watch = watch
        self._limit = tolerances.limit(b_norm)
        self._maxiter = tolerances.maxiter
        self._callback = callback
        self._progress = progress
        self._patience = patience
        self._best, self._best_at = math.inf, 0
        self._target = max(self._limit, REACH * b_norm)
        self._drift = _Drift()
        self.residuals: list[float] = []
        self.true_residual = math.inf
        self.replacements = 0

    def run(self) -> Status:
        """Iterate; returns how it ended. `residuals` and `true_residual` tell the history.

        x is then the iterate that residuals[-1] tells of.
        """
        return self._asked(self.steps())

    def resume(self) -> Status:
        """Go on from the x that is set, as after a change of the preconditioner; the history is continued."""
        return self._asked(self.resumed_steps())

    def steps(self) -> Steps[Status]:
        """`run`, for whoever answers the requests."""
        self.true_residual = yield from self._begin()
        self.residuals = [self.true_residual]
        return (yield from self._until_ended())

    def resumed_steps(self) -> Steps[Status]:
        """`resume`, likewise."""
        self._best, self._best_at = math.inf, len(self.residuals) - 1
        known = self.true_residual if math.isfinite(self.true_residual) else 0.0
        self._target = max(self._limit, REACH * known)
        self.true_residual = yield from self._begin()
        return (yield from self._until_ended())

    def _asked(self, steps: Steps[Status]) -> Status:
        reply: Any = None
        while True:
            try:
                method, *arguments = steps.send(reply)
            except StopIteration as end:
                status: Status = end.value
                return status
            reply = self._job.call("true_residual" if method == END else method, *arguments)

    def _until_ended(self) -> Steps[Status]:
        while True:
            status = self._judged_start() or (yield from self._recursion())
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
            began = time.perf_counter()
            look = WATCH - (len(self.residuals) - 1) % WATCH
            samples = yield from self._advanced(min(steps, room, look))
            status = self._judge(samples)
            self._tell()
            if self._progress is not None:
                self._progress(self._state(self.residuals[-1]))
            if status is not None:
                return status
            if (yield from self._drifted()):
                return Status.CONVERGED
            steps = self._next(len(samples), time.perf_counter() - began)

    def _advanced(self, steps: int) -> Steps[list[tuple[float, float]]]:
        """Run a superstep, its last iteration measured if whoever watches wants that."""
        watched = self._watch is not None and self._watch.measures
        samples: list[tuple[float, float]] = yield ("advance", steps, *((True,) if watched else ()))
        if self._watch is not None and watched:
            self._watch.measured(self._job.spans(), len(self.residuals) - 1 + steps)
        return samples

    def _tell(self) -> None:
        if self._watch is not None:
            self._watch.advanced(len(self.residuals) - 1, self.residuals[-1], self._limit, self._maxiter)

    def _next(self, steps: int, seconds: float) -> int:
        """Iterations of the next superstep. A callback may stop after any, so it gets them one at a time."""
        if self._callback is not None:
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
        self.residuals[-1] = norm
        self._drift.begin(magnitude, norm)
        self._best, self._best_at = norm, iteration
        self.replacements += 1
        return norm <= self._target

    def _judge(self, samples: Sequence[tuple[float, float]]) -> Status | None:
        """Add iterations to the history up to the first that ends the solve; later ones changed nothing.

        That the residual does not fall is looked at after the last one, since those changed something.
        """
        for norm, curvature in samples:
            self.residuals.append(norm)
            stop = self._called(norm)
            status = self._verdict(norm, curvature) or (Status.STOPPED if stop else None)
            if status is not None:
                return status
        return Status.STAGNATED if len(self.residuals) - 1 - self._best_at >= self._patience else None

    def _called(self, norm: float) -> bool:
        """Whether the callback asks to stop."""
        if self._callback is None:
            return False
        try:
            answer: object = self._callback(self._state(norm))
        except StopIteration:
            return True
        try:
            return bool(answer)
        except ValueError as error:  # an array has no truth
            raise InputError(f"callback returned {in_a_line(answer)}: return True to stop, else nothing") from error

    def _state(self, norm: float) -> State:
        return State(iteration=len(self.residuals) - 1, residual=norm, limit=self._limit)

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
