"""Systems with any sparse matrix, against SciPy's direct solver."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator, spsolve

import dsolver
from dsolver.errors import InputError
from dsolver.matrices.checked import checked
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Algebraic
from tests.support.clusters import cluster

AMG = Algebraic(coarse_rows=20, gathered_rows=40)
METHODS = ("chebyshev", "jacobi", None, "l1-jacobi", "block-jacobi", "symgs", "ic0", "ilu0", AMG)


def graph_laplacian(rows: int, degree: float, seed: int) -> sp.csr_array:
    """Matrix of a random graph with weights over three decades, and a random positive diagonal: no row like another."""
    rng = np.random.default_rng(seed)
    count = int(rows * degree / 2)
    i, j = rng.integers(0, rows, (2, count))
    weights = 10.0 ** rng.uniform(-1.5, 1.5, count)
    off = sp.coo_array((weights * (i != j), (i, j)), shape=(rows, rows)).tocsr()
    off = off + off.T
    return (sp.diags_array(np.asarray(off.sum(axis=1)).ravel() + rng.uniform(0.1, 2.0, rows)) - off).tocsr()


def lattice(n: int) -> sp.csr_array:
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    return (sp.kron(line, eye) + sp.kron(eye, line)).tocsr()


def arrow(rows: int) -> sp.csr_array:
    """One row and one column that are full."""
    a = sp.diags_array(np.full(rows, 2.0)).tolil()
    a[0, :] = -1.0 / rows
    a[:, 0] = -1.0 / rows
    a[0, 0] = 2.0
    return a.tocsr()


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        *product(
            ("csr", "csc", "coo", "bsr", "lil"),
            (lambda: lattice(17), lambda: arrow(300), lambda: graph_laplacian(200, 30.0, 1)),
        ),
        ("dia", lambda: lattice(17)),  # of the others SciPy itself warns: they have hundreds of diagonals
    ],
)
def test_every_format_and_class_of_scipy(kind: str, make: Callable[[], sp.csr_array]) -> None:
    a = make()
    b = np.ones(a.shape[0])
    expected = spsolve(a.tocsc(), b)
    for given_matrix in (a.asformat(kind), sp.csr_matrix(a).asformat(kind)):
        x, info = dsolver.cg(given_matrix, b, rtol=1e-11, M="jacobi", device="cpu")
        assert info == 0
        assert x.shape == b.shape
        assert np.allclose(x, expected, rtol=1e-7)


def test_rows_in_canonical_form_are_looked_at_once_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    a = sp.csr_array(sp.diags_array([-np.ones(99), 2.0 * np.ones(100), -np.ones(99)], offsets=(-1, 0, 1)))
    mixed = sp.csr_array((a.data[::-1].copy(), a.indices[::-1].copy(), a.indptr), shape=a.shape)  # not ascending
    kept: Any = dsolver.matrix(mixed)
    assert kept.matrix.has_canonical_format
    monkeypatch.setattr("dsolver.matrices.checked.compressed", None)
    kept = dsolver.matrix(a)
    assert all(np.shares_memory(getattr(kept.matrix, name), getattr(a, name)) for name in ("data", "indices", "indptr"))


def test_the_same_bits_on_every_engine_and_any_number_of_workers() -> None:
    a = graph_laplacian(150, 6.0, 3)
    b = np.random.default_rng(3).standard_normal(150)
    problem = dsolver.matrix(a, chunks=6)
    found = {}
    for method in METHODS:
        found[method] = dsolver.solve(problem, b, M=method, engine="reference", device="cpu")
        here = dsolver.solve(problem, b, M=method, device="cpu")
        assert here.residuals == found[method].residuals
        assert (here.x == found[method].x).all()
    with cluster(3) as client:
        for method in METHODS:
            there = dsolver.solve(problem, b, M=method, client=client, device="cpu")
            assert there.residuals == found[method].residuals
            assert (there.x == found[method].x).all()
        for method in ("symgs", AMG):
            tasks = dsolver.solve(problem, b, M=method, client=client, engine="graph", device="cpu", maxiter=2)
            assert tasks.residuals == found[method].residuals[:3]


def test_chunks_are_cut_for_the_workers_by_entries() -> None:
    a = lattice(20)
    with cluster(3) as client, dsolver.Solver(a, M="jacobi", client=client, device="cpu") as solver:
        assert repr(solver) == "<Solver matrix 400 rows, on resident/cpu with 3 workers, sockets>"
        assert solver.aspreconditioner() @ np.arange(400.0) == pytest.approx(np.arange(400.0) / 4.0)
        problem = solver.problem
        assert isinstance(problem, MatrixProblem)
        assert problem.chunks is not None
        assert problem.senders == ((1,), (0, 2), (1,))
        assert solver.solve(np.ones(400)).converged


def test_vectors_keep_the_shape_that_they_had() -> None:
    a = lattice(8)
    b = np.arange(64.0)
    with dsolver.Solver(a, device="cpu") as solver:
        one, column, two = solver.solve(b), solver.solve(b[:, None]), solver.solve(np.stack([b, 2 * b], axis=1))
        listed = solver.solve([b, 2 * b], x0=[one.x, 2 * one.x])
        seen: list[Any] = []
        solver.solve(b, callback=lambda _: seen.append(solver.iterate()))
        with pytest.raises(InputError, match=r"b has shape \(2, 64\), but several for 64 rows have \(64, k\)"):
            solver.solve(np.ones((2, 64)))
    assert one.x.shape == column.x.shape == seen[-1].shape == (64,)
    assert two.x.shape == (64, 2)
    assert (two.x[:, 0] == one.x).all()
    assert [solution.iterations for solution in listed] == [0, 0]


def test_several_right_hand_sides_have_the_bits_that_each_has_alone() -> None:
    a = graph_laplacian(90, 5.0, 8)
    b = np.random.default_rng(8).standard_normal((90, 3))
    with dsolver.Solver(dsolver.matrix(a, chunks=2), device="cpu") as solver:
        together = solver.solve([b[:, number] for number in range(3)])
        for number in range(3):
            alone = solver.solve(b[:, number])
            assert alone.residuals == together[number].residuals
            assert (alone.x == together[number].x).all()


def test_a_singular_matrix_with_constants_in_its_null_space() -> None:
    a = graph_laplacian(80, 8.0, 5)
    a = (a - sp.diags_array(np.asarray(a.sum(axis=1)).ravel())).tocsr()
    b = np.random.default_rng(5).standard_normal(80)
    with pytest.warns(dsolver.InconsistentWarning):
        solution = dsolver.solve(dsolver.matrix(a, chunks=3), b, M="jacobi", rtol=1e-10, device="cpu")
    assert np.linalg.norm(a @ solution.x - (b - b.mean())) <= 1e-8 * np.linalg.norm(b)
    assert abs(solution.x.mean()) <= 1e-12 * abs(solution.x).max()


def test_an_indefinite_matrix_is_told() -> None:
    a = lattice(12) - 3.0 * sp.eye_array(144)
    assert dsolver.solve(a, np.ones(144), M=None, device="cpu").status is dsolver.Status.INDEFINITE


def test_a_diagonal_that_is_not_positive_is_solved_by_factors_or_else_by_minres() -> None:
    hollow, mixed = ((lattice(5) - sp.diags_array(d * (np.arange(25) == 12))).tocsr() for d in (4.0, 5.0))
    for a in (mixed, hollow):
        for m, method in (("auto", "flexible GMRES"), (None, "MINRES")):
            solution = dsolver.solve(a, np.ones(25), M=m, rtol=1e-12, device="cpu")
            assert solution.notes[0].endswith(f"is solved by {method}")
            assert np.allclose(solution.x, spsolve(a.tocsc(), np.ones(25)))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_indices_that_are_none_are_refused(kind: str) -> None:
    for wrong in (25, -1):
        a = lattice(5).asformat(kind)
        if kind == "coo":
            a.row[3] = wrong
        else:
            a.indices[3] = wrong
        with pytest.raises(InputError, match=f"A has an index {wrong}, but shape"):
            dsolver.solve(a, np.ones(25))
    if kind != "coo":
        a = lattice(5).asformat(kind)
        a.indptr[3] = 0
        with pytest.raises(InputError, match="do not ascend"):
            dsolver.matrix(a)


def unsymmetric() -> sp.csr_array:
    a = lattice(5).tolil()
    a[3, 4] = -7.0
    return a.tocsr()


def without_diagonal(row: int) -> sp.csr_array:
    a = lattice(5).tolil()
    a[row, :] = 0.0
    a[:, row] = 0.0
    a = a.tocsr()
    a.eliminate_zeros()
    return a


@pytest.mark.parametrize("canonical", [False, True])
def test_the_real_part_of_a_matrix_is_laid_out_as_others_are(canonical: bool) -> None:
    """Every other number of an array: each loop would be compiled once more, and read twice as much."""
    whole = lattice(5)
    part = whole.astype(np.complex128).real
    part.has_canonical_format = canonical
    found, _ = checked("A", part)
    assert not part.data.flags.c_contiguous
    assert found.data.flags.c_contiguous
    assert (found != whole).nnz == 0


@pytest.mark.parametrize(
    ("a", "reason"),
    [
        (lattice(3)[:4], r"shape \(4, 9\): a system needs as many rows as columns"),
        (lattice(3) * (1j * np.nan), "NaN or infinity"),
        (lattice(3) * np.nan, "NaN or infinity"),
    ],
)
def test_bad_matrices_are_refused_before_anything_is_spread(a: sp.csr_array, reason: str) -> None:
    for call in (lambda: dsolver.matrix(a), lambda: dsolver.solve(a, np.ones(a.shape[0]))):
        with pytest.raises(InputError, match=reason):
            call()


def test_a_method_refuses_the_matrix_that_it_is_not_for() -> None:
    a, b = unsymmetric(), np.ones(25)
    reason = r"A\[3, 4\] = -7, but A\[4, 3\] = -1; method='cg' needs A = Aᵀ: use method='gmres', 'fgmres' or 'bicgstab'"
    for call in (
        lambda: dsolver.cg(a, b),
        lambda: dsolver.solve(a, b, method="cg"),
        lambda: dsolver.Solver(a, method="cg"),
    ):
        with pytest.raises(InputError, match=reason):
            call()
    with pytest.raises(InputError, match=r"M=Chebyshev.* is for symmetric matrices, and A is not: A\[3, 4\]"):
        dsolver.solve(a, b, M="chebyshev")
    solution = dsolver.solve(a, b, device="cpu")
    assert solution.converged
    assert "A[3, 4] = -7" in solution.notes[0]


def test_half_of_a_symmetric_matrix_is_told() -> None:
    """As programs that store symmetric matrices so hand over."""
    whole, told = lattice(12), "both halves are to be given"
    for half in (sp.triu(whole), sp.tril(whole)):
        assert told in dsolver.solve(half, np.ones(144)).notes[0]
        with pytest.raises(InputError, match=told):
            dsolver.cg(half, np.ones(144))
    assert told not in dsolver.solve(whole + sp.diags_array(np.ones(143), offsets=1), np.ones(144)).notes[0]


def test_zeros_on_the_diagonal_are_refused_by_what_divides_by_them() -> None:
    a = (lattice(5) - sp.diags_array(4.0 * (np.arange(25) == 12))).tocsr()
    for m in ("jacobi", "chebyshev"):
        with pytest.raises(InputError, match=r"M=.* divides by the diagonal: A has 1 zeros on its diagonal.* row 12"):
            dsolver.solve(a, np.ones(25), M=m, method="bicgstab")
    found = dsolver.solve(a, np.ones(25), method="bicgstab", rtol=1e-12, device="cpu")
    assert np.allclose(found.x, spsolve(a.tocsc(), np.ones(25)))


def test_another_matrix_takes_the_place_of_one_that_is_set_up() -> None:
    a, b = lattice(12), np.random.default_rng(1).standard_normal(144)
    other = a + sp.diags_array(np.linspace(0.0, 1.0, 144))
    with cluster(2) as client, dsolver.Solver(a, client=client, device="cpu") as solver:
        solver.solve(b)
        for new in (other, dsolver.matrix(other)):
            solver.update(new)
            assert np.allclose(solver.solve(b, rtol=1e-11).x, spsolve(other.tocsc(), b))
        with pytest.raises(InputError, match=r"has shape \(121,\), but the one that is set up has \(144,\)"):
            solver.update(lattice(11))
        with pytest.raises(InputError, match="the new problem differs in its chunks"):
            solver.update(dsolver.matrix(other, chunks=3))


def test_updates_that_reuse_interpolation_tell_what_they_did() -> None:
    a, b = lattice(20), np.random.default_rng(1).standard_normal(400)
    shifted = a + sp.diags_array(np.linspace(0.0, 1.0, 400))
    wider = a + 0.1 * sp.csr_array(([-1.0, -1.0], ([0, 399], [399, 0])), shape=a.shape)
    with dsolver.Solver(a, M="amg", device="cpu") as solver:
        for new, told in (
            (shifted, "anew: the next"),
            (a, "of an earlier"),
            (shifted, "of an earlier"),
            (wider, "in other places"),
            (2.0 * wider, "of an earlier"),
        ):
            solver.update(new, reuse="interpolation")
            solution = solver.solve(b, rtol=1e-11)
            assert np.allclose(solution.x, spsolve(new.tocsc(), b))
            assert told in solution.notes[0]
        negative = sp.csr_array(wider - sp.diags_array(100.0 * (np.arange(400) == 7)))
        with pytest.raises(InputError, match="1 diagonal entries that are not positive"):
            solver.update(negative, reuse="interpolation")
        assert np.allclose(solver.solve(b, rtol=1e-11).x, solution.x)  # the old matrix stays
        solver.update(a)
        assert solver.solve(b).notes == ()
        solver.update(shifted, reuse="interpolation")  # that of a
        assert "of an earlier" in solver.solve(b).notes[0]
        with pytest.raises(
            InputError, match="reuse must be 'auto', 'preconditioner', 'interpolation' or None, not True"
        ):
            solver.update(a, reuse=True)  # type: ignore[arg-type]
    with dsolver.Solver(a, M="jacobi", device="cpu") as solver:
        solver.update(a, reuse="interpolation")
        assert "it has no interpolation" in solver.solve(b).notes[0]


def test_bad_arguments_are_refused() -> None:
    a = lattice(4)
    with pytest.raises(InputError, match=r"b has shape \(15,\), but must be \(16,\)"):
        dsolver.solve(a, np.ones(15))
    with pytest.raises(InputError, match=r"M='mg' coarsens a grid.*: use M='amg', or say by dsolver.matrix"):
        dsolver.solve(a, np.ones(16), M="mg")
    with pytest.raises(InputError, match="HPCG's V-cycle"):
        dsolver.solve(a, np.ones(16), M="hpcg")
    with pytest.raises(InputError, match="use 1 to 16"):
        dsolver.matrix(a, chunks=17)
    with pytest.raises(InputError, match="add up to 15"):
        dsolver.matrix(a, chunks=[5, 10])
    with pytest.raises(InputError, match=r"chunks must be an integer, or the number of rows of each, not 2.5"):
        dsolver.matrix(a, chunks=2.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="chunks must be an integer, or the number of rows of each, not 'auto'"):
        dsolver.matrix(a, chunks="auto")  # type: ignore[arg-type]
    for chunks in (0, [0, 16], [-1, 17]):
        with pytest.raises(InputError, match=r"use 1 to 16|each has one or more"):
            dsolver.matrix(a, chunks=chunks)
    assert dsolver.matrix(a, chunks=np.int64(2)).chunks == ((8, 8), (1,), (1,))  # type: ignore[arg-type]
    for b in (None, 1.0, a):
        with pytest.raises(InputError, match=r"b must be an array of shape \(16,\), not"):
            dsolver.solve(a, b)


def test_what_is_no_sparse_matrix_is_refused_with_what_makes_one() -> None:
    for dense in (np.eye(3), [[2.0, 1.0], [1.0, 2.0]]):
        for call in (lambda a: dsolver.solve(a, np.ones(3)), dsolver.matrix):
            with pytest.raises(InputError, match=r"scipy.sparse.csr_array"):
                call(dense)
    for other, told in (
        (
            type("Mat", (), {"getValuesCSR": None, "__call__": None}),
            r"csr_array\(A.getValuesCSR\(\)\[::-1\], shape=A.size\) makes one",
        ),
        (type("MatrixCSR", (), {"to_scipy": None}), r"A.to_scipy\(\) makes one"),
    ):
        with pytest.raises(InputError, match=rf"not a {other.__name__}: .*{told}"):
            dsolver.solve(other(), np.ones(3))
    with pytest.raises(InputError, match=r"not a MatrixLinearOperator: dsolver.operator takes square ones"):
        dsolver.lsmr(aslinearoperator(np.eye(3)), np.ones(3))
    with pytest.raises(InputError, match=r"not 'A.mtx': dsolver.read_matrix\(path\) reads a matrix"):
        dsolver.solve("A.mtx", np.ones(3))
    with pytest.raises(InputError, match=r"not a coo_array of shape \(3,\): a matrix has two axes"):
        dsolver.matrix(sp.coo_array(np.ones(3)))
    with pytest.raises(
        InputError, match=r"M has shape \(5, 5\), but for A it must be \(9, 9\): a row for each row of A"
    ):
        dsolver.solve(lattice(3), np.ones(9), M=np.eye(5))
    with pytest.raises(InputError, match=r"not an object of type .*: pass b.toarray\(\)"):
        dsolver.solve(lattice(3), sp.csr_array(np.ones((9, 1))))
    with pytest.raises(InputError, match=r"b must be an array .*: pass b.toarray\(\)"):
        dsolver.solve(lattice(3), sp.dia_array(np.ones((9, 2))))
    with pytest.raises(InputError, match=r"A must be a sparse matrix of SciPy or CuPy, not the type csr_array itself"):
        dsolver.matrix(sp.csr_array)


@pytest.mark.parametrize("m", ["auto", "jacobi"])
@pytest.mark.parametrize(("of_a", "of_b"), [(0, -700), (0, 1000), (-1000, -500), (-600, 0), (900, 500), (-500, -800)])
def test_matrices_and_right_hand_sides_whose_squares_are_no_numbers(of_a: int, of_b: int, m: str) -> None:
    a, x = lattice(12), np.random.default_rng(0).standard_normal(144)
    b = a @ x
    plain = dsolver.solve(a, b, M=m, x0=0.5 * x, rtol=1e-10, device="cpu")
    with dsolver.Solver(a * 2.0**of_a, M=m, device="cpu") as solver:
        one = solver.solve(b * 2.0**of_b, x0=np.ldexp(0.5 * x, of_b - of_a), rtol=1e-10)
        two: Any = solver.solve(np.stack([np.zeros(144), b * 2.0**of_b], axis=1), rtol=1e-10)
        applied = solver.aspreconditioner() @ (b * 2.0**of_a)
    assert (np.ldexp(one.x, of_a - of_b) == plain.x).all()
    assert one.residuals == tuple(np.ldexp(norm, of_b) for norm in plain.residuals)
    assert one.relative_residual == plain.relative_residual <= 1e-10
    assert one.b_norm == np.ldexp(plain.b_norm, of_b)
    assert (two[0].x == 0.0).all()
    np.testing.assert_allclose(np.ldexp(two[1].x, of_a - of_b), x, atol=1e-8)
    with dsolver.Solver(a, M=m, device="cpu") as solver:
        np.testing.assert_array_equal(applied, solver.aspreconditioner() @ b)


@pytest.mark.parametrize("turn", [0.0, 0.3j])
def test_empty_rows_are_solved_in_the_sense_of_least_squares(turn: complex) -> None:
    rng = np.random.default_rng(3)
    whole = sp.random_array((144, 144), density=0.05, rng=rng) + (3.0 + turn) * sp.eye_array(144)
    keep = np.ones(144)
    keep[[0, 7, 143]] = 0.0
    for a in (
        sp.csr_array(sp.diags_array(keep) @ whole),
        sp.csr_array(sp.diags_array(keep) @ (lattice(12) + turn * sp.eye_array(144))),
    ):
        a.eliminate_zeros()
        assert (np.diff(a.indptr) == 0).sum() == 3
        reached, missed = a @ rng.standard_normal(144), rng.standard_normal(144)
        found = dsolver.solve(a, reached, device="cpu")
        assert found.converged
        assert any("3 empty rows, the first is row 0" in note for note in found.notes)
        assert np.linalg.norm(reached - a @ found.x) <= 1e-8 * np.linalg.norm(reached)
        found = dsolver.solve(a, missed, device="cpu")
        assert found.status is not dsolver.Status.CONVERGED
        least = np.linalg.lstsq(a.toarray(), missed)[0]
        assert np.linalg.norm(missed - a @ found.x) <= 1.001 * np.linalg.norm(missed - a @ least)


def test_a_tolerance_that_is_given_for_a_tiny_right_hand_side_is_in_its_units() -> None:
    a, b = lattice(12), np.random.default_rng(0).standard_normal(144)
    found = dsolver.solve(a, b * 1e-200, M="jacobi", rtol=0.0, atol=1e-204, device="cpu")
    assert found.converged
    assert found.limit == pytest.approx(1e-204)
    assert 1e-208 < found.true_residual <= 1e-204


def test_x_beyond_all_numbers_is_refused() -> None:
    a, b = lattice(12), np.random.default_rng(0).standard_normal(144)
    for m in ("jacobi", "direct"):
        with pytest.raises(InputError, match="beyond the largest number there is: multiply A"):
            dsolver.solve(a * 1e-310, b, M=m, device="cpu")
    assert dsolver.solve(a * 1e-310, b * 1e-10, device="cpu").converged


def test_x_below_all_numbers_is_refused() -> None:
    """An x that was 0, or had lost its digits, and was called converged."""
    a, b = lattice(12), np.random.default_rng(0).standard_normal(144)
    for size in (1e-200, 1e-28):
        with pytest.raises(InputError, match=r"x has no value as large as 3\.3e-316: divide A"):
            dsolver.solve(a * 1e290, b * size, device="cpu")
    assert dsolver.solve(a * 1e290, b * 0.0, device="cpu").converged


def test_a_known_x_beyond_all_norms_is_not_called_a_guess() -> None:
    a = sp.csr_array([[1.0, 1e200], [0.0, 2.0]])
    with pytest.raises(InputError, match="x is so large, in rows that have a diagonal alone"):
        dsolver.solve(a, np.ones(2), device="cpu")


def test_a_function_and_an_operator_precondition_it() -> None:
    a = graph_laplacian(60, 4.0, 2)
    b = np.ones(60)
    inverse = sp.diags_array(1.0 / a.diagonal())
    jacobi = dsolver.solve(a, b, M="jacobi", device="cpu")
    shapes = []

    def divided(r: Any) -> Any:
        shapes.append(r.shape)
        return inverse @ r

    for m in (inverse, divided):
        assert dsolver.solve(dsolver.matrix(a, chunks=2), b, M=m, device="cpu").iterations == jacobi.iterations
    assert set(shapes) == {(60,)}


def test_the_estimate_knows_the_matrix() -> None:
    a = lattice(90)
    one, six = (dsolver.estimate(dsolver.matrix(a, chunks=n), M="jacobi", device="cpu", workers=1) for n in (1, 6))
    entries = 8 * 5 * 8100  # in run slices
    assert entries <= one.workers[0].matrices[0] <= 2 * entries
    assert one.workers[0].resident <= six.workers[0].resident
    a = lattice(130)
    usual = dsolver.estimate(a, device="cpu", workers=2)
    assert usual.chunks == (2, 1, 1)
    assert usual.bytes == dsolver.estimate(dsolver.matrix(a), M="chebyshev", device="cpu", workers=2).bytes
    assert dsolver.estimate(lattice(40), device="cpu", workers=1).iterations == 2, "with factors"
    assert usual.iterations < dsolver.estimate(a, M=None, device="cpu", workers=2).iterations < 200


@pytest.mark.gpu
def test_on_a_gpu_the_answer_and_its_kind() -> None:
    import cupy
    import cupyx.scipy.sparse

    a = graph_laplacian(5000, 9.0, 4)
    b = np.random.default_rng(4).standard_normal(5000)
    expected = spsolve(a.tocsc(), b)
    for method in METHODS:
        found = dsolver.solve(cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(a)), cupy.asarray(b), M=method, rtol=1e-12)
        assert isinstance(found.x, cupy.ndarray)
        assert np.linalg.norm(found.x.get() - expected) <= 1e-8 * np.linalg.norm(expected)
        cut = [dsolver.solve(dsolver.matrix(a, chunks=5), b, M=method, engine=e) for e in ("reference", "resident")]
        assert cut[0].residuals == cut[1].residuals
        assert (cut[0].x == cut[1].x).all()


@pytest.mark.parametrize("size", [0, -1, 4, 1.5])
def test_blocks_divide_the_rows(size: Any) -> None:
    a = sp.eye_array(6, format="csr")
    for good in (1, 3):
        made: Any = dsolver.matrix(a, block_size=good)
        assert made.block == good
    with pytest.raises(InputError, match=r"block_size must be an integer >= 1 that divides the 6 rows of A"):
        dsolver.matrix(a, block_size=size)
