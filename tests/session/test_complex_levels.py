"""Algebraic multigrid whose coarse matrices are products of a complex matrix itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import dsolver
from dsolver.matrices.checked import RowsOnGpu, on_host
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Algebraic
from tests.session.test_complex import Complex
from tests.support.clusters import cluster
from tests.support.gauges import in_random_gauge
from tests.support.same_bits import check_same_bits

N = 10
BLOCK = 2
FEW = Algebraic(coarse_rows=30)


def conduction(n: int = N, *, grounded: bool = True) -> sp.csr_array:
    """Cells with conductivities over four decades in both parts; grounded: with a fixed value around."""
    random = np.random.default_rng(5)
    values = [np.exp(2.0 * random.standard_normal((n // BLOCK,) * 3)) for _ in "ab"]
    cells = np.kron(values[0] + 1j * values[1], np.ones((BLOCK,) * 3))
    numbers = np.arange(n**3).reshape(cells.shape)
    made = sp.csr_array((n**3, n**3), dtype=np.complex128)
    for axis in range(3):
        here, there = (np.moveaxis(cells, axis, 0)[part].ravel() for part in (slice(1, None), slice(None, -1)))
        i, j = (np.moveaxis(numbers, axis, 0)[part].ravel() for part in (slice(1, None), slice(None, -1)))
        face = 2.0 * here * there / (here + there)
        entries = np.r_[face, face, -face, -face], (np.r_[i, j, i, j], np.r_[i, j, j, i])
        made = made + sp.coo_array(entries, made.shape)
    edge = (numbers.ravel() < n * n) * cells.ravel()
    return sp.csr_array(made + sp.diags_array(edge)) if grounded else sp.csr_array(made)


A = conduction()
L = sp.csr_array(A.real)


def right(seed: int = 0) -> Complex:
    random = np.random.default_rng(seed)
    made: Complex = random.standard_normal(N**3) + 1j * random.standard_normal(N**3)
    return made


def solved(a: Any, m: Any = FEW, **options: Any) -> Any:
    found = dsolver.solve(a, right(), M=m, rtol=1e-10, **{"device": "cpu", **options})
    assert found.converged
    return found


def test_levels_of_the_matrix_itself_take_half_the_iterations_of_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found = solved(A)
    expected = spsolve(sp.csc_matrix(A), right())
    assert np.linalg.norm(found.x - expected) <= 1e-6 * np.linalg.norm(expected)
    assert solved(A, Algebraic(coarse_rows=30, sweeps=2)).iterations < found.iterations
    monkeypatch.setattr(Algebraic, "_is_complex", lambda *_: False)
    assert found.iterations <= 0.6 * solved(A).iterations


def test_a_number_times_the_matrix_takes_as_many_iterations() -> None:
    """In all four quadrants, and between two of them."""
    found = solved(A).iterations
    for factor in (1j, -1.0, -1j, 1e5):
        assert solved(sp.csr_array(factor * A)).iterations == found, factor
    assert solved(A.conj()).iterations == found


def test_engines_and_workers_give_the_same_bits() -> None:
    problem = dsolver.matrix(A, chunks=3)
    with cluster(2) as client:
        check_same_bits(problem, right(), client, M=FEW, maxiter=3)


def test_other_chunks_and_orders_take_as_many_iterations() -> None:
    whole = solved(A)
    for options in ({"chunks": 3}, {"chunks": 2, "order": "rcm"}):
        found = solved(dsolver.matrix(A, **options))
        assert abs(found.iterations - whole.iterations) <= 1
        assert np.linalg.norm(found.x - whole.x) <= 1e-7 * np.linalg.norm(whole.x)


@pytest.mark.parametrize("part", ["real", "imaginary"])
def test_a_part_that_is_a_diagonal(part: str) -> None:
    unit = sp.eye_array(N**3)
    a = sp.csr_array(unit + 2j * L if part == "real" else L + 0.3j * unit)
    assert solved(a).iterations <= 20
    assert solved(dsolver.matrix(a, chunks=3)).iterations <= 20


def test_levels_in_float32_and_several_right_hand_sides() -> None:
    double, single = solved(A), solved(A, Algebraic(coarse_rows=30, precision="float32"))
    assert abs(single.iterations - double.iterations) <= 2
    both = np.stack([right(), right(1)], axis=-1)
    found = dsolver.solve(A, both, M=FEW, rtol=1e-10, device="cpu")
    assert np.array_equal(found.x[..., 0], double.x)


def test_both_parts_of_levels_are_counted() -> None:
    found = {}
    for a in (L, A):
        with dsolver.Solver(a, M=FEW, device="cpu") as solver:
            found[a.dtype.kind] = solver.hierarchy.levels
    for real, both in zip(found["f"][1:-1], found["c"][1:-1], strict=False):
        assert both.matrix_bytes / both.entries > 1.6 * real.matrix_bytes / real.entries
    sizes = [dsolver.estimate(a, M="amg", device="cpu").workers[0].matrices for a in (L, A)]
    assert sizes[1] > sizes[0]


def test_m_is_symmetric() -> None:
    with dsolver.Solver(A, M=FEW, device="cpu") as solver:
        m, x, y = solver.aspreconditioner(), right(1), right(2)
        assert np.dot(x, m @ y) == pytest.approx(np.dot(y, m @ x), rel=1e-10)


def test_constants_in_the_null_space() -> None:
    a, b = conduction(grounded=False), right()
    found = dsolver.solve(a, b - b.mean(), M=FEW, rtol=1e-10, device="cpu")
    assert found.converged
    assert found.iterations <= 30
    assert abs(found.x.mean()) <= 1e-10 * abs(found.x).max()
    assert np.linalg.norm(b - b.mean() - a @ found.x) <= 1e-9 * np.linalg.norm(b)


def test_which_matrices_have_such_levels() -> None:
    unit, signs = sp.eye_array(N**3), sp.diags_array(np.where(np.arange(N**3) % 2, 1.0, -1.0))
    for a, quadrant in (
        (A, (1.0, 1.0)),
        (-A.conj(), (-1.0, 1.0)),
        (L + 1j * signs, None),
        (L - (4.0 - 1j) * unit, None),
        (L + 0j * unit, None),
    ):
        assert problem_of(sp.csr_array(a, dtype=np.complex128), "cpu").quadrant == quadrant


WAVES = sp.csr_array(L - (2.0 - 0.3j) * sp.eye_array(N**3))
LOOKED_AT = {
    "one sign": A,
    "another sign": -A,
    "Crank-Nicolson": sp.csr_array(sp.eye_array(N**3) - 2j * L),
    "shifted": sp.csr_array(L + 0.3j * sp.eye_array(N**3)),
    "waves": WAVES,
    "signs of both kinds": sp.csr_array(L + 1j * sp.diags_array(np.where(np.arange(N**3) % 2, 1.0, -1.0)) @ L),
    "real": sp.csr_array(L + 0j * sp.eye_array(N**3)),
    "Hermitian": in_random_gauge(sp.csr_array(L, dtype=np.complex128)),
    "flow": sp.csr_array(A + sp.diags_array([0.1j], offsets=[1], shape=A.shape)),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", LOOKED_AT)
def test_on_a_gpu_a_matrix_is_looked_at_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = LOOKED_AT[name]
    a.sort_indices()
    here = problem_of(a, "cpu")
    monkeypatch.delattr("dsolver.matrices.complex.problem.compressed")
    there = problem_of(a, "cuda")
    assert isinstance(there.matrix, RowsOnGpu)
    assert all(isinstance(part, RowsOnGpu) for part in there.parts)
    for known in ("quadrant", "hermitian", "real_valued", "asymmetry", "indefinite", "elliptic", "dominant"):
        assert getattr(there, known) == getattr(here, known), known
    assert (there.phases is None) is (here.phases is None) is (name != "Hermitian")
    if here.phases is not None:
        assert there.phases is not None
        assert np.array_equal(there.phases, here.phases)
    assert (there.to_scipy() != a).nnz == 0
    same(on_host(there.matrix), here.matrix)
    for one, other in zip(here.parts, there.parts, strict=True):  # on the GPU in A's places, zeros too
        found = on_host(other)
        assert np.array_equal(found.indptr, on_host(there.matrix).indptr)
        for each in (one, found):
            each.eliminate_zeros()
        same(found, one)


@pytest.mark.gpu
def test_a_problem_made_before_is_solved_on_a_gpu_with_the_same_bits() -> None:
    moved = problem_of(A, "cpu").on_gpu()
    assert solved(moved, device="cuda").residuals == solved(A, device="cuda").residuals


def problem_of(a: Any, device: Any) -> MatrixProblem:
    made = dsolver.matrix(a, device=device)
    assert isinstance(made, MatrixProblem)
    return made


def same(a: Any, b: Any) -> None:
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    host = solved(A)
    for chunks in (1, 3):
        found = solved(dsolver.matrix(A, chunks=chunks), device="cuda", precond_dtype="float64")
        assert abs(found.iterations - host.iterations) <= 1
        assert np.linalg.norm(found.x - host.x) <= 1e-7 * np.linalg.norm(host.x)
    assert solved(A, device="cuda").iterations <= host.iterations + 2
