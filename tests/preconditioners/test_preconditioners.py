"""The preconditioners beside multigrid, and how M is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import scipy.sparse.linalg

import dsolver
from dsolver import kernels, problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import InputError
from dsolver.grid.box import Triple
from dsolver.grid.partition import Partition
from dsolver.krylov.control.giving_up import UNSYMMETRIC, UNSYMMETRIC_FROM
from dsolver.multigrid.smoothers import SAFETY
from dsolver.preconditioners import Chebyshev, Function, Identity, Jacobi, Preconditioner, register, registry
from dsolver.preconditioners.relaxation.chebyshev import largest_eigenvalue as estimated
from dsolver.preconditioners.relaxation.chebyshev import noise, ritz_values
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from dsolver.status import Status

F64 = npt.NDArray[np.float64]
GRID = (12, 7, 9)
PROBLEM = problems.poisson7(GRID)
BACKENDS = ("numpy", "cpu")
CHUNKS = [(1, 1, 1), (2, 1, 3)]


def matrix(grid: Triple) -> Any:
    """The 7-point Laplacian for vectors in the order of b.ravel()."""
    lines = [scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr") for n in grid]
    eyes = [scipy.sparse.eye_array(n, format="csr") for n in grid]
    x, y, z = lines
    return (
        scipy.sparse.kron(scipy.sparse.kron(x, eyes[1]), eyes[2])
        + scipy.sparse.kron(scipy.sparse.kron(eyes[0], y), eyes[2])
        + scipy.sparse.kron(scipy.sparse.kron(eyes[0], eyes[1]), z)
    ).tocsr()


def program(m: Preconditioner, chunks: Triple = (1, 1, 1), backend: str = "cpu", problem: Any = PROBLEM) -> Solve:
    spec = SolveSpec.plan(problem, chunks, m=m)
    return Solve(EagerEngine(spec.partition, kernels.load(backend)), spec)


def applied(made: Solve, r: F64) -> F64:
    """M r."""
    engine: Any = made.engine
    partition = engine.partition
    made.set_b({chunk.number: r[chunk.box.slices] for chunk in partition})
    assert made.preconditioner is not None
    made.preconditioner.apply(made.method.b, made.method.x)
    out = np.full(partition.grid, np.nan)
    for number, block in made.solution().items():
        out[partition[number].box.slices] = block
    return out


@pytest.fixture(scope="module")
def b() -> F64:
    return np.random.default_rng(3).standard_normal(GRID)


# -- what they compute -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", CHUNKS)
def test_jacobi_divides_by_the_diagonal(backend: str, chunks: Triple, b: F64) -> None:
    assert applied(program(Jacobi(), chunks, backend), b) == pytest.approx(b / 6.0, rel=1e-15)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_chebyshev_is_the_polynomial_of_the_books(backend: str, chunks: Triple, degree: int, b: F64) -> None:
    """The residual of z for the system D⁻¹A z = D⁻¹ r is T_k((c - D⁻¹A)/h) / T_k(c/h), applied to D⁻¹ r."""
    made = program(Chebyshev(degree=degree, ratio=20.0), chunks, backend)
    largest = SAFETY * largest_of(made)
    center, half = largest * (1 + 1 / 20) / 2, largest * (1 - 1 / 20) / 2
    scaled = (matrix(GRID) / 6.0).toarray()
    values, vectors = np.linalg.eigh(scaled)
    polynomial = np.polynomial.Chebyshev.basis(degree)
    damping = polynomial((center - values) / half) / polynomial(center / half)
    right = b.ravel() / 6.0
    expected = vectors @ ((1.0 - damping) / values * (vectors.T @ right))
    assert np.abs(applied(made, b).ravel() - expected).max() <= 1e-12 * np.abs(expected).max()


def largest_of(made: Solve) -> float:
    """The eigenvalue that the program's own estimate found, from a second one like it."""
    sites: list[Any] = []
    Spy.sites = sites
    program(Spy(), made.engine.partition.counts)
    return estimated(sites[0])


