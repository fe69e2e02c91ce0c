"""Eigenvalues and vectors: those of SciPy's dense `eigh`, on grids and matrices of many kinds."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import xarray as xr
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

import dsolver
from dsolver import problems
from dsolver.eigen.search import search
from dsolver.eigen.vectors import together
from tests.support.beams import clamped_beam

HERE: dict[str, Any] = {"client": False, "device": "cpu"}


def exact(A: Any, B: Any = None) -> Any:
    return scipy.linalg.eigh(A.toarray(), None if B is None else B.toarray(), eigvals_only=True)


def check(found: dsolver.Eigenpairs, A: Any, B: Any = None) -> None:
    """Vectors are B-orthonormal, and residuals are what is said."""
    w, v = found
    bv = v if B is None else B @ v
    np.testing.assert_allclose(v.T @ bv, np.eye(len(w)), atol=1e-9)
    residuals = np.linalg.norm(A @ v - bv * w, axis=0)
    np.testing.assert_allclose(residuals, found.residuals, rtol=0.1, atol=1e-12 * abs(A).max())


def random_matrix(n: int, rng: np.random.Generator) -> Any:
    return sp.random_array((n, n), density=3 / n, rng=rng).tocsr()


def definite(n: int, rng: np.random.Generator) -> Any:
    r = random_matrix(n, rng)
    return r @ r.T + 0.1 * sp.eye_array(n)


def of_low_rank(n: int, rng: np.random.Generator) -> Any:
    """Three values are zero; the others are some decades."""
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return sp.csr_array((q * np.concatenate([np.zeros(3), 10.0 ** rng.uniform(-1, 2, n - 3)])) @ q.T)


def graph_laplacian(n: int, rng: np.random.Generator) -> Any:
    r = random_matrix(n, rng)
    r = r + r.T
    return sp.diags_array(r.sum(axis=1)) - r


def clustered(n: int, rng: np.random.Generator) -> Any:
    """Three values within 1e-9 of each other, again and again."""
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.repeat(np.arange(1.0, n + 1.0), 3)[:n] + 1e-9 * rng.standard_normal(n)
    return sp.csr_array((q * values) @ q.T)


def dominant(n: int, rng: np.random.Generator) -> Any:
    r = random_matrix(n, rng)
    return sp.diags_array(rng.uniform(1.0, 1000.0, n)) + 0.1 * (r + r.T)


KINDS = [definite, of_low_rank, graph_laplacian, clustered, dominant]


@pytest.mark.parametrize("seed", range(60))
def test_random_pencils(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(12, 160)), int(rng.integers(1, 7))
    A = sp.csr_array(KINDS[seed % len(KINDS)](n, rng))
    A = sp.csr_array((A + A.T) / 2.0)
    B = None
    if seed % 2:
        s = random_matrix(n, rng)
        B = sp.csr_array(s @ s.T + 0.5 * sp.eye_array(n))
    found = dsolver.eigsh(A, k, B=B, **HERE)
    assert found.converged
    expected = exact(A, B)
    np.testing.assert_allclose(found.values, expected[:k], rtol=1e-8, atol=1e-12 * expected[-1])
    check(found, A, B)


# -- which ones --------------------------------------------------------------------------------------------------------


def chain(n: int) -> Any:
    return sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()


@pytest.mark.parametrize(
    ("which", "sigma"), [("SM", None), ("SA", None), ("LA", None), ("LM", None), ("SM", -0.3), ("SM", 1.3)]
)
def test_which_ones(which: Any, sigma: float | None) -> None:
    A = chain(150)
    w = exact(A)
    found = dsolver.eigsh(A, 4, which=which, sigma=sigma, **HERE)
    assert found.converged
    nearest = np.sort(w[np.argsort(abs(w - (sigma or 0.0)))[:4]])
    expected = nearest if sigma is not None else w[:4] if which in ("SM", "SA") else w[-4:]
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    check(found, A)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("which", ["SM", "SA", "LA", "LM"])
def test_of_an_indefinite_or_negated_matrix(which: Any, sign: float) -> None:
    A = sign * (chain(120) - (2.5 if sign > 0.0 else 0.0) * sp.eye_array(120))
    w = exact(A)
    found = dsolver.eigsh(A, 3, which=which, **HERE)
    assert found.converged
    by_size = w[np.argsort(abs(w))]
    expected = {"SM": np.sort(by_size[:3]), "SA": w[:3], "LA": w[-3:], "LM": np.sort(by_size[-3:])}[which]
    np.testing.assert_allclose(found.values, expected, rtol=1e-8)
    if which == "SM" and sign > 0.0:
        assert "ARPACK" in found.solved_by
        assert found.notes


def test_a_matrix_out_of_range_and_one_with_rows_of_their_own() -> None:
    A = chain(100)
    scaled = dsolver.eigsh(A * 2.0**500, 2, **HERE)
    np.testing.assert_allclose(scaled.values * 2.0**-500, exact(A)[:2], rtol=1e-9)
    own = A.tolil()
    own[4, :], own[:, 4] = 0.0, 0.0
    own[4, 4] = -3.0
    found = dsolver.eigsh(own.tocsr(), 2, which="SA", **HERE)
    np.testing.assert_allclose(found.values, exact(own)[:2], rtol=1e-9)


# -- null vectors and masses -----------------------------------------------------------------------------------------


def test_fiedler_vector_cuts_a_graph_of_two_cliques() -> None:
    half = np.ones((30, 30)) - np.eye(30)
    graph = np.block([[half, np.zeros((30, 30))], [np.zeros((30, 30)), half]])
    graph[29, 30] = graph[30, 29] = 0.5
    A = sp.csr_array(np.diag(graph.sum(axis=1)) - graph)
    (zero, value), v = dsolver.eigsh(A, 2, **HERE)
    assert zero == 0.0
    assert value == pytest.approx(exact(A)[1], rel=1e-9)
    assert np.ptp(v[:, 0]) < 1e-14
    assert len(set(np.sign(v[:30, 1]))) == len(set(np.sign(v[30:, 1]))) == 1
    assert v[0, 1] * v[-1, 1] < 0.0


def plate(n: int) -> tuple[Any, np.ndarray]:
    """Stiffness of a free square of springs, nodes (n, n), displacements side by side; its nodes."""
    at = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    rows = []
    for i, j in ((1, 0), (0, 1), (1, 1), (1, -1)):
        for a in range(n * n):
            x, y = divmod(a, n)
            if 0 <= x + i < n and 0 <= y + j < n:
                row = np.zeros(2 * n * n)
                along, b = np.array([i, j]) / np.hypot(i, j), (x + i) * n + y + j
                row[2 * a : 2 * a + 2], row[2 * b : 2 * b + 2] = -along, along
                rows.append(row)
    stretch = sp.csr_array(np.array(rows))
    return sp.csr_array(stretch.T @ stretch), at


@pytest.mark.parametrize("mass", [False, True])
def test_modes_of_a_free_elastic_body(mass: bool) -> None:
    A, at = plate(8)
    modes = dsolver.rigid_body_modes(at)
    problem = dsolver.matrix(A, nullspace=modes, near_nullspace=modes, block_size=2)
    m = sp.diags_array(np.repeat(np.linspace(1.0, 3.0, len(at)), 2)).tocsr() if mass else None
    found = dsolver.eigsh(problem, 6, B=m, **HERE)
    assert found.converged
    assert (found.values[:3] == 0.0).all()
    np.testing.assert_allclose(found.values[3:], exact(A, m)[3:6], rtol=1e-9)
    check(found, A, m)


def test_motions_that_are_not_named_are_found() -> None:
    A, at = plate(8)
    near = dsolver.matrix(A, near_nullspace=dsolver.rigid_body_modes(at), block_size=2)
    for given in (A, near):
        found = dsolver.eigsh(given, 5, **HERE)
        assert found.converged
        np.testing.assert_allclose(found.values, exact(A)[:5], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["array", "number", "sparse"])
def test_a_mass_in_any_form(form: str) -> None:
    A, rng = chain(90), np.random.default_rng(1)
    diagonal = np.full(90, 2.5) if form == "number" else rng.uniform(1.0, 4.0, 90)
    B = {"array": diagonal, "number": 2.5, "sparse": sp.diags_array(diagonal)}[form]
    found = dsolver.eigsh(A, 3, B=B, **HERE)
    np.testing.assert_allclose(found.values, exact(A, sp.diags_array(diagonal))[:3], rtol=1e-9)
    check(found, A, sp.diags_array(diagonal).tocsr())


@pytest.mark.parametrize("options", [{"order": "rcm"}, {"partition": "graph", "chunks": 3}, {"chunks": 4}])
def test_a_mass_follows_the_order_of_the_rows(options: Any) -> None:
    if options.get("partition"):
        pytest.importorskip("pymetis")
    rng = np.random.default_rng(2)
    A, s = chain(120), random_matrix(120, rng)
    shuffled = rng.permutation(120)
    A = sp.csr_array(A[shuffled][:, shuffled])
    B = sp.csr_array(s @ s.T + sp.eye_array(120))
    found = dsolver.eigsh(dsolver.matrix(A, **options), 3, B=B, **HERE)
    np.testing.assert_allclose(found.values, exact(A, B)[:3], rtol=1e-9)
    check(found, A, B)


# -- grids -------------------------------------------------------------------------------------------------------------


def fluxes(kappa: np.ndarray, *, closed: bool) -> np.ndarray:
    """-∇·(κ∇) on cells of size 1, dense."""
    n, number = kappa.size, np.arange(kappa.size).reshape(kappa.shape)
    A = np.zeros((n, n))
    for axis in range(kappa.ndim):
        low, high = np.moveaxis(number, axis, 0)[:-1].ravel(), np.moveaxis(number, axis, 0)[1:].ravel()
        k = kappa.ravel()
        between = 2.0 * k[low] * k[high] / (k[low] + k[high])
        for i, j, g in zip(low, high, between, strict=True):
            A[i, i] += g
            A[j, j] += g
            A[i, j] -= g
            A[j, i] -= g
        for end in () if closed else (0, -1):
            at = np.moveaxis(number, axis, 0)[end].ravel()
            A[at, at] += 2.0 * k[at]
    return A


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("chunks", [None, (2, 1, 2)])
def test_modes_of_a_grid_with_jumps(closed: bool, chunks: Any) -> None:
    kappa = 10.0 ** np.random.default_rng(3).uniform(-2, 2, (8, 7, 6))
    problem = problems.diffusion(kappa.shape, kappa, bc="neumann" if closed else None, chunks=chunks)
    density = np.random.default_rng(4).uniform(1.0, 2.0, kappa.shape)
    w, v = dsolver.eigsh(problem, 4, B=density, **HERE)
    A = fluxes(kappa, closed=closed)
    expected = scipy.linalg.eigh(A, np.diag(density.ravel()), eigvals_only=True)
    np.testing.assert_allclose(w, expected[:4], rtol=1e-8, atol=1e-10)
    assert v.shape == (8, 7, 6, 4)
    flat = v.reshape(-1, 4)
    np.testing.assert_allclose(A @ flat, density.reshape(-1, 1) * flat * w, atol=1e-5)


def test_values_are_those_of_the_differential_operator() -> None:
    """On cells of any size: π² (1 + 1/4) on a rectangle of 1 by 2, to the order of the cells."""
    width = np.full(24, 2.0 / 24) * np.linspace(0.9, 1.1, 24)
    problem = problems.diffusion((20, 24), spacing=(1.0 / 20, width))
    (lowest,), v = dsolver.eigsh(problem, 1, **HERE)
    assert lowest == pytest.approx(np.pi**2 * 1.25, rel=5e-3)
    assert v.shape == (20, 24, 1)
    assert (v > 0.0).all() or (v < 0.0).all()


@pytest.mark.parametrize("density", [None, 2.5])
@pytest.mark.parametrize("bc", [None, "neumann"])
def test_a_constant_sigma_costs_no_iterations(bc: Any, density: Any) -> None:
    kappa = np.exp(np.random.default_rng(0).standard_normal((12, 11, 10)))
    without, with_sigma = (
        dsolver.eigsh(problems.diffusion(kappa.shape, kappa, sigma=sigma, bc=bc), 4, B=density, **HERE)
        for sigma in (0.0, 1e4)
    )
    assert with_sigma.converged
    assert with_sigma.iterations <= without.iterations
    expected = without.values + 1e4 / (density or 1.0)
    np.testing.assert_allclose(with_sigma.values, expected, rtol=1e-11)
    np.testing.assert_allclose(with_sigma.limits[1:], 1e-8 * (expected * (density or 1.0) ** 0.5)[1:], rtol=1e-3)


def test_a_sigma_that_is_no_multiple_of_the_mass_stays_in_the_matrix() -> None:
    kappa, sigma = np.random.default_rng(0).uniform(1.0, 2.0, (2, 6, 5, 4))
    density = np.random.default_rng(1).uniform(1.0, 2.0, kappa.shape)
    for reaction, mass in ((3.0, density), (sigma, None)):
        found = dsolver.eigsh(problems.diffusion(kappa.shape, kappa, sigma=reaction), 3, B=mass, **HERE)
        A = fluxes(kappa, closed=False) + np.diag(np.broadcast_to(reaction, kappa.shape).ravel())
        b = np.diag(np.ones(kappa.size) if mass is None else mass.ravel())
        np.testing.assert_allclose(found.values, scipy.linalg.eigh(A, b, eigvals_only=True)[:3], rtol=1e-9)


@pytest.mark.parametrize("density", [None, 2.5, "array"])
@pytest.mark.parametrize("sigma", [0.0, 3.0])
def test_a_grid_whose_rows_are_those_of_a_matrix_has_its_volumes_too(density: Any, sigma: float) -> None:
    grid, mask = (9, 8), np.zeros((9, 8), dtype=bool)
    mask[3:5, 2:6] = True
    mass = np.random.default_rng(0).uniform(1.0, 2.0, grid) if density == "array" else density
    plain, tensor = (
        dsolver.eigsh(problems.diffusion(grid, kappa, sigma=sigma, spacing=0.5, mask=mask), 3, B=mass, **HERE)
        for kappa in (2.0, 2.0 * np.eye(2))
    )
    assert tensor.converged
    np.testing.assert_allclose(tensor.values, plain.values, rtol=1e-9)
    np.testing.assert_allclose(abs(tensor.vectors), abs(plain.vectors), atol=1e-6)


def test_cells_that_are_left_out_have_no_modes() -> None:
    mask = np.zeros((9, 8, 1), dtype=bool)
    mask[4, 2:6] = True
    found = dsolver.eigsh(problems.diffusion(mask.shape, mask=mask, bc="neumann"), 3, **HERE)
    assert found.values[0] == pytest.approx(0.0, abs=1e-12)
    assert (found.values[1:] > 1e-3).all()
    assert (found.vectors[mask] == 0.0).all()


# -- guesses, preconditioners, ends ------------------------------------------------------------------------------------


def test_a_guess_of_the_vectors_ends_at_once() -> None:
    A = chain(200)
    first = dsolver.eigsh(A, 3, M="jacobi", maxiter=2000, **HERE)
    again = dsolver.eigsh(A, 3, M="jacobi", v0=first.vectors, **HERE)
    assert again.iterations < first.iterations / 3


def test_vectors_come_in_the_kind_of_the_guess() -> None:
    grid = problems.diffusion((6, 5, 4))
    plain = dsolver.eigsh(grid, 2, **HERE).vectors
    labeled = xr.DataArray(plain[..., 0], dims=("x", "y", "z"))
    found = dsolver.eigsh(grid, 2, v0=labeled, **HERE).vectors
    assert found.dims == ("x", "y", "z", "mode")
    for guess in (plain, da.from_array(plain[..., 0])):
        v = np.asarray(dsolver.eigsh(grid, 2, v0=guess, **HERE).vectors)
        np.testing.assert_allclose(abs(np.einsum("ijkm,ijkn->mn", v, plain)), np.eye(2), atol=1e-7)


def test_vectors_that_fill_an_array_stay_in_it() -> None:
    """Bytes, and an array of the other order, which one vector fills alone, are not that array."""
    values = np.arange(12.0).reshape(2, 2, 3)
    assert np.shares_memory(together([*values], None), values)
    for one in (np.frombuffer(bytearray(48), np.uint8).view(np.float64), np.asfortranarray(values[0]).T):
        assert np.array_equal(together([one], None)[..., 0], one)


@pytest.mark.parametrize("M", ["amg", "direct", "jacobi", None, lambda r: r / 2.0])
def test_any_preconditioner(M: Any) -> None:
    A = chain(60)
    found = dsolver.eigsh(A, 2, M=M, **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values, exact(A)[:2], rtol=1e-9)


def test_of_a_function_with_a_matrix_near_it() -> None:
    A = chain(120)
    near = dsolver.operator(lambda x: A @ x + 0.01 * x, M_from=A, symmetric=True)
    found = dsolver.eigsh(near, 3, **HERE)
    np.testing.assert_allclose(found.values, exact(A)[:3] + 0.01, rtol=1e-9)
    alone = dsolver.eigsh(sp.linalg.aslinearoperator(A), 2, which="LA", **HERE)
    np.testing.assert_allclose(alone.values, exact(A)[-2:], rtol=1e-9)


def test_cells_that_are_held_have_no_part_in_modes() -> None:
    where = np.zeros((10, 9, 1), dtype=bool)
    where[5] = True
    found = dsolver.eigsh(problems.diffusion(where.shape, bc="neumann", fixed=(where, 3.0)), 2, **HERE)
    assert (found.vectors[where] == 0.0).all()
    assert found.values[0] > 0.01


@pytest.mark.parametrize("mass", [None, 1e6])
def test_a_sigma_that_is_an_eigenvalue(mass: float | None) -> None:
    """A path of an odd number of nodes has the value 0; A + A has all twice."""
    path = sp.diags_array([np.ones(8), np.ones(8)], offsets=[-1, 1]).tocsr()
    twice = sp.block_diag([path, path]).tocsr()
    size = mass or 1.0
    w = np.linalg.eigvalsh(path.toarray()) / size
    B = None if mass is None else mass * sp.eye_array(18)
    for sigma in (None, 0.0, float(w[2])):
        found = dsolver.eigsh(twice, 6, B=B, sigma=sigma, **HERE)
        nearest = w[np.argsort(abs(w - (sigma or 0.0)))[:3]]
        assert found.converged
        np.testing.assert_allclose(found.values, np.sort(np.repeat(nearest, 2)), atol=1e-12 / size)


def test_equal_values_within_a_spectrum() -> None:
    """Twenty values of 4, of which ARPACK found eight, and others in place of the rest."""
    A = sp.csr_array(sp.kron(chain(20), sp.eye_array(20)) + sp.kron(sp.eye_array(20), chain(20)))
    w = exact(A)
    for mass in (None, 2.0 * sp.eye_array(400)):
        shift, size = 4.03, 1.0 if mass is None else 2.0
        found = dsolver.eigsh(A, 20, B=mass, sigma=shift / size, **HERE)
        assert found.converged
        nearest = np.sort(w[np.argsort(abs(w - shift), kind="stable")[:20]])
        np.testing.assert_allclose(size * found.values, nearest, rtol=1e-12)
        check(found, A, mass)


def test_a_search_for_equal_values_that_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many values as were asked for, not those of all searches."""
    calls = list[int]()

    def ends(*arguments: Any, **options: Any) -> Any:
        found = eigsh(*arguments, **options)
        calls.append(len(found[0]))
        if len(calls) < 3:
            return found
        raise ArpackNoConvergence("too many iterations", *found)

    monkeypatch.setattr("dsolver.eigen.shift_invert.arpack", ends)
    A = sp.csr_array(sp.kron(chain(20), sp.eye_array(20)) + sp.kron(sp.eye_array(20), chain(20)))
    found = dsolver.eigsh(A, 20, sigma=4.03, **HERE)
    assert calls == [20, 1, 20]
    assert found.status is dsolver.Status.MAX_ITERATIONS
    assert found.vectors.shape == (400, len(found.values)) == (400, 20)
    check(found, A)


