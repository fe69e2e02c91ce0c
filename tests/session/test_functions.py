"""Functions of the user's as M and A, on every engine: of whole arrays and by chunk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg
from distributed import Client

import dsolver
from dsolver import problems
from dsolver.errors import InputError
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
GRID = (9, 7, 6)
CHUNKS = (2, 1, 2)
PLANE = (13, 11)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def laplacian(u: F64) -> F64:
    """The Laplacian by a point's neighbors, of an array with a layer around it."""
    center = (slice(1, -1),) * u.ndim
    total = 2.0 * u.ndim * u[center]
    for axis in range(u.ndim):
        for side in (slice(None, -2), slice(2, None)):
            total = total - u[(*center[:axis], side, *center[axis + 1 :])]
    return total


def polynomial(r: F64, *_: Any) -> F64:
    """(2 - A / 6) r / 6, of an array with a layer around it: symmetric and positive definite."""
    inner: F64 = r[(slice(1, -1),) * r.ndim]
    return (2.0 * inner - laplacian(r) / 6.0) / 6.0


def whole_polynomial(r: F64) -> F64:
    return polynomial(np.pad(r, 1))


BY_CHUNK = dsolver.by_chunk(polynomial, halo=1)
ENGINES = ["resident", "graph", "reference"]


def solved(m: Any, engine: Any, client: Client | None, **more: Any) -> dsolver.Solution:
    b = np.random.default_rng(3).standard_normal(GRID)
    named: Any = {} if engine == "reference" else {"client": client}
    return dsolver.solve(problems.poisson7(GRID, chunks=CHUNKS), b, M=m, engine=engine, device="cpu", **named, **more)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("m", [whole_polynomial, BY_CHUNK], ids=["whole", "chunk"])
def test_a_function_is_the_same_on_every_engine(m: Any, engine: Any, client: Client) -> None:
    expected = solved(whole_polynomial, "reference", None)
    found = solved(m, engine, client)
    assert found.converged
    assert found.residuals == expected.residuals
    assert (found.x == expected.x).all()
    gathered = m is whole_polynomial and engine != "reference"
    assert [note for note in found.notes if "gathered on one worker" in note] == list(found.notes)[:gathered]


@pytest.mark.parametrize("halo", [0, 2])
def test_a_function_by_chunk_gets_what_lies_around_its_chunk(halo: int) -> None:
    """Around the end along a periodic axis, zero outside the grid along others, in the user's axes."""
    weights = np.array([[0.0, -1.0, 0.0], [-1.0, 4.0, -1.0], [0.0, -1.0, 0.0]])
    problem = problems.stencil(PLANE, weights, chunks=(3, 2), periodic=(True, False))
    b = np.random.default_rng(4).standard_normal(PLANE)
    seen: list[tuple[F64, tuple[slice, ...]]] = []

    def m(r: F64, where: tuple[slice, ...]) -> F64:
        seen.append((r.copy(), where))
        return r[tuple(slice(halo, n - halo) for n in r.shape)]

    dsolver.solve(problem, b, M=dsolver.by_chunk(m, halo=halo), maxiter=1)
    around = np.pad(np.pad(b, ((halo, halo), (0, 0)), mode="wrap"), ((0, 0), (halo, halo)))
    assert len({where[0].start for _, where in seen}) == 3
    for r, (x, y) in seen[:6]:
        assert (r == around[x.start : x.stop + 2 * halo, y.start : y.stop + 2 * halo]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1)])
def test_on_a_gpu_chunks_are_its_arrays_and_whole_ones_are_as_b_is(chunks: Any) -> None:
    cupy = pytest.importorskip("cupy")
    b = np.random.default_rng(3).standard_normal(GRID)
    problem = problems.diffusion(GRID, kappa=1.0 + b * b, chunks=chunks)
    kinds: list[type] = []

    def seen(r: Any, *where: Any) -> Any:
        kinds.append(type(r))
        return polynomial(r) if where else whole_polynomial(r) if type(r) is np.ndarray else r / 6.0

    for m, right, kind in (
        (seen, b, np.ndarray),
        (seen, cupy.asarray(b), cupy.ndarray),
        (dsolver.by_chunk(seen, halo=1), b, cupy.ndarray),
    ):
        kinds.clear()
        assert dsolver.solve(problem, right, M=m, device="cuda").converged
        assert set(kinds) == {kind}


