"""Control and judgement of a solve, with a stand-in for the program that says what a test wants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

from dsolver.engines.running_program import RunningProgram
from dsolver.errors import InputError
from dsolver.krylov.control.control import Control
from dsolver.krylov.control.drift import DRIFT_INTERVAL
from dsolver.krylov.control.giving_up import STAGNATION
from dsolver.krylov.control.rounding import ATTAINABLE
from dsolver.krylov.control.supersteps import GROWTH, OVERSHOOT, SUPERSTEP_ITERATIONS
from dsolver.krylov.methods import METHODS
from dsolver.monitor.state import State
from dsolver.program.solve import Solve
from dsolver.session.follower import Follower
from dsolver.session.options import Options
from dsolver.status import Status

T = TypeVar("T")
LIMIT = 1e-3
LOOSE = Options(rtol=0.0, atol=LIMIT)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations take a microsecond here, or what a test says, however busy the machine is: so long are supersteps."""
    run_by(monkeypatch, 1e-6)


def run_by(monkeypatch: pytest.MonkeyPatch, tick: float) -> None:
    """Have the clock tell another time whenever it is read, so many seconds later."""
    clock = itertools.count(0.0, tick)
    monkeypatch.setattr("dsolver.program.loop.time", SimpleNamespace(perf_counter=lambda: next(clock)))


class Script:
    """A program whose residuals are written down beforehand, for one column.

    Args:
        samples: (‖r‖ of the recursion, pᵀA p) of each iteration; the last is repeated.
        truths: what `start`, `magnitude` and `true_residuals` find, one after the other; the last is repeated.
        by_rounding: whether rounding explains a curvature that is not positive.
        unsymmetric: how far M is from symmetric.
    """

    def __init__(
        self,
        samples: Iterable[tuple[float, float]],
        truths: Iterable[float],
        *,
        by_rounding: bool = False,
        unsymmetric: float = 0.0,
    ) -> None:
        self.samples, self.truths, self.by_rounding = list(samples), list(truths), by_rounding
        self.unsymmetric = unsymmetric
        self.calls: list[tuple[Any, ...]] = []

    @property
    def columns(self) -> Any:
        return self

    @property
    def each(self) -> list[Script]:
        return [self]

    solve, go_on, resume = Solve.solve, Solve.go_on, Solve.resume
    spec = SimpleNamespace(traits=METHODS["cg"])
    quiet = False

    def start(self, limits: Mapping[int, float]) -> dict[int, float]:
        self.calls.append(("start", limits[0]))
        return {0: self._next(self.truths)}

    def advance(self, steps: int, measured: bool = False, _: object = None) -> list[list[tuple[float, float]]]:
        self.calls.append(("advance", steps, measured))
        return [[self._next(self.samples)] for _ in range(steps)]

    def freeze(self) -> None:
        raise NotImplementedError("a single column waits for no other")

    def balance(self) -> None:
        self.calls.append(("balance",))

    def rounded(self) -> bool:
        self.calls.append(("rounded",))
        return self.by_rounding

    def asymmetry(self) -> float:
        self.calls.append(("asymmetry",))
        return self.unsymmetric

    def rounding(self) -> float:
        return 0.0

    def magnitude(self) -> float:
        self.calls.append(("magnitude",))
        return self._next(self.truths)

    def keep(self) -> None:
        """Nothing: each script has it where solves begin."""

    uneven = False

    def by_rows(self) -> float:
        self.calls.append(("by_rows",))
        return math.nan

    def take_unreachable(self) -> float:
        self.calls.append(("take_unreachable",))
        return 0.0

    def keep_zero(self) -> None:
        self.calls.append(("keep_zero",))

    def recall(self) -> None:
        self.calls.append(("recall",))

    def exchange(self) -> None:
        self.calls.append(("exchange",))

    def true_residuals(self, numbers: Sequence[int]) -> dict[int, float]:
        assert list(numbers) == [0]
        return {0: self.true_residual()}

    def true_residual(self) -> float:
        self.calls.append(("true_residual",))
        return self._next(self.truths)

    def agreed_seconds(self, seconds: float, _: int) -> float:
        return seconds

    def _next(self, items: list[T]) -> T:
        return items.pop(0) if len(items) > 1 else items[0]

    @property
    def steps(self) -> list[int]:
        return [args[0] for method, *args in self.calls if method == "advance"]