def test_a_mass_of_one_row() -> None:
    """A block of one vector: the weights of its items were taken for what they make of it."""
    a, b = sp.csr_array([[6.0]]), sp.csr_array([[2.0]])
    found = dsolver.eigsh(a, 1, B=b, **HERE)
    assert found.converged
    assert found.values == pytest.approx([3.0])
    check(found, a, b)


@pytest.mark.parametrize("which", ["SM", "SA", "LA", "LM"])
def test_all_values(which: Any) -> None:
    w = [-3.0, 1.0, 2.0]
    for rows in ([0], [1, 2], [0, 1, 2]):
        some = sp.diags_array(np.take(w, rows)).tocsr()
        found = dsolver.eigsh(some, len(rows), which=which, **HERE)
        np.testing.assert_allclose(found.values, np.take(w, rows))
        assert not found.notes


@pytest.mark.parametrize("penalty", [1e12, 1e30])
def test_a_penalty_leaves_the_other_values_their_digits(penalty: float) -> None:
    """Two halves of a chain with a penalty between them; by the size of the matrix any first guess was exact."""
    A = chain(900).tolil()
    A[450, 450] = penalty
    found = dsolver.eigsh(A.tocsr(), 2, **HERE)
    assert found.converged
    every = 2.0 - 2.0 * np.cos(np.pi * np.array([1, 2]) / np.array([451, 450]))
    np.testing.assert_allclose(found.values, np.sort([every[0], 2.0 - 2.0 * np.cos(np.pi / 450)]), rtol=1e-8)


