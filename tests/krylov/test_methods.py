"""Krylov methods on any matrix: against SciPy's direct solver, with the same bits on every engine, and breakdowns."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import gmres as scipy_gmres
from scipy.sparse.linalg import spsolve

import dsolver
from dsolver.engines.base import Field
from dsolver.engines.eager.resident import ResidentEngine
from dsolver.errors import InputError
from dsolver.krylov.gmres import most_vectors
from dsolver.krylov.methods import METHODS, MethodName
from dsolver.preconditioners.auto import usual_preconditioner
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]


def dominant(rows: int, seed: int, *, symmetric: bool) -> sp.csr_array:
    """Random entries below a diagonal that is larger than all of them together."""
    rng = np.random.default_rng(seed)
    off = sp.random_array((rows, rows), density=min(1.0, 4.0 / rows), rng=rng, data_sampler=rng.standard_normal)
    off = (off + off.T if symmetric else off).tocsr()
    sums = np.asarray(abs(off).sum(axis=1)).ravel()
    return (off + sp.diags_array(1.1 * sums + rng.uniform(0.5, 2.0, rows))).tocsr()


def matrix_for(method: Any, rows: int, seed: int) -> sp.csr_array:
    """The most general kind of matrix that a method serves."""
    return dominant(rows, seed, symmetric=METHODS[method].symmetric)


def triangle(rows: int) -> sp.csr_array:
    """Rows read later ones alone: a chunk gets something from one to which it sends nothing."""
    band = [np.full(rows - k, value) for k, value in ((0, 3.0), (1, -1.0), (5, -0.5))]
    return sp.diags_array(band, offsets=[0, 1, 5]).tocsr()


def convection_diffusion(n: int, speed: float) -> sp.csr_array:
    """Upwind differences of -Δu + speed (u_x + u_y) on n x n points, times h²."""
    h = speed / (n + 1)
    line = sp.diags_array([np.full(n - 1, -1.0 - h), np.full(n, 2.0 + h), -np.ones(n - 1)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    return (sp.kron(line, eye) + sp.kron(eye, line)).tocsr()


def error(x: F64, a: Any, b: F64) -> float:
    expected = spsolve(a.tocsc(), b)
    return float(np.linalg.norm(x - expected) / np.linalg.norm(expected))


def test_the_same_bits_for_any_engine_in_this_process() -> None:
    b = np.random.default_rng(3).standard_normal(90)
    for method, chunks in product(get_args(MethodName), (1, 2, 3)):
        problem = dsolver.matrix(matrix_for(method, 90, 3), chunks=chunks)
        reference, resident = (
            dsolver.solve(problem, b, method=method, engine=engine, device="cpu")
            for engine in ("reference", "resident")
        )
        assert reference.converged
        assert resident.residuals == reference.residuals
        assert (resident.x == reference.x).all()


def test_the_same_bits_on_a_cluster() -> None:
    """Also where a chunk sends nothing to those that it reads."""
    b = np.random.default_rng(3).standard_normal(60)
    cases: dict[Any, Any] = {method: matrix_for(method, 60, 3) for method in METHODS} | {"bicgstab": triangle(60)}
    with cluster(2) as client:
        for method, a in cases.items():
            problem = dsolver.matrix(a, chunks=3)
            expected = dsolver.solve(problem, b, method=method, engine="reference", device="cpu")
            found = dsolver.solve(problem, b, method=method, client=client, device="cpu")
            assert found.residuals == expected.residuals
            assert (found.x == expected.x).all()
            if method not in ("minres", "gmres", "bicgstab"):
                continue  # their operations are among those of these
            few: dict[str, Any] = {"method": method, "device": "cpu", "maxiter": 2, "rtol": 0.0}
            expected = dsolver.solve(problem, b, engine="reference", **few)
            tasks = dsolver.solve(problem, b, client=client, engine="graph", **few)
            assert tasks.residuals == expected.residuals
            assert (tasks.x == expected.x).all()


def test_a_triangle_is_read_one_way() -> None:
    assert dsolver.matrix(triangle(60), chunks=4).planned(4).senders == ((1,), (2,), (3,), ())


@pytest.mark.parametrize("method", ["gmres", "fgmres", "bicgstab"])
def test_convection_and_diffusion(method: Any) -> None:
    a = convection_diffusion(24, 40.0)
    b = np.random.default_rng(0).standard_normal(576)
    solution = dsolver.solve(dsolver.matrix(a, chunks=3), b, method=method, rtol=1e-10, device="cpu")
    assert solution.converged
    assert error(solution.x, a, b) <= 1e-8
    assert np.linalg.norm(b - a @ solution.x) == pytest.approx(solution.true_residual, rel=1e-2)


def test_steps_past_the_end_change_no_bit() -> None:
    """On a grid of one chunk supersteps are longer than what is left to do."""
    for method in get_args(MethodName):
        a, b = matrix_for(method, 50, 7), np.ones(50)
        one = dsolver.solve(a, b, method=method, device="cpu", rtol=1e-9)
        by_step = dsolver.solve(a, b, method=method, device="cpu", rtol=1e-9, callback=lambda _: None)
        assert one.residuals == by_step.residuals
        assert (one.x == by_step.x).all()


def shifted_laplacian(n: int) -> sp.csr_array:
    """Symmetric, with eigenvalues of both signs, none near zero."""
    return (convection_diffusion(n, 0.0) - 1.3 * sp.eye_array(n * n)).tocsr()


@pytest.mark.parametrize("m", ["jacobi", None])
def test_minres_solves_an_indefinite_system(m: str | None) -> None:
    a, b = shifted_laplacian(16), np.random.default_rng(0).standard_normal(256)
    assert np.linalg.eigvalsh(a.toarray())[0] < 0.0
    solution = dsolver.solve(dsolver.matrix(a, chunks=2), b, method="minres", M=m, rtol=1e-10, device="cpu")
    assert solution.converged
    assert error(solution.x, a, b) <= 1e-8
    assert solution.residuals[-1] == pytest.approx(solution.true_residual, rel=1e-3)
    if m is None:
        assert np.all(np.diff(solution.residuals) <= 0.0), "each iterate is the best of its space"


def test_the_usual_preconditioner_follows_from_the_matrix_and_the_method() -> None:
    positive = dsolver.matrix(shifted_laplacian(4))
    negative = dsolver.matrix((shifted_laplacian(4) - 5.0 * sp.diags_array(np.arange(16) % 2.0)).tocsr())
    one_way, hollow = dsolver.matrix(triangle(9)), dsolver.matrix(sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])))
    assert usual_preconditioner(dsolver.problems.poisson7((4, 4, 4)), "gmres") == "auto"
    assert usual_preconditioner(positive) == "direct"
    assert usual_preconditioner(positive, "cg") == "chebyshev"
    assert usual_preconditioner(positive, "minres") == "jacobi"
    assert usual_preconditioner(negative, "minres") is None  # it must be positive definite
    assert usual_preconditioner(negative, "gmres") == usual_preconditioner(one_way, "gmres") == "jacobi"
    assert usual_preconditioner(negative) == usual_preconditioner(one_way) == "direct"
    assert usual_preconditioner(hollow, "minres") is None
    assert dsolver.solve(hollow, np.ones(2), method="minres", device="cpu").converged


def test_minres_tells_of_a_preconditioner_that_is_not_positive_definite() -> None:
    a, b = shifted_laplacian(8), np.ones(64)
    for m, iterations in ((lambda r: -r, 1), (sp.diags_array(np.where(np.arange(64) % 3, 1.0, -1.0)), 5)):
        solution = dsolver.solve(a, b, method="minres", M=m, device="cpu")
        assert solution.status is dsolver.Status.INDEFINITE
        assert solution.iterations <= iterations


def test_gmres_has_the_residuals_of_scipys() -> None:
    a, b = convection_diffusion(12, 30.0), np.random.default_rng(1).standard_normal(144)
    theirs: list[float] = []
    expected, _ = scipy_gmres(a, b, restart=8, maxiter=4, rtol=0.0, callback=theirs.append, callback_type="pr_norm")
    found = dsolver.solve(a, b, method="gmres", M=None, restart=8, maxiter=32, rtol=0.0, device="cpu")
    ours = np.array(found.residuals[1:]) / np.linalg.norm(b)
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert np.allclose(found.x, expected, rtol=1e-8)
    x, info = dsolver.gmres(a, b, restart=8, maxiter=4, rtol=1e-30, device="cpu")  # maxiter counts bases
    assert info == 32
    assert np.allclose(x, expected, rtol=1e-8)


@pytest.mark.parametrize("method", ["gmres", "fgmres"])
def test_the_basis_grows_where_residuals_stall_unless_its_size_was_asked_for(method: Any) -> None:
    n = 150
    a = sp.csr_array(sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -1.01 * np.ones(n - 1)], offsets=[-1, 0, 1]))
    b = np.random.default_rng(1).standard_normal(n)
    with dsolver.Solver(a, method=method, M=None, device="cpu") as solver:
        grown = solver.solve(b)
        assert solver.solve(b).residuals == grown.residuals  # it begins with a small one again
    assert grown.converged
    assert grown.iterations < 700
    asked = dsolver.solve(a, b, method=method, M=None, restart=30, device="cpu")
    assert not asked.converged
    serial = dsolver.solve(dsolver.matrix(a, chunks=3), b, method=method, M=None, engine="reference")
    assert serial.iterations == pytest.approx(grown.iterations, abs=3)


@pytest.mark.parametrize("method", ["gmres", "fgmres"])
def test_a_callback_sees_the_iterates_that_the_residuals_tell_of(method: Any) -> None:
    a, b = convection_diffusion(6, 20.0), np.random.default_rng(1).standard_normal(36)
    seen: list[tuple[float, float]] = []

    def callback(state: dsolver.State) -> None:
        seen.append((state.residual, float(np.linalg.norm(b - a @ solver.iterate()))))

    with dsolver.Solver(a, method=method, restart=5, device="cpu") as solver:
        watched = solver.solve(b, callback=callback)
        assert solver.solve(b).residuals == watched.residuals
    told, measured = zip(*seen, strict=True)
    assert len(told) > 12
    assert told == pytest.approx(measured, rel=1e-4)


def test_gmres_breaks_down_where_a_singular_matrix_leaves_nothing_to_do() -> None:
    """A b = 0: Krylov's space ends before it reaches a solution. What solves A x = 0 is no constant of a piece."""
    a = sp.csr_array(np.array([[2.0, -1.0], [4.0, -2.0]]))
    solution = dsolver.solve(a, np.array([1.0, 2.0]), method="gmres", M=None, device="cpu")
    assert solution.status is dsolver.Status.BREAKDOWN
    assert not solution.x.any()


