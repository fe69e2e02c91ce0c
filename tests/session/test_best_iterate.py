"""The best iterate is what comes back, with the bits that it had."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.krylov.methods import METHODS, MethodName
from tests.krylov.test_methods import shifted_laplacian
from tests.support.hard_systems import F64, system

SYSTEMS = 400
CLEAR = ("pieces", "at_an_eigenvalue", "saddle", "singular_unsymmetric", "unsymmetric")
"""Kinds of which it is clear what no x reaches: singular values are zero, or far from it."""


def plane(n: int) -> tuple[sp.csr_array, F64]:
    return shifted_laplacian(n), np.random.default_rng(0).standard_normal(n * n)


@pytest.mark.parametrize("engine", ["reference", "resident"])
def test_it_is_that_of_a_solve_with_so_many_iterations(engine: Literal["reference", "resident"]) -> None:
    """Conjugate gradients meet pᵀAp < 0 in their third iteration, the residual of their first one is the least."""
    a, b = plane(12)
    with dsolver.Solver(dsolver.matrix(a, chunks=3), method="cg", M=None, device="cpu", engine=engine) as solver:
        found, short = solver.solve(b), solver.solve(b, maxiter=1)
    assert found.status is dsolver.Status.INDEFINITE
    assert found.iterations == 3
    assert (found.x == short.x).all()
    assert found.true_residual == short.true_residual < 0.7 * found.b_norm
    assert found.true_residual == pytest.approx(np.linalg.norm(b - a @ found.x))
    assert found.notes[-1] == "x is that of iteration 1 of 3: residuals were larger afterwards"


def test_each_column_has_its_own() -> None:
    a, b = plane(12)
    others = [b, a @ np.ones(144), np.roll(b, 1)]
    with dsolver.Solver(a, method="cg", M=None, device="cpu") as solver:
        for other, found in zip(others, solver.solve(others), strict=True):
            alone = solver.solve(other)
            assert (found.x == alone.x).all()
            assert found.true_residual == alone.true_residual <= found.b_norm


def test_a_first_guess_is_never_made_worse() -> None:
    a = sp.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]]))
    b, guess = np.array([3.0, 3.1]), np.array([1.0, 1.0])
    for method in ("cg", "fcg"):
        found = dsolver.solve(a, b, x0=guess, method=method, M=None, maxiter=1, device="cpu")
        assert found.true_residual <= np.linalg.norm(b - a @ guess)
        assert found.true_residual == pytest.approx(np.linalg.norm(b - a @ found.x))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_without_a_tolerance_it_is_the_best_that_rounding_allows(method: Any) -> None:
    a = shifted_laplacian(12)
    a = (a + 1.3 * sp.eye_array(144)).tocsr()
    b = np.random.default_rng(1).standard_normal(144)
    found = dsolver.solve(a, b, method=method, rtol=0.0, device="cpu")
    assert np.linalg.norm(b - a @ found.x) <= 1e-13 * found.b_norm


def check(seeds: Iterable[int]) -> None:
    """Solve some of the systems by each method that takes them, and by the usual one."""
    for seed in seeds:
        kind, a, b = system(seed)
        problem = dsolver.matrix(a)
        for method in (None, *get_args(MethodName)):
            if method and METHODS[method].symmetric and problem.asymmetry:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = dsolver.solve(problem, b, method=method, device="cpu")
            residual = np.linalg.norm(b - a @ found.x) / np.linalg.norm(b)
            assert residual <= 1.0 + 1e-12, (seed, kind, method, found)
            if method is None and kind in CLEAR:
                least = float(np.linalg.norm(b - a @ np.linalg.lstsq(a.toarray(), b)[0]) / np.linalg.norm(b))
                assert residual <= 1.01 * max(least, 1e-8), (seed, kind, found)


def test_no_answer_is_worse_than_zero() -> None:
    check((27, 30, 31, 34, 35))


def test_an_x_beyond_all_digits_is_none() -> None:
    """A residual that is rounding: 0.62 ‖b‖ in the order of these sums, 1.41 ‖b‖ in that of SciPy's."""
    _, a, b = system(187)
    found = dsolver.solve(a, b, method="gmres", device="cpu")
    assert not found.converged
    assert found.true_residual == pytest.approx(np.linalg.norm(b - a @ found.x), rel=0.1)
    assert found.true_residual <= found.b_norm


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(8))
def test_no_answer_of_many_is_worse_than_zero(part: int) -> None:
    check(range(part, SYSTEMS, 8))
