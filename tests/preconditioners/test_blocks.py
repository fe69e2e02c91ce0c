"""Systems of blocks and their preconditioners: Stokes flow by the MAC scheme, Darcy flow by faces and cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver import problems
from dsolver.errors import InputError
from dsolver.matrices.composed.blocks import field_matrices
from dsolver.preconditioners import Algebraic, BlockDiagonal, BlockTriangular, Jacobi, LeastSquaresCommutator, Schur
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(2) as made:
        yield made


def line(points: int, ends: float) -> Any:
    """-d²/dx² h² of points with a wall behind both ends, which adds to the diagonal there."""
    diagonal = np.full(points, 2.0)
    diagonal[[0, -1]] += ends
    return sp.diags_array([np.full(points - 1, -1.0), diagonal, np.full(points - 1, -1.0)], offsets=[-1, 0, 1])


def stokes(n: int) -> tuple[Any, Any]:
    """Blocks of the flow in a closed square of n² cells (Harlow and Welch 1965): Laplacians of both components, -∇."""
    eye = sp.eye_array
    across = sp.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    u = sp.kron(line(n - 1, 0.0), eye(n)) + sp.kron(eye(n - 1), line(n, 1.0))
    v = sp.kron(line(n, 1.0), eye(n - 1)) + sp.kron(eye(n), line(n - 1, 0.0))
    gradient = sp.vstack([sp.kron(across, eye(n)), sp.kron(eye(n), across)]) / n
    return sp.csr_array(sp.block_diag([u, v])), sp.csr_array(gradient)


def darcy(n: int) -> tuple[Any, Any]:
    """Blocks of the flow through a medium in a square, whose permeability jumps: mass of fluxes, -∇."""
    a, gradient = stokes(n)
    resistance = np.exp(2.0 * np.random.default_rng(1).standard_normal(a.shape[0]))
    side = np.full(a.shape[0] - 1, 0.1)
    return sp.csr_array(sp.diags_array([side, resistance + 0.2, side], offsets=[-1, 0, 1])), gradient


def system(blocks: tuple[Any, Any], **options: Any) -> tuple[Any, F64]:
    """The problem, and a right-hand side in its reach: pressures are known up to a constant."""
    a, bt = blocks
    rows, cells = bt.shape
    null = np.concatenate([np.zeros(rows), np.ones(cells)])
    b = np.random.default_rng(0).standard_normal(rows + cells)
    b[rows:] -= b[rows:].mean()
    return dsolver.block([[a, bt], [bt.T, None]], nullspace=null, **options), b


KINDS = {"stokes": stokes, "darcy": darcy}
METHODS = [BlockDiagonal(), BlockTriangular(), BlockTriangular(upper=True), Schur(), Schur(correction="diagonal")]


@pytest.mark.parametrize("m", METHODS, ids=lambda m: f"{type(m).__name__}-{len(repr(m))}")
@pytest.mark.parametrize("kind", KINDS)
def test_iterations_hardly_depend_on_the_size(kind: str, m: Any) -> None:
    counts = []
    for n in (24, 48):
        problem, b = system(KINDS[kind](n))
        found = dsolver.solve(problem, b, M=m)
        assert found.converged
        assert np.linalg.norm(b - problem.to_scipy() @ found.x) <= 1.01e-8 * np.linalg.norm(b)
        assert found.solved_by.startswith("minres" if isinstance(m, BlockDiagonal) else "fgmres")
        counts.append(found.iterations)
    assert counts[1] <= 1.25 * counts[0]
    assert counts[1] <= (80 if isinstance(m, BlockDiagonal) else 45)


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_call_takes_a_preconditioner_of_blocks(kind: str) -> None:
    problem, b = system(KINDS[kind](32))
    found = dsolver.solve(problem, b)
    assert found.converged
    assert found.iterations <= 60
    other = "Jacobi" if kind == "stokes" else "Algebraic"
    assert found.solved_by == f"fgmres with BlockTriangular(Algebraic(), {other}())"
    assert dsolver.solve(problem, b, method="minres").solved_by.startswith("minres with BlockDiagonal")


def test_fields_that_are_elliptic_together_are_solved_as_one() -> None:
    grid, rows = (64, 64), 64 * 64
    exchange = sp.diags_array(1e3 * np.exp(np.random.default_rng(0).standard_normal(rows)))
    first = problems.diffusion(grid, 100.0, bc="neumann").to_scipy() + exchange
    second = problems.diffusion(grid, bc={"x-": "dirichlet"}).to_scipy() + exchange
    blocks = [[first, -exchange], [-exchange, second]]
    found = dsolver.solve(dsolver.block(blocks), np.ones(2 * rows), device="cpu")
    whole = dsolver.solve(sp.block_array(blocks), np.ones(2 * rows), device="cpu")
    assert found.converged
    assert found.iterations == whole.iterations < 60  # more than 1000 with a block triangle


def test_few_multipliers_beside_elliptic_rows_are_a_field() -> None:
    """Few multipliers: nearly all rows are elliptic, and MINRES of the whole takes ten times the iterations."""
    first, means = problems.poisson7((40, 40, 40)).to_scipy(), np.zeros((5, 40**3))
    np.put_along_axis(means, np.random.default_rng(0).integers(0, 40**3, (5, 40)), 1.0, axis=1)
    means = sp.csr_array(means)
    found = dsolver.solve(dsolver.block([[first, means.T], [means, None]]), np.ones(40**3 + 5), device="cpu")
    assert found.converged
    assert "BlockTriangular" in found.solved_by
    assert found.iterations < 40


@pytest.mark.parametrize("m", [BlockDiagonal(), BlockTriangular(), Schur()])
def test_workers_have_the_same_bits(m: Any, client: Client) -> None:
    """Every owner has rows of each field."""
    problem, b = system(stokes(10), chunks=3)
    found = [
        dsolver.solve(problem, b, M=m, rtol=1e-6, device="cpu", **where)
        for where in ({"engine": "reference"}, {"client": client})
    ]
    alone = dsolver.solve(system(stokes(10))[0], b, M=m, rtol=1e-6, device="cpu")
    assert all(each.converged for each in found)
    assert found[0].residuals == found[1].residuals
    assert (found[0].x == found[1].x).all()
    assert abs(found[0].iterations - alone.iterations) <= 5
    assert np.linalg.norm(b - problem.to_scipy() @ found[1].x) <= 1.01e-6 * np.linalg.norm(b)


@pytest.mark.parametrize("kind", [BlockDiagonal, BlockTriangular, Schur])
def test_tasks_have_the_same_bits(kind: Any, client: Client) -> None:
    problem, b = system(stokes(8), chunks=2)
    found = [
        dsolver.solve(problem, b, M=kind(M="jacobi"), maxiter=3, device="cpu", **where)
        for where in ({"engine": "reference"}, {"client": client, "engine": "graph"})
    ]
    assert found[0].residuals == found[1].residuals
    assert (found[0].x == found[1].x).all()


def test_a_worker_has_a_chunk_with_rows_of_both_fields(client: Client) -> None:
    problem, b = system(stokes(10))
    with dsolver.Solver(problem, client=client, device="cpu") as solver:
        assert solver.solve(b).converged
        assert "2 workers" in repr(solver)
    parts = np.concatenate([np.zeros(180, dtype=int), np.ones(100, dtype=int)])
    problem, _ = system(stokes(10), partition=parts)
    with pytest.raises(InputError, match="chunk 1 has no row of field 0"):
        dsolver.solve(problem, b)


def exact_inverse(rows: Any) -> Any:
    return sp.csr_array(np.linalg.inv(rows.toarray()))


def test_exact_blocks_end_after_few_iterations() -> None:
    """Three of MINRES and two of GMRES (Murphy, Golub and Wathen 2000), one with all factors."""
    a, bt = stokes(6)
    bt = bt[:, 1:]  # a pressure is known
    problem = dsolver.block([[a, bt], [bt.T, None]])
    s = sp.csr_array(bt.T @ np.linalg.inv(a.toarray()) @ bt)
    b = np.random.default_rng(0).standard_normal(problem.shape)
    parts: dict[str, Any] = {"M": (exact_inverse(a), exact_inverse(s)), "matrices": ("block", s)}
    for m, most in ((BlockDiagonal, 3), (BlockTriangular, 2), (Schur, 1)):
        assert dsolver.solve(problem, b, M=m(**parts)).iterations <= most
    turned = dsolver.block([[a, bt], [-bt.T, None]])  # not symmetric, and its pivot is positive
    assert dsolver.solve(turned, b, M=Schur(**parts)).iterations == 1


def test_complements_and_signs_are_those_of_the_text_books() -> None:
    a, bt = stokes(16)
    problem = dsolver.block([[a, bt], [bt.T, None]])
    first, second = field_matrices(problem, ["block", "diagonal"])
    expected = bt.T @ sp.diags_array(1.0 / a.diagonal()) @ bt
    assert abs(second.problem.matrix - expected).max() <= 1e-14
    assert (first.sign, second.sign) == (1.0, -1.0)
    assert second.problem.negated
    assert not first.like_diagonal
    assert field_matrices(system(darcy(16))[0], ["block", "diagonal"])[0].like_diagonal
    mass = sp.eye_array(bt.shape[1])
    assert field_matrices(problem, ["block", mass])[1].sign == -1.0
    assert field_matrices(problem, ["block", -mass])[1].sign == -1.0


def test_three_fields_and_parts_that_are_problems() -> None:
    """Two components of a velocity, of which each is a grid, and a pressure; parts bring options."""
    n = 16
    a, bt = stokes(n)
    half = a.shape[0] // 2
    u, v = a[:half, :half], a[half:, half:]
    parts = [
        [dsolver.matrix(u, near_nullspace=np.ones(half)), None, bt[:half]],
        [None, v, bt[half:]],
        [bt[:half].T, bt[half:].T, -1e-3 * sp.eye_array(n * n)],
    ]
    problem = dsolver.block(parts)
    b = np.ones(problem.shape)
    for m in (BlockDiagonal(), BlockTriangular()):
        found = dsolver.solve(problem, b, M=m)
        assert found.converged
        assert "Algebraic(), Algebraic(), Jacobi()" in found.solved_by
    grid = problems.poisson5((6, 6))
    coupled = dsolver.block([[grid, sp.eye_array(36)], [-1.0 * sp.eye_array(36), grid]])
    found = dsolver.solve(coupled, np.ones(72), M=BlockTriangular(M=(Jacobi(), "amg")))
    assert found.converged
    assert found.solved_by == "fgmres with BlockTriangular(Jacobi(), Algebraic())"


def test_another_matrix_and_several_right_hand_sides() -> None:
    problem, b = system(stokes(12))
    other, _ = system(tuple(-1.0 * each for each in darcy(12)))
    with dsolver.Solver(problem, M=BlockTriangular()) as solver:
        first, second = solver.solve([b, 2.0 * b])
        assert first.converged
        assert second.converged
        assert "one after the other" in first.notes[-1]
        solver.update(other)
        found = solver.solve(b)
        kept = BlockTriangular(M=("amg", "jacobi"))  # as was chosen for the first
        assert found.residuals == dsolver.solve(other, b, M=kept).residuals
        assert np.linalg.norm(solver @ found.x - b) <= 1.01e-8 * np.linalg.norm(b)


def test_parts_may_be_functions_and_in_float32(client: Client) -> None:
    problem, b = system(stokes(10), chunks=2)
    diagonal = problem.to_scipy().diagonal()[:180]
    m = BlockTriangular(M=(lambda r: r / diagonal, "jacobi"))
    found = [dsolver.solve(problem, b, M=m, maxiter=5, device="cpu", client=where) for where in (False, client)]
    plain = dsolver.solve(problem, b, M=BlockTriangular(M="jacobi"), maxiter=5, device="cpu")
    assert found[0].residuals == found[1].residuals
    assert found[0].residuals == pytest.approx(plain.residuals, rel=1e-10)
    assert "M is a function of whole arrays" in found[1].notes[-1]
    narrow = dsolver.solve(problem, b, M=BlockTriangular(M=(Algebraic(precision="float32"), "jacobi")))
    wide = dsolver.solve(problem, b, M=BlockTriangular(M=("amg", "jacobi")))
    assert narrow.converged
    assert narrow.residuals[1:] != wide.residuals[1:]
    assert narrow.residuals == pytest.approx(wide.residuals, rel=0.1)


@pytest.mark.parametrize("chunks", [None, 2])
def test_complex_blocks_are_a_complex_matrix(chunks: int | None) -> None:
    """A flow that oscillates: i ω M in the block of the velocity; one pressure is held, or A were singular."""
    a, bt = stokes(10)
    bt = bt[:, 1:]
    waving = sp.csr_array(a + 0.5j * sp.eye_array(a.shape[0]))
    problem = dsolver.block([[waving, bt], [bt.T, None]], chunks=chunks)
    whole = sp.block_array([[waving, bt], [bt.T, None]], format="csr")
    b = whole @ np.exp(1j * np.arange(whole.shape[0]))
    given: tuple[Any, ...] = ({}, {"method": "cocg", "M": None, "maxiter": 2000})
    for options in given:
        x = dsolver.solve(problem, b, device="cpu", **options).x
        assert np.linalg.norm(b - whole @ x) <= 1.01e-8 * np.linalg.norm(b)
    with pytest.raises(InputError, match="is for systems of real blocks"):
        dsolver.solve(problem, b, M=BlockDiagonal())
    with pytest.raises(InputError, match="A is complex, and nullspace= is for real matrices"):
        dsolver.block([[waving, bt], [bt.T, None]], nullspace=np.ones(whole.shape[0]))


def test_what_does_not_fit_is_refused() -> None:
    a, bt = stokes(5)
    for parts, message in (
        ([[a]], "block needs as many rows of blocks as columns, 2 to 16"),
        ([[a, bt], [bt, None]], r"the blocks of field 0 have \[25, 40\] rows and columns"),
        ([[a, None], [None, None]], "the blocks of field 1 are all None"),
        ([[a, bt.toarray()], [bt.T, None]], "a block must be a sparse matrix, a problem, or None for zeros"),
    ):
        with pytest.raises(InputError, match=message):
            dsolver.block(parts)
    problem, b = system((a, bt))
    for m, message in (
        (BlockDiagonal(M=("amg", "amg", "amg")), "3 preconditioners for 2 matrices"),
        (BlockDiagonal(matrices=("block", sp.eye_array(3))), "matrix of field 1 has 3 rows, but the field has 25"),
        (BlockDiagonal(matrices=("block", "block")), "block of field 1 has 25 empty rows"),
        (BlockDiagonal(matrices=("block", 1j * sp.eye_array(25))), "matrix of field 1 is complex"),
        (BlockDiagonal(matrices=("block", "mass")), "must be a sparse matrix, a problem, 'block' or 'diagonal'"),
    ):
        with pytest.raises(InputError, match=message):
            dsolver.solve(problem, b, M=m)
    with pytest.raises(InputError, match="is for systems of real blocks"):
        dsolver.solve(a, b[:40], M=BlockDiagonal())
    with pytest.raises(InputError, match="correction must be 'full' or 'diagonal'"):
        Schur(correction="none")  # type: ignore[arg-type]


def test_memory_is_forecast() -> None:
    problem, _ = system(stokes(48))
    whole = dsolver.estimate(problem, M=BlockTriangular(), device="cpu")
    assert whole.workers[0].total > dsolver.estimate(problem, M=None, device="cpu").workers[0].total


@pytest.mark.gpu
@pytest.mark.parametrize("m", [BlockDiagonal(M=(Algebraic(), "jacobi")), BlockTriangular(M=("chebyshev", "jacobi"))])
def test_on_a_gpu(m: Any) -> None:
    problem, b = system(stokes(8))
    found = dsolver.solve(problem, b, M=m, rtol=1e-6, device="cuda")
    expected = dsolver.solve(problem, b, M=m, rtol=1e-6, device="cpu")
    assert found.converged
    assert abs(found.iterations - expected.iterations) <= 2
    assert np.linalg.norm(b - problem.to_scipy() @ found.x) <= 1.01e-6 * np.linalg.norm(b)


def stirred(n: int, viscosity: float) -> tuple[Any, Any]:
    """Blocks of `stokes` with upwind convection by a flow around the middle: Oseen's equations."""
    a, bt = stokes(n)

    def at(x: F64, y: F64) -> F64:
        found: F64 = np.sin(np.pi * np.clip(x, 0.0, 1.0)) * np.sin(np.pi * np.clip(y, 0.0, 1.0)) / np.pi
        return found

    parts = []
    for nx, ny, x0, y0 in ((n - 1, n, 1.0, 0.5), (n, n - 1, 0.5, 1.0)):
        i, j = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
        x, y, half = (i + x0) / n, (j + y0) / n, 0.5 / n
        number, rows = i * ny + j, sp.coo_array((nx * ny, nx * ny)).tocsr()
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            sign = dx - dy  # of what flows out, as a difference of the stream function along the face
            first, last = (
                ((x - half, y + dy * half), (x + half, y + dy * half))
                if dy
                else ((x + dx * half, y - half), (x + dx * half, y + half))
            )
            out = sign * (at(*last) - at(*first))
            there = (i + dx >= 0) & (i + dx < nx) & (j + dy >= 0) & (j + dy < ny)
            entries = np.r_[np.maximum(out, 0.0).ravel(), np.minimum(out, 0.0)[there]]
            where = np.r_[number.ravel(), number[there]], np.r_[number.ravel(), (number + dx * ny + dy)[there]]
            rows = rows + sp.csr_array((entries, where), shape=rows.shape)
        parts.append(rows)
    return sp.csr_array(viscosity * a + sp.block_diag(parts)), bt


