"""Warnings name the line that called dsolver, however deep in it the reason was found; what is missing is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import DeviceError


def test_a_warning_points_at_the_users_line() -> None:
    problem, b = dsolver.problems.diffusion((8, 8, 8), bc="neumann"), np.ones((8, 8, 8))
    with dsolver.Solver(problem, device="cpu") as solver, pytest.warns(dsolver.InconsistentWarning) as of_solver:
        solver.solve(b)
    with pytest.warns(dsolver.InconsistentWarning) as of_function:
        dsolver.solve(problem, b, device="cpu")
    assert [warning.filename for told in (of_solver, of_function) for warning in told] == [__file__] * 2


def test_where_numba_may_not_compile_a_solve_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops ran as Python: integers in them overflowed, and some cannot run so."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    systems: list[tuple[Any, Any]] = [
        (dsolver.problems.poisson5((4, 4)), np.ones((4, 4))),
        (sp.eye_array(16).tocsr(), np.ones(16)),
    ]
    for system, b in systems:
        with pytest.raises(DeviceError, match="unset the environment variable NUMBA_DISABLE_JIT"):
            dsolver.solve(system, b, device="cpu")
