"""Solutions and statuses, as people read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dsolver.solution import Solution
from dsolver.status import Status


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


def test_solutions_can_be_compared_and_kept_in_sets() -> None:
    """By what they are, not item by item: their arrays have no single truth."""
    one, other = solution(), solution()
    assert one != other
    assert other in {one, other}
