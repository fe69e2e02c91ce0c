"""Pieces of a matrix that nothing fixes: each is balanced by itself, and x has mean zero there, however A is cut."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, laplacian

import dsolver
from dsolver.errors import InconsistentWarning
from dsolver.krylov.methods import METHODS
from dsolver.status import Status
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
PAIRS = sp.csr_array(np.array([[1.0, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]]))


def of_graph(sizes: list[int], *, seed: int = 0, mixed: bool = True) -> sp.csr_array:
    """The Laplacian of a graph in pieces of such sizes; its nodes are numbered at random if mixed."""
    rng = np.random.default_rng(seed)
    blocks = []
    for size in sizes:
        i = np.concatenate([np.arange(size - 1), rng.integers(0, size, size)])
        j = np.concatenate([np.arange(1, size), rng.integers(0, size, size)])
        keep = i != j
        weights = sp.csr_array((rng.uniform(0.5, 2.0, keep.sum()), (i[keep], j[keep])), shape=(size, size))
        blocks.append(laplacian(weights + weights.T))
    whole = sp.csr_array(sp.block_diag(blocks))
    order = rng.permutation(whole.shape[0]) if mixed else np.arange(whole.shape[0])
    return sp.csr_array(whole[order][:, order])


def means(a: Any, x: F64, *, fixed: int | None = None) -> F64:
    """The mean of x in the piece of each row; zero in the piece of a row that is fixed."""
    part = connected_components(a)[1]
    found: F64 = np.bincount(part, x) / np.bincount(part)
    if fixed is not None:
        found[part[fixed]] = 0.0
    each: F64 = found[part]
    return each


def check(found: Any, a: Any, b: F64, *, fixed: int | None = None) -> None:
    """x solves the system with b balanced in each piece, and has mean zero there."""
    assert found.status is Status.INCOMPATIBLE_RHS
    assert np.linalg.norm(b - means(a, b, fixed=fixed) - a @ found.x) <= 1.01e-8 * np.linalg.norm(b)
    assert abs(means(a, found.x, fixed=fixed)).max() <= 1e-12 * abs(found.x).max()


@pytest.mark.parametrize("method", [None, *sorted(METHODS)])
def test_two_pairs(method: Any) -> None:
    b = np.array([1.0, 0.0, 0.0, 0.0])
    with pytest.warns(InconsistentWarning, match="pieces of the matrix that nothing fixes .* that of row 0"):
        found = dsolver.solve(PAIRS, b, method=method, device="cpu")
    assert found.status is Status.INCOMPATIBLE_RHS
    assert found.x == pytest.approx([0.25, -0.25, 0.0, 0.0])
    assert found.closed_regions == 2


@pytest.mark.parametrize("m", ["auto", "jacobi", "amg", None])
@pytest.mark.parametrize("chunks", [1, 4])
def test_many_pieces(m: Any, chunks: int) -> None:
    a = of_graph([300, 2, 3, 41, 2, 90, 5])
    b = np.random.default_rng(1).standard_normal(a.shape[0])
    with pytest.warns(InconsistentWarning):
        found = dsolver.solve(dsolver.matrix(a, chunks=chunks), b, M=m, device="cpu")
    check(found, a, b)
    assert found.closed_regions == 7


def test_a_balanced_right_hand_side_is_solved() -> None:
    a = of_graph([60, 2, 30])
    b = a @ np.random.default_rng(2).standard_normal(92)
    found = dsolver.solve(dsolver.matrix(a, chunks=3), b, device="cpu")
    assert found.converged
    assert abs(means(a, found.x)).max() <= 1e-12 * abs(found.x).max()


@pytest.mark.parametrize("method", ["cg", "minres", "bicgstab"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_pieces_beside_one_that_is_fixed(method: Any, chunks: int) -> None:
    """Pieces that are looked for once a solve has failed."""
    a = of_graph([150, 2, 40]).tolil()
    a[0, 0] += 1.0
    a = sp.csr_array(a)
    b = np.random.default_rng(3).standard_normal(192)
    with (
        dsolver.Solver(dsolver.matrix(a, chunks=chunks), method=method, M="jacobi", device="cpu") as solver,
        pytest.warns(InconsistentWarning),
    ):
        found, again = solver.solve(b), solver.solve(2.0 * b)
    check(found, a, b, fixed=0)
    assert "A has pieces that nothing fixes" in found.notes[0]
    assert (again.x == 2.0 * found.x).all()
    assert not again.notes, "they are known now"


@pytest.mark.parametrize("fixed", [True, False])
def test_isolated_nodes(fixed: bool) -> None:
    """Rows of stored zeros."""
    entries = of_graph([80, 1, 30, 1], mixed=False).tocoo()
    row, column = (np.concatenate([each, [80, 111, 3]]) for each in entries.coords)
    values = np.concatenate([entries.data, [0.0, 0.0, float(fixed)]])
    a = sp.coo_array((values, (row, column)), shape=entries.shape).tocsr()
    assert (np.diff(a.indptr) > 0).all()
    b = np.random.default_rng(4).standard_normal(112)
    with pytest.warns(InconsistentWarning):
        found = dsolver.solve(a, b, device="cpu")
    check(found, a, b, fixed=3 if fixed else None)
    assert found.x[80] == found.x[111] == 0.0


@pytest.mark.filterwarnings("ignore:the right-hand side has no solution")
def test_nothing_is_left_of_a_right_hand_side_that_no_x_reaches() -> None:
    rng = np.random.default_rng(0)
    for size in range(1, 12):
        assert dsolver.solve(sp.csr_array((size, size)), rng.standard_normal(size)).status is Status.INCOMPATIBLE_RHS
    for scale in (1e-310, 1e-200, 1e200, 1e306):
        for b in (np.ones(4), np.array([1.0, 0.0, 0.0, 0.0])):
            found = dsolver.solve(PAIRS, scale * b, device="cpu")
            assert found.status is Status.INCOMPATIBLE_RHS
            np.testing.assert_allclose(found.x / scale, dsolver.solve(PAIRS, b, device="cpu").x, rtol=1e-8, atol=1e-14)
        balanced = dsolver.solve(PAIRS, scale * np.array([1.0, -1.0, 2.0, -2.0]), device="cpu")
        assert balanced.converged
        np.testing.assert_allclose(balanced.x / scale, [0.5, -0.5, 1.0, -1.0])


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-8), ("float32", 1e-4)])
def test_the_same_bits(dtype: Literal["float64", "float32"], rtol: float) -> None:
    a = of_graph([200, 2, 2, 33])
    b = np.random.default_rng(5).standard_normal(237)
    problem = dsolver.matrix(a, chunks=4)
    engines: tuple[Literal["reference", "resident"], ...] = ("reference", "resident")
    with warnings.catch_warnings(), cluster(2) as client:
        warnings.simplefilter("ignore", InconsistentWarning)
        solve = partial(dsolver.solve, problem, b, device="cpu", dtype=dtype, rtol=rtol)
        one, other = (solve(engine=engine) for engine in engines)
        on_workers = solve(client=client)
        tasks = solve(client=client, engine="graph", maxiter=4)
    for each in (other, on_workers):
        assert each.residuals == one.residuals
        assert (each.x == one.x).all()
    assert tasks.residuals == one.residuals[:5]


def test_rows_in_another_order() -> None:
    a = of_graph([120, 2, 33])
    b = np.random.default_rng(6).standard_normal(155)
    with pytest.warns(InconsistentWarning):
        check(dsolver.solve(dsolver.matrix(a, chunks=2, order="rcm"), b, device="cpu"), a, b)


def test_null_vectors_that_are_given_are_all_there_are() -> None:
    n = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]).T
    with pytest.warns(InconsistentWarning, match="nullspace"):
        found = dsolver.solve(dsolver.matrix(PAIRS, nullspace=n), np.array([1.0, 0.0, 0.0, 0.0]), device="cpu")
    assert found.x == pytest.approx([0.25, -0.25, 0.0, 0.0])
    assert found.closed_regions == 0


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("options", [{}, {"chunks": 3}, {"order": "rcm", "chunks": 2}, {"partition": 604}])
def test_rows_of_zeros_leave_method_and_preconditioner_what_they_are(options: dict[str, Any], floor: float) -> None:
    linked = of_graph([600], seed=5) + floor * sp.eye_array(600)
    order = np.random.default_rng(6).permutation(604)
    a = sp.csr_array(sp.block_diag([linked, sp.csr_array((4, 4))]))[order][:, order]
    b = np.random.default_rng(7).standard_normal(604)
    parts = {"partition": np.arange(604) % 3} if "partition" in options else options
    problem = dsolver.matrix(a, **parts)
    assert not problem.hollow
    assert not problem.indefinite
    np.testing.assert_array_equal(problem.to_scipy().toarray(), a.toarray())
    with dsolver.Solver(problem, M="amg", method="cg", device="cpu") as solver:
        np.testing.assert_allclose(solver @ b, a @ b, atol=1e-12)
        with pytest.warns(InconsistentWarning, match="pieces of the matrix that nothing fixes"):
            found = solver.solve(b)
        assert solver.closed_regions == 4 + (floor == 0.0)
        reached = solver.solve(a @ b)
    assert found.status is Status.INCOMPATIBLE_RHS
    alone = order >= 600
    assert not found.x[alone].any()
    rest = np.where(alone, 0.0, b - means(a, b) * (floor == 0.0))
    assert np.linalg.norm(rest - a @ found.x) <= 1.01e-8 * np.linalg.norm(b)
    assert reached.converged
    assert not reached.x[alone].any()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_of_zeros_and_a_sign_or_stored_zeros(sign: float) -> None:
    linked = sign * (of_graph([300], seed=5) + 0.1 * sp.eye_array(300))
    a = sp.csr_array(sp.block_diag([linked, sp.csr_array(np.array([[0.0]]))]))
    stored = sp.csr_array((np.r_[a.data, 0.0], np.r_[a.indices, 300], np.r_[a.indptr[:-1], a.nnz + 1]), shape=a.shape)
    b = np.r_[np.random.default_rng(8).standard_normal(300), 0.0]
    for given in (a, stored):
        found = dsolver.solve(given, b, device="cpu", M="jacobi", method="cg")
        assert found.converged
        np.testing.assert_allclose(a @ found.x, b, atol=1e-7)
