"""Follows a solve that is driven next to its program: tells the callback, the progress and whoever watches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, final

from dsolver.drive import PATIENCE, Drive
from dsolver.engines.job import Job
from dsolver.errors import InputError, float_of, in_a_line
from dsolver.legs import Leg
from dsolver.monitor.watch import Watch
from dsolver.solution import Status


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
            if not (_is(value, Real) and 0.0 <= float_of(value) < math.inf):
                raise InputError(f"{name} must be a finite number >= 0, not {in_a_line(value)}")
        if not (_is(self.maxiter, Integral) and self.maxiter >= 0):
            raise InputError(f"maxiter must be an integer >= 0, not {in_a_line(self.maxiter)}")

    def limit(self, b_norm: float) -> float:
        """The residual at which a solve is finished."""
        return max(self.rtol * b_norm, self.atol)


def _is(value: object, kind: type) -> bool:
    """isinstance, where the annotation says so already and a caller may not have read it."""
    return isinstance(value, kind)


@final
class Follower:
    """Follows one solve of a job from its beginning to its end, in legs of `Job.stride` seconds or shorter ones.

    Args:
        job: whose program has b and x.
        tolerances: when to stop.
        b_norm: ‖b‖.
        callback: asked after each iteration.
        progress: told after each leg.
        patience: iterations without progress that the solve is allowed.
        doubt: see `Drive`.
        watch: who is told, too, and wants iterations measured.
        closely: whether each leg is one superstep, for those who save iterates.
        singular: see `Drive`.
        slow: see `Drive`.

    Attributes:
        residuals: the history, as far as it was told.
        true_residual: of the newest x whose residual was computed anew.
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
        *,
        closely: bool = False,
        singular: bool = False,
        doubt: int | None = None,
        slow: bool = False,
    ) -> None:
        self._job = job
        self._callback = callback
        self._progress = progress
        self._watch = watch
        self._limit, self._maxiter = tolerances.limit(b_norm), tolerances.maxiter
        self._stride = 0.0 if closely or (watch is not None and watch.keen) else job.stride
        self._drive = Drive(
            limit=self._limit,
            b_norm=b_norm,
            maxiter=self._maxiter,
            patience=patience,
            heard=callback is not None,
            singular=singular,
            doubt=doubt,
            slow=slow,
        )
        self._told = 0
        self.residuals: list[float] = []
        self.true_residual = math.inf

    def run(self) -> Status:
        """Iterate; returns how it ended.

        x is then the iterate that residuals[-1] tells of.
        """
        return self._followed("drive", self._drive)

    def resume(self) -> Status:
        """Go on from the x that is set, as after a change of the preconditioner; the history is continued."""
        return self._followed("drive_again")

    def _followed(self, method: str, *arguments: Any) -> Status:
        leg = self._leg(method, *arguments)
        while leg.status is None:
            stop = self._callback is not None and self._called(self._callback)
            self._tell()
            leg = self._leg("go_on", stop)
        self._tell()
        return leg.status

    def _leg(self, method: str, *arguments: Any) -> Leg:
        """A leg that begins with this call, its first superstep measured if whoever watches wants that."""
        measured = self._watch is not None and self._watch.measures
        leg: Leg = self._job.call(method, *arguments, 0.0 if measured else self._stride, measured)
        self.residuals[leg.first :] = leg.residuals
        self.true_residual = leg.true_residual
        if self._watch is not None and measured:
            self._watch.measured(self._job.spans(), self._iteration)
        return leg

    def _tell(self) -> None:
        """Tell of iterations that nobody has heard of."""
        if self._iteration == self._told:
            return
        self._told = self._iteration
        if self._watch is not None:
            self._watch.advanced(self._iteration, self.residuals[-1], self._limit, self._maxiter)
        if self._progress is not None:
            self._progress(self._state())

    def _called(self, callback: Callback) -> bool:
        """Whether the callback asks to stop."""
        try:
            answer: object = callback(self._state())
        except StopIteration:
            return True
        try:
            return bool(answer)
        except ValueError as error:  # an array has no truth
            raise InputError(f"callback returned {in_a_line(answer)}: return True to stop, else nothing") from error

    def _state(self) -> State:
        return State(iteration=self._iteration, residual=self.residuals[-1], limit=self._limit)

    @property
    def _iteration(self) -> int:
        return len(self.residuals) - 1
