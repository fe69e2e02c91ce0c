"""M stays while the matrix changes, and is renewed when its age costs as much as a set-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.multigrid.renewal import TOLERATED, WORTH, Renewal
from dsolver.preconditioners import Algebraic
from dsolver.problems import Neumann, Problem, diffusion
from dsolver.session.user_arrays import container_of
from dsolver.session.vectors import solution as vector

GRID = (12, 12, 12)
RNG = np.random.default_rng(7)
KAPPA = np.exp(0.3 * RNG.standard_normal(GRID))
B = RNG.standard_normal(GRID)
KEPT = "M is that of an earlier matrix"


def falling(iterations: int, powers: float = 8.0) -> list[float]:
    """Residuals of a solve with so many iterations."""
    return [10.0 ** (-powers * k / iterations) for k in range(iterations + 1)]


def system(kappa: Any = KAPPA, sigma: float = 0.5) -> Problem:
    return diffusion(GRID, kappa, sigma)


def has_kept(solution: dsolver.Solution) -> bool:
    return any(note.startswith(KEPT) for note in solution.notes)


def lives(iterations: Sequence[int]) -> int:
    """Solves until M is renewed, the first one with M of its own matrix; 0 for none."""
    renewal = Renewal()
    for solved, count in enumerate(iterations, 1):
        renewal.solved(falling(count), converged=True)
        if renewal.due:
            return solved
    return 0


@pytest.mark.parametrize("growth", [1, 2, 5])
def test_iterations_that_grow_renew_m_when_a_step_costs_least_on_average(growth: int) -> None:
    found = lives([10 + growth * k for k in range(100)])
    costs = {n: WORTH / n + sum(max(0.0, growth * k - TOLERATED) for k in range(n)) / n for n in range(1, 100)}
    assert costs[found] <= 1.15 * min(costs.values())


def test_iterations_that_vary_a_little_or_follow_the_first_guess_renew_nothing() -> None:
    assert lives([10, 11, 9] * 60) == 0
    renewal = Renewal()
    for powers in (8.0, 4.0, 12.0, 6.0) * 20:
        renewal.solved(falling(round(2 * powers), powers), converged=True)
    assert not renewal.due


def test_m_is_renewed_after_a_failure_and_where_nothing_is_known_of_it() -> None:
    renewal, due = Renewal(), []
    due.append(renewal.due)
    for residuals in ([1.0, 0.9], falling(8), [1.0, math.nan]):  # the first one tells nothing
        renewal.solved(residuals, converged=math.isfinite(residuals[-1]))
        due.append(renewal.due)
    assert due == [True, True, False, True]


@pytest.mark.parametrize("m", ["mg", "amg"])
@pytest.mark.parametrize("chunks", [1, 2])
def test_a_preconditioner_serves_another_matrix(m: str, chunks: int) -> None:
    first, second = (diffusion(GRID, k, 0.5, chunks=(1, 1, chunks)) for k in (KAPPA, KAPPA * (1.1 + 0.1 * KAPPA)))
    with dsolver.Solver(first, M=m, device="cpu") as solver:
        solver.update(second, reuse="preconditioner")
        kept = solver.solve(B, rtol=1e-10)
        assert has_kept(kept)
        solver.update(second, reuse=None)
        anew = solver.solve(B, rtol=1e-10)
    assert kept.converged
    assert not has_kept(anew)
    assert kept.residuals != anew.residuals
    assert kept.iterations <= anew.iterations + 4
    assert np.allclose(kept.x, anew.x, rtol=0, atol=1e-8 * abs(anew.x).max())


def test_levels_stay_in_float32_and_for_a_matrix() -> None:
    a: Any = sp.csr_array(system().to_scipy())
    with dsolver.Solver(a, M="amg", precond_dtype="float32", device="cpu") as solver:
        solver.update(1.5 * a, reuse="preconditioner")
        kept = solver.solve(B.ravel())
    assert has_kept(kept)
    assert kept.converged
    assert np.linalg.norm(B.ravel() - 1.5 * (a @ kept.x)) <= 1.1e-8 * np.linalg.norm(B)


def test_m_is_made_anew_where_other_regions_are_closed_or_it_has_no_levels() -> None:
    with dsolver.Solver(diffusion(GRID, KAPPA, 0.5, bc=Neumann()), M="mg", device="cpu") as solver:
        solver.update(sigma=0.0, reuse="preconditioner")
        closed = solver.solve(B - B.mean())
    assert closed.converged
    with dsolver.Solver(system(), M="jacobi", device="cpu") as solver:
        solver.update(sigma=1.0, reuse="preconditioner")
        jacobi = solver.solve(B)
    assert jacobi.converged
    for solution in (closed, jacobi):
        assert not has_kept(solution)
        assert any("set up anew" in note for note in solution.notes)


def test_time_steps_set_m_up_once() -> None:
    u, kept = np.zeros(GRID), []
    with dsolver.Solver(system(sigma=0.05), device="cpu") as solver:
        for _ in range(6):
            solution = solver.solve(0.05 * u + B, x0=u)
            assert solution.converged
            u = solution.x
            kept.append(has_kept(solution))
            solver.update(kappa=KAPPA * (1.0 + 0.01 * np.tanh(u)))
    assert kept == [False, True, True, True, True, True]


def test_a_solve_that_is_slow_with_an_old_m_goes_on_with_a_new_one() -> None:
    other = np.where(np.indices(GRID).sum(axis=0) % 5 < 2, 1e4, 1.0) * KAPPA
    with dsolver.Solver(system(sigma=1e-3), device="cpu") as solver:
        solver.solve(B)
        solver.update(kappa=other)
        slow = solver.solve(B, rtol=1e-10)
        assert slow.converged
        assert any("goes on with 'a new one'" in note for note in slow.notes), (slow.notes, slow.iterations)
        assert not has_kept(solver.solve(B))
    assert np.allclose(slow.x, dsolver.solve(system(other, 1e-3), B, rtol=1e-10, device="cpu").x, rtol=1e-6, atol=1e-8)


def test_b_and_x_follow_when_another_m_stores_rows_in_another_order() -> None:
    with dsolver.Solver(system(), M="mg", device="cpu") as solver:
        x, session = solver.solve(B).x, solver._session
        session.precondition(m=Algebraic())
        right = container_of("b", B, session.partition, None, session.given)
        assert np.array_equal(vector(session, right), x)