def test_a_complex_vector_is_given_whole_and_by_chunk(client: Client) -> None:
    kappa = np.full(GRID, 1.0 + 0.3j)
    problem = problems.diffusion(GRID, kappa=kappa, chunks=CHUNKS)
    b = np.random.default_rng(5).standard_normal(GRID) + 1j
    found = [
        dsolver.solve(problem, b, M=lambda r: r * (1.0 - 0.3j), **where)
        for where in ({"engine": "reference"}, {"client": client, "device": "cpu"})
    ]
    assert found[0].converged
    assert found[0].residuals == found[1].residuals


def test_a_function_that_fails_on_a_worker_says_so(client: Client) -> None:
    def broken(r: F64) -> F64:
        return r.ravel()

    with pytest.raises(InputError, match=r"M returned an array of shape \(378,\).*b's shape \(9, 7, 6\)"):
        solved(broken, "resident", client)
    with pytest.raises(InputError, match=r"M returned an array of shape \(2,\).*the chunk's shape"):
        solved(dsolver.by_chunk(lambda *_: np.zeros(2)), "resident", client)


def test_a_function_that_cannot_be_sent_is_refused(client: Client) -> None:
    lock = threading.Lock()

    def m(r: F64) -> F64:
        with lock:
            return r

    with pytest.raises(InputError, match="M cannot be sent to workers"):
        solved(m, "resident", client)


def test_a_reordered_matrix_gets_vectors_in_its_users_order(client: Client) -> None:
    a = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(40, 40)).tocsr()
    problem = dsolver.matrix(a, partition=np.arange(40) % 2)
    found = dsolver.solve(problem, np.arange(40.0), M=np.linalg.inv(a.toarray()), client=client, device="cpu")
    assert found.iterations == 1


def test_functions_by_chunk_are_for_grids() -> None:
    problem = dsolver.matrix(scipy.sparse.eye_array(8).tocsr())
    with pytest.raises(InputError, match="M is a function by chunk, which is for grids"):
        dsolver.solve(problem, np.ones(8), M=BY_CHUNK)
    with pytest.raises(InputError, match="halo must be an integer >= 0, not -1"):
        dsolver.by_chunk(polynomial, halo=-1)


# -- A -----------------------------------------------------------------------------------------------------------------


def whole_laplacian(u: F64) -> F64:
    return laplacian(np.pad(u, 1))


def by_chunk_laplacian(u: F64, _: Any) -> F64:
    return laplacian(u)


A_BY_CHUNK = dsolver.by_chunk(by_chunk_laplacian, halo=1)


@pytest.mark.parametrize(("engine", "method"), [*product(("reference", "resident"), ("cg", "gmres")), ("graph", "cg")])
@pytest.mark.parametrize("a", [whole_laplacian, A_BY_CHUNK], ids=["whole", "chunk"])
def test_a_matrix_may_be_a_function_on_every_engine(a: Any, method: Any, engine: Any, client: Client) -> None:
    """Preconditioned by multigrid of a matrix near it, with the iterations that a stored matrix takes."""
    b = np.random.default_rng(3).standard_normal(GRID)
    near = problems.poisson7(GRID, chunks=CHUNKS)
    where: Any = {"engine": engine, "device": "cpu", **({} if engine == "reference" else {"client": client})}
    system = dsolver.operator(a, M_from=near, symmetric=True)
    found = dsolver.solve(system, b, M="mg", method=method, **where)
    expected = dsolver.solve(near, b, M="mg", method=method, engine="reference", device="cpu")
    assert found.converged
    assert found.iterations == expected.iterations
    assert found.x == pytest.approx(expected.x, rel=1e-7)
    assert np.linalg.norm(b - whole_laplacian(found.x)) <= 1e-8 * np.linalg.norm(b)
    assert any("A is a function of whole" in note for note in found.notes) == (a is whole_laplacian and len(where) > 2)