def oseen(n: int, viscosity: float, **options: Any) -> tuple[Any, F64]:
    """The problem, and a right-hand side in its reach."""
    a, bt = stirred(n, viscosity)
    b = np.random.default_rng(0).standard_normal(sum(bt.shape))
    b[bt.shape[0] :] -= b[bt.shape[0] :].mean()
    return dsolver.block([[a, bt], [bt.T, None]], **options), b


@pytest.mark.parametrize(("viscosity", "most"), [(1.0, 25), (1e-2, 25), (1e-3, 35)])
def test_the_commutator_serves_flows_with_convection(viscosity: float, most: int) -> None:
    problem, b = oseen(24, viscosity)
    m = LeastSquaresCommutator(M=(Algebraic(coarsening="air"), "amg"))
    found, other = (
        dsolver.solve(problem, b, M=each, maxiter=150) for each in (m, BlockTriangular(M=("auto", "jacobi")))
    )
    assert found.converged
    assert found.solved_by.startswith("fgmres with LeastSquaresCommutator")
    assert np.linalg.norm(b - problem.to_scipy() @ found.x) <= 1.01e-8 * np.linalg.norm(b)
    assert found.iterations <= most
    assert viscosity > 1e-2 or found.iterations < 0.4 * other.iterations


def test_the_commutator_is_what_its_formula_says() -> None:
    (a, bt), (problem, b) = stirred(6, 0.1), oseen(6, 0.1)
    d, n = a.diagonal(), a.shape[0]
    t = -(bt.T @ sp.diags_array(1.0 / d) @ bt).toarray()
    k = (bt.T @ sp.diags_array(1.0 / d) @ a @ sp.diags_array(1.0 / d) @ bt).toarray()
    second = -np.linalg.pinv(t) @ k @ np.linalg.pinv(t) @ b[n:]
    second -= second.mean()
    expected = np.r_[np.linalg.solve(a.toarray(), b[:n] - bt @ second), second]
    first = dsolver.solve(problem, b, M=LeastSquaresCommutator(M="direct"), maxiter=1)
    x = first.x.copy()
    x[n:] -= x[n:].mean()  # GMRES scales it, and pressures are known up to a constant
    factor = (x @ expected) / (expected @ expected)
    assert np.allclose(x, factor * expected, rtol=0.0, atol=1e-7 * abs(x).max())