@pytest.mark.parametrize("penalty", [1e6, 1e8, 1e30])
@pytest.mark.parametrize(("rows", "held"), [(400, 200), (400, 360), (12000, 11900)])
def test_penalties_in_most_rows_make_no_guess_exact(rows: int, held: int, penalty: float) -> None:
    """By the mean size of rows any first guess had the residual that rounding leaves, or values were off by 5e-5."""
    A = sp.csr_array(chain(rows) + sp.diags_array(np.where(np.arange(rows) < held, penalty, 0.0)))
    found = dsolver.eigsh(A, 3, **HERE)
    assert found.converged
    free = chain(rows)[held:, held:].toarray()
    free[0, 0] -= 1.0 / penalty  # of the row beside
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(free)[:3], rtol=1e-7)


@pytest.mark.parametrize("shift", [1e-8, 1e-11])
def test_a_value_far_below_the_others(shift: float) -> None:
    """A path with a small shift; M makes all first guesses parallel to one vector, and three were called too many."""
    path = chain(900).tolil()
    path[0, 0] = path[-1, -1] = 1.0
    found = dsolver.eigsh(sp.csr_array(path + shift * sp.eye_array(900)), 3, M="amg", **HERE)
    every = shift + 2.0 - 2.0 * np.cos(np.arange(3) * np.pi / 900)
    np.testing.assert_allclose(found.values, every, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-40, 1e20, 1e40])
