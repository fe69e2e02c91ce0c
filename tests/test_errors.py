"""Warnings name the line that called dsolver, however deep in it the reason was found."""

from __future__ import annotations

import numpy as np
import pytest

import dsolver


def test_a_warning_points_at_the_users_line() -> None:
    problem, b = dsolver.problems.diffusion((8, 8, 8), bc="neumann"), np.ones((8, 8, 8))
    with dsolver.Solver(problem, device="cpu") as solver, pytest.warns(dsolver.InconsistentWarning) as of_solver:
        solver.solve(b)
    with pytest.warns(dsolver.InconsistentWarning) as of_function:
        dsolver.solve(problem, b, device="cpu")
    assert [warning.filename for told in (of_solver, of_function) for warning in told] == [__file__] * 2