@pytest.mark.parametrize("method", ["cg", "fcg", "minres", "gmres", "fgmres", "bicgstab"])
def test_every_method_takes_a_linear_operator(method: Any) -> None:
    matrix = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(60, 60)).tocsr()
    a, b = scipy.sparse.linalg.aslinearoperator(matrix), np.arange(60.0)
    x, info = getattr(dsolver, method)(a, b, rtol=1e-10)
    assert info == 0
    assert np.linalg.norm(b - matrix @ x) <= 1e-10 * np.linalg.norm(b)
    x, info = getattr(dsolver, method)(a, b, rtol=1e-10, M_from=matrix, M="jacobi")
    assert info == 0
    with dsolver.Solver(a, M_from=matrix, M="chebyshev" if method in ("cg", "fcg") else None, method=method) as solver:
        assert solver.solve(b).converged
        assert solver @ b == pytest.approx(matrix @ b)


@pytest.mark.parametrize("factor", [-1.0, 1e-200])
def test_the_scale_of_the_matrix_for_m_is_no_matter(factor: float) -> None:
    matrix = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(60, 60)).tocsr()
    a, b = scipy.sparse.linalg.aslinearoperator(factor * matrix), np.arange(60.0)
    found = dsolver.solve(a, b, M_from=factor * matrix, M="jacobi")
    assert found.converged
    assert matrix @ (factor * found.x) == pytest.approx(b, abs=1e-5)


def test_conditions_at_faces_are_a_matter_of_a_alone() -> None:
    near = problems.diffusion(GRID, kappa=1.0, spacing=0.1, bc=problems.Dirichlet(3.0))
    b = np.random.default_rng(3).standard_normal(GRID)
    found = dsolver.solve(whole_laplacian, b, M_from=near, M="mg")
    assert np.linalg.norm(b - whole_laplacian(found.x)) <= 1e-8 * np.linalg.norm(b)


def test_what_is_not_symmetric_is_seen() -> None:
    b = np.random.default_rng(3).standard_normal(PLANE)

    def a(u: F64) -> F64:
        return whole_laplacian(u) + 0.3 * np.roll(u, 1, axis=0)

    found = dsolver.solve(a, b)
    assert found.converged
    assert "xᵀAy and yᵀAx of random x and y differ" in found.notes[0]
    with pytest.raises(InputError, match="A is not symmetric: xᵀAy"):
        dsolver.cg(a, b)
    with pytest.raises(InputError, match="by chunk, and symmetric=True was not given"):
        dsolver.cg(dsolver.operator(A_BY_CHUNK, shape=PLANE), b)
    assert dsolver.cg(dsolver.operator(A_BY_CHUNK, shape=PLANE, symmetric=True), b)[1] == 0


@pytest.mark.parametrize("near", [None, problems.poisson5(PLANE)])
def test_what_is_not_definite_is_seen(near: Any) -> None:
    b = np.random.default_rng(0).standard_normal(PLANE)
    found = dsolver.solve(lambda u: laplacian(np.pad(u, 1)) - 1.3 * u, b, M_from=near, client=False, device="cpu")
    assert found.converged
    assert found.solved_by.startswith("minres")
    assert "not positive definite" in found.notes[0]


def test_complex_operators() -> None:
    matrix = scipy.sparse.diags_array([-1.0, 2.5 + 1j, -1.0], offsets=[-1, 0, 1], shape=(60, 60)).tocsr()
    a, b = scipy.sparse.linalg.aslinearoperator(matrix), np.arange(60.0)
    for more in ({}, {"M_from": matrix, "M": "jacobi"}, {"M_from": matrix.real, "M": "jacobi"}):
        found = dsolver.solve(a, b, **more)
        assert found.converged
        assert found.solved_by.startswith("cocg")
        assert np.linalg.norm(b - matrix @ found.x) <= 1e-8 * np.linalg.norm(b)