def test_values_within_a_spectrum_in_any_unit(unit: float) -> None:
    """ARPACK called values of an inverse below 1e-11 converged, whatever they were."""
    rng = np.random.default_rng(0)
    half = sp.random_array((200, 200), density=0.02, rng=rng)
    A = (unit * (half + half.T - 0.3 * sp.eye_array(200))).tocsr()
    w = np.linalg.eigvalsh(A.toarray())
    found = dsolver.eigsh(A, 10, **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values, np.sort(w[np.argsort(abs(w))[:10]]), rtol=1e-9)
    assert (found.residuals <= found.limits).all()


@pytest.mark.parametrize("unit", [1e-118, 1e118])
def test_highest_values_in_any_unit(unit: float) -> None:
    """Values whose third powers are no numbers: without M so large are products of residuals with A."""
    found = dsolver.eigsh(unit * chain(60), 3, which="LA", **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values / unit, exact(chain(60))[-3:], rtol=1e-9)


@pytest.mark.parametrize("k", [5, 8, 12])
def test_values_of_largest_magnitude_are_most_of_all(k: int) -> None:
    """Both ends of the spectrum overlapped, and had the values between twice."""
    half = np.random.default_rng(0).standard_normal((13, 13))
    A = half + half.T
    w = np.linalg.eigvalsh(A)
    found = dsolver.eigsh(sp.csr_array(A), k, which="LM", **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values, np.sort(w[np.argsort(-abs(w))[:k]]), rtol=1e-7)


