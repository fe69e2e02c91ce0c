"""The solve loop with several columns: what they share, and what each is asked alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsolver.krylov.control.control import Control
from dsolver.krylov.control.supersteps import Pace
from dsolver.krylov.methods import METHODS
from dsolver.program.loop import Loop
from dsolver.status import Status

LIMIT = 1e-3


class Written:
    """Columns whose residual falls by a rate in each iteration, from 1, and is the true one but for a factor.

    Args:
        rates: of each column.
        drifts: the factor of the first true residual of each column.
    """

    def __init__(self, rates: Sequence[float], drifts: Sequence[float]) -> None:
        self.rates, self.drifts = list(rates), list(drifts)
        self.norms = [1.0] * len(rates)
        self.frozen: set[int] = set()
        self.kept: dict[int, float] = {}
        self.calls: list[Any] = []
        self.each = [Alone(self, number) for number in range(len(rates))]

    def start(self, limits: Mapping[int, float]) -> dict[int, float]:
        self.calls.append(("start", sorted(limits)))
        self.frozen -= limits.keys()
        return {number: self.norms[number] for number in limits}

    def advance(self, steps: int, measured: bool = False, _: object = None) -> list[list[tuple[float, float]]]:
        self.calls.append(("advance", steps, measured))
        rows = []
        for _ in range(steps):
            for number, rate in enumerate(self.rates):
                self.norms[number] *= 1.0 if number in self.frozen else rate
            rows.append([(norm, 1.0) for norm in self.norms])
        return rows

    def true_residuals(self, numbers: Sequence[int]) -> dict[int, float]:
        self.calls.append(("true_residuals", list(numbers)))
        for number in numbers:
            self.norms[number] *= self.drifts[number]
            self.drifts[number] = 1.0
        return {number: self.norms[number] for number in numbers}

    def agreed_seconds(self, seconds: float, _: int) -> float:
        return seconds


class Alone:
    """One column."""

    def __init__(self, written: Written, number: int) -> None:
        self.written, self.number = written, number

    def freeze(self) -> None:
        self.written.calls.append(("freeze", self.number))
        self.written.frozen.add(self.number)

    uneven = False

    def by_rows(self) -> float:
        return float("nan")

    def keep(self) -> None:
        self.written.kept[self.number] = self.written.norms[self.number]

    def rounding(self) -> float:
        return 0.0

    def keep_zero(self) -> None:
        self.written.kept[self.number] = 1.0

    def recall(self) -> None:
        self.written.norms[self.number] = self.written.kept[self.number]


def loop_of(written: Any, *, interruptible: bool = False, pace: Pace | None = None) -> Loop:
    controls = [
        Control(limit=LIMIT, b_norm=1.0, maxiter=100, interruptible=interruptible, pace=pace) for _ in written.rates
    ]
    loop = Loop(written, controls)
    loop.begin()
    return loop


def test_columns_start_and_advance_together_and_wait_for_the_last() -> None:
    written = Written([0.01, 0.5, 0.5], [1.0, 1.0, 1.0])
    first, second, third = loop_of(written).run(3600.0)
    assert [ended.status for ended in (first, second, third)] == [Status.CONVERGED] * 3
    assert [len(ended.residuals) - 1 for ended in (first, second, third)] == [2, 10, 10]
    assert written.calls[0] == ("start", [0, 1, 2])
    assert [call for call in written.calls if call[0] == "freeze"] == [("freeze", 0)], "the others end at once"
    assert [call for call in written.calls if call[0] == "true_residuals"] == [("true_residuals", [0, 1, 2])]
    assert first.residuals == (1.0, 0.01, 0.0001), "what is run past the end is no iteration"


def supersteps(written: Written) -> list[int]:
    return [call[1] for call in written.calls if call[0] == "advance"]


def test_a_later_solve_takes_most_iterations_of_the_one_before_at_once() -> None:
    pace = Pace(seconds=1e-3)
    first, later, slower = (Written([rate], [1.0]) for rate in (0.6, 0.6, 0.9))
    (alone,) = loop_of(first, pace=pace).run(3600.0)
    assert len(alone.residuals) - 1 == 14
    assert supersteps(first)[0] == 1, "nothing is known of the first"
    (again,) = loop_of(later, pace=pace).run(3600.0)
    assert again.residuals == alone.residuals
    assert supersteps(later) == [12, 1, 1]
    loop_of(slower, pace=pace).run(3600.0)
    assert supersteps(slower)[0] == 12, "what is left is known at their end"
    assert sum(supersteps(slower)) < 75, "66 are needed"
    paused = Written([0.6], [1.0])
    loop_of(paused, pace=pace, interruptible=True).run(3600.0)
    assert supersteps(paused) == [1]
    pace.seconds = 0.1
    long = Written([0.6], [1.0])
    loop_of(long, pace=pace).run(3600.0)
    assert supersteps(long)[0] == 5, "half a second"


def test_a_column_that_begins_anew_leaves_the_others_frozen() -> None:
    written = Written([0.01, 0.3], [1.0, 300.0])
    first, second = loop_of(written).run(3600.0)
    assert first.residuals == (1.0, 0.01, 0.0001)
    assert second.status is Status.CONVERGED
    starts = [call for call in written.calls if call[0] == "start"]
    assert starts == [("start", [0, 1]), ("start", [1])]
    again = written.calls.index(("start", [1]))
    assert 0 in written.frozen
    assert ("true_residuals", [1]) in written.calls[again:], "the other is known"


def test_slices_bring_what_is_new_of_each_column() -> None:
    written = Written([0.01, 0.7], [1.0, 1.0])
    loop = loop_of(written)
    histories: list[list[float]] = [[], []]
    slices = 0
    while True:
        found = loop.run(0.0, measured=slices == 1)
        slices += 1
        for history, piece in zip(histories, found, strict=True):
            history[piece.first :] = piece.residuals
        if all(piece.status for piece in found):
            break
    advances = [call for call in written.calls if call[0] == "advance"]
    assert slices == len(advances) > 2
    assert [measured for *_, measured in advances] == [number == 1 for number in range(len(advances))]
    whole = loop_of(Written([0.01, 0.7], [1.0, 1.0])).run(3600.0)
    assert histories == [list(piece.residuals) for piece in whole]


def test_a_column_that_pauses_is_answered_in_the_next_slice() -> None:
    written = Written([0.5], [1.0])
    loop = loop_of(written, interruptible=True)
    (paused,) = loop.run(3600.0)
    assert paused.status is None
    assert paused.residuals == (1.0, 0.5)
    (stopped,) = loop.run(3600.0, stop=True)
    assert stopped.status is Status.STOPPED
    assert (stopped.first, stopped.residuals) == (1, (0.5,))


def test_columns_that_have_ended_are_resumed_by_themselves() -> None:
    written = Written([0.01, 1.0], [1.0, 1.0])
    controls = [
        Control(limit=LIMIT, b_norm=1.0, maxiter=1000, fallback=40),
        Control(limit=LIMIT, b_norm=1.0, maxiter=1000, fallback=40),
    ]
    columns: Any = written
    loop = Loop(columns, controls)
    loop.begin()
    first, second = loop.run(3600.0)
    assert (first.status, second.status) == (Status.CONVERGED, Status.STAGNATED)
    written.rates[1] = 0.1  # another preconditioner
    loop.resume([1], METHODS["cg"])
    first, second = loop.run(3600.0)
    assert (first.status, second.status) == (Status.CONVERGED, Status.CONVERGED)
    assert first.residuals == (first.true_residual,)
    assert written.calls[-1] == ("true_residuals", [1])