def test_a_default_call_takes_the_commutator_for_oseen(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.preconditioners import auto

    monkeypatch.setattr(auto, "cost_little", lambda _: False)
    problem, b = oseen(20, 1e-2)
    assert "LeastSquaresCommutator" in dsolver.solve(problem, b).solved_by
    assert "BlockTriangular" in dsolver.solve(*system(stokes(20))).solved_by
    a, bt = stokes(12)
    turned = dsolver.block([[a, bt], [-1.0 * bt.T, None]])
    assert "BlockTriangular" in dsolver.solve(turned, np.zeros(turned.shape)).solved_by


def test_workers_have_the_bits_of_the_commutator(client: Client) -> None:
    problem, b = oseen(10, 1e-2, chunks=3)
    m = LeastSquaresCommutator(M=(Algebraic(coarsening="air", coarse_rows=20), "amg"), turns=(1, 2))
    found = [
        dsolver.solve(problem, b, M=m, rtol=1e-6, device="cpu", **where)
        for where in ({"engine": "reference"}, {"client": client})
    ]
    assert found[0].converged
    assert found[0].residuals == found[1].residuals
    assert (found[0].x == found[1].x).all()


def test_the_commutator_refuses_other_fields_and_turns() -> None:
    for wrong in ((1,), (0, 1), 2, (1.5, 2)):
        with pytest.raises(InputError, match="turns must be two positive integers"):
            LeastSquaresCommutator(turns=wrong)  # type: ignore[arg-type]
    eye = sp.eye_array(6)
    three = dsolver.block([[eye, None, eye], [None, eye, eye], [eye, eye, None]])
    with pytest.raises(InputError, match="LeastSquaresCommutator is for two fields, not 3"):
        dsolver.solve(three, np.ones(18), M="lsc")


def test_flows_whose_couplings_have_both_signs_keep_the_triangle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As finite elements have: central differences of convection stand for them."""
    from dsolver.preconditioners import auto

    monkeypatch.setattr(auto, "cost_little", lambda _: False)
    (a, bt), (upwind, _) = stokes(12), stirred(12, 0.0)
    central = sp.csr_array(1e-2 * a + (upwind - upwind.T) / 2)
    problem = dsolver.block([[central, bt], [bt.T, None]])
    assert "BlockTriangular" in dsolver.solve(problem, np.zeros(problem.shape)).solved_by
    m = LeastSquaresCommutator()
    assert "air" in dsolver.solve(oseen(12, 1e-2)[0], np.zeros(problem.shape), M=m).solved_by
    assert "air" not in dsolver.solve(problem, np.zeros(problem.shape), M=m).solved_by


@pytest.mark.gpu
def test_the_commutator_on_a_gpu() -> None:
    problem, b = oseen(8, 1e-2)
    m = LeastSquaresCommutator(M=(Algebraic(coarsening="air", coarse_rows=30), Algebraic(coarse_rows=30)))
    found, host = (dsolver.solve(problem, b, M=m, device=device) for device in ("cuda", "cpu"))
    assert found.converged
    assert abs(found.iterations - host.iterations) <= 1
    x, expected = found.x[112:] - found.x[112:].mean(), host.x[112:] - host.x[112:].mean()
    assert np.allclose(x, expected, rtol=0.0, atol=1e-5 * abs(expected).max())
