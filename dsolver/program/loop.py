"""Solve loop next to the program: answers what the control of each right-hand side asks for, a time slice at a call."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dsolver.krylov.control.control import Control
from dsolver.krylov.control.requests import Advance, End, Pause, R, Request, Start, Steps
from dsolver.krylov.methods import Traits
from dsolver.program.batches.batch import Batch
from dsolver.status import Status

K = TypeVar("K", bound=Request[Any])


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Progress of the solve for one right-hand side in a time slice.

    `unreachable`, `by_rows`, `attained`: of the `Control`.
    """

    # the number of the iteration that residuals[0] belongs to: the last of the slice before, since its residual may
    # have been computed anew meanwhile.
    first: int
    residuals: tuple[float, ...]  # from there on
    true_residual: float
    at: int  # after which iteration x is what it is, once the solve has ended
    unreachable: float
    by_rows: float | None
    attained: bool
    status: Status | None  # how the solve has ended, or None where it goes on


class Loop:
    """The solves of all columns, from a beginning to their ends.

    An iteration is one of all columns. A column that has ended is frozen while others go on, and waits for its true
    residual until none goes on, so that one product serves all. Each has the history and the bits that it would have
    alone.
    """

    def __init__(self, columns: Batch, controls: Sequence[Control]) -> None:
        self._columns, self._controls = columns, controls
        self._steps: dict[int, Steps[Status]] = {}
        self._requests: dict[int, Request[Any]] = {}
        self._ended: dict[int, Status] = {}
        self._frozen: set[int] = set()
        self._reported = [0] * len(controls)

    def begin(self) -> None:
        """Begin with every column."""
        for number, (control, column) in enumerate(zip(self._controls, self._columns.each, strict=True)):
            self._steps[number] = control.begin(column)
            self._go_on(number, None)

    def take(self, columns: Batch) -> None:
        """Go on with the same columns in another layout."""
        self._columns = columns

    def resume(self, numbers: Iterable[int], traits: Traits, patience: int | None = None) -> None:
        """Go on with columns whose solves have ended, by a method with these traits; patience: as of `Control`."""
        for number in numbers:
            del self._ended[number]
            self._controls[number].adopt(replaces=traits.replaces, checked=traits.checked, breakdown=traits.breakdown)
            self._steps[number] = self._controls[number].resume(self._columns.each[number], patience)
            self._go_on(number, None)

    def run(self, seconds: float, *, measured: bool = False, stop: bool = False) -> list[Slice]:
        """Progress of each column until all have ended, one pauses, or the time is over.

        `seconds`: of iterations; at least one superstep is run. `stop`: the answer to a column that has paused.
        """
        paused = self._asking(Pause)
        self._answer(paused, dict.fromkeys(paused, stop))
        ran = False
        while self._requests and not self._asking(Pause):
            if starting := self._asking(Start):
                self._frozen -= starting.keys()
                limits = {number: request.limit for number, request in starting.items()}
                self._answer(starting, self._columns.start(limits))
            elif going := self._asking(Advance):
                if ran and seconds <= 0.0:
                    break
                seconds -= self._advance(going, measured and not ran)
                ran = True
            else:
                ending = self._asking(End)
                self._answer(ending, self._columns.true_residuals(list(ending)))
        return [self._slice(number) for number in range(len(self._controls))]

    def _advance(self, going: Mapping[int, Advance], measured: bool) -> float:
        """Run a superstep; the seconds that it took."""
        waiting = {*self._ended, *self._asking(End)} - self._frozen
        for number in sorted(waiting):
            self._columns.each[number].freeze()
        self._frozen |= waiting
        began = time.perf_counter()
        steps, balances = min(request.steps for request in going.values()), dict[int, list[int]]()
        for number, request in going.items():
            for after in request.balances:
                balances.setdefault(after, []).append(number)
        samples = self._columns.advance(steps, measured, balances)
        seconds = self._columns.agreed_seconds(time.perf_counter() - began, len(samples))
        self._answer(going, {number: ([row[number] for row in samples], seconds) for number in going})
        return seconds

    def _asking(self, kind: type[K]) -> dict[int, K]:
        """Requests of a kind, by column."""
        return {number: request for number, request in self._requests.items() if isinstance(request, kind)}

    def _answer(self, requests: Mapping[int, Request[R]], answers: Mapping[int, R]) -> None:
        for number in requests:
            self._go_on(number, answers[number])

    def _go_on(self, number: int, answer: object) -> None:
        """Let a control go on to its next request, or to the end."""
        try:
            self._requests[number] = self._steps[number].send(answer)
        except StopIteration as end:
            self._requests.pop(number, None)
            self._ended[number] = end.value

    def _slice(self, number: int) -> Slice:
        control, first = self._controls[number], self._reported[number]
        self._reported[number] = len(control.residuals) - 1
        return Slice(
            first=first,
            residuals=tuple(control.residuals[first:]),
            true_residual=control.true_residual,
            at=control.at,
            unreachable=control.unreachable,
            by_rows=control.by_rows,
            attained=control.attained,
            status=self._ended.get(number),
        )
