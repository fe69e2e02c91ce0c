"""Rows with a penalty: a residual that is small in these alone is not the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import dsolver
from tests.krylov.test_methods import convection_diffusion


@pytest.mark.parametrize("penalty", [1e6, 1e8, 1e10])
@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
def test_the_other_rows_are_solved_as_well(method: Any, penalty: float) -> None:
    """The interior is off by 1.0 where ‖b - Ax‖ / ‖b‖ alone is asked."""
    a = convection_diffusion(20, 0.0)
    fixed = np.arange(400) % 20 == 0
    a = sp.csr_array(a + sp.diags_array(np.where(fixed, penalty, 0.0)))
    b = np.where(fixed, penalty, 1.0)
    found = dsolver.solve(a, b, method=method, M="jacobi", device="cpu")
    expected = spsolve(a.tocsc(), b)
    assert found.converged
    assert abs(found.x - expected).max() <= 1e-3 * abs(expected).max()
    assert "rows of very different scales" in found.notes[-1]


@pytest.mark.parametrize("factor", [1.0, 1.0 + 0.2j])
@pytest.mark.parametrize(("M", "cut"), [("mg", None), ("mg", (1, 1, 2)), ("amg", None), ("jacobi", (2, 1, 1))])
def test_cells_held_by_a_penalty_hold_the_others(M: Any, cut: Any, factor: Any) -> None:
    """Half of the cells, which are a chunk's where there are two: rows of a chunk are then all the same."""
    if factor != 1.0 and M == "mg":
        M = "auto"
    sigma = np.zeros((12, 12, 12))
    sigma[:, :, :6] = 1e9
    problem = dsolver.problems.diffusion((12, 12, 12), 1.0, sigma * factor, chunks=cut)
    found = dsolver.solve(problem, sigma * factor, M=M, device="cpu")
    expected = spsolve(problem.to_scipy().tocsc(), (sigma * factor).ravel()).reshape(sigma.shape)
    assert found.converged
    assert abs(found.x - expected).max() <= 1e-3
    assert "rows of very different scales" in found.notes[-1]


@pytest.mark.gpu
@pytest.mark.parametrize("M", ["mg", "jacobi"])
def test_cells_held_by_a_penalty_on_a_gpu(M: Any) -> None:
    sigma = np.zeros((16, 14, 12))
    sigma[:, :, :6] = 1e9
    problem = dsolver.problems.diffusion((16, 14, 12), 1.0, sigma)
    found, expected = (dsolver.solve(problem, sigma, M=M, device=name) for name in ("cuda", "cpu"))
    assert "rows of very different scales" in found.notes[-1]
    assert abs(found.x - expected.x).max() <= 1e-3


def test_a_large_tolerance_leaves_a_digit_of_every_row() -> None:
    """Ten thousand times the tolerance of float32 were let pass, and cells were off by 0.3."""
    sigma = np.zeros((12, 12, 12))
    sigma[4:6, 4:6, 4:6] = 1e8
    problem = dsolver.problems.diffusion((12, 12, 12), 1.0, sigma)
    expected = spsolve(problem.to_scipy().tocsc(), sigma.ravel()).reshape(sigma.shape)
    options: list[dict[str, Any]] = [{"dtype": "float32"}, {"rtol": 1e-4}]
    for more in options:
        found = dsolver.solve(problem, sigma, device="cpu", **more)
        assert found.converged
        assert abs(found.x - expected).max() <= 0.01


@pytest.mark.parametrize("method", ["cg", "minres"])
def test_beside_rows_of_the_identity_as_well(method: Any) -> None:
    """Such boundary rows, whose columns stay, have another matrix solved; the rest was off by up to 3.9."""
    a, edge = convection_diffusion(20, 0.0), np.arange(400) < 20
    fixed = (np.arange(400) % 20 == 0) & ~edge
    free = sp.diags_array(np.where(edge, 0.0, 1.0))
    a = sp.csr_array(free @ a + sp.diags_array(np.where(fixed, 1e8, np.where(edge, 1.0, 0.0))))
    b = np.where(fixed, 1e8, 1.0)
    found = dsolver.solve(a, b, method=method, M="jacobi", device="cpu")
    expected = spsolve(a.tocsc(), b)
    assert found.converged
    assert abs(found.x - expected).max() <= 1e-3 * abs(expected).max()
    assert "rows of very different scales" in found.notes[-1]


