"""Diffusion with complex coefficients on grids: AC conduction, absorption, faces that feed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Neumann, Periodic, Robin, diffusion

GRID = (7, 5, 6)
RANDOM = np.random.default_rng(0)
KAPPA = np.exp(RANDOM.standard_normal(GRID)) * (1.0 + 0.0j) + 1j * np.exp(RANDOM.standard_normal(GRID))
SOURCE = RANDOM.standard_normal(GRID) + 1j * RANDOM.standard_normal(GRID)
CONDITIONS: dict[str, Any] = {
    "fixed": None,
    "fed": {"x-": Dirichlet(2.0), "x+": Robin(3.0, 1.5), "y": Periodic(), "z-": Neumann(0.5)},
}
SIZES = [0.5, np.linspace(0.5, 1.5, 5), 2.0]


def solved(problem: Any, b: Any, **options: Any) -> Any:
    solution = dsolver.solve(problem, b, rtol=1e-11, **options)
    assert solution.converged
    assert solution.x.shape == b.shape
    return solution.x


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_multiple_of_real_coefficients_is_solved_as_these(name: str) -> None:
    factor, bc = 2.0 - 3.0j, CONDITIONS[name]
    if name == "fed":  # what is fed, and alpha, would have to be multiplied, too
        bc = {"x-": Dirichlet(2.0), "y": Periodic()}
    kappa, sigma = KAPPA.real, 0.3
    real = solved(diffusion(GRID, kappa, sigma, spacing=SIZES, bc=bc), SOURCE.real)
    found = solved(diffusion(GRID, factor * kappa, factor * sigma, spacing=SIZES, bc=bc), factor * SOURCE.real)
    assert np.abs(found - real).max() <= 1e-8 * np.abs(real).max()


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_vanishing_imaginary_part_changes_nothing(name: str) -> None:
    tiny = 1e-14j
    mask = RANDOM.random(GRID) < 0.2
    options: dict[str, Any] = {"spacing": SIZES, "bc": CONDITIONS[name], "mask": mask}
    real = solved(diffusion(GRID, KAPPA.real, 0.1, **options), SOURCE.real)
    found = solved(diffusion(GRID, KAPPA.real + tiny, 0.1, **options), SOURCE.real)
    assert np.abs(found - real).max() <= 1e-8 * np.abs(real).max()


def test_complex_coefficients_on_every_axis_and_number() -> None:
    problems = [
        diffusion(GRID, KAPPA),
        diffusion(GRID, [KAPPA, 1.0 + 0.5j, 2.0], 0.1j),
        diffusion(GRID, 1.0, 2.0j * np.abs(KAPPA)),
        diffusion(GRID, np.complex64(1.0 + 1.0j)),
    ]
    assert all(problem.complex for problem in problems)
    for problem in problems:
        assert solved(problem, SOURCE).dtype == np.complex128
    plane = diffusion((12, 9), 1.0 + 1.0j * RANDOM.random((12, 9)))
    assert solved(plane, np.ones((12, 9))).shape == (12, 9)


def test_where_nothing_fixes_the_constant_x_has_mean_zero() -> None:
    problem = diffusion(GRID, KAPPA, bc="neumann")
    x = solved(problem, SOURCE - SOURCE.mean())
    assert abs(x.mean()) <= 1e-12
    with pytest.warns(dsolver.InconsistentWarning):
        dsolver.solve(problem, SOURCE + 1.0)


def test_chunks_several_sources_and_other_coefficients() -> None:
    whole = diffusion(GRID, KAPPA)
    x = solved(whole, SOURCE, M="amg")
    cut = diffusion(GRID, KAPPA, chunks=(2, 1, 2))
    assert np.abs(solved(cut, SOURCE, M="amg") - x).max() <= 1e-9 * np.abs(x).max()
    with dsolver.Solver(whole) as solver:
        both = solver.solve(np.stack([SOURCE, 2.0 * SOURCE], axis=-1), rtol=1e-11)
        assert both.x.shape == (*GRID, 2)
        assert np.abs(both.x[..., 1] - 2.0 * x).max() <= 1e-8 * np.abs(x).max()
        solver.update(kappa=2.0j * KAPPA)
        assert np.abs(solver.solve(2.0j * SOURCE, rtol=1e-11).x - x).max() <= 1e-8 * np.abs(x).max()
    assert dsolver.estimate(whole).workers


@pytest.mark.parametrize("M", ["auto", "amg", "jacobi"])
@pytest.mark.parametrize("kappa", [KAPPA, KAPPA.real])
def test_complex_values_are_held_and_feed_as_their_parts_do(kappa: Any, M: str) -> None:
    where = RANDOM.random(GRID) < 0.1
    held, face = (RANDOM.standard_normal((2, *shape)) for shape in (GRID, GRID[1:]))

    def problem(factors: Any) -> Any:
        of_face, of_cells, of_number = (np.tensordot(factors, values, 1) for values in (face, held, [1.5, -2.0]))
        bc = {"x-": Dirichlet(of_face), "x+": Robin(3.0, of_number), "y": Periodic(), "z-": Neumann(of_number)}
        return diffusion(GRID, kappa, 0.3, spacing=SIZES, bc=bc, fixed=(where, of_cells), chunks=(2, 1, 2))

    with dsolver.Solver(problem([1.0, 1.0j]), M=M) as solver:
        whole = solver.solve(np.zeros(GRID), rtol=1e-11)
        solver.update(fixed=2.0 * (held[0] + 1.0j * held[1]), bc={"x-": Dirichlet(2j * face[0])}, kappa=1j * KAPPA)
        assert solver.solve(SOURCE).converged
    parts = [dsolver.solve(problem(unit), np.zeros(GRID), rtol=1e-11) for unit in np.eye(2)]
    assert (whole.x[where] == (held[0] + 1.0j * held[1])[where]).all()
    expected = parts[0].x + 1j * parts[1].x
    assert np.abs(whole.x - expected).max() <= 1e-8 * np.abs(expected).max()
    for face_or_cells in ("x-", "z-", where):
        through = parts[0].flux(face_or_cells) + 1j * parts[1].flux(face_or_cells)
        assert abs(whole.flux(face_or_cells) - through) <= 1e-8 * abs(through)


def test_updates_of_another_kind_are_refused() -> None:
    real, turned = diffusion(GRID, bc=Dirichlet(1.0)), diffusion(GRID, np.eye(3))
    with dsolver.Solver(real) as solver:
        for change in ({"bc": Dirichlet(1j)}, {"kappa": KAPPA}):
            with pytest.raises(InputError, match="the new problem is complex, but the one that is set up is real"):
                solver.update(**change)
        assert solver.solve(SOURCE.real).converged
    with dsolver.Solver(diffusion(GRID, KAPPA)) as solver, pytest.raises(InputError, match="give complex numbers"):
        solver.update(kappa=2.0)
    with dsolver.Solver(turned) as solver, pytest.raises(InputError, match="rows of another kind, as full tensors"):
        solver.update(kappa=2.0)


def test_what_makes_no_sense_is_refused() -> None:
    for kappa in (np.where(KAPPA.real > 1.0, np.nan, KAPPA), np.where(KAPPA.real > 1.0, 0.0, KAPPA)):
        with pytest.raises(InputError, match="kappa and sigma must be finite"):
            dsolver.solve(diffusion(GRID, kappa), SOURCE)
    with pytest.raises(InputError, match="kappa must be finite and not 0"):
        diffusion(GRID, complex(np.inf, 1.0))
    with pytest.raises(InputError, match="real numbers are needed; complex ones are given as an array"):
        dsolver.solve(diffusion(GRID, lambda x, *_: x * 1j), SOURCE)
    with pytest.raises(InputError, match="mask"):
        diffusion(GRID, KAPPA, mask=KAPPA)
