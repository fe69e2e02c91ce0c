"""Factors after many solves with one matrix, by M="auto"."""

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import dsolver
from dsolver.kernels.direct import fill
from dsolver.matrices import elimination
from dsolver.preconditioners import Direct
from dsolver.preconditioners.direct.choice import have_paid
from dsolver.problems import diffusion
from dsolver.session.solving import last_attempts

RNG = np.random.default_rng(5)
FIELD = np.exp(RNG.standard_normal((24, 20)))


def laplacian(side: int) -> sp.csr_array:
    line = sp.diags_array([-np.ones(side - 1), np.full(side, 2.0), -np.ones(side - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))


def changed(solver: dsolver.Solver, solves: int = 20) -> list[bool]:
    """Whether each of so many solves was with factors; its x is right."""
    a, found = solver.problem.to_scipy(), []
    for _ in range(solves):
        b = RNG.standard_normal(solver.problem.shape)
        solution = solver.solve(b, rtol=1e-10)
        assert solution.converged
        assert np.allclose(solution.x.ravel(), spsolve(a.tocsc(), b.ravel()), rtol=1e-7, atol=1e-9)
        found.append("Direct" in solution.solved_by)
        notes = [note for note in solution.notes if re.search(r"^\d+ solves with this matrix took \d+ iter", note)]
        assert bool(notes) == found[-1]
    return found


def test_many_solves_with_one_matrix_lead_to_factors_whatever_the_cut() -> None:
    first = []
    for chunks in ((1, 1), (2, 2)):
        with dsolver.Solver(diffusion(FIELD.shape, FIELD, chunks=chunks)) as solver:
            found = changed(solver)
            first.append(found.index(True))
            assert found == [False] * first[-1] + [True] * (20 - first[-1])
            assert isinstance(solver.preconditioner, Direct)
            solver.update(kappa=2.0 * FIELD)
            assert not any(changed(solver, first[-1])), "each matrix has a rent of its own"
    assert len(set(first)) == 1
    assert first[0] > 1


def test_matrices_have_factors_too_and_methods_that_are_asked_for_do_not() -> None:
    with dsolver.Solver(laplacian(110)) as solver:
        assert changed(solver).index(True) > 1
    for asked in ({"M": "mg"}, {"method": "cg"}):
        arguments: Any = asked
        with dsolver.Solver(diffusion(FIELD.shape, FIELD), **arguments) as solver:
            assert not any(changed(solver))


def test_several_right_hand_sides_have_factors_one_after_the_other() -> None:
    with dsolver.Solver(diffusion(FIELD.shape, FIELD), device="cpu") as solver:
        first: list[Any] = [solver.solve(RNG.standard_normal((*FIELD.shape, 3))) for _ in range(10)]
    assert all(solutions.converged for solutions in first)
    assert {"Multigrid" in solutions[0].solved_by for solutions in first} == {True, False}
    waves = laplacian(110) - 0.03 * sp.eye_array(110**2)  # the first group finds that it is indefinite
    sides = RNG.standard_normal((110**2, 9))
    several = dsolver.solve(waves, sides, device="cpu")
    assert several.converged
    assert np.linalg.norm(waves @ several.x - sides) <= 1e-8 * np.linalg.norm(sides)


def test_without_room_solves_go_on_by_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def shortage(_: Any, **changes: Any) -> str:
        asked.append(changes)
        return "none left"

    monkeypatch.setattr(last_attempts, "shortage", shortage)
    with dsolver.Solver(diffusion(FIELD.shape, FIELD)) as solver:
        assert not any(changed(solver))
    assert len(asked) == 1, "they are not asked for again"


def test_factors_that_no_solve_would_gain_from_are_never_due() -> None:
    box, plane = diffusion((32, 32, 32)), diffusion((128, 128))
    assert not any(have_paid(box, 60.0 * solves, solves) for solves in (1, 100, 10**6)), "they have many entries"
    assert not have_paid(plane, 1e9, 10**9), "nor where iterations cost less than a solve with factors"
    assert have_paid(plane, 60.0 * 100, 100)
    assert not have_paid(plane, 60.0 * 2, 2)


def test_fill_is_counted_where_solves_have_taken_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box of 40³ points took seven times as long to count four times as its first six solves."""
    counted: list[int] = []

    def fill_of(rows: Any, *arguments: Any, **options: Any) -> Any:
        counted.append(rows.shape[0])
        return fill.fill_of(rows, *arguments, **options)

    monkeypatch.setattr(elimination, "fill_of", fill_of)
    plane = dsolver.matrix(laplacian(200))
    assert not any(have_paid(plane, 56.0 * solves, solves) for solves in range(1, 8))
    assert counted == []
    assert all(have_paid(plane, 56.0 * solves, solves) for solves in range(10, 20))
    assert counted == [40000]
    box = dsolver.matrix(diffusion((30, 30, 30)).to_scipy())
    assert not any(have_paid(box, 56.0 * solves, solves) for solves in range(1, 8))
    assert counted == [40000]


def test_balanced_systems_keep_their_iterations() -> None:
    with dsolver.Solver(diffusion(FIELD.shape, FIELD, bc="neumann")) as solver:
        for _ in range(20):
            b = RNG.standard_normal(FIELD.shape)
            assert "Direct" not in solver.solve(b - b.mean()).solved_by
