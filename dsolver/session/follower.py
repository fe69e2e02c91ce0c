"""Follower of a solve that goes on next to its program: calls the callback, the progress function and the watch."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dsolver.engines.running_program import RunningProgram
from dsolver.errors import InputError, in_a_line
from dsolver.krylov.control.control import Control
from dsolver.monitor.state import Callback, Progress, State
from dsolver.monitor.watch import Watch
from dsolver.program.loop import Slice
from dsolver.program.solve import Solve
from dsolver.status import Status

ATTAINED: Final = "the residual is what rounding makes of b - A x, whatever the method"
"""Note where no other method can do better."""


@dataclass(kw_only=True)
class History:
    """History of the solve for one right-hand side, as far as the client knows it."""

    residuals: list[float] = field(default_factory=list)  # ‖b - A x‖ by the recursion, from the first guess on
    true_residual: float = math.inf  # of the newest x whose residual was computed anew
    at: int = 0  # after which iteration x is what it is, once the solve has ended: the last one, or a better one
    unreachable: float = 0.0  # the length of a part of b that no x can reach, as the solve has found
    by_rows: float | None = None  # as of `ColumnIterations`, where it is or was large; else None
    attained: bool = False  # whether it has stagnated with a residual that rounding alone makes
    status: Status | None = None  # how it has ended, or None where it goes on

    @property
    def iterations(self) -> int:
        """Iterations made."""
        return len(self.residuals) - 1

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes where a part of b is out of reach, and where x is not the last iterate."""
        notes = []
        if self.unreachable:
            part = f"a part of b of length {self.unreachable:.3g} lies along null vectors that the solve has met"
            notes.append(f"A is singular: {part}, and no x reaches it; true_residual is that of the rest")
        if self.attained:
            notes.append(ATTAINED)
        if self.at == 0 < self.iterations:
            notes.append(f"x is the first guess, or zero: none of {self.iterations} iterations has led to a better one")
        elif self.at < self.iterations:
            notes.append(f"x is that of iteration {self.at} of {self.iterations}: residuals were larger afterwards")
        return tuple(notes)

    @property
    def ended(self) -> Status:
        """Status at its end."""
        assert self.status is not None
        return self.status

    def add(self, piece: Slice) -> None:
        """Take what a time slice has brought."""
        self.residuals[piece.first :] = piece.residuals
        self.true_residual, self.status = piece.true_residual, piece.status
        self.at, self.unreachable, self.by_rows = piece.at, piece.unreachable, piece.by_rows
        self.attained = piece.attained


T = TypeVar("T")


class Follower:
    """Follows the solves of a program to their ends, in time slices. `histories`: of each column."""

    def __init__(
        self,
        program: RunningProgram[Solve],
        controls: Sequence[Control],
        seconds: float,  # of iterations in a slice; with 0 each is one superstep, for those who save iterates
        *,
        # called after each iteration, of a single column whose control is interruptible.
        callback: Callback | None = None,
        progress: Progress | None = None,  # called after each slice with the state of the slowest column
        watch: Watch | None = None,  # follows, too, and may want iterations of a single column measured
    ) -> None:
        self._program, self._controls = program, tuple(controls)
        self._callback, self._progress, self._watch = callback, progress, watch
        self._seconds = seconds
        self._reported = 0
        self.histories = tuple(History() for _ in self._controls)

    def run(self, first: Sequence[Slice]) -> None:
        """Follow solves from their first slices on. Each x is then the iterate that its history tells of."""
        self._add(first)
        self._follow()

    def resume(self, columns: Sequence[int], patience: int | None = None) -> None:
        """Go on from the x that is set, as with another M, with the same histories; patience: as of `Control`."""
        self._slice(Solve.resume, (columns, patience))
        self._follow()

    @property
    def slowest(self) -> int:
        """The column with most iterations."""
        return max(range(len(self.histories)), key=lambda column: self.histories[column].iterations)

    def _follow(self) -> None:
        while any(history.status is None for history in self.histories):
            stop = self._callback is not None and self._stops(self._callback)
            self._report()
            self._slice(Solve.go_on, stop)
        self._report()

    def _slice(self, command: Callable[[Solve, T, float, bool], list[Slice]], argument: T) -> None:
        """Run a slice that begins with a command, its first superstep measured if the watch wants that."""
        watch = self._watch
        measured = watch is not None and watch.measures and len(self.histories) == 1
        slices = self._program.call(command, argument, 0.0 if measured else self._seconds, measured)
        self._add(slices)
        if watch is not None and measured:
            watch.record(self._program.spans(), self.histories[0].iterations)

    def _add(self, slices: Sequence[Slice]) -> None:
        for history, piece in zip(self.histories, slices, strict=True):
            history.add(piece)

    def _report(self) -> None:
        """Report iterations that have not been reported."""
        state, watch = self._state(), self._watch
        if state.iteration == self._reported:
            return
        self._reported = state.iteration
        if watch is not None:
            watch.advance(state.iteration, state.residual, state.limit, self._controls[0].maxiter)
        if self._progress is not None:
            self._progress(state)

    def _stops(self, callback: Callback) -> bool:
        """Whether the callback wants the solve to stop."""
        try:
            answer: object = callback(self._state())
        except StopIteration:
            return True
        try:
            return bool(answer)
        except ValueError as error:  # an array has no truth
            raise InputError(f"callback returned {in_a_line(answer)}: return True to stop, else nothing") from error

    def _state(self) -> State:
        history, control = self.histories[self.slowest], self._controls[self.slowest]
        return State(
            iteration=history.iterations, residual=history.residuals[-1], limit=control.limit, b_norm=control.b_norm
        )