def test_flexible_gmres_bears_a_preconditioner_that_changes() -> None:
    a, b, calls = convection_diffusion(12, 30.0), np.ones(144), [0]

    def varying(r: F64) -> Any:
        calls[0] += 1
        return r / a.diagonal() * (1.0 + 0.9 * np.sin(np.arange(144) * calls[0]))

    assert dsolver.solve(a, b, method="fgmres", M=varying, device="cpu", rtol=1e-10).converged
    assert not dsolver.solve(a, b, method="gmres", M=varying, device="cpu", rtol=1e-10, maxiter=200).converged


@pytest.mark.parametrize(
    ("method", "m", "ahead"), [("cg", "mg", True), ("cg", "jacobi", False), ("bicgstab", "mg", False)]
)
def test_steps_are_recorded_ahead_where_they_are_known_to_make_nothing(
    method: Any, m: str, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays of a recording would all write to the memory that its only run has made, and given back."""
    told, repeat = [], ResidentEngine.repeat

    def noted(engine: Any, step: Any, times: int, watch: Any, how: Any) -> Any:
        told.append(how.ready)
        return repeat(engine, step, times, watch, how)

    monkeypatch.setattr(ResidentEngine, "repeat", noted)
    problem = dsolver.problems.poisson7((8, 8, 8))
    dsolver.solve(problem, np.ones((8, 8, 8)), method=method, M=m, device="cpu", engine="resident")
    assert set(told) == {ahead}


def test_the_forecast_counts_the_vectors_of_each_method() -> None:
    problem = dsolver.problems.poisson7((32, 32, 32))

    def kept(method: Any, restart: int | None) -> int:
        found = dsolver.estimate(problem, method=method, restart=restart, M=None, device="cpu", bandwidth=1e9)
        return found.workers[0].vectors

    method: Any
    for method, traits in METHODS.items():
        with dsolver.Solver(problem, method=method, restart=4, M=None, device="cpu") as solver:
            solver.solve(np.random.default_rng(0).standard_normal(problem.shape), maxiter=4)  # a basis is filled
            running: Any = solver._session.program
            held = sum(
                sum(array.nbytes for array in field.items.values()) for field in fields_of(running._program.method)
            )
        assert kept(method, 4) == held
        assert kept(method, None) == kept(method, most_vectors(problem.grid[0] ** 3))
        assert kept(method, 5) - kept(method, 4) == traits.basis * held / (traits.vectors + 4 * traits.basis)


def fields_of(method: Any) -> list[Any]:
    """Distinct vectors of a method."""
    found = {}
    for value in vars(method).values():
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, Field):
                found[id(one)] = one
    return list(found.values())


def test_bad_arguments_are_refused() -> None:
    a, b = triangle(9), np.ones(9)
    with pytest.raises(
        InputError, match=r"unknown method 'qmr': is 'bicgstab' meant. use 'cg', 'fcg', 'cocg', 'minres', 'gmres'"
    ):
        dsolver.solve(a, b, method="qmr")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="restart must be an integer >= 1, not 0"):
        dsolver.gmres(a, b, restart=0)
    with pytest.raises(InputError, match=r"A\[0, 1\] = -1, but A\[1, 0\] = 0.*; method='minres' needs A = Aᵀ"):
        dsolver.minres(a, b)


def test_grids_that_leave_a_constant_open() -> None:
    rng = np.random.default_rng(4)
    problem = dsolver.problems.diffusion((8, 9, 10), rng.uniform(0.5, 2.0, (8, 9, 10)), bc="neumann", chunks=(2, 1, 1))
    b = rng.standard_normal(problem.grid)
    b -= b.mean()
    expected = dsolver.solve(problem, b, rtol=1e-12, device="cpu").x
    for method, m in product(get_args(MethodName), ("mg", None)):
        found = dsolver.solve(problem, b, method=method, M=m, rtol=1e-11, device="cpu")
        assert found.converged, (method, m)
        assert np.allclose(found.x, expected, atol=1e-9 * abs(expected).max())


def test_bicgstab_tells_of_a_breakdown() -> None:
    """A r is orthogonal to r for every r."""
    a = sp.csr_array(np.array([[0.0, 1.0], [-1.0, 0.0]]))
    solution = dsolver.solve(a, np.array([1.0, 0.0]), method="bicgstab", device="cpu")
    assert solution.status is dsolver.Status.BREAKDOWN
    assert "gmres" in solution.status.advice
    x, info = dsolver.bicgstab(a, np.array([1.0, 0.0]), device="cpu")
    assert info == -4
    assert not x.any()


def test_flexible_conjugate_gradients_bear_a_preconditioner_that_changes() -> None:
    a = dominant(200, 4, symmetric=True)
    a = (a + sp.diags_array(np.geomspace(1.0, 1e5, 200))).tocsr()
    b, calls = np.ones(200), [0]

    def varying(r: F64) -> Any:
        calls[0] += 1
        return r / a.diagonal() * (1.0 + 0.9 * np.sin(np.arange(200) * calls[0]))

    flexible = dsolver.solve(a, b, method="fcg", M=varying, device="cpu", rtol=1e-10)
    assert flexible.converged
    with pytest.warns(RuntimeWarning, match="M is not symmetric"):  # as far as two calls tell
        plain = dsolver.solve(a, b, M=varying, device="cpu", rtol=1e-10, maxiter=2 * flexible.iterations)
    assert not plain.converged


def test_several_right_hand_sides_are_solved_one_after_the_other() -> None:
    a, b = matrix_for("bicgstab", 40, 2), np.random.default_rng(2).standard_normal((40, 3))
    with dsolver.Solver(a, method="bicgstab", device="cpu") as solver:
        together = solver.solve(list(b.T))
        assert "method='bicgstab' has no kernels for several vectors" in together[0].notes[-1]
        for number in range(3):
            assert (solver.solve(b[:, number]).x == together[number].x).all()


@pytest.mark.gpu
@pytest.mark.parametrize("method", sorted(METHODS))
def test_on_a_gpu(method: Any) -> None:
    import cupy

    a, b = matrix_for(method, 3000, 5), np.random.default_rng(5).standard_normal(3000)
    expected = dsolver.solve(dsolver.matrix(a, chunks=3), b, method=method, rtol=1e-12, device="cpu")
    found = dsolver.solve(dsolver.matrix(a, chunks=3), cupy.asarray(b), method=method, rtol=1e-12, device="cuda")
    assert found.converged
    assert abs(found.iterations - expected.iterations) <= 2
    assert error(found.x.get(), a, b) <= 1e-9