def test_factors_leave_a_null_space_that_is_not_known() -> None:
    values = np.where(np.arange(90) % 5 > 0, 1.0 + np.arange(90), 0.0)
    found = dsolver.eigsh(sp.diags_array(values).tocsr(), 20, M="direct", **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values, np.sort(values)[:20], atol=1e-9)


def test_a_matrix_of_zeros_has_the_values_zero() -> None:
    found = dsolver.eigsh(sp.csr_array((6, 6)), 3, **HERE)
    assert found.converged
    np.testing.assert_array_equal(found.values, 0.0)


def test_too_few_iterations_are_told() -> None:
    found = dsolver.eigsh(chain(500), 4, M=None, maxiter=3, **HERE)
    assert found.status is dsolver.Status.MAX_ITERATIONS
    assert found.iterations == 3
    assert not found.converged
    assert (found.residuals > found.limits).any()


def test_nearly_all_values_of_a_small_matrix() -> None:
    A = chain(9)
    found = dsolver.eigsh(A, 8, **HERE)
    np.testing.assert_allclose(found.values, exact(A)[:8], rtol=1e-12)
    check(found, A)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"k": 11}, "k must be an integer from 1 to A's 10 rows"),
        ({"k": 0}, "k must be"),
        ({"k": 2.5}, "k must be"),
        ({"which": "BE"}, "which must be one of 'SM', 'SA', 'LA', 'LM'"),
        ({"sigma": np.nan}, "sigma must be"),
        ({"sigma": 1j}, "sigma must be"),
        ({"tol": -1.0}, "tol must be"),
        ({"maxiter": -1}, "maxiter must be"),
        ({"return_eigenvectors": False}, "values alone are"),
        ({"M": sp.eye_array(10).tocsr()}, "M is a matrix: a mass matrix, SciPy's M, is B= here"),
        ({"M": np.eye(10)}, "M is a matrix"),
        ({"A": sp.eye_array(10, dtype=complex).tocsr()}, "A is complex"),
        ({"A": sp.csr_array(np.triu(np.ones((10, 10))))}, "A is not symmetric"),
        ({"A": np.eye(10)}, "not a ndarray: scipy.sparse.csr_array.A. makes a sparse matrix of an array"),
        ({"B": sp.eye_array(9).tocsr()}, "B has shape"),
        ({"B": np.eye(10)}, "makes a sparse matrix of an array"),
        ({"B": np.zeros(10)}, "B must be positive"),
        ({"B": sp.csr_array(np.triu(np.ones((10, 10))))}, "B is not symmetric"),
        ({"B": sp.csr_array(np.diag([-1.0, *[1.0] * 9]))}, "B is not positive definite"),
        ({"B": sp.csr_array(np.ones((10, 10)) + 1e-3 * np.eye(10) * np.arange(-4, 6))}, "B is not positive definite"),
        ({"B": "mass"}, "B must be a sparse matrix, an array"),
        ({"v0": np.ones(7)}, "v0 has shape"),
        ({"v0": np.ones((10, 11))}, "for m guesses, as rows at most"),
        ({"v0": np.full(10, np.nan)}, "look for such values in v0"),
        ({"A": problems.poisson7((4, 4, 4)), "B": sp.csr_array(np.eye(64) + 0.1)}, "on a grid B is diagonal"),
        ({"A": problems.poisson7((4, 4, 4)), "sigma": 0.5}, "sigma= is for a sparse matrix"),
        ({"A": problems.diffusion((4, 4), np.eye(2)), "sigma": 0.5}, "sigma= is for a sparse matrix"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments: dict[str, Any], told: str) -> None:
    A = arguments.pop("A", chain(10))
    with pytest.raises(dsolver.InputError, match=told):
        dsolver.eigsh(A, **{"k": 2, **arguments, **HERE})


