"""Judgement of a solve by its numbers alone: the residuals that a column tells, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dsolver.krylov.control.control import Control
from dsolver.krylov.control.drift import DRIFT_INTERVAL
from dsolver.krylov.control.giving_up import GivingUp
from dsolver.krylov.control.norms import ResidualNorms
from dsolver.krylov.control.requests import Advance, End, Start
from dsolver.status import Status


class Written:
    """A column whose residuals are written down, with a record of what it was asked between iterations."""

    def __init__(self, norms: Sequence[float], *, quiet: bool = False) -> None:
        self.quiet, self.seconds = quiet, 1.0
        self.norms = iter(norms)
        self.asked: list[str] = []
        self.last = 0.0

    def __getattr__(self, name: str) -> Callable[[], float]:
        """Nothing: what else a column is asked, or told, makes no difference here."""
        return lambda: 0.0

    def balance(self) -> None:
        self.asked.append("balance")

    def true_residual(self) -> float:
        self.asked.append("true residual")
        return self.last

    def run(self, control: Control) -> Status:
        """Answer what the control asks for, to its end."""
        column: Any = self
        steps = control.begin(column)
        request = next(steps)
        while True:
            answer: object
            match request:
                case Start() | End():
                    answer = self.last = next(self.norms) if isinstance(request, Start) else self.last
                case Advance(steps=count, balances=balances):
                    self.asked += [f"{count} steps", *(f"balance behind {number}" for number in balances)]
                    norms = [next(self.norms) for _ in range(count)]
                    self.last, answer = norms[-1], ([(norm, 1.0) for norm in norms], self.seconds)
            try:
                request = steps.send(answer)
            except StopIteration as end:
                status: Status = end.value
                return status


def control(*, singular: bool = False) -> Control:
    return Control(limit=1e-9, b_norm=1.0, maxiter=DRIFT_INTERVAL + 1, singular=singular)


@pytest.mark.parametrize("singular", [True, False])
def test_the_largest_residual_on_the_way_tells_how_far_rounding_took_the_recursion(singular: bool) -> None:
    """And where A is singular, a residual that is computed anew is balanced before the recursion goes on from it."""
    half = DRIFT_INTERVAL // 2
    risen = [1.0, *[1e5] * half, *[1e-6] * half, 1e-6]
    column, judged = Written(risen), control(singular=singular)
    assert column.run(judged) is Status.MAX_ITERATIONS
    assert judged.replacements == 1
    asked = "".join(f"{word}, " for word in column.asked)
    assert ("true residual, balance" in asked) == singular
    assert ("balance" in asked) == singular


@pytest.mark.parametrize("quiet", [True, False])
def test_what_is_balanced_as_iterations_go_on_takes_no_look(quiet: bool) -> None:
    """After 1, 3, 7, 15 iterations and so on either way."""
    column = Written([1.0, *[0.5] * 40], quiet=quiet)
    column.seconds = 1e-3  # so that supersteps are long
    column.run(Control(limit=1e-9, b_norm=1.0, maxiter=40, singular=True))
    done, ends, balanced = 0, [0], []
    for asked in column.asked:
        if asked == "balance":
            balanced.append(done)
        elif asked.endswith("steps"):
            done += int(asked.split()[0])
            ends.append(done)
        elif asked.startswith("balance behind"):
            balanced.append(ends[-2] + int(asked.split()[-1]))
    assert balanced == [0, 1, 3, 7, 15, 31]
    assert ({1, 3, 7, 15, 31} <= {*ends}) != quiet


def test_a_residual_that_was_small_all_along_is_not_computed_anew() -> None:
    column, judged = Written([1.0, *[1e-2] * (DRIFT_INTERVAL + 1)]), control()
    column.run(judged)
    assert judged.replacements == 0


@pytest.mark.parametrize(
    ("shape", "changed", "at"),
    [
        ("falls", False, 20),
        ("falls", True, 20),
        ("stays", False, 20),  # as with GMRES, whose residual never rises
        ("stays", True, 80),
        ("rises", False, 80),
        ("rises", True, 80),
    ],
)
def test_a_residual_that_does_not_fall_is_waited_for(shape: str, changed: bool, at: int) -> None:
    giving_up = GivingUp(
        maxiter=1000,
        b_norm=1.0,
        stagnation=200,
        fallback=None,
        patience=320,
        one_level=False,
        breakdown=Status.BREAKDOWN,
    )
    if changed:
        giving_up.resume(320)
    norms = ResidualNorms(1e-9)
    norms.begin(1.0)
    factor = {"falls": 0.99, "stays": 1.0, "rises": 1.01}[shape]
    while not giving_up.is_slow(norms):
        norms.history.append(factor * norms.newest)
    assert norms.done == at
    giving_up.resume(None)
    assert not giving_up.is_slow(norms)


@pytest.mark.parametrize("stagnation", [30, 95])
def test_the_end_of_a_solve_that_stagnates_does_not_depend_on_time(stagnation: int) -> None:
    falls = [0.9**i for i in range(34)]
    ends = set()
    for seconds in (1e-6, 0.02, 1.0):
        column = Written([*falls, *[0.5] * 1000])
        column.seconds = seconds
        judged = Control(limit=1e-9, b_norm=1.0, maxiter=1000, stagnation=stagnation)
        assert column.run(judged) is Status.STAGNATED
        ends.add(len(judged.residuals) - 1)
    assert ends == {33 + stagnation}


@pytest.mark.parametrize(
    ("residuals", "at_once"),
    [([1.0, 9e-5], True), ([1.0, 0.1, 9e-5], True), ([1.0, 0.1, 0.01, 9e-5], False), ([1.0, 1e-2, 1e-4, 1e-6], False)],
)
def test_a_fall_at_once_is_one_within_two_iterations(residuals: list[float], at_once: bool) -> None:
    norms = ResidualNorms(target=0.0)
    norms.history += residuals
    assert norms.fell_at_once() == at_once