class Spy(Preconditioner):
    """Keeps where it was asked for a preconditioner."""

    sites: Any = None

    def on(self, site: Any) -> None:
        Spy.sites.append(site)

    def forecast(self, part: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("chunks", CHUNKS)
def test_the_largest_eigenvalue_is_estimated_from_below_and_covered(chunks: Triple) -> None:
    found = largest_of(program(Identity(), chunks))
    exact = scipy.sparse.linalg.eigsh(matrix(GRID) / 6.0, k=1, return_eigenvectors=False)[0]
    assert 0.9 * exact < found < exact
    assert SAFETY * found * (1 + 1 / 30) > exact, "the polynomial is positive up to the sum of its interval's ends"


def test_the_estimate_leaves_nothing_behind() -> None:
    made = program(Chebyshev())
    assert not any(block.any() for blocks in (made.right_hand_side(), made.solution()) for block in blocks.values())


def test_ritz_values_of_all_steps_are_the_eigenvalues() -> None:
    """Conjugate gradients on a diagonal matrix of n different values find them all in n steps."""
    values = np.array([0.5, 1.0, 2.0, 3.5, 4.0])
    r, p, rz_old, pairs = np.ones(5), np.zeros(5), 1.0, []
    for _ in values:
        rz = float(r @ r)
        p = r + rz / rz_old * p
        ap = values * p
        pairs.append((rz, float(p @ ap)))
        r, rz_old = r - rz / pairs[-1][1] * ap, rz
    assert ritz_values(pairs) == pytest.approx(values, rel=1e-10)


def test_noise_depends_on_the_place_alone_and_is_rough() -> None:
    whole, parts = Partition(GRID), Partition(GRID, (2, 1, 3))
    backend = kernels.load("cpu")
    values = noise(whole, backend, 0)
    for chunk in parts:
        assert (noise(parts, backend, chunk.number) == values[chunk.box.slices]).all()
    assert -0.5 <= values.min() < -0.45
    assert 0.45 < values.max() < 0.5
    assert len(np.unique(values)) == values.size
    flat = values.ravel()
    assert abs(flat.mean()) < 4 * 12**-0.5 / flat.size**0.5
    for axis in range(3):
        assert abs(float((values * np.roll(values, 1, axis)).mean())) < 4 / 12 / flat.size**0.5


@pytest.mark.parametrize("m", [Jacobi(), Chebyshev(degree=3), Chebyshev(degree=4), Hpcg()])
def test_they_are_symmetric_and_positive_definite(m: Preconditioner) -> None:
    grid = (8, 8, 8)
    made = program(m, problem=problems.hpcg(grid))
    inverse = np.array([applied(made, column.reshape(grid)).ravel() for column in np.eye(512)])
    assert np.abs(inverse - inverse.T).max() < 1e-14
    assert np.linalg.eigvalsh(inverse).min() > 0.0


@pytest.mark.parametrize(("m", "share"), [("jacobi", 1.01), ("chebyshev", 0.4), (Chebyshev(degree=8), 0.25)])
def test_they_save_iterations(m: Any, share: float) -> None:
    problem = problems.poisson7((24, 24, 24), chunks=(2, 1, 3))
    b = np.random.default_rng(0).standard_normal(problem.grid)
    plain, better = (dsolver.solve(problem, b, M=choice, device="cpu") for choice in (None, m))
    assert better.converged
    assert better.iterations <= share * plain.iterations


@pytest.mark.parametrize("m", ["jacobi", "chebyshev"])
def test_engines_agree(m: str, b: F64) -> None:
    problem = problems.poisson7(GRID, chunks=(2, 1, 3))
    resident = dsolver.solve(problem, b, M=m, device="cpu")
    reference = dsolver.solve(problem, b, M=m, device="cpu", engine="reference")
    numpy = dsolver.solve(problem, b, M=m, kernels="numpy", engine="reference")
    assert resident.residuals == reference.residuals
    assert resident.x.tobytes() == reference.x.tobytes()
    assert numpy.residuals == pytest.approx(resident.residuals, rel=1e-8)


@pytest.mark.parametrize("m", ["jacobi", "chebyshev"])
def test_a_negative_definite_matrix_is_seen_in_the_solve(m: str) -> None:
    weights = np.zeros((3, 3, 3))
    weights[1, 1, 1] = -6.0
    weights[0, 1, 1] = weights[2, 1, 1] = 1.0
    solution = dsolver.solve(problems.stencil((8, 8, 8), weights), np.ones((8, 8, 8)), M=m)
    assert solution.status is Status.INDEFINITE
    assert not solution.x.any(), "the last iterate before that is the guess"


# -- the user's own ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("engine", ["resident", "reference"])
def test_a_function_is_called_with_whole_arrays(chunks: Triple, engine: Any, b: F64) -> None:
    seen: list[Any] = []

    def scaled(r: F64) -> F64:
        seen.append(r)
        return r / 6.0

    problem = problems.poisson7(GRID, chunks=chunks)
    found = dsolver.solve(problem, b, M=scaled, engine=engine, device="cpu")
    expected = dsolver.solve(problem, b, M="jacobi", engine=engine, device="cpu")
    assert len(seen) >= found.iterations
    assert all(type(r) is np.ndarray and r.shape == GRID for r in seen)
    assert (seen[0] == b).all()
    assert found.iterations == expected.iterations
    assert found.x == pytest.approx(expected.x, rel=1e-10)


def test_operators_of_scipys_kind_work_on_raveled_vectors(b: F64) -> None:
    a = matrix(GRID)
    solved = scipy.sparse.linalg.factorized(a.tocsc())
    exact = scipy.sparse.linalg.LinearOperator(a.shape, matvec=solved, dtype=np.float64)
    solution = dsolver.solve(PROBLEM, b, M=exact, rtol=1e-12)
    assert solution.converged
    assert solution.iterations == 1
    assert np.linalg.norm(b.ravel() - a @ solution.x.ravel()) <= 1e-12 * np.linalg.norm(b)
    inverse = scipy.sparse.csr_array(np.linalg.inv(a.toarray()))
    assert dsolver.solve(PROBLEM, b, M=inverse, rtol=1e-10).iterations == 1


def test_a_function_that_is_not_definite_is_found_out(b: F64) -> None:
    solution = dsolver.solve(PROBLEM, b, M=lambda r: -r)
    assert solution.status is Status.INDEFINITE
    assert "M is a function of yours" in solution.status.advice


def test_incomplete_lu_factors_end_a_solve_early() -> None:
    """No larger maxiter mends that; other methods do, GMRES by itself where none is asked for."""
    problem, b = problems.poisson7((16, 16, 16)), np.random.default_rng(1).standard_normal((16, 16, 16))
    factors = scipy.sparse.linalg.spilu(matrix(problem.grid).tocsc(), drop_tol=0.01, fill_factor=3)

    def m(r: F64) -> F64:
        solved: F64 = factors.solve(r.ravel()).reshape(r.shape)
        return solved

    for engine in ("reference", "resident"):
        with pytest.warns(RuntimeWarning, match=r"M is not symmetric: .* differ by 0\.\d+ of their size"):
            solution = dsolver.solve(problem, b, M=m, method="cg", device="cpu", engine=engine)
        assert solution.status is Status.UNSYMMETRIC_M
        assert UNSYMMETRIC_FROM <= solution.iterations < 2 * UNSYMMETRIC_FROM
        assert "method='fcg', 'gmres', " in solution.notes[0]
    assert "method='gmres', or 'fcg'" in solution.status.advice
    assert dsolver.solve(problem, b, M=m, method="fcg").converged
    assert dsolver.solve(problem, b, M=m, method="gmres").converged
    with dsolver.Solver(problem, M=m) as solver:
        solution = solver.solve(b)
        solver.update(problem)
        assert solver.solve(b).iterations < solution.iterations - 100, "GMRES from the beginning"
    assert solution.converged
    assert "ended as unsymmetric_m after" in solution.notes[0]
    assert "goes on with GMRES" in solution.notes[0]


def test_a_nearly_symmetric_function_may_take_its_time() -> None:
    """Conjugate gradients stay at no residual for half of their iterations, and so reach the tolerance."""
    grid, rng = (12, 12, 12), np.random.default_rng(1)
    problem, b = problems.diffusion(grid, kappa=np.exp(1.5 * rng.standard_normal(grid))), rng.standard_normal(grid)
    off = scipy.sparse.random_array((b.size, b.size), density=3.0 / b.size, rng=rng).tocsr()

    def m(r: F64) -> F64:
        changed: F64 = (r.ravel() + 0.08 * (off @ r.ravel())).reshape(grid)
        return changed

    made = Function(function=m)
    made.check(problem, Partition(grid))
    assert made.asymmetry() > UNSYMMETRIC
    solution = dsolver.solve(problem, b, M=m, rtol=1e-6, maxiter=4000)
    assert solution.converged
    assert solution.iterations > 2 * UNSYMMETRIC_FROM
    with pytest.warns(RuntimeWarning, match="M is not symmetric"):  # though its residual falls
        ended = dsolver.solve(problem, b, M=m, rtol=1e-6, maxiter=UNSYMMETRIC_FROM)
    assert ended.status is Status.UNSYMMETRIC_M
    symmetric = dsolver.solve(
        problem, b, M=lambda r: np.float64(np.float32(r) / 6), rtol=1e-6, maxiter=UNSYMMETRIC_FROM
    )
    assert symmetric.status is Status.MAX_ITERATIONS


def test_a_symmetric_function_is_not_blamed(b: F64) -> None:
    solution = dsolver.solve(PROBLEM, b, M=lambda r: r / 6.0, maxiter=3)
    assert solution.status is Status.MAX_ITERATIONS
    assert not solution.notes


def test_a_function_that_returns_nonsense_is_told(b: F64) -> None:
    with pytest.raises(InputError, match=r"M returned an array of shape \(756,\).*b's shape \(12, 7, 9\)"):
        dsolver.solve(PROBLEM, b, M=lambda r: r.ravel())
    with pytest.raises(InputError, match=r"M returned an array of dtype complex128: real numbers are needed"):
        dsolver.solve(PROBLEM, b, M=lambda r: r + 0.0j)
    with pytest.raises(InputError, match="M returned NoneType"):
        dsolver.solve(PROBLEM, b, M=lambda _: None)


def test_an_operator_of_another_size_is_refused(b: F64) -> None:
    with pytest.raises(InputError, match=r"M has shape \(5, 5\).*must be \(756, 756\)"):
        dsolver.solve(PROBLEM, b, M=np.eye(5))


# -- how M is chosen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", ["ilu", 3, Chebyshev, object()])
def test_what_is_no_preconditioner_is_refused(m: Any, b: F64) -> None:
    with pytest.raises(
        InputError,
        match=r"unknown preconditioner M=.*: (is 'ilu0' meant. )?use 'auto', 'mg', 'amg', 'jacobi', .*'hpcg'",
    ):
        dsolver.solve(PROBLEM, b, M=m)


def test_m_of_another_package_is_told_how_to_become_a_function() -> None:
    a = matrix(GRID)
    factors = scipy.sparse.linalg.splu(a.tocsc())
    with pytest.raises(InputError, match=r"M is a SuperLU, and no function: pass its solve$"):
        dsolver.solve(a, np.ones(a.shape[0]), M=factors)
    assert dsolver.solve(a, np.ones(a.shape[0]), M=factors.solve).converged
    with (
        dsolver.Solver(a) as solver,
        pytest.raises(InputError, match=r"M is a Solver, and no function: pass its aspreconditioner\(\)"),
    ):
        dsolver.solve(a, np.ones(a.shape[0]), M=solver)  # type: ignore[arg-type]


def test_a_name_can_be_registered(b: F64, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "NAMED", dict(registry.NAMED))
    register("mine", Jacobi)
    register("mine", Jacobi)  # a module that is imported again
    assert dsolver.solve(PROBLEM, b, M="mine").residuals == dsolver.solve(PROBLEM, b, M="jacobi").residuals
    with pytest.raises(InputError, match="a preconditioner 'mine' already"):
        register("mine", Chebyshev)


@pytest.mark.parametrize("options", [{"degree": 0}, {"degree": 2.5}, {"ratio": 1.0}, {"ratio": np.inf}, {"ratio": "a"}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        Chebyshev(**options)


def test_functions_say_that_no_open_cluster_is_taken_for_them() -> None:
    m = Function(function=lambda r: r)
    assert not m.can.everywhere
    assert not m.can.recorded
    assert all(kind.can.everywhere and kind.can.recorded for kind in (Identity, Jacobi, Chebyshev, Hpcg))
