"""Singular matrices with null vectors that their user knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.cluster.runtime import DeviceName
from dsolver.errors import InputError
from dsolver.matrices.null_vectors import near_null
from tests.support.clusters import cluster


def springs(n: int) -> tuple[sp.csr_array, Any]:
    """Springs along the edges and diagonals of n x n points in a plane, and their three rigid motions (2 n², 3)."""
    points = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
    a = sp.lil_array((2 * n * n,) * 2)
    for i, p in enumerate(points):
        for step in ((1, 0), (0, 1), (1, 1), (1, -1)):
            q = p + step
            if ((q >= 0) & (q < n)).all():
                j, along = int(q[0] * n + q[1]), np.array(step) / np.hypot(*step)
                stiffness = np.outer(along, along)
                for (r, c), sign in {(i, i): 1, (j, j): 1, (i, j): -1, (j, i): -1}.items():
                    a[2 * r : 2 * r + 2, 2 * c : 2 * c + 2] += sign * stiffness
    motions = np.zeros((2 * n * n, 3))
    motions[0::2, 0] = motions[1::2, 1] = 1.0
    motions[0::2, 2], motions[1::2, 2] = -points[:, 1], points[:, 0]
    return a.tocsr(), motions


A, N = springs(7)
X = np.random.default_rng(0).standard_normal(98)
X -= N @ np.linalg.lstsq(N, X, rcond=None)[0]
PARTS = np.random.default_rng(1).integers(0, 3, 98)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("options", [{}, {"chunks": 3}, {"partition": PARTS}, {"chunks": 2, "order": "rcm"}])
@pytest.mark.parametrize("method", ["jacobi", "chebyshev"])
def test_rigid_motions_are_taken_out_of_b_and_x(options: dict[str, Any], method: Any, device: DeviceName) -> None:
    problem = dsolver.matrix(A, nullspace=N, **options)
    solution = dsolver.solve(problem, A @ X, M=method, rtol=1e-11, device=device)
    assert solution.converged
    assert np.linalg.norm(solution.x - X) <= 1e-8 * np.linalg.norm(X)


def test_a_force_that_moves_the_body_is_told_and_taken_out() -> None:
    with (
        pytest.warns(
            dsolver.InconsistentWarning, match=r"vectors of nullspace= solve A x = 0.*of it lies along them.*b balances"
        ),
        dsolver.Solver(dsolver.matrix(A, nullspace=N), M="jacobi", device="cpu") as solver,
    ):
        solution = solver.solve(A @ X + 0.1 * N[:, 2], rtol=1e-10)
    assert solution.status is dsolver.Status.INCOMPATIBLE_RHS
    assert np.linalg.norm(solution.x - X) <= 1e-7 * np.linalg.norm(X)


def test_the_same_bits_on_engines_and_for_several() -> None:
    problem = dsolver.matrix(A, nullspace=N, chunks=3)
    b = A @ X
    expected = dsolver.solve(problem, b, engine="reference", device="cpu")
    with dsolver.Solver(problem, device="cpu") as solver:
        several: Any = solver.solve(np.stack([b, 2 * b], axis=1))
    assert (several.x[:, 0] == expected.x).all()
    with cluster(2) as client:
        there = dsolver.solve(problem, b, client=client, device="cpu")
        tasks = dsolver.solve(problem, b, client=client, engine="graph", device="cpu", maxiter=4)
    assert (there.x == expected.x).all()
    assert tasks.residuals == expected.residuals[:5]


def test_constants_are_found_beside_given_vectors() -> None:
    line = sp.diags_array([-np.ones(9), np.r_[1.0, 2.0 * np.ones(8), 1.0], -np.ones(9)], offsets=[-1, 0, 1])
    a = sp.block_diag([line, line], format="csr")
    problem = dsolver.matrix(a, nullspace=np.r_[np.ones(10), np.zeros(10)])
    assert problem.null_vectors == 2
    x = np.random.default_rng(2).standard_normal(20)
    for half in (x[:10], x[10:]):
        half -= half.mean()
    assert np.allclose(dsolver.solve(problem, a @ x, M="jacobi", rtol=1e-12, device="cpu").x, x)


def test_they_are_counted() -> None:
    with_them, without = (
        dsolver.estimate(dsolver.matrix(A, nullspace=n), device="cpu", workers=1).workers[0] for n in (N, None)
    )
    # Without them there are three vectors for constants, which are among the motions.
    assert 2 * 8 * 98 <= with_them.vectors - without.vectors <= 2 * 8 * (98 + 3 * 32)


@pytest.mark.parametrize(
    ("nullspace", "reason"),
    [
        (np.ones(97), r"nullspace has shape \(97,\), but must be \(98,\) or \(98, k\)"),
        (np.arange(98.0), "A times vector 0 of nullspace is not 0"),
        (np.c_[N, N[:, 0] + N[:, 1]], "vector 3 of nullspace is zero, or a sum of those before it"),
        (np.full(98, np.nan), "NaN or infinite"),
        ("constants", "must be an array of real numbers"),
    ],
)
def test_what_is_no_null_space_is_refused(nullspace: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dsolver.matrix(A, nullspace=nullspace)


def test_vectors_that_are_nearly_null_vectors_are_made_orthogonal_twice() -> None:
    """Rounding of the first turn is larger than what tells whether a vector lies beyond others."""
    ones, rest = np.ones(98), np.random.default_rng(3).standard_normal(98)
    near = ones + 1e-8 * rest
    with pytest.raises(InputError, match="vector 2 of near_nullspace is zero, or a sum of those before it"):
        near_null(98, np.c_[ones, near, near], None, constants=False, asarray=np.asarray)
    found = near_null(
        98, np.c_[near, ones + 3e-8 * rest], ones[:, None] / np.sqrt(98), constants=False, asarray=np.asarray
    )
    assert found.shape == (98, 2), "the last is a sum of the null vector and the one before"


def test_problems_are_compared_without_a_look_at_their_arrays() -> None:
    one: Any
    other: Any
    one, other = (dsolver.matrix(A, nullspace=N) for _ in range(2))
    assert one.nullspace is not other.nullspace
    assert one == other
