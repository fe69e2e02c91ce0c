"""How a solve is driven and judged, with a stand-in for the program that says what a test wants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import pytest

from dsolver import drive as rules
from dsolver.engines.job import Job
from dsolver.errors import InputError
from dsolver.iteration import Follower, State, Tolerances
from dsolver.legs import Driven
from dsolver.solution import Solution, Status

T = TypeVar("T")
LIMIT = 1e-3


class Script(Driven):
    """A program whose residuals are written down beforehand.

    Args:
        samples: (‖r‖ of the recursion, pᵀA p) of each iteration; the last is repeated.
        truths: what `start` and `true_residual` find, one after the other; the last is repeated.
        by_rounding: whether rounding explains a curvature that is not positive.
    """

    def __init__(
        self, samples: Iterable[tuple[float, float]], truths: Iterable[float], *, by_rounding: bool = False
    ) -> None:
        self.samples, self.truths, self.by_rounding = list(samples), list(truths), by_rounding
        self.calls: list[tuple[Any, ...]] = []

    def start(self, limit: float = 0.0) -> float:
        self.calls.append(("start", limit))
        return self._next(self.truths)

    def advance(self, steps: int, measured: bool = False) -> list[tuple[float, float]]:
        self.calls.append(("advance", steps, measured))
        return [self._next(self.samples) for _ in range(steps)]

    def balance(self) -> None:
        self.calls.append(("balance",))

    def rounded(self) -> bool:
        self.calls.append(("rounded",))
        return self.by_rounding

    def magnitude(self) -> float:
        self.calls.append(("magnitude",))
        return self._next(self.truths)

    def true_residual(self) -> float:
        self.calls.append(("true_residual",))
        return self._next(self.truths)

    def agreed(self, value: float) -> float:
        return value

    def _next(self, items: list[T]) -> T:
        return items.pop(0) if len(items) > 1 else items[0]

    @property
    def steps(self) -> list[int]:
        return [args[0] for method, *args in self.calls if method == "advance"]


class Played(Job):
    """A job that runs a script.

    Args:
        script: it.
        stride: seconds of iterations that a call should be worth.

    Attributes:
        calls: the methods that were called.
    """

    def __init__(self, script: Script, stride: float = 0.0) -> None:
        self.script, self.stride = script, stride
        self.calls: list[str] = []

    def call(self, method: str, *args: Any) -> Any:
        self.calls.append(method)
        return getattr(self.script, method)(*args)

    def load(self, name: str, blocks: Mapping[int, Any], *then: Any) -> Any:
        raise NotImplementedError

    def unload(self, name: str, *first: Any, host: bool = False) -> Mapping[int, Any]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def drive(
    norms: Iterable[float],
    truths: Iterable[float],
    *,
    curvature: float = 1.0,
    maxiter: int = 1000,
    callback: Any = None,
) -> tuple[Status, Follower, Script]:
    job = Script([(norm, curvature) for norm in norms], truths)
    made = Follower(Played(job), Tolerances(rtol=0.0, atol=LIMIT, maxiter=maxiter), 1.0, callback)
    return made.run(), made, job


def test_progress_is_told_after_each_superstep_and_slows_nothing() -> None:
    seen: list[State] = []
    job = Script([(0.5**k, 1.0) for k in range(1, 40)], [1.0, 0.0])
    made = Follower(Played(job), Tolerances(rtol=0.0, atol=LIMIT), 1.0, progress=seen.append)
    made.run()
    assert len(seen) == len(job.steps) < len(made.residuals) - 1
    assert [state.residual for state in seen] == [made.residuals[state.iteration] for state in seen]
    assert seen[-1].iteration == len(made.residuals) - 1


# -- every status ------------------------------------------------------------------------------------------------------


def test_converged_by_the_recursion_and_the_truth() -> None:
    status, made, _ = drive([0.1, 0.01, 1e-4], [1.0, 2e-4])
    assert status is Status.CONVERGED
    assert made.residuals == [1.0, 0.1, 0.01, 1e-4]
    assert made.true_residual == 2e-4


def test_a_guess_that_is_good_enough_needs_no_iteration() -> None:
    status, made, job = drive([math.nan], [LIMIT])
    assert status is Status.CONVERGED
    assert made.residuals == [LIMIT]
    assert job.steps == []


def test_samples_past_convergence_are_no_iterations() -> None:
    status, made, job = drive([0.9, 0.8, 0.7, 1e-4], [1.0, 1e-4])
    assert status is Status.CONVERGED
    assert sum(job.steps) > 4
    assert len(made.residuals) == 5


def test_a_recursion_that_lies_is_found_out() -> None:
    """The recursion goes to zero, the true residual stays: no tolerance was reached."""
    status, made, job = drive([0.1, 1e-9], [1.0, 0.9])
    assert status is Status.STAGNATED
    assert made.true_residual == 0.9
    assert [method for method, *_ in job.calls].count("start") == 1


def test_a_recursion_that_drifted_begins_anew_from_the_truth() -> None:
    status, made, job = drive([0.1, 1e-4, 0.01, 1e-5], [1.0, 0.1, 0.1, 1e-4], callback=lambda _: None)
    assert status is Status.CONVERGED
    assert made.residuals == [1.0, 0.1, 1e-4, 0.01, 1e-5]
    assert [call for call in job.calls if call[0] == "start"] == [("start", LIMIT)] * 2


def test_the_recursion_is_not_followed_where_it_means_nothing() -> None:
    """With no tolerance at all it would go on until its squares are zero."""
    job = Script([(0.1**k, 1.0) for k in range(1, 400)], [1.0, 1e-12, 1e-12, 0.9e-12])
    made = Follower(Played(job), Tolerances(rtol=0.0), 1.0, callback=lambda _: None)
    assert made.run() is Status.STAGNATED
    assert [call[1] for call in job.calls if call[0] == "start"] == [rules.REACH, 1e-12 * rules.REACH]
    assert min(made.residuals) > 1e-30


def test_beginning_anew_ends_when_the_truth_does_not_fall() -> None:
    status, made, job = drive([1e-4], [1.0, 0.4, 0.4, 0.3])
    assert status is Status.STAGNATED
    assert len(made.residuals) == 3
    assert job.calls[-1] == ("true_residual",)


def test_after_beginning_anew_patience_begins_anew() -> None:
    """The residual that the lying recursion had reached is no measure any more."""
    slow = [0.4 * 0.99**k for k in range(400)]
    status, made, _ = drive([0.002, 1e-4, *slow, 1e-4], [1.0, 0.4, 0.4, 1e-4], callback=lambda _: None)
    assert status is Status.CONVERGED
    assert made.residuals == [1.0, 0.002, 1e-4, *slow, 1e-4]


def test_a_callback_may_end_as_those_of_scipys_minimizers_do() -> None:
    def enough(state: State) -> None:
        if state.iteration == 2:
            raise StopIteration

    status, made, _ = drive([0.5, 0.4, 0.3, 1e-4], [1.0, 0.4], callback=enough)
    assert status is Status.STOPPED
    assert len(made.residuals) == 3


def test_what_a_callback_returns_says_whether_to_stop() -> None:
    answer: Any = np.zeros(2)
    with pytest.raises(InputError, match=r"callback returned .*: return True to stop"):
        drive([0.5, 0.4], [1.0, 0.4], callback=lambda _: answer)


def test_max_iterations_are_never_exceeded() -> None:
    for maxiter in (0, 1, 2, 7, 60, 61):
        status, made, job = drive([0.5], [1.0, 0.5], maxiter=maxiter)
        assert status is Status.MAX_ITERATIONS
        assert sum(job.steps) == maxiter
        assert len(made.residuals) == maxiter + 1


def test_converging_in_the_last_iteration_counts() -> None:
    assert drive([0.5, 1e-4], [1.0, 1e-4], maxiter=2)[0] is Status.CONVERGED


def test_the_truth_decides_when_the_iterations_run_out() -> None:
    assert drive([0.5], [1.0, LIMIT / 2], maxiter=3)[0] is Status.CONVERGED


def test_a_residual_that_no_longer_falls_is_given_up() -> None:
    status, made, _ = drive([0.5], [1.0, 0.5])
    assert status is Status.STAGNATED
    beyond = len(made.residuals) - 1 - (rules.PATIENCE + 1)
    assert 0 <= beyond < rules.SUPERSTEP_ITERATIONS, "looked at after each superstep"


def test_another_preconditioner_is_taken_sooner_than_a_solve_is_given_up() -> None:
    job = Script([(0.5, 1.0)], [1.0, 0.5])
    made = Follower(Played(job), Tolerances(rtol=0.0, atol=LIMIT), 1.0, doubt=40)
    assert made.run() is Status.STAGNATED
    sooner = len(made.residuals)
    assert 40 < sooner <= 41 + rules.SUPERSTEP_ITERATIONS
    assert made.resume() is Status.STAGNATED
    assert len(made.residuals) - sooner >= rules.PATIENCE


@pytest.mark.parametrize(("slow", "norm", "ends"), [(True, 0.5, False), (True, 1e-9, True), (False, 0.5, True)])
def test_without_multigrid_a_residual_may_stay_for_long_above_rounding(slow: bool, norm: float, ends: bool) -> None:
    stays = 2 * rules.PATIENCE
    truths = [1.0, *[norm] * (1 if ends else stays // rules.WATCH), *([] if ends else [1e-12])]
    job = Script([*[(norm, 1.0)] * stays, (1e-12, 1.0)], truths)
    status = Follower(Played(job), Tolerances(rtol=0.0, atol=1e-11), 1.0, slow=slow).run()
    assert status is (Status.STAGNATED if ends else Status.CONVERGED)


def test_a_residual_that_falls_by_rounding_alone_is_given_up() -> None:
    falling = [0.5 * (1.0 - 1e-13 * k) for k in range(5000)]
    status, made, _ = drive(falling, [1.0, 0.5], maxiter=5000)
    assert status is Status.STAGNATED
    assert len(made.residuals) < 2 * rules.PATIENCE
    slowly = [0.5 * (1.0 - 1e-8 * k) for k in range(1000)]
    assert drive(slowly, [1.0, 0.5], maxiter=1000)[0] is Status.MAX_ITERATIONS


def test_a_residual_that_falls_slowly_is_not_given_up() -> None:
    falling = [0.999**k for k in range(1, 3000)]
    assert drive([*falling, 1e-4], [1.0, 1e-4], maxiter=5000)[0] is Status.CONVERGED


def test_growth_without_bound_is_divergence() -> None:
    status, made, _ = drive([10.0**k for k in range(1, 20)], [1.0, 1e11])
    assert status is Status.DIVERGED
    assert made.residuals[-1] == 1e11


@pytest.mark.parametrize("curvature", [0.0, -1.0, -math.inf])
def test_a_direction_of_no_curvature_means_indefinite(curvature: float) -> None:
    status, made, _ = drive([0.5], [1.0, 0.5], curvature=curvature)
    assert status is Status.INDEFINITE
    assert len(made.residuals) == 2


def test_a_direction_whose_curvature_is_rounding_means_nothing_of_the_kind() -> None:
    job = Script([(0.5, -1e-20)], [1.0, 0.5], by_rounding=True)
    assert Follower(Played(job), Tolerances(rtol=0.0, atol=LIMIT), 1.0).run() is Status.STAGNATED
    assert job.calls[-2:] == [("rounded",), ("true_residual",)], "which changes the residual that it is asked for"


@pytest.mark.parametrize(("norm", "curvature"), [(math.nan, 1.0), (math.inf, 1.0), (0.5, math.nan), (0.5, math.inf)])
def test_numbers_that_are_not_finite_end_a_solve(norm: float, curvature: float) -> None:
    status, made, _ = drive([norm], [1.0, math.nan], curvature=curvature)
    assert status is Status.NOT_FINITE
    assert len(made.residuals) == 2


def test_residuals_of_singular_systems_are_balanced_now_and_then() -> None:
    """At the same iterations however long supersteps are, and after each new beginning."""
    job = Script([*((0.9**k, 1.0) for k in range(1, 21)), (1e-4, 1.0), (0.1, 1.0), (1e-4, 1.0)], [1.0, 0.2, 0.2, 1e-4])
    made = Follower(Played(job), Tolerances(rtol=0.0, atol=LIMIT), 1.0, lambda _: None, singular=True)
    assert made.run() is Status.CONVERGED
    done, balanced = 0, []
    for method, *args in job.calls:
        done += args[0] if method == "advance" else 0
        balanced += [done] * (method == "balance")
    anew = len(made.residuals) - 3
    assert balanced == [0, 1, 3, 7, 15, anew, anew + 1]
    assert ("balance",) not in drive([0.9**k for k in range(1, 80)], [1.0, 0.0])[2].calls


class Drifting(Script):
    """A program whose recursion goes on from the truth when that is asked for."""

    def __init__(self, magnitude: float, rate: float = 0.9) -> None:
        super().__init__([], [])
        self.size, self.rate, self.norm, self.replaced_at = magnitude, rate, 1.0, list[float]()

    def start(self, limit: float = 0.0) -> float:
        self.calls.append(("start", limit))
        return self.norm

    def advance(self, steps: int, measured: bool = False) -> list[tuple[float, float]]:
        self.calls.append(("advance", steps, measured))
        norms = [self.norm * self.rate**k for k in range(1, steps + 1)]
        self.norm = norms[-1]
        return [(norm, 1.0) for norm in norms]

    def magnitude(self) -> float:
        self.calls.append(("magnitude",))
        return self.size

    def true_residual(self) -> float:
        self.calls.append(("true_residual",))
        self.replaced_at.append(self.norm)
        return self.norm

    @property
    def replacements(self) -> int:
        return self._drive.replacements


def test_a_long_solve_takes_the_true_residual_before_it_drifts() -> None:
    """Where the bound of the drift passes sqrt(eps) of the residual: not before, and not again and again."""
    job = Drifting(magnitude=100.0)
    made = Follower(Played(job), Tolerances(rtol=1e-13), 1.0)
    assert made.run() is Status.CONVERGED
    assert 1 <= job.replacements <= 2
    replaced, *_, final = job.replaced_at
    count = round(math.log(replaced) / math.log(job.rate))
    bound = 2.0**-53 * count * 100.0
    assert bound / replaced > 2.0**-26.5
    assert bound / (replaced / job.rate**rules.WATCH) < 2.0**-26.5
    assert final <= 1e-13
    assert count % rules.WATCH == 0, "nobody's speed decides"
    assert [method for method, *_ in job.calls].count("start") == 1, "the search directions are kept"


def test_what_has_drifted_before_the_first_look_counts() -> None:
    """A wild guess: the residual was huge, so what rounding has left of it is large beside what is now small."""
    job = Drifting(magnitude=1.0)
    job.norm = 1e12
    made = Follower(Played(job), Tolerances(rtol=1e-3), 1.0)
    assert made.run() is Status.CONVERGED
    assert job.replaced_at[0] > 1.0


def test_a_short_solve_is_not_watched() -> None:
    job = Drifting(magnitude=1e6, rate=0.5)
    assert Follower(Played(job), Tolerances(rtol=1e-13), 1.0).run() is Status.CONVERGED
    assert "magnitude" not in [method for method, *_ in job.calls]


def test_a_residual_beyond_what_rounding_lets_fall_is_not_replaced() -> None:
    """The drift was too large from the beginning: what was computed anew would be as wrong."""
    job = Drifting(magnitude=1e12)
    made = Follower(Played(job), Tolerances(rtol=1e-13), 1.0)
    made.run()
    assert job.replacements <= 1


@pytest.mark.parametrize("first", [math.nan, math.inf])
def test_a_guess_that_overflows_is_not_iterated_on(first: float) -> None:
    status, _, job = drive([0.5], [first])
    assert status is Status.NOT_FINITE
    assert job.steps == []


# -- callbacks and supersteps ------------------------------------------------------------------------------------------


def test_a_callback_sees_every_iteration_and_stops_at_once() -> None:
    seen: list[State] = []

    def look(state: State) -> bool:
        seen.append(state)
        return state.iteration == 3

    status, made, job = drive([0.5, 0.4, 0.3, 0.2], [1.0, 0.3], callback=look)
    assert status is Status.STOPPED
    assert [(s.iteration, s.residual, s.limit) for s in seen] == [(1, 0.5, LIMIT), (2, 0.4, LIMIT), (3, 0.3, LIMIT)]
    assert job.steps == [1, 1, 1], "no iteration was run ahead of the callback"
    assert made.residuals == [1.0, 0.5, 0.4, 0.3]


def test_a_callback_that_returns_nothing_stops_nothing_and_sees_the_last_iteration() -> None:
    seen: list[int] = []
    assert drive([0.5, 1e-4], [1.0, 1e-4], callback=lambda state: seen.append(state.iteration))[0] is Status.CONVERGED
    assert seen == [1, 2]


def test_a_callbacks_error_reaches_the_caller() -> None:
    def fail(_: State) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        drive([0.5], [1.0], callback=fail)


def test_supersteps_grow_to_their_bound() -> None:
    _, _, job = drive([0.999**k for k in range(1, 500)], [1.0, 0.5], maxiter=400)
    assert job.steps[0] == 1, "how long an iteration takes is not known yet"
    assert max(job.steps) == rules.SUPERSTEP_ITERATIONS
    assert all(later <= 4 * sooner for sooner, later in zip(job.steps, job.steps[1:], strict=False))


def test_supersteps_end_where_the_pace_tells_that_the_solve_will() -> None:
    _, made, job = drive([0.5**k for k in range(1, 60)], [1.0, 0.0])
    assert len(made.residuals) - 1 == 10
    assert job.steps == [1, 4, 4, 1], "nothing is launched past the last iteration"
    _, made, job = drive([0.9**k for k in range(1, 200)], [1.0, 0.0])
    needed = len(made.residuals) - 1
    assert sum(job.steps) - needed <= needed // rules.AHEAD
    assert len(job.steps) < 10, "and the last iterations do not go one by one"


def test_slow_iterations_make_short_supersteps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 0.4)
    monkeypatch.setattr("dsolver.legs.time.perf_counter", lambda: next(clock))
    _, _, job = drive([0.5], [1.0, 0.5], maxiter=10)
    assert set(job.steps) == {1}


# -- legs --------------------------------------------------------------------------------------------------------------


def legs(norms: Iterable[float], *, stride: float, **options: Any) -> tuple[Follower, Played, list[int]]:
    """A solve of a job whose calls cost something, and the iterations that its progress heard of."""
    heard: list[int] = []
    job = Played(Script([(norm, 1.0) for norm in norms], [1.0, 0.0]), stride)
    tolerances = Tolerances(rtol=0.0, atol=LIMIT)
    made = Follower(job, tolerances, 1.0, progress=lambda state: heard.append(state.iteration), **options)
    assert made.run() is Status.CONVERGED
    return made, job, heard


def test_a_short_solve_is_one_call_and_has_the_history_of_many() -> None:
    norms = [0.5**k for k in range(1, 60)]
    made, job, heard = legs(norms, stride=3600.0)
    assert job.calls == ["drive"]
    assert heard == [10]
    closely, each, superstep_ends = legs(norms, stride=3600.0, closely=True)
    assert each.calls == ["drive", "go_on", "go_on", "go_on"]
    assert superstep_ends == [1, 5, 9, 10]
    assert made.residuals == closely.residuals == [1.0, *norms[:10]]
    assert job.script.calls == each.script.calls


def test_a_leg_ends_with_the_superstep_that_fills_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A superstep takes a second here, whatever it does."""
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr("dsolver.legs.time.perf_counter", lambda: next(clock))
    _, job, heard = legs([0.5**k for k in range(1, 60)], stride=3.0)
    assert heard == [3, 6, 9, 10]
    assert job.calls == ["drive", "go_on", "go_on", "go_on"]


