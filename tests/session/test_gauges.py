"""Hermitian systems, whose M is made in a gauge in which they are nearly real."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Algebraic
from tests.support.clusters import cluster
from tests.support.gauges import in_random_gauge
from tests.support.same_bits import check_same_bits

N = 16
FEW = Algebraic(coarse_rows=50)


def lattice(phases: Any) -> sp.csr_array:
    """The 7-point Laplacian (N³ rows) whose couplings along each axis have phases (3, N, N, N)."""
    numbers, made = np.arange(N**3).reshape(N, N, N), sp.csr_array((N**3, N**3), dtype=np.complex128)
    for axis in range(3):
        i, j = (np.moveaxis(numbers, axis, 0)[part].ravel() for part in (slice(None, -1), slice(1, None)))
        made = made + sp.coo_array((-np.exp(1j * phases[axis].ravel()[i]), (i, j)), made.shape)
    return sp.csr_array(made + made.conj().T + 6.0 * sp.eye_array(N**3))


def field(flux: float) -> Any:
    """Phases of a magnetic field along z."""
    made = np.zeros((3, N, N, N))
    made[1] = flux * np.arange(N)[:, None, None]
    return made


def right(seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return random.standard_normal(N**3) + 1j * random.standard_normal(N**3)


def solved(a: Any, m: Any = FEW, **options: Any) -> Any:
    found = dsolver.solve(a, right(), M=m, rtol=1e-8, **{"device": "cpu", **options})
    assert found.converged
    return found


PLAIN = lattice(np.zeros((3, N, N, N)))
FIELDS = {
    "none": np.zeros((3, N, N, N)),
    "weak": field(0.05),
    "strong": field(0.5),
    "random": np.random.default_rng(1).uniform(-0.5, 0.5, (3, N, N, N)),
    "any": np.random.default_rng(1).uniform(-np.pi, np.pi, (3, N, N, N)),
}


def test_without_flux_iterations_are_those_of_the_real_system() -> None:
    assert solved(in_random_gauge(PLAIN)).iterations <= solved(sp.csr_array(PLAIN.real)).iterations


@pytest.mark.parametrize("name", FIELDS)
def test_iterations_hardly_depend_on_the_gauge(name: str) -> None:
    a = lattice(FIELDS[name])
    found = solved(in_random_gauge(a))
    assert found.iterations <= 28
    assert np.linalg.norm(right() - in_random_gauge(a) @ found.x) <= 1.01e-8 * np.linalg.norm(right())
    others = [solved(in_random_gauge(a, seed)).iterations for seed in (4, 5)]
    assert max(abs(other - found.iterations) for other in others) <= 3


def test_engines_workers_and_devices_give_the_same_bits() -> None:
    problem = dsolver.matrix(in_random_gauge(lattice(FIELDS["weak"])), chunks=3)
    with cluster(2) as client:
        check_same_bits(problem, right(), client, M=FEW, maxiter=3)


def test_rows_in_other_orders_and_updates_keep_their_phases() -> None:
    a = in_random_gauge(lattice(FIELDS["weak"]))
    count = solved(a).iterations
    parts = np.arange(N**3) % 3 // 2
    for options in ({"chunks": 3}, {"chunks": 2, "order": "rcm"}, {"partition": parts}):
        assert abs(solved(dsolver.matrix(a, **options)).iterations - count) <= 2, options
    with dsolver.Solver(in_random_gauge(PLAIN), M=FEW, device="cpu") as solver:
        solver.solve(right(), rtol=1e-8)
        solver.update(a)
        assert solver.solve(right(), rtol=1e-8).iterations == count


def test_the_matrix_stays_what_was_given() -> None:
    a = in_random_gauge(lattice(FIELDS["weak"]))
    problem = dsolver.matrix(a)
    assert isinstance(problem, MatrixProblem)
    assert problem.phases is not None
    assert (problem.to_scipy() != a).nnz == 0
    with dsolver.Solver(a, M=FEW, device="cpu") as solver:
        m, x, y = solver.aspreconditioner(), right(1), right(2)
        assert np.vdot(x, m @ y) == pytest.approx(np.vdot(m @ x, y), rel=1e-10)


def test_signs_of_hermitian_matrices_do_not_matter() -> None:
    """-A: M is for positive definite matrices; products, residuals and updates are those of the matrix as given."""
    a, b = in_random_gauge(lattice(field(0.05))), right()
    plain = solved(a)
    with dsolver.Solver(-a, M=FEW, device="cpu") as solver:
        found = solver.solve(b)
        assert np.array_equal(found.x, -plain.x)
        assert np.linalg.norm(found.residual) <= 1.01e-8 * np.linalg.norm(b)
        np.testing.assert_allclose(solver @ b, -(a @ b), rtol=1e-12, atol=1e-12)
        assert abs(solver.problem.to_scipy() + a).max() == 0.0
        solver.update(a)
        assert np.array_equal(solver.solve(b).x, plain.x)
    negative = dsolver.operator(lambda x: -(a @ x), shape=N**3, M_from=-a)
    called = dsolver.solve(negative, b, M=FEW, device="cpu")
    np.testing.assert_allclose(called.x, -plain.x, atol=1e-6)


def test_a_singular_matrix_has_the_real_part() -> None:
    a = PLAIN - sp.diags_array(6.0 - abs(PLAIN - 6.0 * sp.eye_array(N**3)).sum(axis=1))
    a = in_random_gauge(sp.csr_array(a))
    problem = dsolver.matrix(a)
    assert isinstance(problem, MatrixProblem)
    assert problem.phases is None
    b = a @ right()
    assert dsolver.solve(a, b, M=FEW, rtol=1e-8, device="cpu").converged


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    a = in_random_gauge(lattice(FIELDS["weak"]))
    host = solved(a)
    for chunks in (1, 2):
        found = solved(dsolver.matrix(a, chunks=chunks), device="cuda", precond_dtype="float64")
        assert abs(found.iterations - host.iterations) <= 1
        assert np.linalg.norm(found.x - host.x) <= 1e-6 * np.linalg.norm(host.x)