def test_what_cannot_be_an_operator_is_refused() -> None:
    matrix = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(9, 9)).tolil()
    matrix[0, 0] = matrix[8, 8] = 1.0
    near = matrix.tocsr()
    a = scipy.sparse.linalg.aslinearoperator(near + scipy.sparse.eye_array(9))
    b = np.arange(9.0) - 4.0
    with pytest.raises(InputError, match="M_from is singular, and A is not"):
        dsolver.solve(a, b, M_from=near)
    assert dsolver.solve(scipy.sparse.linalg.aslinearoperator(near), b, M_from=near).converged
    for options, message in (
        ({"M": "amg"}, "M=.* is made from a matrix, and A is a function: give M_from="),
        ({"M_from": near[:5, :5]}, r"A is for vectors of shape \(9,\), but M_from has \(5,\)"),
        ({"M_from": "poisson"}, "M_from must be a sparse matrix or a problem"),
    ):
        with pytest.raises(InputError, match=message):
            dsolver.solve(a, b, **options)
    for wrong, message in (
        (lambda x: x[:5], r"A returned an array of shape \(5,\): it must return an array of b's shape \(9,\)"),
        (lambda _: None, "A returned NoneType"),
        (lambda x: x.tolist(), "A returned list"),
        (lambda x: 1j * x, "A returned an array of dtype complex128 for real numbers: .* needs M_from="),
        (lambda x: x + 1.0, "A is not linear: A.0. is not 0. What does not depend on x belongs to b"),
    ):
        with pytest.raises(InputError, match=message):
            dsolver.solve(wrong, b)
    with pytest.raises(InputError, match="tells no shape of b: give shape="):
        dsolver.Solver(whole_laplacian)
    with pytest.raises(InputError, match="M_from= is for an A that is a function"):
        dsolver.solve(near, b, M_from=near)
    with pytest.raises(InputError, match="A is a function, which has no entries"):
        dsolver.operator(a).to_scipy()
    masked = problems.diffusion(PLANE, mask=np.eye(*PLANE, dtype=bool))
    with pytest.raises(InputError, match="M_from leaves cells out"):
        dsolver.operator(whole_laplacian, M_from=masked)


@pytest.mark.gpu
@pytest.mark.parametrize("a", [whole_laplacian, A_BY_CHUNK], ids=["whole", "chunk"])
def test_a_matrix_may_be_a_function_on_a_gpu(a: Any) -> None:
    b = np.random.default_rng(3).standard_normal(GRID)
    near = problems.diffusion(GRID, kappa=1.0 + 0.1 * np.cos(b), chunks=(2, 1, 1))
    with dsolver.Solver(dsolver.operator(a, M_from=near, symmetric=True), M="jacobi", device="cuda") as solver:
        found = solver.solve(b)
        assert found.converged
        assert solver @ b == pytest.approx(whole_laplacian(b), rel=1e-12)
        assert np.linalg.norm(found.residual) == pytest.approx(found.true_residual, rel=1e-6)
    assert np.linalg.norm(b - whole_laplacian(found.x)) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.filterwarnings("ignore::dsolver.errors.InconsistentWarning")
def test_rows_of_zeros_of_a_matrix_near_a_function_reach_no_b() -> None:
    """Preconditioners would have a diagonal there, and x any value."""
    line = scipy.sparse.diags_array([-np.ones(59), np.full(60, 2.1), -np.ones(59)], offsets=[-1, 0, 1])
    near = scipy.sparse.csr_array(scipy.sparse.block_diag([line, scipy.sparse.csr_array((3, 3))]))
    b = np.random.default_rng(5).standard_normal(63)
    found = dsolver.solve(lambda x: near @ x, b, M_from=near, device="cpu")
    assert found.status is dsolver.Status.INCOMPATIBLE_RHS
    assert not found.x[60:].any()
    assert found.x[:60] == pytest.approx(scipy.sparse.linalg.spsolve(line.tocsc(), b[:60]), abs=1e-6)


@pytest.mark.gpu
def test_a_function_of_arrays_on_a_gpu_is_called_with_such_alone() -> None:
    import cupy

    b = cupy.asarray(np.random.default_rng(3).standard_normal(GRID))

    def on_gpu(u: Any) -> Any:
        assert isinstance(u, cupy.ndarray)
        return cupy.asarray(whole_laplacian(u.get()))

    found = dsolver.solve(on_gpu, b, M_from=problems.poisson7(GRID), M="jacobi")
    assert found.converged
    assert "symmetric" not in " ".join(found.notes)