@pytest.mark.parametrize(("size", "sigma"), [(1e-300, -1.0), (1e-200, 1.0), (1.0, -1e9)])
def test_a_number_far_beyond_the_spectrum_leaves_values_their_digits(size: float, sigma: float) -> None:
    n = 60
    a = sp.csr_array(size * sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)))
    found = dsolver.eigsh(a, 3, sigma=sigma, **HERE)
    every = 2.0 - 2.0 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))
    np.testing.assert_allclose(found.values / size, every[:3] if sigma < 0.0 else every[-3:], rtol=1e-8)


def test_vectors_of_a_search_that_was_ended_continue_it() -> None:
    a = sp.csr_array(sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(400, 400)))
    whole = dsolver.eigsh(a, 4, M="jacobi", **HERE)
    half = dsolver.eigsh(a, 4, M="jacobi", maxiter=whole.iterations // 2, **HERE)
    assert not half.converged
    rest = dsolver.eigsh(a, 4, M="jacobi", v0=half.vectors, **HERE)
    assert rest.converged
    assert rest.iterations < 0.8 * whole.iterations


@pytest.mark.parametrize(("elements", "rtol"), [(100, 1e-6), (1000, 1e-3), (3000, 0.05)])
def test_slender_beams_vibrate_as_beams_do(elements: int, rtol: float) -> None:
    beam, mass = clamped_beam(elements)
    found = dsolver.eigsh(beam, 3, B=mass, **HERE)
    assert found.converged
    roots = np.array([1.875104, 4.694091, 7.854757])  # of cos r cosh r = -1
    np.testing.assert_allclose(found.values, roots**4, rtol=rtol)
    assert any("rounding may have" in note for note in found.notes) == (elements > 100)


def test_factors_follow_where_multigrid_finds_no_values() -> None:
    """A beam beside a square, whose factors are too many to be made at once."""
    beam, mass = clamped_beam(500)
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(150, 150))
    square = sp.kron(line, sp.eye_array(150)) + sp.kron(sp.eye_array(150), line)
    both = sp.csr_array(sp.block_diag([beam, 1e9 * square]))
    found = dsolver.eigsh(both, 2, B=sp.csr_array(sp.block_diag([mass, sp.eye_array(150**2)])), **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values, np.array([1.875104, 4.694091]) ** 4, rtol=1e-4)


