"""Complex systems: matrices and right-hand sides, by every method, against SciPy's direct solver."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from distributed import Client
from scipy.sparse.linalg import gmres, spsolve

import dsolver
from dsolver.errors import InputError
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Chebyshev, Direct, Identity, PreconditionedSquareBlock
from tests.support.clusters import cluster
from tests.support.same_bits import check_same_bits

Complex = npt.NDArray[np.complex128]
N = 6
STEPS = 3
UNIT = sp.eye_array(N**3)


def laplacian() -> sp.csr_array:
    line, unit = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(N, N)), sp.eye_array(N)
    first, second = sp.kron(line, sp.kron(unit, unit)), sp.kron(unit, sp.kron(line, unit))
    return sp.csr_array(first + second + sp.kron(unit, sp.kron(unit, line)))


def conduction() -> sp.csr_array:
    """AC conduction: both parts of the conductivity are log-normal in blocks of cells."""
    random = np.random.default_rng(3)
    kappa = np.exp(2.0 * random.standard_normal((3, 3, 3))) + 1j * np.exp(2.0 * random.standard_normal((3, 3, 3)))
    cells = np.kron(kappa, np.ones((2, 2, 2)))
    numbers = np.arange(N**3).reshape(N, N, N)
    made = sp.csr_array((N**3, N**3), dtype=np.complex128)
    for axis in range(3):
        here, there = (np.moveaxis(cells, axis, 0)[part].ravel() for part in (slice(1, None), slice(None, -1)))
        i, j = (np.moveaxis(numbers, axis, 0)[part].ravel() for part in (slice(1, None), slice(None, -1)))
        face = 2.0 * here * there / (here + there)
        made = made + sp.coo_array(
            (np.r_[face, face, -face, -face], (np.r_[i, j, i, j], np.r_[i, j, j, i])), made.shape
        )
    return sp.csr_array(made + sp.diags_array((numbers.ravel() < N * N) * cells.ravel()))


L = laplacian()
TURNS = sp.diags_array(np.exp(1j * np.random.default_rng(1).uniform(0.0, 2.0, N**3)))
MATRICES = {
    "conduction": conduction(),
    "shifted": sp.csr_array(L + (0.01 + 0.2j) * UNIT),
    "far": sp.csr_array(L + 5j * UNIT),
    "Crank-Nicolson": sp.csr_array(UNIT + 2j * L),
    "damped waves": sp.csr_array(L - (1.0 - 0.3j) * UNIT),
    "Hermitian": sp.csr_array(TURNS.conjugate() @ L @ TURNS),
    "Hermitian, indefinite": sp.csr_array(TURNS.conjugate() @ (L - 1.1 * UNIT) @ TURNS),
    "unsymmetric": sp.csr_array(L + (0.1 + 0.2j) * UNIT + sp.diags_array([0.4j], offsets=[1], shape=L.shape)),
}


def right(seed: int = 0) -> Complex:
    random = np.random.default_rng(seed)
    found: Complex = random.standard_normal(N**3) + 1j * random.standard_normal(N**3)
    return found


B = right()


def check(a: Any, x: Any, b: Any = B, rtol: float = 1e-7) -> None:
    assert x.dtype == np.complex128
    expected = spsolve(sp.csc_matrix(a, dtype=np.complex128), b)
    assert np.linalg.norm(x - expected) <= rtol * np.linalg.norm(expected)


@pytest.fixture(scope="module")
def two() -> Iterator[Client]:
    with cluster(2) as client:
        yield client


@pytest.mark.parametrize("name", MATRICES)
def test_a_default_call_solves(name: str) -> None:
    a = MATRICES[name]
    solution = dsolver.solve(a, B, rtol=1e-10)
    assert solution.converged
    assert solution.iterations <= 70
    assert np.linalg.norm(B - a @ solution.x) == pytest.approx(solution.true_residual, rel=1e-3, abs=1e-13)
    check(a, solution.x)


@pytest.mark.parametrize("name", ["conduction", "shifted", "far", "Crank-Nicolson"])
def test_the_preconditioned_square_block(name: str) -> None:
    a, found = MATRICES[name], []
    for chunks in (1, 2):
        for engine in ("reference", "resident"):
            solution = dsolver.solve(dsolver.matrix(a, chunks=chunks), B, M="presb", engine=engine, rtol=1e-10)
            assert solution.converged
            check(a, solution.x)
            found.append(solution.residuals)
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(found[0]) == len(found[2])
    turned = dsolver.solve(a.conj(), B.conj(), M="presb", rtol=1e-10)
    assert turned.residuals == found[0]
    assert dsolver.solve(a, B, M=PreconditionedSquareBlock(inner=Chebyshev(degree=8))).converged


@pytest.mark.parametrize("name", ["far", "Crank-Nicolson"])
def test_the_square_block_is_its_formula(name: str) -> None:
    """h = p + q, v = q - C h and z = h - v + iv, for A = B + iC with the identity for M; of B - iC the conjugate."""
    a = sp.csr_array(MATRICES[name])
    h = B.real + B.imag
    v = B.imag - a.imag @ h
    for matrix, b, expected in ((a, B, h - v + 1j * v), (a.conj(), B.conj(), h - v - 1j * v)):
        with dsolver.Solver(matrix, M=PreconditionedSquareBlock(inner=Identity()), device="cpu") as solver:
            np.testing.assert_allclose(solver.aspreconditioner() @ b, expected, rtol=1e-12)


def test_what_the_square_block_refuses() -> None:
    mixed = sp.csr_array(L + 1j * sp.diags_array(np.where(np.arange(N**3) % 2, 1.0, -1.0)))
    for a, why in (
        (MATRICES["Hermitian"], "is for complex A = Aᵀ"),
        (MATRICES["unsymmetric"], "is for complex A = Aᵀ"),
        (L, "is for complex A = Aᵀ"),
        (mixed, "numbers of one sign there"),
        (sp.csr_array(L - (7.0 - 1j) * UNIT), "no negative number on its diagonal"),
    ):
        with pytest.raises(InputError, match=why):
            dsolver.solve(a, np.ones(N**3), M="presb")
    with pytest.raises(InputError, match="takes a real preconditioner"):
        dsolver.solve(MATRICES["far"], B, M=PreconditionedSquareBlock(inner=Direct()))
    with pytest.raises(InputError, match="serves method='fgmres' alone, not 'cocg'"):
        dsolver.solve(MATRICES["far"], B, M="presb", method="cocg")


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, "cocg") for name in ("conduction", "shifted", "far", "Crank-Nicolson")),
        *(("Hermitian", method) for method in ("cg", "fcg", "minres", "gmres", "fgmres", "bicgstab")),
        *(("unsymmetric", method) for method in ("gmres", "fgmres", "bicgstab")),
        ("Hermitian, indefinite", "minres"),
    ],
)
def test_every_method_solves_what_it_is_for(name: str, method: Any) -> None:
    m = None if "indefinite" in name else "amg"
    solution = dsolver.solve(MATRICES[name], B, method=method, M=m, rtol=1e-10)
    assert solution.converged
    check(MATRICES[name], solution.x)


@pytest.mark.parametrize(("name", "most"), [("conduction", 36), ("shifted", 20), ("far", 20), ("Crank-Nicolson", 24)])
def test_a_real_cycle_on_both_parts_takes_few_iterations(name: str, most: int) -> None:
    assert dsolver.solve(MATRICES[name], B, M="amg").iterations <= most


def test_cocg_finds_what_conjugate_gradients_find_where_the_matrix_is_real() -> None:
    a, b = sp.csr_array(L + 0.0j), right(1)
    found = dsolver.solve(sp.csr_array(a + 1e-300j * UNIT), b, M="jacobi", method="cocg")
    real = dsolver.solve(L, b.real, M="jacobi")
    assert abs(found.iterations - real.iterations) <= 2
    check(a, found.x, b)


@pytest.mark.parametrize("method", ["cg", "minres", "fcg", "cocg"])
def test_a_real_matrix_of_a_complex_type_is_hermitian_and_symmetric(method: Any) -> None:
    shifted = L - (1.1 if method == "minres" else 0.0) * UNIT
    whole = sp.csr_array(shifted.astype(complex))
    found = dsolver.solve(whole, B, method=method, M=None, rtol=1e-10)
    assert found.converged
    check(shifted, found.x)
    real = dsolver.solve(shifted, B.real, method=method.replace("cocg", "cg"), M=None, rtol=1e-10)
    assert abs(found.iterations - real.iterations) <= 3


def test_what_methods_are_not_for_is_refused() -> None:
    for name, method, words in (
        ("far", "cg", "A is complex with A = Aᵀ, and method='cg' needs A = Aᴴ: use method='cocg'"),
        ("Hermitian", "cocg", "A is complex with A = Aᴴ, and method='cocg' needs A = Aᵀ: use method='cg'"),
        ("unsymmetric", "cocg", "A is not symmetric: A["),
    ):
        with pytest.raises(InputError) as raised:
            dsolver.solve(MATRICES[name], B, method=method)  # type: ignore[arg-type]
        assert words in str(raised.value)
    for option in ({"symmetric": True}, {"grid": (N, N, N)}, {"nullspace": np.ones(N**3)}):
        with pytest.raises(InputError, match=r"A is complex, and .*= is for real matrices"):
            dsolver.matrix(MATRICES["far"], **option)


@pytest.mark.parametrize("m", ["amg", "chebyshev", "direct"])
def test_chunks_engines_and_workers_give_the_same_bits(m: Any, two: Client) -> None:
    a = MATRICES["conduction"]
    problem = dsolver.matrix(a, chunks=3)
    here = check_same_bits(problem, B, two, M=m, maxiter=STEPS)
    assert here.true_residual < here.b_norm


@pytest.mark.parametrize("name", ["Hermitian", "unsymmetric"])
def test_other_methods_give_the_same_bits_on_a_cluster(name: str, two: Client) -> None:
    problem = dsolver.matrix(MATRICES[name], chunks=3)
    for method in ("cg", "bicgstab") if name == "Hermitian" else ("gmres",):
        here = dsolver.solve(problem, B, M="jacobi", method=method, device="cpu", maxiter=STEPS)
        for engine in ("resident", "graph"):
            there = dsolver.solve(problem, B, M="jacobi", method=method, client=two, engine=engine, maxiter=STEPS)
            assert np.array_equal(there.x, here.x), (method, engine)


@pytest.mark.parametrize("options", [{"partition": "graph", "chunks": 3}, {"order": "rcm", "chunks": 2}, {"chunks": 1}])
def test_rows_in_other_orders(options: dict[str, Any]) -> None:
    for name in ("conduction", "unsymmetric"):
        for m in ("amg", "direct"):
            check(MATRICES[name], dsolver.solve(dsolver.matrix(MATRICES[name], **options), B, M=m, rtol=1e-10).x)


def test_a_dask_array_on_a_cluster(two: Client) -> None:
    b = da.from_array(B, chunks=50)
    x = dsolver.solve(MATRICES["far"], b, client=two, rtol=1e-10).x
    assert isinstance(x, da.Array)
    assert x.dtype == np.complex128
    check(MATRICES["far"], x.compute())


def test_single_precision_and_real_right_hand_sides() -> None:
    a = MATRICES["Crank-Nicolson"]
    single = dsolver.solve(a.astype(np.complex64), B.astype(np.complex64), rtol=1e-10)
    check(a, single.x, B.astype(np.complex64).astype(np.complex128), rtol=1e-6)
    check(a, dsolver.solve(a, B.real, rtol=1e-10).x, B.real)
    guessed = dsolver.solve(a, B, x0=spsolve(sp.csc_matrix(a), B), rtol=1e-8)
    assert guessed.iterations == 0


def test_a_complex_right_hand_side_of_a_real_matrix_is_two() -> None:
    solution = dsolver.solve(L, B, M="jacobi", rtol=1e-10)
    parts = [dsolver.solve(L, part, M="jacobi", rtol=1e-10) for part in (B.real, B.imag)]
    assert np.array_equal(solution.x, parts[0].x + 1j * parts[1].x)
    assert solution.iterations == max(part.iterations for part in parts)
    assert solution.residuals[-1] == pytest.approx(math.hypot(*(part.residuals[-1] for part in parts)))
    assert np.linalg.norm(B - L @ solution.x) == pytest.approx(solution.true_residual, rel=1e-3)
    check(L, solution.x)
    with dsolver.Solver(L, M="jacobi") as solver:
        both = solver.solve(np.stack([B, right(1)], axis=1), rtol=1e-10)
        assert both.x.shape == (N**3, 2)
        check(L, both.x[:, 1], right(1))
    with pytest.raises(InputError, match="checkpoint= looks into one solve"):
        dsolver.solve(L, B, checkpoint="unused")


def test_an_absolute_tolerance_holds_for_both_parts_of_b() -> None:
    for atol in (1e-3, 1e-5):
        solution = dsolver.solve(L, B, M="jacobi", rtol=0.0, atol=atol)
        assert solution.true_residual <= solution.limit == atol


def test_a_grid_with_a_complex_source() -> None:
    problem = dsolver.problems.poisson7((N, N, N))
    solution = dsolver.solve(problem, B.reshape(N, N, N), rtol=1e-10)
    check(L, solution.x.ravel())


def test_null_vectors_of_both_parts() -> None:
    edges = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40)).tolil()
    edges[0, 0] = edges[39, 39] = 1.0
    a, b = sp.csr_array(edges) * (1.0 + 2.0j), right()[:40]
    b -= b.mean()
    solution = dsolver.solve(a, b, rtol=1e-10)
    assert solution.converged
    assert abs(solution.x.mean()) <= 1e-12
    assert np.linalg.norm(a @ solution.x - b) <= 1e-9 * np.linalg.norm(b)
    with pytest.warns(dsolver.InconsistentWarning):
        assert not dsolver.solve(a, b + 1.0).converged
    tiny = b.real + 1e-14j  # whose imaginary part alone has no solution
    assert dsolver.solve(a, tiny).converged


def test_a_complex_source_beside_real_values_is_refused() -> None:
    """Each part of b would have the values at the faces."""
    problem = dsolver.problems.diffusion((4, 4), bc={"x-": dsolver.problems.Dirichlet(1.0)})
    with pytest.raises(InputError, match=r"values at faces or in cells are real: give one of these"):
        dsolver.solve(problem, np.ones((4, 4)) * 1j)
    asked = dsolver.problems.diffusion((4, 4), bc={"x-": dsolver.problems.Dirichlet(1.0 + 0.0j)})
    assert dsolver.solve(asked, np.ones((4, 4)) * 1j).converged
    zero = dsolver.problems.diffusion((4, 4), bc={"x-": dsolver.problems.Dirichlet(np.zeros(4))})
    assert dsolver.solve(zero, np.ones((4, 4)) * 1j).converged


def test_a_solver_takes_another_complex_matrix_and_saves_iterates(tmp_path: Any) -> None:
    with dsolver.Solver(MATRICES["shifted"], M="amg") as solver:
        check(MATRICES["shifted"], solver.solve(B, rtol=1e-10).x)
        solver.update(MATRICES["far"])
        several = solver.solve([B, right(1)], rtol=1e-10)
        check(MATRICES["far"], several[1].x, right(1))
        assert not any("one after the other" in note for note in several[0].notes)
        check(MATRICES["far"], solver.solve(B.real + 0j, rtol=1e-10).x, B.real)
    store = dsolver.Checkpoint(tmp_path / "saves", every=0.0)
    dsolver.solve(MATRICES["far"], B, checkpoint=store, maxiter=8, M="jacobi")
    resumed = dsolver.solve(MATRICES["far"], B, resume=store, M="jacobi", rtol=1e-10)
    assert resumed.residuals[0] < 0.1 * np.linalg.norm(B)
    check(MATRICES["far"], resumed.x)
    with pytest.raises(InputError, match="damaged"):
        dsolver.solve(L, B.real, resume=store)


@pytest.mark.parametrize("m", ["amg", "jacobi", "chebyshev", None])
@pytest.mark.parametrize("name", ["conduction", "Hermitian"])
def test_several_complex_right_hand_sides_are_solved_together(name: str, m: Any) -> None:
    """Each has the bits that it has alone, though the others end at other iterations."""
    a = MATRICES[name]
    b = np.stack([B, 1e-3 * right(1).real + 0j, TURNS.conjugate().diagonal()], axis=-1)
    with dsolver.Solver(a, M=m, device="cpu") as solver:
        together: Any = solver.solve(b, rtol=1e-9)
        alone = [solver.solve(b[:, number].copy(), rtol=1e-9) for number in range(3)]
    assert together.x.shape == b.shape
    assert together.x.dtype == np.complex128
    assert len({one.iterations for one in alone}) > 1
    for number, one in enumerate(alone):
        assert together[number].residuals == one.residuals
        assert (together.x[:, number] == one.x).all()
        assert not any("one after the other" in note for note in together[number].notes)


@pytest.mark.parametrize("where", ["workers", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_several_complex_right_hand_sides_have_the_same_bits_everywhere(where: str, request: Any) -> None:
    a, b = MATRICES["far"], np.stack([B, right(1)], axis=-1)
    place: dict[str, Any] = {"device": "cuda"}
    if where == "workers":
        place = {"device": "cpu", "client": request.getfixturevalue("two")}
        a = dsolver.matrix(a, chunks=2)
    with dsolver.Solver(a, M="amg", **place) as solver:
        together: Any = solver.solve(b, maxiter=STEPS)
        alone = solver.solve(b[:, 1].copy(), maxiter=STEPS)
    assert together[1].residuals == alone.residuals
    assert (together.x[:, 1] == alone.x).all()
    assert not any("one after the other" in note for note in together[0].notes)


def test_the_memory_of_several_complex_right_hand_sides_is_forecast() -> None:
    one, four = (dsolver.estimate(MATRICES["far"], M="amg", device="cpu", together=n).workers[0].total for n in (1, 4))
    assert four - one > 4 * 6 * 16 * N**3  # six vectors of each


def test_what_a_function_makes_of_complex_residuals() -> None:
    a = MATRICES["far"]
    solution = dsolver.solve(a, B, M=lambda r: r / (6.0 + 5.0j), rtol=1e-10)
    check(a, solution.x)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_numbers_whose_squares_are_none(size: float) -> None:
    a = MATRICES["shifted"]
    check(a, dsolver.solve(a, size * B, M="jacobi", rtol=1e-10).x / size)
    check(a, dsolver.solve(sp.csr_array(size * a), B, M="jacobi", rtol=1e-10).x * size)


@pytest.mark.parametrize("given", [B.astype(">c16"), B.tolist()], ids=["big-endian", "list"])
def test_complex_numbers_of_another_byte_order_or_in_a_list(given: Any) -> None:
    solution = dsolver.solve(L, given, rtol=1e-10)
    assert np.array_equal(solution.x, dsolver.solve(L, B, rtol=1e-10).x)
    assert np.linalg.norm(solution.residual) <= 1e-9 * np.linalg.norm(B)


def test_signs_that_differ_from_row_to_row_leave_a_stand_in_that_is_dominant() -> None:
    signs = np.where(np.arange(N**3) % 5 == 0, -1.0, 1.0)
    a = sp.csr_array(L + 1j * (sp.diags_array(signs) @ L @ sp.diags_array(signs)) + sp.diags_array(3j * signs))
    problem = dsolver.matrix(a)
    assert isinstance(problem, MatrixProblem)
    stand_in = problem.matrix
    around = abs(stand_in).sum(axis=1) - 2.0 * stand_in.diagonal()
    assert (stand_in.diagonal() > 0.0).all()
    assert (abs(stand_in - stand_in.T)).max() == 0.0
    assert around.max() <= 1e-12
    solution = dsolver.solve(a, B, M="amg", rtol=1e-10)
    assert solution.converged
    check(a, solution.x)


def test_m_as_an_operator_of_scipy_and_a_guess_of_full_multigrid() -> None:
    a = MATRICES["shifted"]
    with dsolver.Solver(a, M="amg") as solver:
        m = solver.aspreconditioner()
        assert m.dtype == np.complex128
        assert np.allclose(m @ (1j * B), 1j * (m @ B), rtol=1e-12)
        assert np.dot(right(1), m @ B) == pytest.approx(np.dot(B, m @ right(1)), rel=1e-12)
        x, info = gmres(a, B, M=m, rtol=1e-10)
        assert info == 0
        check(a, x)
        plain, guessed = solver.solve(B), solver.solve(B, x0="fmg")
        assert guessed.iterations <= plain.iterations
        check(a, guessed.x, rtol=1e-6)


def test_functions_of_scipys_names() -> None:
    seen: list[Any] = []
    for name, function in (
        ("conduction", dsolver.cocg),
        ("Hermitian", dsolver.cg),
        ("Hermitian", dsolver.minres),
        ("unsymmetric", dsolver.gmres),
        ("unsymmetric", dsolver.bicgstab),
    ):
        x, info = function(MATRICES[name], B, rtol=1e-10, M="jacobi", maxiter=2000, callback=seen.append)
        assert info == 0, name
        assert {xk.dtype for xk in seen} == {np.dtype(np.complex128)}
        check(MATRICES[name], x)
    x, info = dsolver.cg(L, B, rtol=1e-10)
    assert info == 0
    check(L, x)


def test_waves_that_iterations_do_not_solve_are_solved_by_factors() -> None:
    k = 2.2
    a = sp.csr_array(L - (k - 0.01j) * UNIT)
    solution = dsolver.solve(a, B, rtol=1e-10)
    assert solution.converged
    check(a, solution.x)
    assert dsolver.solve(a, B, M="amg", maxiter=400).status in (dsolver.Status.CONVERGED, dsolver.Status.MAX_ITERATIONS)


def test_a_note_tells_of_waves_where_there_are_no_factors() -> None:
    for name, m, told in (("damped waves", "amg", True), ("damped waves", "direct", False), ("shifted", "amg", False)):
        notes = dsolver.solve(MATRICES[name], np.ones(N**3), M=m).notes
        assert any("shifted Laplacian" in note for note in notes) == told


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    for name, methods in (("conduction", ("cocg",)), ("Hermitian", ("cg",)), ("unsymmetric", ("gmres", "bicgstab"))):
        for method in methods:
            for m in ("amg", "jacobi", "direct"):
                found = dsolver.solve(MATRICES[name], B, M=m, method=method, device="cuda", rtol=1e-10)  # type: ignore[arg-type]
                assert found.converged
                check(MATRICES[name], found.x)
    import cupy

    solution = dsolver.solve(dsolver.matrix(MATRICES["far"], chunks=2), cupy.asarray(B), device="cuda", rtol=1e-10)
    assert isinstance(solution.x, cupy.ndarray)
    check(MATRICES["far"], solution.x.get())
