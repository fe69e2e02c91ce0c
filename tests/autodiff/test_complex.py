"""Derivatives of complex solves, against finite differences and PyTorch's own dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.problems import Dirichlet, diffusion

torch = pytest.importorskip("torch")

GRID = (3, 2, 4)
EXACT: dict[str, Any] = {"rtol": 1e-12, "device": "cpu", "M": "jacobi"}
RANDOM = np.random.default_rng(0)
DENSE = np.diag(4.0 + 1.0j * RANDOM.random(6)) + 0.3 * (RANDOM.random((6, 6)) < 0.4) * (1.0 - 0.5j)
KINDS = {
    "unsymmetric": DENSE,
    "symmetric": DENSE + DENSE.T,
    "Hermitian": DENSE + DENSE.conj().T,
    "real": DENSE.real + DENSE.real.T,
}


def numbers(*shape: int, real: bool = False) -> Any:
    made = torch.tensor(RANDOM.standard_normal(shape))
    return made if real else made + 1j * torch.tensor(RANDOM.standard_normal(shape))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("real_b", [False, True])
def test_gradients_of_entries_and_b_are_those_of_dense_solves(kind: str, real_b: bool) -> None:
    dense, weight = torch.tensor(KINDS[kind]), numbers(6)
    b, other = (numbers(6, real=real_b) for _ in range(2))
    rows, columns = torch.tensor(np.array(np.nonzero(KINDS[kind])))
    found: list[list[Any]] = []
    for ours in (True, False):
        values, right = dense[rows, columns].clone().requires_grad_(), b.clone().requires_grad_()
        if ours:
            matrix = torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (6, 6), check_invariants=True)
            x = dsolver.torch.solve(matrix, right, **EXACT)
        else:
            x = torch.linalg.solve(
                torch.zeros_like(dense).index_put((rows, columns), values).to(torch.complex128),
                right.to(torch.complex128),
            )
        energy = ((x * weight).abs() ** 2).sum() + (x * other).real.sum()
        found.append([x.detach(), *torch.autograd.grad(energy, (values, right))])
    for one, wanted in zip(*found, strict=True):
        torch.testing.assert_close(one.to(wanted.dtype), wanted, rtol=1e-8, atol=1e-9)


def test_gradients_of_complex_coefficients_on_a_grid() -> None:
    problem = diffusion(GRID, bc={"x-": Dirichlet(1.0), "x+": "dirichlet"})
    f, weight = numbers(*GRID), numbers(*GRID)
    kappa = (1.0 + torch.rand(GRID, dtype=torch.float64) + 1j * torch.rand(GRID, dtype=torch.float64)).requires_grad_()
    sigma = (0.3j * torch.rand(GRID, dtype=torch.float64)).requires_grad_()

    def energy(kappa: Any, sigma: Any) -> Any:
        return (dsolver.torch.solve(problem, f, kappa=kappa, sigma=sigma, **EXACT) * weight).abs().square().sum()

    for place, gradient in enumerate(torch.autograd.grad(energy(kappa, sigma), (kappa, sigma))):
        for direction in (1.0, 1.0j):
            step, moved = 1e-6, []
            for sign in (1.0, -1.0):
                values = [kappa.detach().clone(), sigma.detach().clone()]
                values[place][1, 1, 2] += sign * step * direction
                moved.append(float(energy(*values)))
            slope = float((gradient[1, 1, 2].conj() * direction).real)
            assert slope == pytest.approx((moved[0] - moved[1]) / (2.0 * step), rel=1e-5)


def test_a_complex_grid_of_its_own_and_real_coefficients_with_a_complex_source() -> None:
    kappa = 1.0 + 1.0j * RANDOM.random(GRID)
    f = numbers(*GRID).requires_grad_()
    x = dsolver.torch.solve(diffusion(GRID, kappa), f, **EXACT)
    wanted = dsolver.solve(diffusion(GRID, kappa), f.detach().numpy(), rtol=1e-12, M="jacobi").x
    np.testing.assert_allclose(x.detach().numpy(), wanted, rtol=1e-9)
    (gradient,) = torch.autograd.grad(x.real.sum(), f)
    adjoint = dsolver.solve(diffusion(GRID, kappa.conj()), np.ones(GRID, complex), rtol=1e-12, M="jacobi").x
    np.testing.assert_allclose(gradient.numpy(), adjoint, rtol=1e-8)
    real = torch.rand(GRID, dtype=torch.float64).add(1.0).requires_grad_()
    x = dsolver.torch.solve(diffusion(GRID), f.detach(), kappa=real, **EXACT)
    (slope,) = torch.autograd.grad((x.abs() ** 2).sum(), real)
    assert slope.dtype == torch.float64
    assert float((slope * real).detach().sum()) == pytest.approx(-2.0 * float((x.detach().abs() ** 2).sum()), rel=1e-7)


def test_jax_has_the_same_derivatives() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    from jax.experimental import sparse

    b, weight = RANDOM.standard_normal(6) + 0j, numbers(6).numpy()
    for dense in KINDS.values():
        matrix = sparse.BCOO.fromdense(dense)

        def energy(values: Any, b: Any, matrix: Any = matrix) -> Any:
            x = dsolver.jax.solve(sparse.BCOO((values, matrix.indices), shape=(6, 6)), b, **EXACT)
            return (jax.numpy.abs(x * weight) ** 2).sum()

        def by_dense(values: Any, b: Any, matrix: Any = matrix) -> Any:
            whole = sparse.BCOO((values, matrix.indices), shape=(6, 6)).todense()
            return (jax.numpy.abs(jax.numpy.linalg.solve(whole + 0j, b) * weight) ** 2).sum()

        found, wanted = (jax.grad(function, argnums=(0, 1))(matrix.data, b) for function in (energy, by_dense))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
