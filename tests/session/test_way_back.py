"""The way back from a problem and a solution: A as a sparse matrix, A x, b - A x."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver import problems
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Periodic
from tests.support.clusters import cluster

RNG = np.random.default_rng(2)
KAPPA = np.exp(RNG.standard_normal((6, 5, 4)))
MASK = RNG.random((6, 5, 4)) < 0.1
MATRIX = sp.csr_array(sp.diags_array([-1.0, 2.5, -1.0], offsets=[-2, 0, 2], shape=(30, 30)))
UNSYMMETRIC = MATRIX + sp.eye_array(30, k=1)
KNOWN = MATRIX.tolil()
KNOWN[0] = 0.0
KNOWN[0, 0] = 3.0


def systems() -> dict[str, Any]:
    masked = problems.diffusion((6, 5, 4), KAPPA, mask=MASK)
    return {
        "stencil": problems.poisson7((4, 5, 3)),
        "plane": problems.poisson5((6, 7)),
        "27 points": problems.hpcg((4, 4, 4)),
        "diffusion": problems.diffusion((6, 5, 4), KAPPA, sigma=0.3),
        "function": problems.diffusion((6, 5), lambda x, y: 1 + x + y, bc={"x": Periodic(), "y": Dirichlet(2.0)}),
        "masked": masked,
        "complex grid": problems.diffusion((6, 5, 4), KAPPA + 0.5j),
        "matrix": dsolver.matrix(MATRIX),
        "negated": dsolver.matrix(-MATRIX),
        "tiny": dsolver.matrix(1e-200 * MATRIX),
        "unsymmetric": dsolver.matrix(UNSYMMETRIC),
        "known": dsolver.matrix(KNOWN.tocsr()),
        "grouped": dsolver.matrix(UNSYMMETRIC, partition=np.arange(30) % 3),
        "complex": dsolver.matrix(MATRIX + 0.5j * sp.eye_array(30)),
        "grid of a matrix": dsolver.matrix(MATRIX @ MATRIX.T * 0 + sp.diags_array(np.ones(30)), grid=(5, 6)),
    }


SYSTEMS = systems()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_product_is_that_of_the_matrix(name: str) -> None:
    problem = SYSTEMS[name]
    a = problem.to_scipy()
    x = RNG.standard_normal(problem.shape)
    if problem.masked:
        x[MASK] = 0.0
    with dsolver.Solver(problem, M=None, engine="reference") as solver:
        product = solver @ x
        assert product.shape == x.shape
        assert product.ravel() == pytest.approx(a @ x.ravel(), rel=1e-13, abs=1e-14 * abs(a).max())


def test_a_matrix_comes_back_as_it_was_given() -> None:
    for name, given in (
        ("negated", -MATRIX),
        ("tiny", 1e-200 * MATRIX),
        ("unsymmetric", UNSYMMETRIC),
        ("known", KNOWN.tocsr()),
        ("grouped", UNSYMMETRIC),
        ("complex", MATRIX + 0.5j * sp.eye_array(30)),
    ):
        assert (abs(SYSTEMS[name].to_scipy() - given)).sum() == 0.0, name


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_residual_is_b_less_a_product(name: str) -> None:
    problem = SYSTEMS[name]
    b = RNG.standard_normal(problem.shape)
    b = b + 1j if problem.complex else b
    with dsolver.Solver(problem, M=None) as solver:
        solution = solver.solve(b, maxiter=3)
        inside = solution.residual
    assert np.linalg.norm(inside) == pytest.approx(solution.true_residual, rel=1e-10)
    assert (solution.residual == inside).all(), "by another session"
    if isinstance(problem, type(SYSTEMS["matrix"])) and problem.flat:
        expected = b - problem.to_scipy() @ solution.x
        assert inside == pytest.approx(expected, rel=1e-9, abs=float(1e-12 * np.linalg.norm(b)))


def test_several_and_complex_vectors_have_products() -> None:
    with dsolver.Solver(MATRIX) as solver:
        x = RNG.standard_normal((30, 3))
        assert solver @ x == pytest.approx(MATRIX @ x)
        assert solver @ (x[:, 0] + 2j * x[:, 1]) == pytest.approx(MATRIX @ (x[:, 0] + 2j * x[:, 1]))
        solution = solver.solve(x[:, 0] + 1j * x[:, 1])
        assert np.linalg.norm(solution.residual) == pytest.approx(solution.true_residual, rel=1e-6)
        with pytest.raises(InputError, match=r"x has shape \(4,\)"):
            solver @ np.ones(4)


def test_on_a_cluster_too(client: Client) -> None:
    problem = problems.diffusion((6, 5, 4), KAPPA, chunks=(2, 1, 2))
    b = RNG.standard_normal(problem.shape)
    with dsolver.Solver(problem, client=client, device="cpu") as solver:
        assert (solver @ b).ravel() == pytest.approx(problem.to_scipy() @ b.ravel())
        solution = solver.solve(b)
        assert np.linalg.norm(solution.residual) == pytest.approx(solution.true_residual, rel=1e-6)


def test_a_pickled_solution_has_none() -> None:
    solution = dsolver.solve(MATRIX, np.ones(30))
    with pytest.raises(InputError, match="pickled has no residual"):
        pickle.loads(pickle.dumps(solution)).residual  # noqa: B018, S301
    assert copy.copy(solution).x is solution.x


def test_a_solution_keeps_no_solver() -> None:
    solver = dsolver.Solver(MATRIX)
    solution, kept = solver.solve(np.ones(30)), weakref.ref(solver._session)
    del solver
    gc.collect()
    assert kept() is None
    assert np.linalg.norm(solution.residual) <= 1e-7
