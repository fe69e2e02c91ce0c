"""Matrices that hide what they are: by their sign, by boundary rows, by rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import InputError
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.sent import EntriesOnGpu
from tests.support.clusters import cluster

N = 24


def lattice(n: int = N) -> sp.csr_array:
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    return (sp.kron(line, eye) + sp.kron(eye, line)).tocsr()


def on_edge(n: int = N) -> Any:
    i, j = np.divmod(np.arange(n * n), n)
    return (i == 0) | (j == 0) | (i == n - 1) | (j == n - 1)


def bounded(sign: float = 1.0, *, stored: bool = False) -> sp.csr_array:
    """The rows on the edge are those of the identity, and their columns are left: with zeros stored, or without."""
    inside = sp.diags_array((~on_edge()).astype(float))
    if not stored:
        return (sign * (inside @ lattice()) + sp.diags_array(on_edge().astype(float))).tocsr()
    a = lattice()
    row = np.repeat(np.arange(N * N), np.diff(a.indptr))
    values = np.where(on_edge()[row], (row == a.indices).astype(float), sign * a.data)
    return sp.csr_array((values, a.indices, a.indptr), shape=a.shape)


def rounded(size: float, scale: float = 0.0) -> sp.csr_array:
    """DAD with noise of a size, D over so many decades."""
    rng = np.random.default_rng(3)
    d = sp.diags_array(10.0 ** rng.uniform(-scale / 2, scale / 2, N * N))
    a = (d @ lattice() @ d).tocsr()
    a.data *= 1.0 + size * rng.uniform(-1.0, 1.0, a.nnz)
    return a


def residual(a: sp.csr_array, b: Any, x: Any) -> float:
    return float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))


B = np.random.default_rng(0).standard_normal(N * N)


def test_an_indefinite_matrix_keeps_its_sign() -> None:
    """A first diagonal entry that is negative makes no multipliers of the others."""
    signs = np.where(np.arange(N * N) % 2, 1.0, -1.0)
    for a, negated in ((lattice() + sp.diags_array(6.0 * (signs - 1.0)), False), (-lattice(), True)):
        problem = dsolver.matrix(a)
        assert isinstance(problem, MatrixProblem)
        assert problem.negated == negated


@pytest.mark.parametrize("engine", ["resident", "reference"])
def test_a_negative_diagonal_is_turned(engine: Any) -> None:
    a = lattice()
    turned, wanted = (dsolver.solve(matrix, B, engine=engine) for matrix in (-a, a))
    assert turned.status.converged
    assert residual(-a, B, turned.x) <= 1.01e-8
    assert turned.iterations == wanted.iterations
    np.testing.assert_array_equal(turned.x, -wanted.x)


def test_a_turned_matrix_has_a_turned_preconditioner_and_other_right_hand_sides() -> None:
    a, many = lattice(), np.random.default_rng(1).standard_normal((N * N, 3))
    with dsolver.Solver(-a) as turned, dsolver.Solver(a) as solver:
        m, wanted = turned.aspreconditioner(), solver.aspreconditioner()
        np.testing.assert_array_equal(m @ B, -(wanted @ B))
        np.testing.assert_array_equal(turned.solve(many).x, -solver.solve(many).x)
        guessed = turned.solve(B, x0=turned.solve(B).x)
        assert guessed.iterations == 0
        turned.update(a)  # back again
        np.testing.assert_array_equal(turned.solve(B).x, solver.solve(B).x)


@pytest.mark.parametrize(
    "make",
    [
        bounded,
        lambda: bounded(-1.0),
        lambda: bounded(stored=True),
        lambda: bounded(-1.0, stored=True),
    ],
)
@pytest.mark.parametrize("options", [{}, {"chunks": 3}, {"order": "rcm", "chunks": 2}, {"partition": N * N}])
def test_known_unknowns_are_taken_out(make: Callable[[], sp.csr_array], options: dict[str, Any]) -> None:
    a = make()
    parts = {"partition": np.arange(N * N) % 2} if "partition" in options else options
    problem = dsolver.matrix(a, **parts)
    assert not problem.asymmetry
    assert problem.elliptic
    solution = dsolver.solve(problem, B)
    assert solution.status.converged
    assert residual(a, B, solution.x) <= 1.01e-8
    assert solution.iterations <= 60
    np.testing.assert_allclose(solution.x[on_edge()], B[on_edge()], rtol=1e-14)
    assert "92 rows of A with nothing but a diagonal" in solution.notes[0]


def test_rows_of_zeros_are_no_known_unknowns() -> None:
    a = sp.csr_array(sp.block_diag([bounded(), sp.csr_array((3, 3))]))
    assert "92 rows of A with nothing but a diagonal" in " ".join(dsolver.matrix(a).notes)


def test_known_unknowns_of_several_right_hand_sides_on_all_engines() -> None:
    a, many = bounded(), np.random.default_rng(1).standard_normal((N * N, 2))
    problem = dsolver.matrix(a, chunks=3)
    with cluster(2) as client:
        found = [dsolver.solve(problem, many[:, 0], engine=engine, client=client).x for engine in ("resident", "graph")]
    with dsolver.Solver(problem, engine="reference") as solver:
        wanted = solver.solve(many)
    assert wanted.converged
    assert residual(a, many, wanted.x) <= 1.01e-8
    for x in found:
        np.testing.assert_array_equal(x, wanted.x[:, 0])


@pytest.mark.parametrize(("size", "scale"), [(1e-11, 0.0), (1e-9, 6.0), (1e-6, 0.0), (6e-8, 8.0)])
def test_rounding_is_no_asymmetry(size: float, scale: float) -> None:
    a = rounded(size, scale)
    solution = dsolver.solve(a, a @ B)
    assert solution.status.converged
    assert residual(a, a @ B, solution.x) <= 1.01e-8
    assert solution.iterations <= 120
    assert "as rounding leaves it" in solution.notes[0]
    assert dsolver.solve(dsolver.matrix(a, symmetric=False), a @ B).notes[0].startswith("A is not symmetric (")
    if scale == 0.0:
        x, info = dsolver.cg(a, a @ B, rtol=1e-8)
        assert info == 0
        assert residual(a, a @ B, x) <= 1.01e-8


def test_what_is_more_than_rounding_counts_as_symmetric_where_that_is_said() -> None:
    a = rounded(1e-3)
    assert dsolver.matrix(a).asymmetry
    solution = dsolver.solve(dsolver.matrix(a, symmetric=True), a @ B)
    assert solution.status.converged
    assert residual(a, a @ B, solution.x) <= 1.01e-8
    assert "symmetric=True was given" in solution.notes[0]
    with pytest.raises(InputError, match="symmetric must be"):
        dsolver.matrix(a, symmetric="yes")  # type: ignore[arg-type]


def test_what_is_not_symmetric_stays_so() -> None:
    wind = lattice() + 0.3 * sp.diags_array(np.ones(N * N - 1), offsets=1)
    inside = sp.diags_array((~on_edge()).astype(float))
    for a in (wind, (inside @ wind + sp.diags_array(on_edge().astype(float))).tocsr()):
        problem = dsolver.matrix(a)
        assert isinstance(problem, MatrixProblem)
        assert problem.asymmetry
        assert problem.given is None
        assert problem.matrix.nnz == a.nnz


def test_the_estimate_counts_both_matrices() -> None:
    one, both = (dsolver.estimate(a, device="cpu").workers[0].matrices[0] for a in (lattice(), bounded()))
    assert both > 1.5 * one


def test_a_matrix_on_a_cluster_is_turned_there() -> None:
    from dask.delayed import delayed

    a = lattice()
    with cluster(2) as client:
        problem = dsolver.matrix_from_blocks([delayed(-a[:300]), delayed(-a[300:])], client=client)
        solution = dsolver.solve(problem, B, client=client)
    assert solution.status.converged
    assert residual(-a, B, np.asarray(solution.x)) <= 1.01e-8


@pytest.mark.gpu
@pytest.mark.parametrize("make", [lambda: -lattice(), bounded, lambda: rounded(1e-7), lambda: (1.0 + 0.5j) * lattice()])
def test_on_a_gpu(make: Callable[[], sp.csr_array]) -> None:
    import cupy

    a = make()
    entries = a.tocoo()
    row, col, data = (cupy.asarray(part) for part in (entries.row, entries.col, entries.data))
    there = EntriesOnGpu(row=row, col=col, data=data, shape=a.shape)
    solution = dsolver.solve(there, cupy.asarray(B))
    assert solution.status.converged
    assert residual(a, B, cupy.asnumpy(solution.x)) <= 1.01e-8


@pytest.mark.parametrize(("exponent", "told"), [(3, False), (5, True), (10, True), (100, True)])
def test_rows_that_differ_in_size_beyond_all_digits_are_told_of(exponent: int, told: bool) -> None:
    """Residuals are within the tolerance where unknowns in small rows are wrong, of a complex matrix, too."""
    d = 10.0 ** np.where(np.arange(N * N) % 3 == 0, exponent, -exponent)
    a = sp.csr_array(sp.diags_array(d) @ lattice() @ sp.diags_array(d))
    for made in (a, sp.csr_array(a * (1.0 + 0.5j))):
        notes = dsolver.solve(made, made @ (1.0 / d), device="cpu", maxiter=30).notes
        assert any("wrong in all digits" in note for note in notes) == told


def test_what_rounding_leaves_on_the_diagonal_of_a_saddle_point_is_no_small_row() -> None:
    some = sp.random_array((40, N * N), density=0.1, rng=np.random.default_rng(0)) + sp.eye_array(40, N * N)
    rounding = sp.diags_array(1e-17 * np.where(np.arange(40) % 2, 1.0, -1.0))
    a = sp.csr_array(sp.block_array([[lattice(), some.T], [some, rounding]]))
    solution = dsolver.solve(a, a @ np.ones(a.shape[0]), device="cpu")
    assert solution.converged
    np.testing.assert_allclose(solution.x, 1.0, rtol=1e-4)
    assert not any("wrong in all digits" in note for note in solution.notes)


@pytest.mark.parametrize(("diagonal", "decades", "told"), [(1.0, 8.0, True), (4.0, 0.0, False), (1e-7, 0.0, False)])
def test_columns_of_other_sizes_are_told_by_the_diagonal(diagonal: float, decades: float, told: bool) -> None:
    """Entries of a column may be five times its diagonal; one small entry of the diagonal tells of no small column."""
    line = sp.diags_array([-5.0, 1.0, -4.0], offsets=[-1, 0, 1], shape=(N, N)).tolil()
    line[7, 7] = diagonal
    problem = dsolver.matrix(sp.csr_array(line.tocsr() @ sp.diags_array(10.0 ** np.linspace(0.0, decades, N))))
    assert isinstance(problem, MatrixProblem)
    assert problem.uneven == told
