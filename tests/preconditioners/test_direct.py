"""Direct solution as a preconditioner: factors of the whole matrix, wherever its rows are."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg
from distributed import Client

import dsolver
from dsolver import kernels, problems
from dsolver.cost import room
from dsolver.errors import InputError
from dsolver.kernels.direct import factors, fill, lapack, libraries, scaling, superlu
from dsolver.kernels.direct.fill import Fill, fill_of, full_fill
from dsolver.kernels.direct.libraries import LIBRARIES, fits
from dsolver.kernels.direct.transversal import of_largest
from dsolver.kernels.formats.csr import Csr, of_entries
from dsolver.matrices import elimination
from dsolver.matrices.elimination import Elimination
from dsolver.preconditioners import Direct
from dsolver.preconditioners.direct import choice, preconditioner
from dsolver.session import running
from dsolver.session.follower import ATTAINED
from tests.matrices.test_matrix import lattice
from tests.support import hard_systems
from tests.support.beams import clamped_beam
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
RNG = np.random.default_rng(3)
N = 12
LAPLACE = lattice(N)
X = RNG.standard_normal(N * N)
KINDS = {
    "definite": LAPLACE,
    "indefinite": sp.csr_array(LAPLACE - 1.3 * sp.eye_array(N * N)),
    "unsymmetric": sp.csr_array(LAPLACE + sp.diags_array(RNG.uniform(-2.0, 2.0, N * N - 1), offsets=1)),
    "hollow": sp.csr_array(LAPLACE - sp.diags_array(np.where(np.arange(N * N) % 7 == 0, 4.0, 0.0))),
}
PIECES = sp.csr_array(
    sp.block_diag(
        [
            sp.coo_array(part)
            for part in ([[1.0, -1.0], [-1.0, 1.0]], [[2.0, -2.0], [-2.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]])
        ]
    )
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with cluster(3) as made:
        yield made


def solved(a: Any, b: F64, **options: Any) -> dsolver.Solution:
    return dsolver.solve(a, b, **{"M": "direct", **options})


def residual(a: Any, x: F64, b: F64) -> float:
    return float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))


@pytest.mark.parametrize("kind", KINDS)
def test_any_matrix_takes_an_iteration_or_two(kind: str) -> None:
    a = KINDS[kind]
    found = solved(a, a @ X, rtol=1e-12)
    assert found.status is dsolver.Status.CONVERGED
    assert found.iterations <= 2
    assert residual(a, found.x, a @ X) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_factors_in_float32_are_refined(kind: str) -> None:
    a = KINDS[kind]
    found = solved(a, a @ X, rtol=1e-12, precond_dtype="float32")
    assert 1 < found.iterations <= 6
    assert residual(a, found.x, a @ X) < 1e-12


@pytest.mark.parametrize("kind", ["indefinite", "unsymmetric"])
def test_every_engine_and_number_of_chunks_has_the_factors(kind: str, client: Client) -> None:
    a = KINDS[kind]
    alone = solved(a, a @ X)
    cut = dsolver.matrix(a, chunks=(50, 44, 30, 20))
    found = [
        solved(cut, a @ X, engine="reference"),
        solved(cut, a @ X, client=client),
        solved(cut, a @ X, client=client, engine="graph"),
    ]
    for each in found:
        assert residual(a, each.x, a @ X) < 1e-10
        assert each.iterations == alone.iterations
        np.testing.assert_array_equal(each.x, found[0].x)


def test_rows_in_another_order_in_each_chunk() -> None:
    a = KINDS["unsymmetric"]
    found = solved(dsolver.matrix(a, chunks=3, order="rcm"), a @ X, engine="reference")
    assert residual(a, found.x, a @ X) < 1e-10


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
def test_a_grid_in_boxes(chunks: Any) -> None:
    kappa = np.exp(np.random.default_rng(0).standard_normal((6, 5, 4)))
    problem = problems.diffusion(kappa.shape, kappa, chunks=chunks)
    b = np.random.default_rng(1).standard_normal((6, 5, 4))
    found = solved(problem, b, rtol=1e-12, engine="reference")
    usual = dsolver.solve(problem, b, rtol=1e-13, engine="reference")
    assert found.iterations <= 2
    np.testing.assert_allclose(found.x, usual.x, rtol=1e-9, atol=1e-12)


def test_a_grid_without_a_fixed_value() -> None:
    problem = problems.diffusion((6, 6, 6), bc=problems.Neumann())
    b = np.random.default_rng(1).standard_normal((6, 6, 6))
    found = solved(problem, b - b.mean())
    assert found.status is dsolver.Status.CONVERGED
    assert found.iterations <= 3
    assert abs(found.x.mean()) < 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_singular_matrices_have_factors_of_one_nearby(dtype: str) -> None:
    b = PIECES @ np.arange(1.0, 7.0)
    found = solved(PIECES, b, precond_dtype=dtype)
    assert found.status is dsolver.Status.CONVERGED
    assert np.abs(found.x).max() < 10.0


SINGULAR = (7, 137, 364)
"""Seeds of singular matrices: in the first one pivots vanish, in the others they are what rounding leaves."""


@pytest.mark.parametrize("seed", SINGULAR)
@pytest.mark.parametrize("engine", ["reference", "resident"])
def test_what_no_x_reaches_is_told_and_x_is_that_of_least_squares(seed: int, engine: Any) -> None:
    _, a, b = hard_systems.system(seed)
    least = residual(a, np.linalg.lstsq(a.toarray(), b)[0], b)
    assert least > 0.01
    with dsolver.Solver(dsolver.matrix(a, chunks=2), engine=engine, device="cpu") as solver:
        found, again = solver.solve(b), solver.solve(b)
        reached = solver.solve(a @ b)
        several: Any = solver.solve(np.stack([a @ b, b], axis=1), x0=np.ones((len(b), 2)))
    for solution in (found, again, several[1]):
        assert solution.status is dsolver.Status.INCOMPATIBLE_RHS
        assert solution.iterations == 1
        assert residual(a, solution.x, b) == pytest.approx(least, rel=1e-9)
        assert any(f"a part of b of length {least * np.linalg.norm(b):.3g}" in note for note in solution.notes)
    for solution in (reached, several[0]):
        assert solution.status is dsolver.Status.CONVERGED
        assert residual(a, solution.x, a @ b) <= 1e-8


def test_least_squares_on_a_cluster(client: Client) -> None:
    _, a, b = hard_systems.system(77)
    found = dsolver.solve(a, b, M="direct", client=client)
    assert found.status is dsolver.Status.INCOMPATIBLE_RHS
    assert (found.x == dsolver.solve(dsolver.matrix(a, chunks=3), b, M="direct", device="cpu").x).all()


def test_rows_of_next_to_nothing_are_left_out_of_least_squares() -> None:
    a = sp.csr_array(np.diag([1.0, 2.0, 1e-300, 3.0]) + np.outer([1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]))
    a = sp.csr_array(a.toarray()[:, [0, 0, 2, 3]])
    b = np.array([1.0, 2.0, 0.5, 4.0])
    found = solved(a, b, M=Direct(least_squares=True))
    assert np.abs(found.x).max() < 10.0
    least = np.linalg.lstsq(a.toarray(), b)[0]
    assert residual(a, found.x, b) == pytest.approx(residual(a, least, b), rel=1e-9)


@pytest.mark.parametrize(
    ("sides", "flow"),
    [("both", 0.0), ("rows", 0.0), ("columns", 0.9), ("two", 0.9), ("rows", 3.0), ("columns", 3.0), ("two", 3.0)],
)
def test_scales_of_rows_and_columns_add_no_fill(sides: str, flow: float) -> None:
    line = sp.diags_array([-np.ones(39), np.ones(39)], offsets=[-1, 1])
    a = sp.csr_array(lattice(40) + flow * sp.kron(sp.eye_array(40), line))
    rows, columns = (sp.diags_array(10.0 ** np.random.default_rng(seed).uniform(-12, 12, 1600)) for seed in (0, 1))
    made = {"both": rows @ a @ rows, "rows": rows @ a, "columns": a @ columns, "two": rows @ a @ columns}[sides]
    traits = factors.MatrixTraits(symmetric=sides == "both", mirrored=True, singular=False, full=False)
    plain, found = (
        factors.factors_of(Csr(each.indptr, each.indices, each.data), kernels.load("numpy"), "superlu", traits)
        for each in (a, sp.csr_array(made))
    )
    dominant = flow < 1.0
    assert found.nbytes <= (1.2 if dominant else 3.0) * plain.nbytes  # there is another order where none is dominant
    b = made @ np.ones(1600)
    assert np.abs(made @ found.solve(b) - b).max() <= 1e-9 * np.abs(b).max()


def test_scales_of_denormal_numbers_are_numbers() -> None:
    a = Csr(np.arange(3), np.arange(2), np.array([1.0, 1e-310]))
    *sides, values = scaling.scaled(np, a, np.arange(2), symmetric=True)
    assert np.isfinite(sides).all()
    assert ((values > 0.1) & (values < 2.0)).all()


def test_factors_for_least_squares_serve_where_b_is_in_reach() -> None:
    a = KINDS["unsymmetric"]
    found = solved(a, a @ X, M=Direct(least_squares=True), rtol=1e-10)
    assert found.status is dsolver.Status.CONVERGED
    assert found.iterations <= 3


def test_a_matrix_without_pivots() -> None:
    """Rows 0 and 1 have entries in column 2 alone: no pairing of rows and columns."""
    a = sp.csr_array(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [1.0, 3.0, 0.0]]))
    b = a @ np.array([1.0, 2.0, 3.0])
    found = solved(a, b)
    assert residual(a, found.x, b) < 1e-8


def test_rows_and_columns_of_any_size() -> None:
    rng = np.random.default_rng(5)
    scale, other = 10.0 ** rng.uniform(-120, 120, N * N), 10.0 ** rng.uniform(-20, 20, N * N)
    a = sp.csr_array(sp.diags_array(scale) @ KINDS["unsymmetric"] @ sp.diags_array(other))
    b = a @ (X / other)
    found = solved(a, b, rtol=1e-12)
    assert found.iterations <= 3
    assert residual(a, found.x, b) < 1e-12


def test_several_right_hand_sides_and_an_update_share_the_factors() -> None:
    a = KINDS["indefinite"]
    b = np.stack([a @ X, a @ X[::-1]], axis=1)
    with dsolver.Solver(a, M="direct") as solver:
        several = solver.solve(b)
        for x, right in zip(several.x.T, b.T, strict=True):
            assert residual(a, x, right) < 1e-10
        new = sp.csr_array(a + 0.5 * sp.eye_array(N * N))
        solver.update(new)
        found = solver.solve(b[:, 0])
    assert found.iterations <= 2
    assert residual(new, found.x, b[:, 0]) < 1e-10


def test_methods_that_are_asked_for() -> None:
    for method in ("cg", "fcg", "minres", "gmres", "fgmres", "bicgstab"):
        found = solved(LAPLACE, LAPLACE @ X, method=method)
        assert found.status is dsolver.Status.CONVERGED, method
        assert found.iterations <= 2


def test_auto_takes_factors_where_nothing_else_is_sure() -> None:
    for kind in ("indefinite", "hollow"):
        a = sp.csr_array(KINDS[kind] - (5.0 if kind == "indefinite" else 0.0) * sp.diags_array(np.arange(N * N) % 2.0))
        with dsolver.Solver(a) as solver:
            found = solver.solve(a @ X)
            assert solver.preconditioner == Direct()
        assert found.iterations <= 2
        assert residual(a, found.x, a @ X) < 1e-8


def test_the_last_attempt_is_with_factors_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """MINRES, which follows conjugate gradients here, runs out of iterations."""
    monkeypatch.setattr(choice, "CHEAP", Fill(entries=0.0, products=0.0))
    monkeypatch.setattr(choice, "INSTEAD", 0)
    monkeypatch.setattr(choice, "RATE", {"cpu": 1e-9, "cuda": 1e-9})
    rng = np.random.default_rng(0)
    half = sp.random_array((N * N, N * N), density=0.03, rng=rng)
    half = sp.diags_array(10.0 ** rng.uniform(-3.0, 3.0, N * N)) @ (half + half.T + 0.01 * sp.eye_array(N * N))
    a = sp.csr_array(half + half.T)
    b = a @ X
    with dsolver.Solver(a) as solver:
        found = solver.solve(b)
        again = solver.solve(2.0 * b)
        solver.update(LAPLACE)
        other = solver.solve(LAPLACE @ X)
    assert found.status is again.status is dsolver.Status.CONVERGED
    assert residual(a, found.x, b) < 1e-8
    assert any("factors of the whole matrix" in note for note in found.notes)
    assert not any("factors of the whole matrix" in note for note in other.notes)
    limited = dsolver.solve(a, b, maxiter=3)
    assert not any("factors of the whole matrix" in note for note in limited.notes)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
def test_factors_are_the_last_attempt_on_grids_too(chunks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.zeros((3, 3, 3))
    weights[1, 1, 1] = 4.7
    for side in ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)):
        weights[side] = -1.0
    problem = problems.stencil((9, 8, 7), weights, chunks=chunks)
    b = np.random.default_rng(0).standard_normal((9, 8, 7))
    found = dsolver.solve(problem, b, rtol=1e-10, engine="reference", device="cpu")
    assert found.converged
    assert "ended as indefinite after" in found.notes[0]
    assert "factors of the whole matrix" in found.notes[0]
    assert dsolver.solve(problem, b, method="cg", device="cpu").status is dsolver.Status.INDEFINITE
    monkeypatch.setattr(choice, "LAST", Fill(entries=1e4, products=1e9))
    assert dsolver.solve(problem, b, engine="reference", device="cpu").status is dsolver.Status.INDEFINITE


def test_factors_are_not_tried_where_rounding_makes_the_residual() -> None:
    problem = problems.diffusion((16, 16, 16), spacing=(1.0, 1.0, 1e-4), bc=problems.Neumann())
    b = np.random.default_rng(0).standard_normal(problem.grid)
    found = dsolver.solve(problem, b - b.mean(), device="cpu")
    assert found.status is dsolver.Status.STAGNATED
    assert found.true_residual < 1e-7 * found.b_norm
    assert found.iterations < 20
    assert found.solved_by.startswith("cg")
    assert ATTAINED in found.notes


def test_rows_that_were_put_in_another_order_have_the_fill_of_the_matrix() -> None:
    """The pattern of A + Aᵀ is a random graph then, whose count and whose matching of rows and columns took minutes."""
    order = np.random.default_rng(0).permutation(LAPLACE.shape[0])
    shuffled = sp.csr_array(LAPLACE)[order]
    found = of_largest(shuffled)
    assert found is not None
    assert (order[found] == np.arange(len(order))).all()
    assert fill_of(shuffled) == fill_of(LAPLACE)
    b = np.random.default_rng(1).standard_normal(len(order))
    solution = dsolver.solve(shuffled, b, M="direct", device="cpu")
    assert np.allclose(shuffled @ solution.x, b)
    for none in ([[0.0, 2.0], [0.0, 2.0]], [[1.0, 2.0], [0.0, 0.0]]):
        assert of_largest(sp.csr_array(np.array(none))) is None
    assert of_largest(sp.csr_array(([0.0, 1.0], [0, 1], [0, 1, 2]), shape=(2, 2))) is None


@pytest.mark.parametrize("turned", [False, True])
def test_one_long_row_or_column_does_not_fill_factors(turned: bool) -> None:
    """A long column took hundreds of entries in each row: minutes, and gigabytes, with 100,000 rows."""
    n = 5000
    line = sp.diags_array([-1.0, 2.01, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    long = sp.csr_array((np.linspace(0.5, 1.0, n), (np.full(n, n // 2), np.arange(n))), shape=(n, n))
    a = sp.csr_array((line + long).T if turned else line + long)
    made = superlu.factors(a, libraries.Kind(symmetric=False, mirrored=False, positive=True))
    assert made.nbytes < 12 * 10 * n
    np.testing.assert_allclose(made.solve(a @ np.ones(n)), 1.0, rtol=1e-8)


def arrow(size: int) -> sp.csr_array:
    """A diagonal with three full rows and columns, the last ones."""
    rng = np.random.default_rng(0)
    below = rng.uniform(-1.0, 1.0, (3, size))
    return sp.csr_array(sp.block_array([[sp.diags_array(rng.uniform(1.0, 2.0, size)), -below.T], [below, np.eye(3)]]))


def test_long_rows_are_the_last_ones() -> None:
    """Arrow matrix: with a look at its long rows in each step count and factors took as long as the square of rows."""
    a = arrow(100_000)
    found = fill_of(a)
    assert a.nnz <= found.entries <= 1.01 * a.nnz
    began = time.process_time()
    solution = dsolver.solve(a, a @ np.ones(a.shape[0]), device="cpu")
    assert solution.solved_by == "fgmres with Direct()"
    assert np.allclose(solution.x, 1.0)
    assert time.process_time() - began < 30.0


def test_counting_of_webs_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a web are in many elements, each of which would be read again and again."""
    bound = Fill(entries=1e300, products=1e300)
    assert math.isfinite(fill_of(LAPLACE, bound).entries)
    monkeypatch.setattr(elimination, "NARROW", 0.0)
    monkeypatch.setattr(fill, "PATIENCE", 1.0)
    monkeypatch.setattr(fill, "ENOUGH", 0.0)
    found = fill_of(LAPLACE, bound)
    assert found.more
    assert not found.within(bound)
    counted = Elimination(LAPLACE, mirrored=True)
    assert counted.within(Fill(entries=1e12, products=1e12)) is None
    assert counted.within(Fill(entries=1e12, products=math.inf)) == fill_of(LAPLACE), "factors that were asked for"