def test_a_callback_is_asked_after_each_iteration_however_long_the_legs() -> None:
    seen: list[int] = []
    _, job, heard = legs([0.5**k for k in range(1, 60)], stride=3600.0, callback=lambda s: seen.append(s.iteration))
    assert seen == heard == list(range(1, 11))
    assert job.calls.count("go_on") == 10


def test_an_iteration_that_raises_stopiteration_has_not_ended_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a function for M may: only a drive's own end ends it."""

    def broken(*_: Any) -> Any:
        raise StopIteration

    script = Script([], [1.0])
    monkeypatch.setattr(script, "advance", broken)
    with pytest.raises(StopIteration):
        Follower(Played(script), Tolerances(), 1.0).run()


# -- tolerances --------------------------------------------------------------------------------------------------------


def test_the_limit_is_scipys() -> None:
    assert Tolerances(rtol=1e-3, atol=0.0).limit(50.0) == 0.05
    assert Tolerances(rtol=1e-3, atol=0.1).limit(50.0) == 0.1
    half: Any = np.float32(0.5)
    assert Tolerances(rtol=half, atol=0).limit(2.0) == 1.0


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "1e-6", None, 1j])
def test_tolerances_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be a finite number >= 0"):
        Tolerances(**{name: value})


@pytest.mark.parametrize("value", [-1, 2.5, "7", math.inf])
def test_iterations_that_cannot_be_counted_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="maxiter must be an integer >= 0"):
        Tolerances(maxiter=value)


# -- what is reported --------------------------------------------------------------------------------------------------


def test_every_status_says_what_to_do() -> None:
    for status in Status:
        assert status.advice.endswith(".")
        assert str(status) == status.value
        assert status.converged == (status is Status.CONVERGED)


def solution(**changes: Any) -> Solution:
    given: dict[str, Any] = {
        "x": np.zeros((4, 5, 6)),
        "status": Status.MAX_ITERATIONS,
        "iterations": 7,
        "residuals": (1.0,),
        "true_residual": 0.5,
        "b_norm": 4.0,
        "timings": {"total": 1.234},
        "engine": "resident/cpu",
    }
    return Solution(**(given | changes))


def test_a_solution_is_summed_up_in_a_line() -> None:
    expected = "<Solution 4x5x6: max_iterations after 7 iterations, ‖b - Ax‖/‖b‖ = 1.25e-01, 1.23 s on resident/cpu>"
    assert repr(solution()) == expected
    assert not solution().converged


def test_the_relative_residual_of_a_zero_right_hand_side_is_absolute() -> None:
    assert solution(b_norm=0.0, true_residual=0.25).relative_residual == 0.25