class Played(RunningProgram[Any]):
    """A running script.

    Args:
        script: it.
        stride: seconds of iterations that a call should be worth.

    Attributes:
        calls: the commands that were called.
    """

    def __init__(self, script: Script, stride: float = 0.0) -> None:
        self.script, self.stride = script, stride
        self.calls: list[str] = []

    def call(self, command: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self.calls.append(command.__name__)
        return command(self.script, *args, **named)

    def load(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def exchange(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def unload(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Solving:
    """A script that is followed, for a right-hand side of length 1."""

    def __init__(
        self,
        script: Script,
        options: Options = LOOSE,
        *,
        stride: float = 0.0,
        callback: Any = None,
        progress: Any = None,
        closely: bool = False,
        **allowed: Any,
    ) -> None:
        limit, maxiter = options.limit(1.0), options.iterations
        control = Control(limit=limit, b_norm=1.0, maxiter=maxiter, interruptible=callback is not None, **allowed)
        self.program = Played(script, stride)
        self._control, self._seconds = control, 0.0 if closely else stride
        self._follower = Follower(self.program, [control], self._seconds, callback=callback, progress=progress)
        (self._history,) = self._follower.histories

    def run(self) -> Status:
        self._follower.run(self.program.call(Solve.solve, [self._control], self._seconds))
        return self._history.ended

    def resume(self) -> Status:
        self._follower.resume([0])
        return self._history.ended

    @property
    def residuals(self) -> list[float]:
        return self._history.residuals

    @property
    def true_residual(self) -> float:
        return self._history.true_residual

    @property
    def at(self) -> int:
        return self._history.at


def solve(
    norms: Iterable[float],
    truths: Iterable[float],
    *,
    curvature: float = 1.0,
    maxiter: int = 1000,
    callback: Any = None,
) -> tuple[Status, Solving, Script]:
    script = Script([(norm, curvature) for norm in norms], truths)
    made = Solving(script, Options(rtol=0.0, atol=LIMIT, maxiter=maxiter), callback=callback)
    return made.run(), made, script


def test_progress_is_told_after_each_superstep_and_slows_nothing() -> None:
    seen: list[State] = []
    job = Script([(0.5**k, 1.0) for k in range(1, 40)], [1.0, 0.0])
    made = Solving(job, progress=seen.append)
    made.run()
    assert len(seen) == len(job.steps) < len(made.residuals) - 1
    assert [state.residual for state in seen] == [made.residuals[state.iteration] for state in seen]
    assert seen[-1].iteration == len(made.residuals) - 1


# -- the best iterate --------------------------------------------------------------------------------------------------


def falling_and_rising() -> list[tuple[float, float]]:
    """Residuals whose third is the best."""
    return [(norm, 1.0) for norm in (0.8, 0.3, 0.1, 0.5, 2.0, 3.0)]


def test_iterations_up_to_the_best_are_made_again() -> None:
    norms = falling_and_rising()
    script = Script([*norms, *norms], [1.0, 3.0, 1.0, 0.1])
    made = Solving(script, Options(rtol=0.0, atol=LIMIT, maxiter=6), at_zero=True)
    assert made.run() is Status.MAX_ITERATIONS
    assert (made.at, made.true_residual) == (3, 0.1)
    assert made.residuals == [1.0, *(norm for norm, _ in norms)], "those of the last attempt alone"
    assert sum(script.steps) == 6 + 3
    assert [name for name, *_ in script.calls if name in ("keep", "recall", "exchange", "start")] == [
        "start",
        "recall",
        "start",
    ]


def test_an_end_that_is_better_than_the_beginning_is_kept_beside() -> None:
    norms = [(norm, 1.0) for norm in (0.1, 0.5)]
    script = Script([*norms, *norms], [1.0, 0.5, 1.0, 0.9, 0.9])
    made = Solving(script, Options(rtol=0.0, atol=LIMIT, maxiter=2))
    assert made.run() is Status.MAX_ITERATIONS
    assert (made.at, made.true_residual) == (2, 0.5), "the recursion had lied"
    assert [name for name, *_ in script.calls if name in ("recall", "exchange")] == ["exchange", "recall"]


def test_a_solve_that_goes_well_keeps_nothing() -> None:
    _, made, script = solve([0.1, 0.01, 1e-4], [1.0, 2e-4])
    assert made.at == 3
    assert {name for name, *_ in script.calls}.isdisjoint({"recall", "exchange"})


@pytest.mark.parametrize(("guess", "expected"), [(0.7, 0.7), (5.0, 1.0)])
def test_nothing_is_worse_than_the_first_guess_or_zero(guess: float, expected: float) -> None:
    script = Script([(8.0, 1.0), (9.0, 1.0)], [guess, 9.0])
    made = Solving(script, Options(rtol=0.0, atol=LIMIT, maxiter=2))
    assert made.run() is Status.MAX_ITERATIONS
    assert (made.at, made.true_residual) == (0, expected)
    kept_zero = ("keep_zero",) in script.calls
    assert kept_zero == (expected == 1.0)
    assert script.calls[-1] == ("recall",)


def test_not_a_number_is_never_the_answer() -> None:
    script = Script([(0.5, 1.0), (math.nan, 1.0), (0.5, 1.0)], [1.0, math.nan, 1.0, 0.5])
    made = Solving(script, callback=lambda _: None)
    assert made.run() is Status.NOT_FINITE
    assert (made.at, made.true_residual) == (1, 0.5)


# -- every status ------------------------------------------------------------------------------------------------------


def test_converged_by_the_recursion_and_the_truth() -> None:
    status, made, _ = solve([0.1, 0.01, 1e-4], [1.0, 2e-4])
    assert status is Status.CONVERGED
    assert made.residuals == [1.0, 0.1, 0.01, 1e-4]
    assert made.true_residual == 2e-4


def test_a_guess_that_is_good_enough_needs_no_iteration() -> None:
    status, made, job = solve([math.nan], [LIMIT])
    assert status is Status.CONVERGED
    assert made.residuals == [LIMIT]
    assert job.steps == []


def test_samples_past_convergence_are_no_iterations() -> None:
    status, made, job = solve([0.9, 0.8, 0.7, 1e-4], [1.0, 1e-4])
    assert status is Status.CONVERGED
    assert sum(job.steps) > 4
    assert len(made.residuals) == 5


def test_a_recursion_that_lies_is_found_out() -> None:
    """The recursion goes to zero, the true residual stays: no tolerance was reached."""
    status, made, job = solve([0.1, 1e-9], [1.0, 0.9])
    assert status is Status.STAGNATED
    assert made.true_residual == 0.9
    assert [method for method, *_ in job.calls].count("start") == 1


def test_a_recursion_that_drifted_begins_anew_from_the_truth() -> None:
    status, made, job = solve([0.1, 1e-4, 0.01, 1e-5], [1.0, 0.1, 0.1, 1e-4], callback=lambda _: None)
    assert status is Status.CONVERGED
    assert made.residuals == [1.0, 0.1, 1e-4, 0.01, 1e-5]
    assert [call for call in job.calls if call[0] == "start"] == [("start", LIMIT)] * 2


def test_nothing_is_worse_than_where_a_recursion_began_anew() -> None:
    """The first one has taken x to 0.1, the second one takes it nowhere."""
    status, made, job = solve([0.1, 1e-4, 10.0, math.nan], [1.0, 0.1, 0.1, math.nan], callback=lambda _: None)
    assert status is Status.NOT_FINITE
    assert (made.true_residual, made.at) == (0.1, 2)
    assert job.calls[-1] == ("recall",)


def test_the_recursion_is_not_followed_where_it_means_nothing() -> None:
    """With no tolerance at all it would go on until its squares are zero."""
    job = Script([(0.1**k, 1.0) for k in range(1, 400)], [1.0, 1e-12, 1e-12, 0.9e-12])
    made = Solving(job, Options(rtol=0.0), callback=lambda _: None)
    assert made.run() is Status.STAGNATED
    assert [call[1] for call in job.calls if call[0] == "start"] == [ATTAINABLE, 1e-12 * ATTAINABLE]
    assert min(made.residuals) > 1e-30


def test_beginning_anew_ends_when_the_truth_does_not_fall() -> None:
    status, made, job = solve([1e-4], [1.0, 0.4, 0.4, 0.3])
    assert status is Status.STAGNATED
    assert len(made.residuals) == 3
    assert job.calls[-1] == ("true_residual",)


def test_after_beginning_anew_patience_begins_anew() -> None:
    """The residual that the lying recursion had reached is no measure any more."""
    slow = [0.4 * 0.99**k for k in range(400)]
    status, made, _ = solve([0.002, 1e-4, *slow, 1e-4], [1.0, 0.4, 0.4, 1e-4], callback=lambda _: None)
    assert status is Status.CONVERGED
    assert made.residuals == [1.0, 0.002, 1e-4, *slow, 1e-4]


def test_a_solve_is_not_slow_for_what_another_recursion_has_told_nor_when_no_iteration_is_left() -> None:
    """The second recursion begins above where the first one has ended, and falls as fast."""
    norms = [0.5**k for k in range(1, 17)] + [0.4 * 0.5**k for k in range(60)]
    job = Script([(norm, 1.0) for norm in norms], [1.0, 0.4, 0.4, 1e-4])
    made = Solving(job, Options(rtol=0.0, atol=2.0**-16), patience=12)
    assert made.run() is not Status.SLOW
    assert len(made.residuals) > 31
    slow = [(1.0 - 0.001 * k, 1.0) for k in range(30)]
    assert Solving(Script(slow, [1.0]), Options(maxiter=21), patience=12).run() is Status.SLOW
    assert Solving(Script(slow, [1.0]), Options(maxiter=20), patience=12).run() is Status.MAX_ITERATIONS


def test_a_callback_may_end_as_those_of_scipys_minimizers_do() -> None:
    def enough(state: State) -> None:
        if state.iteration == 2:
            raise StopIteration

    status, made, _ = solve([0.5, 0.4, 0.3, 1e-4], [1.0, 0.4], callback=enough)
    assert status is Status.STOPPED
    assert len(made.residuals) == 3


def test_what_a_callback_returns_says_whether_to_stop() -> None:
    answer: Any = np.zeros(2)
    with pytest.raises(InputError, match=r"callback returned .*: return True to stop"):
        solve([0.5, 0.4], [1.0, 0.4], callback=lambda _: answer)


def test_max_iterations_are_never_exceeded() -> None:
    for maxiter in (0, 1, 2, 7, 60, 61):
        status, made, job = solve([0.5], [1.0, 0.5], maxiter=maxiter)
        assert status is Status.MAX_ITERATIONS
        assert sum(job.steps) == maxiter
        assert len(made.residuals) == maxiter + 1


def test_converging_in_the_last_iteration_counts() -> None:
    assert solve([0.5, 1e-4], [1.0, 1e-4], maxiter=2)[0] is Status.CONVERGED


def test_the_truth_decides_when_the_iterations_run_out() -> None:
    assert solve([0.5], [1.0, LIMIT / 2], maxiter=3)[0] is Status.CONVERGED


def test_a_residual_that_no_longer_falls_is_given_up() -> None:
    status, made, _ = solve([0.5], [1.0, 0.5])
    assert status is Status.STAGNATED
    beyond = len(made.residuals) - 1 - (STAGNATION + 1)
    assert 0 <= beyond < SUPERSTEP_ITERATIONS, "looked at after each superstep"


def test_another_preconditioner_is_taken_sooner_than_a_solve_is_given_up() -> None:
    job = Script([(0.5, 1.0)], [1.0, 0.5])
    made = Solving(job, fallback=40)
    assert made.run() is Status.STAGNATED
    sooner = len(made.residuals)
    assert 40 < sooner <= 41 + SUPERSTEP_ITERATIONS
    assert made.resume() is Status.STAGNATED
    assert len(made.residuals) - sooner >= STAGNATION


@pytest.mark.parametrize(("one_level", "norm", "ends"), [(True, 0.5, False), (True, 1e-9, True), (False, 0.5, True)])
def test_without_multigrid_a_residual_may_stay_for_long_above_rounding(
    one_level: bool, norm: float, ends: bool
) -> None:
    stays = 2 * STAGNATION
    truths = [1.0, *[norm] * (1 if ends else stays // DRIFT_INTERVAL), *([] if ends else [1e-12])]
    job = Script([*[(norm, 1.0)] * stays, (1e-12, 1.0)], truths)
    status = Solving(job, Options(rtol=0.0, atol=1e-11), one_level=one_level).run()
    assert status is (Status.STAGNATED if ends else Status.CONVERGED)


def test_a_residual_that_falls_by_rounding_alone_is_given_up() -> None:
    falling = [0.5 * (1.0 - 1e-13 * k) for k in range(5000)]
    status, made, _ = solve(falling, [1.0, 0.5], maxiter=5000)
    assert status is Status.STAGNATED
    assert len(made.residuals) < 2 * STAGNATION
    slowly = [0.5 * (1.0 - 1e-8 * k) for k in range(1000)]
    assert solve(slowly, [1.0, 0.5], maxiter=1000)[0] is Status.MAX_ITERATIONS


def test_a_residual_that_falls_slowly_is_not_given_up() -> None:
    falling = [0.999**k for k in range(1, 3000)]
    assert solve([*falling, 1e-4], [1.0, 1e-4], maxiter=5000)[0] is Status.CONVERGED


def test_growth_without_bound_is_divergence() -> None:
    status, made, _ = solve([10.0**k for k in range(1, 20)], [1.0, 1e11])
    assert status is Status.DIVERGED
    assert made.residuals[-1] == 1e11


@pytest.mark.parametrize("curvature", [0.0, -1.0, -math.inf])
def test_a_direction_of_no_curvature_means_indefinite(curvature: float) -> None:
    status, made, _ = solve([0.5], [1.0, 0.5], curvature=curvature)
    assert status is Status.INDEFINITE
    assert len(made.residuals) == 2


def test_a_direction_whose_curvature_is_rounding_means_nothing_of_the_kind() -> None:
    job = Script([(0.5, -1e-20)], [1.0, 0.5], by_rounding=True)
    assert Solving(job).run() is Status.STAGNATED
    assert job.calls[-2:] == [("rounded",), ("true_residual",)], "which changes the residual that it is asked for"


@pytest.mark.parametrize(("norm", "curvature"), [(math.nan, 1.0), (math.inf, 1.0), (0.5, math.nan), (0.5, math.inf)])
def test_numbers_that_are_not_finite_end_a_solve(norm: float, curvature: float) -> None:
    status, made, _ = solve([norm], [1.0, math.nan], curvature=curvature)
    assert status is Status.NOT_FINITE
    assert len(made.residuals) == 2


def test_residuals_of_singular_systems_are_balanced_now_and_then() -> None:
    """At the same iterations however long supersteps are, and after each new beginning."""
    job = Script([*((0.9**k, 1.0) for k in range(1, 21)), (1e-4, 1.0), (0.1, 1.0), (1e-4, 1.0)], [1.0, 0.2, 0.2, 1e-4])
    made = Solving(job, callback=lambda _: None, singular=True)
    assert made.run() is Status.CONVERGED
    done, balanced = 0, []
    for method, *args in job.calls:
        done += args[0] if method == "advance" else 0
        balanced += [done] * (method == "balance")
    anew = len(made.residuals) - 3
    assert balanced == [0, 1, 3, 7, 15, anew, anew + 1]
    assert ("balance",) not in solve([0.9**k for k in range(1, 80)], [1.0, 0.0])[2].calls


class Drifting(Script):
    """A program whose recursion goes on from the truth when that is asked for."""

    def __init__(self, magnitude: float, rate: float = 0.9) -> None:
        super().__init__([], [])
        self.size, self.rate, self.norm, self.replaced_at = magnitude, rate, 1.0, list[float]()

    def start(self, limits: Mapping[int, float]) -> dict[int, float]:
        self.calls.append(("start", limits[0]))
        return {0: self.norm}

    def advance(self, steps: int, measured: bool = False, _: object = None) -> list[list[tuple[float, float]]]:
        self.calls.append(("advance", steps, measured))
        norms = [self.norm * self.rate**k for k in range(1, steps + 1)]
        self.norm = norms[-1]
        return [[(norm, 1.0)] for norm in norms]

    def rounding(self) -> float:
        return 0.0

    def magnitude(self) -> float:
        self.calls.append(("magnitude",))
        return self.size

    def true_residual(self) -> float:
        self.calls.append(("true_residual",))
        self.replaced_at.append(self.norm)
        return self.norm

    @property
    def replacements(self) -> int:
        loop: Any = vars(self)["_loop"]
        return int(loop._controls[0].replacements)


def test_a_long_solve_takes_the_true_residual_before_it_drifts() -> None:
    """The bound of the drift passes sqrt(eps) of the residual: not before, and not again and again."""
    job = Drifting(magnitude=100.0)
    made = Solving(job, Options(rtol=1e-13))
    assert made.run() is Status.CONVERGED
    assert 1 <= job.replacements <= 2
    replaced, *_, final = job.replaced_at
    count = round(math.log(replaced) / math.log(job.rate))
    bound = 2.0**-53 * count * 100.0
    assert bound / replaced > 2.0**-26.5
    assert bound / (replaced / job.rate**DRIFT_INTERVAL) < 2.0**-26.5
    assert final <= 1e-13
    assert count % DRIFT_INTERVAL == 0, "no speed decides"
    assert [method for method, *_ in job.calls].count("start") == 1, "the search directions are kept"


def test_what_has_drifted_before_the_first_look_counts() -> None:
    """A wild guess: the residual was huge, so what rounding has left of it is large beside what is now small."""
    job = Drifting(magnitude=1.0)
    job.norm = 1e12
    made = Solving(job, Options(rtol=1e-3))
    assert made.run() is Status.CONVERGED
    assert job.replaced_at[0] > 1.0


def test_a_short_solve_is_not_watched() -> None:
    job = Drifting(magnitude=1e6, rate=0.5)
    assert Solving(job, Options(rtol=1e-13)).run() is Status.CONVERGED
    assert "magnitude" not in [method for method, *_ in job.calls]


def test_a_residual_beyond_what_rounding_lets_fall_is_not_replaced() -> None:
    """The drift was too large from the beginning: what was computed anew would be as wrong."""
    job = Drifting(magnitude=1e12)
    made = Solving(job, Options(rtol=1e-13))
    made.run()
    assert job.replacements <= 1


@pytest.mark.parametrize("first", [math.nan, math.inf])
def test_a_guess_that_overflows_is_not_iterated_on(first: float) -> None:
    status, _, job = solve([0.5], [first])
    assert status is Status.NOT_FINITE
    assert job.steps == []


# -- callbacks and supersteps ------------------------------------------------------------------------------------------


def test_a_callback_sees_every_iteration_and_stops_at_once() -> None:
    seen: list[State] = []

    def look(state: State) -> bool:
        seen.append(state)
        return state.iteration == 3

    status, made, job = solve([0.5, 0.4, 0.3, 0.2], [1.0, 0.3], callback=look)
    assert status is Status.STOPPED
    assert [(s.iteration, s.residual, s.limit) for s in seen] == [(1, 0.5, LIMIT), (2, 0.4, LIMIT), (3, 0.3, LIMIT)]
    assert job.steps == [1, 1, 1], "no iteration was run ahead of the callback"
    assert made.residuals == [1.0, 0.5, 0.4, 0.3]


def test_a_callback_that_returns_nothing_stops_nothing_and_sees_the_last_iteration() -> None:
    seen: list[int] = []
    assert solve([0.5, 1e-4], [1.0, 1e-4], callback=lambda state: seen.append(state.iteration))[0] is Status.CONVERGED
    assert seen == [1, 2]


def test_a_callbacks_error_reaches_the_caller() -> None:
    def fail(_: State) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        solve([0.5], [1.0], callback=fail)


def test_supersteps_grow_to_their_bound() -> None:
    _, _, job = solve([0.999**k for k in range(1, 500)], [1.0, 0.5], maxiter=400)
    assert job.steps[0] == 1, "how long an iteration takes is not known yet"
    assert max(job.steps) == SUPERSTEP_ITERATIONS
    assert all(later <= GROWTH * sooner for sooner, later in zip(job.steps, job.steps[1:], strict=False))


def test_supersteps_end_where_the_pace_tells_that_the_solve_will() -> None:
    _, made, job = solve([0.5**k for k in range(1, 60)], [1.0, 0.0])
    assert len(made.residuals) - 1 == 10
    assert job.steps == [1, 8, 1], "nothing is launched past the last iteration"
    _, made, job = solve([0.9**k for k in range(1, 200)], [1.0, 0.0])
    needed = len(made.residuals) - 1
    assert sum(job.steps) - needed <= needed // OVERSHOOT
    assert len(job.steps) < 10, "and the last iterations do not go one by one"


def test_slow_iterations_make_short_supersteps(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(monkeypatch, 0.4)
    _, _, job = solve([0.5], [1.0, 0.5], maxiter=10)
    assert set(job.steps) == {1}


# -- time slices -------------------------------------------------------------------------------------------------------


def slices(norms: Iterable[float], *, stride: float, **options: Any) -> tuple[Solving, Played, list[int]]:
    """A solve by a program whose calls cost something, and the iterations that its progress heard of."""
    heard: list[int] = []
    script = Script([(norm, 1.0) for norm in norms], [1.0, 0.0])
    made = Solving(script, stride=stride, progress=lambda state: heard.append(state.iteration), **options)
    assert made.run() is Status.CONVERGED
    return made, made.program, heard


def test_a_short_solve_is_one_call_and_has_the_history_of_many() -> None:
    norms = [0.5**k for k in range(1, 60)]
    made, job, heard = slices(norms, stride=3600.0)
    assert job.calls == ["solve"]
    assert heard == [10]
    closely, each, superstep_ends = slices(norms, stride=3600.0, closely=True)
    assert each.calls == ["solve", "go_on", "go_on"]
    assert superstep_ends == [1, 9, 10]
    assert made.residuals == closely.residuals == [1.0, *norms[:10]]
    assert job.script.calls == each.script.calls


def test_a_slice_ends_with_the_superstep_that_fills_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A superstep takes a second here, whatever it does."""
    run_by(monkeypatch, 1.0)
    _, job, heard = slices([0.5**k for k in range(1, 60)], stride=3.0)
    assert heard == [3, 6, 9, 10]
    assert job.calls == ["solve", "go_on", "go_on", "go_on"]


def test_a_callback_is_asked_after_each_iteration_however_long_the_slices() -> None:
    seen: list[int] = []
    _, job, heard = slices([0.5**k for k in range(1, 60)], stride=3600.0, callback=lambda s: seen.append(s.iteration))
    assert seen == heard == list(range(1, 11))
    assert job.calls.count("go_on") == 10


def test_an_iteration_that_raises_stopiteration_has_not_ended_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a function for M may: only a control's own end ends it."""

    def broken(*_: Any) -> Any:
        raise StopIteration

    script = Script([], [1.0])
    monkeypatch.setattr(script, "advance", broken)
    with pytest.raises(StopIteration):
        Solving(script, Options()).run()
