"""MINRES where A is singular: it ends with the least residual, and says what no x can reach."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.status import Status
from tests.krylov.test_methods import shifted_laplacian
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]


def least(a: Any, b: F64) -> float:
    """The least ‖b - A x‖."""
    x = np.linalg.lstsq(a.toarray(), b, rcond=None)[0]
    return float(np.linalg.norm(b - a @ x))


def at_a_resonance(n: int, *, coefficient: F64 | None = None) -> sp.csr_array:
    """Helmholtz's equation on a line at one of its eigenvalues, perhaps with another coefficient in each row."""
    shift = 4.0 * np.sin(1.5 * np.pi / (n + 1)) ** 2
    line = sp.diags_array([-np.ones(n - 1), np.full(n, 2.0 - shift), -np.ones(n - 1)], offsets=[-1, 0, 1])
    d = sp.diags_array(np.ones(n) if coefficient is None else coefficient)
    return (d @ line @ d).tocsr()


def constrained(n: int, *, twice: bool) -> sp.csr_array:
    """A line with constraints, perhaps one of them twice."""
    line = sp.diags_array([-np.ones(n - 1), np.full(n, 2.5), -np.ones(n - 1)], offsets=[-1, 0, 1])
    c = np.zeros((3, n))
    c[0, 0] = c[1, n // 2] = 1.0
    c[2] = c[1] if twice else np.arange(n) / n
    return sp.csr_array(sp.block_array([[line, c.T], [sp.csr_array(c), None]]))


SYSTEMS: dict[str, sp.csr_array] = {
    "a resonance": at_a_resonance(80),
    "constraints": constrained(40, twice=True),
    "in pieces": sp.csr_array(sp.block_diag([at_a_resonance(30), at_a_resonance(41), shifted_laplacian(5)])),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_residual_is_the_least(name: str) -> None:
    a = SYSTEMS[name]
    b = np.random.default_rng(2).standard_normal(a.shape[0])
    found = dsolver.solve(a, b, method="minres", device="cpu")
    assert found.status is Status.INCOMPATIBLE_RHS
    assert np.linalg.norm(b - a @ found.x) <= least(a, b) * (1.0 + 1e-7)
    assert np.linalg.norm(found.x) <= 1e3 * found.b_norm
    assert found.true_residual <= found.limit, "that of the rest"
    assert "lies along null vectors" in found.notes[-1]


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_can_be_reached_is(name: str) -> None:
    a = SYSTEMS[name]
    b = a @ np.random.default_rng(3).standard_normal(a.shape[0])
    found = dsolver.solve(a, b, method="minres", device="cpu")
    assert found.converged
    assert np.linalg.norm(b - a @ found.x) <= 1.01e-8 * found.b_norm


def test_with_weights_the_plain_norm_is_least_all_the_same() -> None:
    """MINRES makes r . M r least: where M is no multiple of the identity, what it finds of null vectors tells more."""
    a = at_a_resonance(60, coefficient=np.random.default_rng(5).uniform(0.3, 3.0, 60))
    b = np.random.default_rng(4).standard_normal(60)
    m = sp.diags_array(1.0 / np.square(np.random.default_rng(5).uniform(0.3, 3.0, 60)))
    found = dsolver.solve(a, b, method="minres", M=m, device="cpu")
    assert found.status is Status.INCOMPATIBLE_RHS
    assert np.linalg.norm(b - a @ found.x) <= least(a, b) * (1.0 + 1e-6)


def test_a_part_that_is_little_more_than_the_tolerance() -> None:
    """Constraints that contradict each other by 1e-7, as rounding to six digits does."""
    a = constrained(40, twice=True)
    b = a @ np.ones(43)
    b[-1] += 1e-7 * np.linalg.norm(b)
    found = dsolver.solve(a, b, method="minres", device="cpu")
    assert np.linalg.norm(b - a @ found.x) <= least(a, b) * 1.01
    assert abs(found.x).max() < 10.0
    assert found.status is Status.INCOMPATIBLE_RHS


def test_small_rows_make_no_null_vector() -> None:
    """A is far from singular, but rows differ by 12 orders."""
    d = sp.diags_array(np.geomspace(1.0, 1e-12, 64))
    a = (d @ shifted_laplacian(8) @ d).tocsr()
    found = dsolver.solve(a, np.ones(64), method="minres", M=None, device="cpu")
    assert found.status is not Status.INCOMPATIBLE_RHS
    assert found.true_residual == pytest.approx(np.linalg.norm(np.ones(64) - a @ found.x))


def test_the_same_bits() -> None:
    a = SYSTEMS["in pieces"]
    b = np.random.default_rng(2).standard_normal(a.shape[0])
    problem = dsolver.matrix(a, chunks=3)
    engines: tuple[Literal["reference", "resident"], ...] = ("reference", "resident")
    one, other = (dsolver.solve(problem, b, method="minres", engine=engine, device="cpu") for engine in engines)
    with cluster(2) as client:
        on_workers = dsolver.solve(problem, b, method="minres", client=client, device="cpu")
    for found in (other, on_workers):
        assert found.residuals == one.residuals
        assert (found.x == one.x).all()
        assert found.status is one.status is Status.INCOMPATIBLE_RHS


def test_an_x_that_grows_without_bound_is_not_the_answer() -> None:
    """The matrix has tiny eigenvalues beside its null vectors: rounding is met before the least residual is."""
    rng = np.random.default_rng(0)
    half = sp.random_array((160, 100), density=0.04, rng=rng, data_sampler=rng.standard_normal)
    a = sp.csr_array(half @ sp.diags_array(np.geomspace(1.0, 1e-5, 100)) @ half.T)
    a = sp.csr_array(a + sp.diags_array(np.where(a.diagonal() == 0.0, 1.0, 0.0)))
    b = rng.standard_normal(160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dsolver.solve(a, b, method="minres", M=None, device="cpu", maxiter=3000)
    assert np.linalg.norm(b - a @ found.x) <= 1.1 * least(a, b) < 0.8 * found.b_norm