def test_factors_of_a_web_that_were_asked_for_are_made() -> None:
    """Few columns with most of the entries, each of whose looks counts."""
    columns = (6000 * np.random.default_rng(0).random(12 * 6000) ** 4).astype(int)
    links = sp.coo_array((np.full(len(columns), -0.07), (np.repeat(np.arange(6000), 12), columns)), (6000, 6000))
    a = sp.csr_array(sp.eye_array(6000) + links)
    assert not fill_of(a, Fill(entries=1e9, products=1e12)).more
    assert dsolver.solve(a, np.ones(6000), M="direct", device="cpu").iterations <= 2


def test_long_work_is_announced(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(running, "LONG", 1e-6)
    with caplog.at_level("WARNING"):
        for m in ("jacobi", "direct"):
            dsolver.solve(lattice(9), np.ones(81), M=m, client=False, device="cpu")
    assert [record.getMessage() for record in caplog.records if record.name == running.logger.name] == [
        "the set-up of M=Direct() may take 0 s ..."
    ]


def test_fill_is_that_of_the_library() -> None:
    found = fill_of(LAPLACE)
    made = scipy.sparse.linalg.splu(
        sp.csc_array(LAPLACE), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    assert found.entries == pytest.approx(made.nnz, rel=0.25)
    for most in (
        Fill(entries=found.entries - 1, products=found.products),
        Fill(entries=found.entries, products=found.products - 1),
    ):
        least = fill_of(LAPLACE, most)
        assert not least.within(most)
        assert least.within(found)
    assert fill_of(LAPLACE, Fill(entries=found.entries / 2, products=found.products)).more
    assert fill_of(LAPLACE, found, mirrored=True) == found
    corner = np.eye(40)
    corner[30:, 30:] = 1.0
    assert fill_of(sp.csr_array(corner)) == Fill(entries=130.0, products=float(sum(k * k for k in range(10))))
    assert fill_of(sp.csr_array(np.ones((9, 9)))) == full_fill(9)
    chain = sp.diags_array([np.ones(59), np.ones(60), np.ones(59)], offsets=[-1, 0, 1])
    nodes = sp.csr_array(sp.kron(chain, np.ones((3, 3))))  # columns of 5, 4 and 3 entries, at the end of 2, 1 and 0
    assert fill_of(nodes) == Fill(entries=2.0 * (59 * 12 + 3) + 180, products=59.0 * (25 + 16 + 9) + 5)
    nodes[7, 10] = 0.0
    nodes.eliminate_zeros()
    assert fill_of(nodes, mirrored=False) == fill_of(sp.csr_array(sp.kron(chain, np.ones((3, 3)))))


def test_fill_beyond_a_bound_is_not_counted_again_for_what_is_known_to_be_beyond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[Fill] = []

    def counting(rows: Any, most: Fill, **more: Any) -> Fill:
        counted.append(most)
        return fill_of(rows, most, **more)

    monkeypatch.setattr(elimination, "fill_of", counting)
    monkeypatch.setattr(elimination, "NARROW", 0.0)
    found = Elimination(LAPLACE, mirrored=True)
    whole = fill_of(LAPLACE)
    few = Fill(entries=whole.entries, products=whole.products / 4)
    assert found.within(few) is None
    assert found.within(Fill(entries=10 * whole.entries, products=whole.products / 8)) is None, "more entries alone"
    assert counted == [few]
    assert found.within(whole) == whole
    assert counted == [few, whole]


def test_what_memory_cannot_hold_is_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SMALL", 0)
    problem = dsolver.matrix(LAPLACE)
    usual, direct = (dsolver.estimate(problem, M=m).bytes for m in ("jacobi", Direct()))
    assert direct > usual
    on_gpu: dict[bool, int] = {}
    for there in (False, True):
        monkeypatch.setattr(preconditioner, "installed", lambda _, there=there: there)
        on_gpu[there] = dsolver.estimate(problem, M=Direct(), device="cuda", workers=1).bytes
    found = fill_of(LAPLACE)
    assert found is not None
    assert on_gpu[True] - on_gpu[False] >= 6.0 * found.entries, "cuDSS has the factors there"
    monkeypatch.setattr(Direct, "beside", lambda *_: 0)
    monkeypatch.setattr(preconditioner, "fill_of", lambda _: 1e13)
    with pytest.raises(dsolver.DeviceMemoryError):
        solved(LAPLACE, LAPLACE @ X)


def filled(n: int = 400) -> sp.csr_array:
    """A matrix of random places, factors of which are nearly full."""
    rng = np.random.default_rng(2)
    return sp.csr_array(sp.random_array((n, n), density=5.0 / n, rng=rng) + sp.eye_array(n))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_where_factors_are_nearly_full_zeros_are_stored_too(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def maker(name: str) -> Any:
        taken.append(name)
        return libraries.maker(name)

    monkeypatch.setattr(factors, "maker", maker)
    a, x = filled(), RNG.standard_normal(400)
    found = solved(a, a @ x, precond_dtype=dtype)
    assert found.iterations <= 4
    assert residual(a, found.x, a @ x) < 1e-8
    assert taken == ["lapack"]
    singular = filled().tolil()
    singular[7] = singular[8]
    b = singular.tocsr() @ x
    assert residual(singular, solved(sp.csr_array(singular), b, precond_dtype=dtype).x, b) < 1e-8
    solved(LAPLACE, LAPLACE @ X)
    assert taken[-1] == "superlu"


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_nearly_full_factors_of_many_rows_take_half_the_memory_where_they_can_be_refined(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lapack, "MANY", 100)
    a = sp.csr_array(filled().astype(dtype) * (1.0 if dtype == "float64" else 1.0 + 1.0j))
    x, kind = RNG.standard_normal(400).astype(dtype), libraries.Kind(symmetric=False, mirrored=False, positive=True)
    made = lapack.factors(a, kind)
    assert made.nbytes == 400 * 400 * np.dtype(dtype).itemsize // 2
    assert made.solve(a @ x).dtype == dtype
    found = solved(a, a @ x)
    assert found.iterations <= 4
    assert residual(a, found.x, a @ x) < 1e-8
    steep = lapack.factors(a, replace(kind, steep=True))
    assert steep.nbytes == 2 * made.nbytes, "as for least squares, where the smaller type would be in vain"
    alike = a.tolil()
    alike[7] = a[[8]] + 1e-9 * a[[7]]
    close = lapack.factors(sp.csr_array(alike), kind)
    assert close.nbytes == 2 * made.nbytes, "the condition is beyond what the smaller type can tell"
    assert residual(alike.tocsr(), close.solve(alike.tocsr() @ x), alike.tocsr() @ x) < 1e-12


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_library_that_is_here_makes_factors(name: str, kind: str) -> None:
    if not fits(name, np.dtype("float64"), gpu=False):
        pytest.skip(f"{LIBRARIES[name].name} is not here")
    a = KINDS[kind]
    with dsolver.Solver(a, M=Direct(library=name)) as solver:
        for b in (a @ X, X):
            found = solver.solve(b, rtol=1e-12)
            assert found.iterations <= 2
            assert residual(a, found.x, b) < 1e-12


def test_a_library_that_is_not_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "installed", lambda name: name != "pardiso")
    with pytest.raises(InputError, match="M='direct' needs pypardiso where the first chunk lies, for float64"):
        solved(LAPLACE, LAPLACE @ X, M=Direct(library="pardiso"))
    with pytest.raises(InputError, match="M='direct' needs pypardiso where the first chunk lies, for float32"):
        solved(LAPLACE, LAPLACE @ X, M=Direct(library="pardiso"), precond_dtype="float32")


def test_other_libraries_are_refused() -> None:
    with pytest.raises(InputError, match=r"library must be one of .*'superlu'"):
        Direct(library="umfpack")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_cudss_makes_factors_there(kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvmath.sparse.advanced")
    taken: list[str] = []

    def maker(name: str) -> Any:
        taken.append(name)
        return libraries.maker(name)

    monkeypatch.setattr(factors, "maker", maker)
    a = sp.csr_array(sp.kron(sp.eye_array(8), KINDS[kind]) + 0.1 * sp.eye_array(8 * N * N))
    x = np.random.default_rng(5).standard_normal(a.shape[0])
    for problem in (a, dsolver.matrix(a, chunks=3)):
        with dsolver.Solver(problem, M="direct", device="cuda", engine="reference", precond_dtype=dtype) as solver:
            found = solver.solve(a @ x, rtol=1e-12)
            assert found.iterations <= (6 if dtype == "float32" else 3)
            assert residual(a, found.x, a @ x) < 1e-12
            if problem is a:
                new = sp.csr_array(a + 0.5 * sp.eye_array(a.shape[0]))
                solver.update(new)
                assert residual(new, solver.solve(a @ x).x, a @ x) < 1e-8
    assert set(taken) == {"cudss"}


@pytest.mark.gpu
def test_on_a_gpu_singular_matrices_have_factors_of_the_host() -> None:
    pytest.importorskip("nvmath.sparse.advanced")
    b = PIECES @ np.arange(1.0, 7.0)
    found = solved(PIECES, b, device="cuda")
    assert residual(PIECES, found.x, b) < 1e-8


@pytest.mark.gpu
def test_on_a_gpu_factors_of_the_host_serve() -> None:
    a = KINDS["indefinite"]
    found = solved(dsolver.matrix(a, chunks=2), a @ X, device="cuda", engine="reference")
    assert residual(a, found.x, a @ X) < 1e-10


@pytest.mark.parametrize("symmetric", [False, True])
def test_scaling_rounds_nothing_and_leaves_the_matrix_as_it_is(symmetric: bool) -> None:
    half = sp.random_array((40, 40), density=0.1, rng=np.random.default_rng(0)) + sp.eye_array(40)
    unit = sp.csr_array(half + half.T) / 4.0
    power = sp.diags_array(2.0 ** np.random.default_rng(1).integers(-3, 4, 40))
    for a, alike in ((unit, True), (sp.csr_array(power @ unit @ power), False)):
        rows = Csr(a.indptr.astype(np.int64), a.indices, a.data.copy())
        left, right, values = scaling.scaled(np, rows, of_entries(rows.start, a.nnz), symmetric=symmetric)
        expected = (sp.diags_array(left) @ a @ sp.diags_array(right)).tocsr()
        np.testing.assert_array_equal(values, expected.data)
        np.testing.assert_array_equal(rows.values, a.data)
        assert bool((left == 1.0).all()) == alike
        assert abs(expected).max() <= 2.0


@pytest.mark.parametrize("seed", [11, 27])
def test_a_matrix_of_unclear_rank_has_no_worse_an_answer_than_least_squares_leave(seed: int) -> None:
    """Singular values that fall evenly to 1e-17: no bound tells which of them are zeros."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(50, 90))
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    a = sp.csr_array(left @ np.diag(10.0 ** -np.linspace(0.0, 17.0, n)) @ right)
    b = rng.standard_normal(n)
    with dsolver.Solver(a, device="cpu") as solver:
        found = solver.solve(b)
        again = solver.solve(b)
    least = residual(a, np.linalg.lstsq(a.toarray(), b)[0], b)
    assert residual(a, found.x, b) <= least
    assert residual(a, again.x, b) <= least
    assert preconditioner.FINE in found.notes


@pytest.mark.parametrize("elements", [1000, 4000])
def test_the_bending_of_a_slender_beam_is_not_left_out_of_x(elements: int) -> None:
    """Rounding makes 1e-6 to 1e-2 of ‖b‖ there, of any x that is right, and an x of nearly zero leaves as little."""
    beam, _ = clamped_beam(elements)
    load = np.zeros(2 * elements)
    load[-2] = 3.0
    found = dsolver.solve(beam, load, device="cpu")
    assert found.x[-2] == pytest.approx(1.0, abs=0.1)
    assert found.iterations < 40
    assert ATTAINED in found.notes
    assert "'amg'" not in found.advice


def test_an_envelope_that_is_half_full_tells_nothing_of_factors_that_are_nearly_full() -> None:
    """A network of pipes: flows and heads, with next to no entries in a row, in no order."""
    rng = np.random.default_rng(1)
    nodes, count = 1200, 1700
    more = rng.integers(0, nodes, (2, count + 1 - nodes))
    ends = np.concatenate([[np.arange(nodes - 1), np.arange(1, nodes)], more], axis=1)
    pipes = np.arange(count)
    incidence = sp.csr_array((np.repeat([1.0, -1.0], count), (np.tile(pipes, 2), ends.ravel())), shape=(count, nodes))
    incidence = incidence[:, 1:]
    a = sp.block_array([[sp.diags_array(rng.uniform(0.1, 1.0, count)), -incidence], [incidence.T, None]]).tocsr()
    problem = dsolver.matrix(a)
    assert choice.fill_of(problem) < fill.FULL * a.shape[0] ** 2


@pytest.mark.parametrize("shape", [(2000,), (400, 10), (40, 40), (12, 12, 12)])
@pytest.mark.parametrize("hub", [False, True])
def test_levels_tell_how_wide_an_envelope_will_be(shape: tuple[int, ...], *, hub: bool) -> None:
    """Levels of grids, with a row in the middle that reads all others, too."""
    rows = sp.csr_array(dsolver.problems.diffusion(shape).to_scipy()).tolil()
    if hub:
        middle = rows.shape[0] // 2
        rows[middle, :] = rows[:, middle] = 1.0
    a = rows.tocsr()
    least = fill.envelope_of(a, fill.narrow_order(a, mirrored=True))
    assert not fill.is_wide(a, least)
    assert fill.is_wide(a, fill.Fill(entries=math.inf, products=least.products / 64)) or hub


def test_leaves_of_hubs_make_no_level_wide() -> None:
    """Ten hubs in a line with 200 leaves each, as of a network's consumers: leaves are eliminated without fill."""
    hubs = np.repeat(np.arange(10), 200)
    ends = np.r_[hubs, np.arange(9)], np.r_[np.arange(10, 2010), np.arange(1, 10)]
    half = sp.csr_array((-np.ones(2009), ends), shape=(2010, 2010))
    a = sp.csr_array(half + half.T + 300.0 * sp.eye_array(2010))
    assert not fill.is_wide(a, fill.envelope_of(a, fill.narrow_order(a, mirrored=True)))


def test_openblas_has_one_thread_while_factors_are_made_and_its_own_number_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = [5]

    def number(count: int) -> int:
        states.append(count)
        return states[-2]

    alone = superlu.OneThread()
    monkeypatch.setattr(alone, "_set", number)
    with pytest.raises(ZeroDivisionError), alone.kept(), alone.kept():
        raise ZeroDivisionError
    assert states == [5, 1, 5]
    monkeypatch.setattr(superlu, "ONE_THREAD", alone)

    def made(*given: Any, **options: Any) -> Any:
        assert states[-1] == 1
        return scipy.sparse.linalg.splu(*given, **options)

    monkeypatch.setattr(superlu, "splu", made)
    dsolver.solve(KINDS["indefinite"], X, M=Direct(library="superlu"), device="cpu")
    assert states == [5, 1, 5, 1, 5]


@pytest.mark.parametrize("prefix", ["", "scipy_"])
def test_an_openblas_without_threads_of_its_own_for_each_caller_is_set_as_a_whole(prefix: str) -> None:
    """Such a library was left as it was, and complex factors took 20 times as long."""
    states = [5]
    calls = {"get": lambda: states[-1], "set": states.append}
    library = SimpleNamespace(**{f"{prefix}openblas_{verb}_num_threads": call for verb, call in calls.items()})
    exchange = superlu.setter_of(library)
    assert exchange(exchange(1)) == 1
    assert states == [5, 1, 5]
