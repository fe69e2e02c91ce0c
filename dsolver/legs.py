"""Runs a drive next to the program that it asks, for a while at a time: what goes over the network is a leg."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

from dsolver.drive import ADVANCE, END, PAUSE, Drive, Steps
from dsolver.solution import Status


@final
@dataclass(frozen=True, kw_only=True)
class Leg:
    """A part of a solve.

    Attributes:
        first: the number of the iteration that residuals[0] tells of: the last that was told before, since its residual
            may have been computed anew meanwhile.
        residuals: from there on.
        true_residual: the newest.
        status: how the solve has ended, or None where it goes on.
    """

    first: int
    residuals: tuple[float, ...]
    true_residual: float
    status: Status | None


class Driven(ABC):
    """A program that is driven: `Drive` asks for its methods by name."""

    _drive: Drive
    _steps: Steps[Status]
    _told = 0

    @abstractmethod
    def start(self, limit: float = 0.0) -> float:
        """Begin at the x that is set; returns ‖b - A x‖. Finished when the residual's norm is at most the limit."""

    @abstractmethod
    def advance(self, steps: int, measured: bool = False) -> list[tuple[float, float]]:
        """Run iterations; for each (‖r‖ of the recursion, the smaller of rᵀMr and pᵀAp)."""

    @abstractmethod
    def balance(self) -> None:
        """Take from the recursion's residual what rounding has left of a part that no x can reach."""

    @abstractmethod
    def rounded(self) -> bool:
        """Whether rounding explains that a curvature was not positive."""

    @abstractmethod
    def magnitude(self) -> float:
        """About ‖A‖ ‖x‖, the size of what rounding is relative to in b - A x."""

    @abstractmethod
    def true_residual(self) -> float:
        """‖b - A x‖, computed anew; the recursion goes on from it."""

    @abstractmethod
    def agreed(self, value: float) -> float:
        """One rank's value, the same one on all ranks: clocks differ, and what follows from them must not."""

    def drive(self, drive: Drive, seconds: float, measured: bool = False) -> Leg:
        """Begin a solve with the b and x that are set. Arguments and result as of `go_on`."""
        self._drive, self._steps, self._told = drive, drive.steps(), 0
        return self._leg(None, seconds, measured)

    def drive_again(self, seconds: float, measured: bool = False) -> Leg:
        """Go on with a solve that has ended, as after a change of the preconditioner."""
        self._steps = self._drive.resumed_steps()
        return self._leg(None, seconds, measured)

    def go_on(self, stop: bool, seconds: float, measured: bool = False) -> Leg:
        """Go on with a solve that has paused.

        Args:
            stop: whether it shall stop where it is.
            seconds: of iterations, after which it may pause again.
            measured: the last iteration of the first superstep is measured.
        """
        return self._leg(stop, seconds, measured)

    def _leg(self, answer: Any, seconds: float, measured: bool) -> Leg:
        while True:
            try:
                method, *arguments = self._steps.send(answer)
            except StopIteration as end:
                return self._told_of(end.value)
            if method == PAUSE:
                if arguments[0] or seconds <= 0.0:
                    return self._told_of(None)
                answer = False
            elif method == ADVANCE:
                answer = _, took = self._timed(arguments[0], measured)
                seconds, measured = seconds - took, False
            else:
                answer = getattr(self, "true_residual" if method == END else method)(*arguments)

    def _timed(self, steps: int, measured: bool) -> tuple[list[tuple[float, float]], float]:
        began = time.perf_counter()
        samples = self.advance(steps, measured)
        return samples, self.agreed(time.perf_counter() - began)

    def _told_of(self, status: Status | None) -> Leg:
        drive, first = self._drive, self._told
        self._told = len(drive.residuals) - 1
        return Leg(
            first=first, residuals=tuple(drive.residuals[first:]), true_residual=drive.true_residual, status=status
        )