@pytest.mark.parametrize("M", ["direct", "jacobi"])
def test_a_penalty_beyond_all_digits_is_told_of_where_it_does_harm(M: Any) -> None:
    """Factors solve such rows exactly; no iteration finds the others beside them."""
    a = convection_diffusion(20, 0.0)
    fixed = np.arange(400) % 20 == 0
    a = sp.csr_array(a + sp.diags_array(np.where(fixed, 1e30, 0.0)))
    b = np.where(fixed, 1e30, 1.0)
    if M == "direct":
        found = dsolver.solve(a, b, M=M, device="cpu")
        assert abs((b - a @ found.x) / a.diagonal()).max() <= 1e-12
        assert not found.notes
    else:
        with pytest.warns(RuntimeWarning, match="may be wrong in all digits"):
            dsolver.solve(a, b, M=M, device="cpu")


@pytest.mark.parametrize("scaled", ["rows", "both"])
def test_small_rows_have_factors_where_no_residual_tells_of_them(scaled: str) -> None:
    """Chebyshev's iteration left x, which is 1, wrong beside penalties and in other units, and M="amg" did unwarned."""
    rng = np.random.default_rng(0)
    couplings = sp.csr_array(sp.random_array((400, 400), density=0.015, rng=rng))
    couplings = couplings + couplings.T
    a = sp.diags_array(couplings.sum(axis=1) + 0.1 * rng.random(400)) - couplings
    d = 10.0 ** rng.uniform(-6.0, 6.0, 400)
    penalties = np.where(np.arange(400) % 20 == 0, 1e25, 0.0)
    a = sp.csr_array(a + sp.diags_array(penalties) if scaled == "rows" else sp.diags_array(d) @ a @ sp.diags_array(d))
    b = a @ np.ones(400)
    assert abs(dsolver.solve(a, b, device="cpu").x - 1.0).max() <= 1e-3
    with pytest.warns(RuntimeWarning, match="may be wrong in all digits"):
        found = dsolver.solve(a, b, M="amg", device="cpu")
    assert abs(found.x - 1.0).max() > 0.01


@pytest.mark.parametrize("options", [{}, {"method": "gmres", "M": "jacobi"}])
def test_columns_of_all_scales(options: Any) -> None:
    """Columns in other units, alone: x was off by up to 60 times its length where ‖b - Ax‖ / ‖b‖ was 1e-9."""
    rng = np.random.default_rng(1)
    a = sp.random_array((3000, 3000), density=4.0 / 3000, rng=rng) + 4.0 * sp.eye_array(3000)
    a = sp.csr_array(a @ sp.diags_array(10.0 ** rng.uniform(-6.0, 6.0, 3000)))
    x = rng.standard_normal(3000)
    found = dsolver.solve(a, a @ x, device="cpu", **options)
    assert found.converged
    assert np.linalg.norm(found.x - x) <= 1e-4 * np.linalg.norm(x)


@pytest.mark.parametrize("penalty", [1e14, 1e15])
def test_rows_that_rounding_leaves_unsolved_are_told_of(penalty: float) -> None:
    """The rest of the plane is off by 0.14 and 0.38, with 9e-4 and 2e-3 of b left by rows."""
    sigma = np.zeros((60, 60))
    sigma[:10] = penalty
    a = sp.csr_array(dsolver.problems.diffusion((60, 60), 1.0, sigma).to_scipy())
    with pytest.warns(RuntimeWarning, match="may be wrong in all digits"):
        dsolver.solve(a, sigma.ravel(), M="jacobi", device="cpu")


def test_a_solve_without_penalties_is_not_asked() -> None:
    a, b = convection_diffusion(20, 0.0), np.ones(400)
    for method in ("cg", "gmres"):
        assert not dsolver.solve(a, b, method=method, device="cpu").notes


@pytest.mark.parametrize("penalty", [1e8, 1e10])
def test_rows_of_small_scales_are_left_to_another_preconditioner_where_one_is_slow(penalty: float) -> None:
    """Soft constraints at some points of a sheet: off by up to 0.4 where the slow one's end counts as a solution."""
    n, rng = 130, np.random.default_rng(0)
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    line[0, 0] = line[-1, -1] = 1.0
    held = np.zeros(n * n)
    held[rng.integers(0, n * n, 20)] = penalty
    a = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line) + sp.diags_array(held))
    b = held * rng.random(n * n)
    found = dsolver.solve(a, b, device="cpu")
    assert found.converged
    assert "takes with its set-up" in " ".join(found.notes)
    expected = spsolve(a.tocsc(), b)
    assert abs(found.x - expected).max() <= 1e-5 * abs(expected).max()