def test_what_rounding_left_of_large_values_is_not_negative() -> None:
    """Rows from 1e-12 to 1e13, definite: the first guesses have values that are 1e20 times those that are found."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40))
    square = sp.kron(line, sp.eye_array(40)) + sp.kron(sp.eye_array(40), line)
    scales = sp.diags_array(np.exp(np.random.default_rng(1).normal(0.0, 4.0, 1600)))
    found = dsolver.eigsh(sp.csr_array(scales @ square @ scales), 3, **HERE)
    assert found.converged
    inverse = np.linalg.inv(square.toarray()) / scales.diagonal() / scales.diagonal()[:, None]
    np.testing.assert_allclose(found.values, 1.0 / np.linalg.eigvalsh(inverse)[:-4:-1], rtol=1e-6)


def test_a_search_that_converges_late_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """More iterations are the user's wish, and no reason to look for another preconditioner."""
    searches: list[Any] = []

    def counted(*given: Any) -> Any:
        searches.append(given)
        return search(*given)

    monkeypatch.setattr("dsolver.eigen.eigsh.search", counted)
    monkeypatch.setattr("dsolver.eigen.eigsh.MAXITER", 3)
    found = dsolver.eigsh(problems.poisson7((8, 8, 8)).to_scipy(), 2, maxiter=100, **HERE)
    assert found.converged
    assert found.iterations > 3
    assert len(searches) == 1


