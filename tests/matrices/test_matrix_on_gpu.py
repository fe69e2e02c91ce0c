"""Compressed rows on a GPU stay there, and everything follows from them as it does from the same rows on the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import InputError
from dsolver.kernels import load
from dsolver.matrices.checked import RowsOnGpu
from dsolver.matrices.chunks.cut import CutMatrix
from dsolver.matrices.chunks.row_block import ROWS
from dsolver.matrices.problem import MatrixProblem
from dsolver.session.arguments import problem_of
from tests.matrices.test_matrix import graph_laplacian, lattice

pytestmark = pytest.mark.gpu


def there(a: Any, kind: str = "csr") -> Any:
    import cupyx.scipy.sparse

    return getattr(cupyx.scipy.sparse, f"{kind}_matrix")(getattr(sp, f"{kind}_matrix")(a))


def one_sided(rows: int) -> sp.csr_array:
    return sp.csr_array(lattice(rows) + sp.diags_array(np.full(rows * rows - 5, 2e-3), offsets=5))


def closed(rows: int) -> sp.csr_array:
    a = graph_laplacian(rows, 16.0, 5)
    return sp.csr_array(a - sp.diags_array(np.asarray(a.sum(axis=1)).ravel()))


def told(problem: Any) -> dict[str, Any]:
    """Attributes that are no arrays."""
    return {name: getattr(problem, name) for name in (f.name for f in fields(problem)) if name not in ARRAYS}


ARRAYS = ("matrix", "coefficients", "elimination")
MATRICES = {
    "lattice": lattice(30),
    "graph": graph_laplacian(900, 9.0, 4),
    "in blocks": sp.csr_array(sp.kron(lattice(10), np.array([[4.0, 1.0, 0.5], [1.0, 5.0, 0.2], [0.5, 0.2, 6.0]]))),
    "unsymmetric": one_sided(20),
    "singular": closed(300),
    "singular, unsymmetric": sp.csr_array(sp.diags_array(np.linspace(1.0, 2.0, 300)) @ closed(300)),
    "zeros on the diagonal": sp.csr_array(lattice(9) - sp.diags_array(4.0 * (np.arange(81) % 40 == 12))),
    "columns of many sizes": sp.csr_array(one_sided(20) @ sp.diags_array(np.geomspace(1e-5, 1e5, 400))),
    "negative": sp.csr_array(-lattice(5)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_what_is_known_of_a_matrix(name: str) -> None:
    a = MATRICES[name]
    here, moved = dsolver.matrix(a), dsolver.matrix(there(a))
    assert isinstance(moved, MatrixProblem)
    assert isinstance(moved.matrix, RowsOnGpu)
    assert told(moved) == told(here)
    one, other = here.planned(1), moved.planned(1)
    assert isinstance(one, MatrixProblem)
    assert isinstance(other, MatrixProblem)
    for mine, its in zip(one.counts, other.counts, strict=True):
        assert mine.local.variance == pytest.approx(its.local.variance)
        assert (mine.rows, mine.local.longest, mine.local.stored) == (its.rows, its.local.longest, its.local.stored)
    assert told(moved.planned(3)) == told(here.planned(3))


def test_rows_stay_where_they_are() -> None:
    a = there(lattice(20))
    problem = dsolver.matrix(a).planned(1)
    cut = problem.coefficients[ROWS]
    assert isinstance(cut, CutMatrix)
    partition = cut.blocks(dsolver_partition(problem), host=False)
    assert partition[0].values.data.ptr == a.data.data.ptr
    assert partition[0].here.values.tolist() == a.data.tolist()


def dsolver_partition(problem: Any) -> Any:
    from dsolver.grid.partition import Partition

    return Partition(problem.grid, problem.chunks)


@pytest.mark.parametrize("formats", [None, "slices", "chunks", "rows"])
def test_solutions_have_the_bits_that_they_have_of_a_matrix_on_the_host(formats: Any) -> None:
    import cupy

    for name in ("lattice", "graph", "unsymmetric", "singular"):
        a = MATRICES[name]
        b = np.random.default_rng(3).standard_normal(a.shape[0])
        b -= b.mean()
        here, moved = (dsolver.matrix(of, formats=formats) for of in (a, there(a)))
        wanted = dsolver.solve(here, b, M="jacobi", device="cuda", maxiter=30)
        found = dsolver.solve(moved, cupy.asarray(b), M="jacobi", device="cuda", maxiter=30)
        assert isinstance(found.x, cupy.ndarray)
        assert found.residuals == wanted.residuals
        assert (found.x.get() == wanted.x).all()


@pytest.mark.parametrize("m", ["l1-jacobi", "block-jacobi", "ic0", "amg"])
def test_preconditioners_that_are_made_on_the_host(m: str) -> None:
    a = MATRICES["lattice"]
    b = np.ones(a.shape[0])
    wanted, found = (dsolver.solve(of, b, M=m, device="cuda") for of in (a, there(a)))
    assert found.residuals == wanted.residuals


def test_a_matrix_that_changes_after_set_up() -> None:
    a = there(MATRICES["graph"])
    b = np.ones(a.shape[0])
    for formats in ("slices", "chunks", "rows"):
        a.data[:] = there(MATRICES["graph"]).data
        with dsolver.Solver(dsolver.matrix(a, formats=formats), M="jacobi", device="cuda") as solver:
            wanted = solver.solve(b, maxiter=9).residuals
            a.data[:] = 0.0
            assert solver.solve(b, maxiter=9).residuals == wanted


def test_a_cpu_solves_with_it_too() -> None:
    a = MATRICES["graph"]
    b = np.ones(a.shape[0])
    wanted, found = (dsolver.solve(of, b, M="jacobi", device="cpu") for of in (a, there(a)))
    assert (found.x == wanted.x).all()


def test_what_goes_by_way_of_the_host() -> None:
    a = MATRICES["lattice"]
    one = there(a)
    for problem in (
        dsolver.matrix(one, chunks=4),
        dsolver.matrix(one, order="rcm"),
        dsolver.matrix(one, partition=np.arange(900) % 2),
        dsolver.matrix(one, grid=(30, 30)),
    ):
        assert dsolver.solve(problem, np.ones(900), M="jacobi", device="cuda").converged


def permuted(a: Any) -> Any:
    """The rows of CuPy with their entries in the opposite order."""
    turned = sp.csr_matrix(a)
    for first, last in zip(turned.indptr, turned.indptr[1:], strict=False):
        turned.indices[first:last], turned.data[first:last] = (
            part[first:last][::-1].copy() for part in (turned.indices, turned.data)
        )
    return there(turned)


@pytest.mark.parametrize("kind", ["csc", "coo"])
def test_columns_and_coordinates_become_rows(kind: str) -> None:
    for name in ("graph", "unsymmetric"):
        problem = dsolver.matrix(there(MATRICES[name], kind))
        assert isinstance(problem, MatrixProblem)
        assert isinstance(problem.matrix, RowsOnGpu)
        assert (problem.matrix.get() != MATRICES[name]).nnz == 0
        assert told(problem) == told(dsolver.matrix(MATRICES[name]))


def test_diagonals_go_by_way_of_the_host() -> None:
    problem = dsolver.matrix(there(lattice(5), "dia"))
    assert isinstance(problem, MatrixProblem)
    assert (problem.matrix != lattice(5)).nnz == 0


@pytest.mark.parametrize("transposed", [False, True])
def test_entries_of_a_package_that_differentiates(transposed: bool) -> None:
    import cupy

    from dsolver.autodiff.systems import MatrixEntries

    a = sp.coo_array(MATRICES["unsymmetric"])
    rows, columns = (np.append(places, a.shape[0]) for places in a.coords)  # JAX pads so
    parameters = [cupy.asarray(values) for values in (np.append(a.data, 0.0), rows, columns)]
    problem = MatrixEntries(a.shape[0]).problem(parameters, transposed=transposed)
    assert isinstance(problem, MatrixProblem)
    assert isinstance(problem.matrix, RowsOnGpu)
    assert (problem.matrix.get() != (a.T if transposed else a).tocsr()).nnz == 0


def test_rows_in_any_order_and_with_repeated_columns() -> None:
    a = MATRICES["graph"]
    mixed = dsolver.matrix(permuted(a))
    assert isinstance(mixed, MatrixProblem)
    assert isinstance(mixed.matrix, RowsOnGpu)
    assert (mixed.matrix.get() != a).nnz == 0
    twice = there(a)
    twice.indices = np.repeat(twice.indices.get(), 2)
    twice.data, twice.indptr = np.repeat(twice.data.get(), 2) / 2.0, 2 * twice.indptr
    import cupy

    twice.indices, twice.data = cupy.asarray(twice.indices), cupy.asarray(twice.data)
    added = dsolver.matrix(twice)
    assert isinstance(added, MatrixProblem)
    assert isinstance(added.matrix, RowsOnGpu)
    assert (added.matrix.get() != a).nnz == 0
    single = there(a)
    single.data = single.data.astype(np.float32)
    narrow = dsolver.matrix(single)
    assert isinstance(narrow, MatrixProblem)
    assert narrow.matrix.data.dtype == np.float64


def infinite(a: Any) -> None:
    a.data[17] = np.nan


def outside(a: Any) -> None:
    a.indices[3] = 81


def descending(a: Any) -> None:
    a.indptr[5] = 0


def late(a: Any) -> None:
    a.indptr[0] = 1


def beyond(a: Any) -> None:
    a.indptr[-1] += 7


@pytest.mark.parametrize("change", [infinite, outside, descending, late, beyond])
def test_what_is_refused_with_the_same_words(change: Callable[[Any], None]) -> None:
    here, moved = sp.csr_matrix(lattice(9)), there(lattice(9))
    said = []
    for a in (here, moved):
        change(a)
        with pytest.raises(InputError) as caught:
            dsolver.matrix(a)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_statistics_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    general, calls = type(load("cuda").general), []
    found = general.statistics

    def counted(*given: Any) -> Any:
        calls.append(given)
        return found(*given)

    monkeypatch.setattr(general, "statistics", counted)
    with dsolver.Solver(there(lattice(12)), M="jacobi", device="cuda"):
        assert len(calls) == 1


SENT = {
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "bsr": lambda a: sp.bsr_array(a, blocksize=(2, 2)),
    "dia": sp.dia_array,
    "csr_matrix": sp.csr_matrix,
    "float32": lambda a: sp.csr_array(a, dtype=np.float32),
    "int64 indices": lambda a: sp.csr_array((a.data, *(p.astype(np.int64) for p in (a.indices, a.indptr))), a.shape),
    "coordinates twice": lambda a: twice(sp.coo_array(a)),
}


def twice(a: Any) -> Any:
    data = np.concatenate([0.25 * a.data, 0.75 * a.data])
    return sp.coo_array((data, tuple(np.concatenate([places, places]) for places in a.coords)), shape=a.shape)


@pytest.mark.parametrize("kind", SENT)
def test_matrices_of_scipy_are_looked_at_where_they_are_solved(kind: str) -> None:
    a = MATRICES["lattice" if kind == "dia" else "graph"].copy()
    a.data = np.round(a.data * 64) / 64  # so that parts and float32 are exact
    given = SENT[kind](a)
    here, moved = dsolver.matrix(given), dsolver.matrix(given, device="cuda")
    assert isinstance(here, MatrixProblem)
    assert isinstance(moved, MatrixProblem)
    assert isinstance(moved.matrix, RowsOnGpu)
    assert (moved.matrix.get() != here.matrix).nnz == 0
    assert told(moved) == told(here)
    b = np.ones(a.shape[0])
    found, wanted = (dsolver.solve(of, b, M="jacobi", device="cuda", maxiter=20) for of in (given, here))
    assert found.residuals == wanted.residuals
    assert (found.x == wanted.x).all()


def test_a_problem_made_before_goes_to_the_gpu_that_solves_it() -> None:
    a = MATRICES["lattice"]
    near = np.random.default_rng(2).standard_normal((a.shape[0], 2))
    here = dsolver.matrix(a, near_nullspace=near)
    assert isinstance(here, MatrixProblem)
    moved = problem_of(here, gpu=True)
    assert isinstance(moved.matrix, RowsOnGpu)
    assert (moved.matrix.get() != here.matrix).nnz == 0
    assert not isinstance(moved.near, np.ndarray)
    assert problem_of(here, gpu=False) is here
    cut = dsolver.matrix(a, chunks=2)
    assert problem_of(cut, gpu=True) is cut
    b = np.ones(a.shape[0])
    assert dsolver.solve(here, b, M="amg", device="cuda").converged
    assert dsolver.eigsh(here, 2, device="cuda").converged


def faulty(rows: Any, **arrays: Any) -> Any:
    """Rows with other arrays, which SciPy would refuse."""
    made = sp.csr_array(rows)
    for name, values in arrays.items():
        setattr(made, name, values)
    return made


FAULTS = {
    "column": lambda a: faulty(a, indices=np.where(np.arange(a.nnz) == 7, a.shape[0], a.indices)),
    "wide column": lambda a: faulty(a, indices=np.where(np.arange(a.nnz) == 7, 1 << 33, a.indices.astype(np.int64))),
    "pointers": lambda a: faulty(a, indptr=np.where(np.arange(a.shape[0] + 1) == 3, a.nnz + 5, a.indptr)),
    "short": lambda a: faulty(a, data=a.data[:-3]),
    "infinite": lambda a: faulty(a, data=np.where(np.arange(a.nnz) == 11, np.inf, a.data)),
    "not square": lambda a: sp.csr_array(a[:-1]),
    "negative row": lambda a: _moved(sp.coo_array(a)),
}


def _moved(a: Any) -> Any:
    a.coords[0][5] = -1
    return a


@pytest.mark.parametrize("fault", FAULTS)
def test_a_matrix_with_a_fault_is_told_of_as_on_the_host(fault: str) -> None:
    given = FAULTS[fault](MATRICES["graph"].copy())
    with pytest.raises(InputError) as wanted:
        dsolver.matrix(given)
    with pytest.raises(InputError) as found:
        dsolver.matrix(given, device="cuda")
    assert str(found.value) == str(wanted.value)