def test_factors_that_cannot_be_made_leave_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a known null vector, whose residual and limit are 0."""

    def without_memory(*_: Any) -> None:
        raise dsolver.DeviceMemoryError("no room")

    monkeypatch.setattr("dsolver.eigen.eigsh.MAXITER", 5)
    monkeypatch.setattr("dsolver.eigen.eigsh._usual", lambda *_: ["jacobi", "direct"])
    monkeypatch.setattr("dsolver.preconditioners.Direct.build", without_memory)
    neumann = sp.csr_array(chain(200) - sp.diags_array([1.0, *np.zeros(198), 1.0]))
    problem = dsolver.matrix(neumann, nullspace=np.ones(200))
    found = dsolver.eigsh(problem, 3, maxiter=5, **HERE)
    assert found.status is dsolver.Status.MAX_ITERATIONS
    assert "Jacobi" in found.solved_by
    assert found.values[0] == 0.0


def test_rough_vectors_are_the_same_however_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dsolver.eigsh(chain(400), 5, **HERE)
    monkeypatch.setattr("dsolver.program.eigen.FEW", 100)
    np.testing.assert_array_equal(dsolver.eigsh(chain(400), 5, **HERE).vectors, whole.vectors)


@pytest.mark.parametrize(
    ("k", "which", "part"),
    [(3, "SM", slice(3)), (30, "SM", slice(30)), (4, "LM", slice(-4, None)), (30, "LM", slice(-30, None))],
)
def test_cells_that_are_closed_by_themselves_have_the_value_zero(k: int, which: Any, part: slice) -> None:
    """Pores of an image, some of one cell: its row has a positive diagonal where A has nothing."""
    mask = np.random.default_rng(0).random((9, 10)) < 0.55
    kappa = np.where(mask, 1e-300, 1.0)
    opened = np.flatnonzero(~mask)
    expected = np.linalg.eigvalsh(fluxes(kappa, closed=True)[np.ix_(opened, opened)])
    problem = problems.diffusion(mask.shape, mask=mask, bc="neumann", chunks=(2, 1))
    found = dsolver.eigsh(problem, k, which=which, **HERE)
    assert found.converged
    np.testing.assert_allclose(found.values, expected[part], atol=1e-12)


@pytest.mark.parametrize("sigma", [0.0, 0.7, "array"])
@pytest.mark.parametrize("density", [None, 2.0, "array"])
def test_cells_of_tensors_that_are_closed_by_themselves_have_values_too(sigma: Any, density: Any) -> None:
    """Cells without a neighbor: the value is σ over the density; and those left out have none, at both ends."""
    random = np.random.default_rng(0)
    mask, spacing = random.random((9, 10)) < 0.55, 0.5
    added = random.uniform(0.0, 1.0, mask.shape) if sigma == "array" else sigma
    mass = random.uniform(1.0, 2.0, mask.shape) if density == "array" else density
    problem = problems.diffusion(mask.shape, 2.0 * np.eye(2), added, mask=mask, spacing=spacing, bc="neumann")
    opened = np.flatnonzero(~mask)
    kappa = np.where(mask, 1e-300, 2.0 / spacing**2)
    a = fluxes(kappa, closed=True) + np.diag(np.broadcast_to(added, mask.shape).ravel())
    b = np.diag(np.broadcast_to(1.0 if mass is None else mass, mask.shape).ravel()[opened])
    expected = scipy.linalg.eigh(a[np.ix_(opened, opened)], b, eigvals_only=True)
    low = dsolver.eigsh(problem, 8, B=mass, **HERE)
    high = dsolver.eigsh(problem, 4, B=mass, which="LA", **HERE)
    assert low.converged
    assert high.converged
    np.testing.assert_allclose([*low.values, *high.values], [*expected[:8], *expected[-4:]], atol=1e-9)


def test_a_single_closed_cell_has_its_constant_alone() -> None:
    found = dsolver.eigsh(problems.diffusion((1, 1, 1), bc="neumann"), 1, **HERE)
    assert found.converged
    assert found.values.tolist() == [0.0]
    assert found.vectors.ravel().tolist() == [1.0]


@pytest.mark.parametrize("options", [{}, {"which": "LA"}, {"which": "LM"}, {"sigma": 0.35}, {"sigma": -0.1}])
def test_vertices_without_edges_have_the_value_zero(options: dict[str, Any]) -> None:
    i, j = np.random.default_rng(8).integers(0, 300, (2, 900))
    links = sp.coo_array((np.ones(900), (i, j)), shape=(303, 303))
    links = sp.csr_array(links + links.T)
    a = sp.csr_array(sp.diags_array(links.sum(axis=1)) - links)
    w = exact(a)
    sigma, k = options.get("sigma", 0.0), 6
    far = -w if options.get("which") == "LA" else -abs(w) if "which" in options else abs(w - sigma)
    found = dsolver.eigsh(a, k, **options, **HERE)
    assert found.converged
    assert found.iterations < 100
    np.testing.assert_allclose(found.values, np.sort(w[np.argsort(far)[:k]]), atol=1e-8)
    check(found, a)
