"""Least squares: against SciPy, whatever shape and rank A has, with the same bits on every engine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import lsmr as scipy_lsmr

import dsolver
from dsolver.errors import InputError
from dsolver.least_squares.matrix import rectangular
from dsolver.matrices.checked import RowsOnGpu
from dsolver.monitor import events
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
Method = Callable[..., dsolver.LeastSquaresSolution]
METHODS: tuple[Method, ...] = (dsolver.lsmr, dsolver.cgls)
TIGHT: dict[str, Any] = {"atol": 1e-12, "btol": 1e-12, "maxiter": 300}


def random(rows: int, columns: int, seed: int = 0, density: float = 0.2) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.random_array((rows, columns), density=density, rng=rng, data_sampler=rng.standard_normal).tocsr()


def right(rows: int) -> F64:
    return np.random.default_rng(7).standard_normal(rows)


def normal_residual(a: Any, b: F64, x: F64, damp: float = 0.0) -> float:
    return float(np.linalg.norm(a.T @ (b - a @ x) - damp**2 * x))


@pytest.mark.parametrize("damp", [0.0, 0.5])
@pytest.mark.parametrize("shape", [(300, 40), (60, 30), (30, 60), (7, 1), (1, 7)])
def test_iterations_are_those_of_scipy(shape: tuple[int, int], damp: float) -> None:
    a, b = random(*shape), right(shape[0])
    expected = scipy_lsmr(a, b, damp=damp)
    for chunks in (1, 3):
        found = dsolver.lsmr(a, b, damp, chunks=chunks)
        x, istop, iterations, *norms = found
        assert (istop, iterations) == expected[1:3]
        assert np.abs(x - expected[0]).max() <= 1e-6
        for number, (norm, theirs) in enumerate(zip(norms, expected[3:], strict=True)):
            if number == 3 and iterations == 1:  # where SciPy counts a one among the singular values
                assert norm == 1.0
            else:
                assert norm == pytest.approx(theirs, rel=0.5 if number == 3 else 1e-2, abs=1e-6)
        assert len(found.residuals) == len(found.normal_residuals) == iterations + 1
        assert found.true_residual == pytest.approx(np.linalg.norm(b - a @ x), rel=1e-9, abs=1e-12)
        assert found.true_normal_residual == pytest.approx(normal_residual(a, b, x, damp), rel=1e-3, abs=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_the_shortest_solution_where_columns_depend_on_each_other(method: Method) -> None:
    left, other = random(50, 8, 1, 0.6), random(8, 30, 2, 0.6)
    a = sp.block_array([[left @ other, None], [None, sp.csr_array((3, 2))]]).tocsr()  # rank 8, empty rows and columns
    for b in (right(53), a @ np.random.default_rng(3).standard_normal(32)):
        expected = np.linalg.lstsq(a.toarray(), b)[0]
        found = method(a, b, chunks=2, conlim=0.0, **TIGHT) if method is dsolver.lsmr else method(a, b, **TIGHT)
        assert found.converged
        assert np.abs(found.x - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("method", METHODS)
def test_residuals_fall(method: Method) -> None:
    found = method(random(200, 80), right(200), **TIGHT)
    falling = found.normal_residuals if method is dsolver.lsmr else found.residuals
    assert all(later <= earlier * (1.0 + 1e-12) for earlier, later in pairwise(falling))


@pytest.mark.parametrize("method", METHODS)
def test_damped(method: Method) -> None:
    a, b, damp = random(40, 60), right(40), 0.7
    whole = np.concatenate([a.toarray(), damp * np.eye(60)])
    expected = np.linalg.lstsq(whole, np.concatenate([b, np.zeros(60)]))[0]
    assert np.abs(method(a, b, damp, **TIGHT).x - expected).max() <= 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_columns_of_different_units(method: Method) -> None:
    units = 10.0 ** np.random.default_rng(4).uniform(-6, 6, 40)
    a, b = (random(300, 40) @ sp.diags_array(units)).tocsr(), right(300)
    expected = np.linalg.lstsq(a.toarray() / units, b)[0] / units
    scaled = method(a, b, atol=1e-10, btol=1e-10, scale="columns", chunks=2)
    assert scaled.x_norm == pytest.approx(np.linalg.norm(scaled.x))
    assert scaled.true_normal_residual == pytest.approx(normal_residual(a, b, scaled.x), rel=1e-3)
    assert scaled.converged
    assert scaled.iterations <= 25
    assert np.abs(scaled.x / expected - 1.0).max() <= 1e-6
    near = method(a, b, atol=1e-10, btol=1e-10, scale="columns", x0=expected * (1.0 + 1e-7))
    assert near.iterations < scaled.iterations
    assert np.abs(near.x / expected - 1.0).max() <= 1e-6
    assert method(a, b).iterations != scaled.iterations


@pytest.mark.parametrize("method", METHODS)
def test_a_first_guess(method: Method) -> None:
    a, b = random(60, 30), right(60)
    exact = np.linalg.lstsq(a.toarray(), b)[0]
    found = method(a, b, x0=exact + 1e-3, **TIGHT)
    assert found.residuals[0] == pytest.approx(np.linalg.norm(b - a @ (exact + 1e-3)))
    assert np.abs(found.x - exact).max() <= 1e-7
    damped = dsolver.lsmr(a, b, 0.5, x0=exact, **TIGHT)
    assert np.abs(damped.x - scipy_lsmr(a, b, damp=0.5, x0=exact, **TIGHT)[0]).max() <= 1e-8
    assert damped.true_normal_residual <= 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_do(method: Method) -> None:
    a = random(30, 10)
    for b, x0 in ((np.zeros(30), None), (np.zeros(30), np.ones(10))):
        found = method(a, b, x0=x0)
        assert (found.istop, found.iterations, found.converged) == (0, 0, True)
        assert not found.x.any()
    orthogonal = np.linalg.svd(a.toarray())[0][:, -1]
    found = method(sp.csr_array((30, 10)), orthogonal)
    assert (found.istop, found.iterations) == (0, 0)
    assert not found.x.any()


def test_why_iterations_end() -> None:
    a, b = random(60, 30), right(60)
    few = dsolver.lsmr(a, b, maxiter=3)
    assert (few.istop, few.iterations, few.status) == (7, 3, dsolver.Status.MAX_ITERATIONS)
    assert "maxiter" in few.advice
    assert dsolver.lsmr(a, b, maxiter=0).istop == 7
    assert dsolver.lsmr(a, a @ np.ones(30), **TIGHT).istop == 1
    hilbert = sp.csr_array(1.0 / (1.0 + np.arange(20)[:, None] + np.arange(12)))
    ill = dsolver.lsmr(hilbert, right(20), atol=1e-14, btol=1e-14, conlim=1e3)
    assert (ill.istop, ill.status) == (3, dsolver.Status.ILL_CONDITIONED)
    assert ill.condition >= 1e3
    assert "conlim" in ill.advice
    assert np.linalg.norm(ill.x) < 1e3
    bad = dsolver.lsmr(a, b, x0=1e6 * np.ones(30), maxiter=1)
    assert (bad.istop, bad.notes != ()) == (7, True)
    assert not bad.x.any()
    assert bad.true_residual == pytest.approx(np.linalg.norm(b))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("of_a", "of_b"), [(-700, 0), (700, 300), (0, -730), (0, 830), (-450, 450)])
def test_any_units(method: Method, of_a: int, of_b: int) -> None:
    """Equal bits, but for their exponents."""
    a, b = random(60, 30), right(60)
    expected, found = method(a, b, 0.3), method(2.0**of_a * a, 2.0**of_b * b, 0.3 * 2.0**of_a)
    assert found.iterations == expected.iterations
    for name, unit in (("x", of_b - of_a), ("true_residual", of_b), ("b_norm", of_b), ("matrix_norm", of_a)):
        assert (getattr(found, name) == np.ldexp(getattr(expected, name), unit)).all()


def test_the_same_bits_for_any_engine_and_number_of_threads() -> None:
    a, b = random(90, 50), right(90)
    for method, chunks in product(METHODS, (1, 2, 3)):
        reference, resident = (method(a, b, chunks=chunks, engine=engine) for engine in ("reference", "resident"))
        assert resident.residuals == reference.residuals
        assert (resident.x == reference.x).all()
        textbook = method(a, b, chunks=chunks, engine="reference", kernels="numpy")
        assert np.abs(textbook.x - reference.x).max() <= 1e-4


def test_the_same_bits_on_a_cluster() -> None:
    import dask.array as da

    a, b = random(80, 50), right(80)
    with cluster(2) as client:
        for method in METHODS:
            expected = method(a, b, chunks=3, engine="reference", scale="columns")
            found = method(a, b, chunks=3, client=client, scale="columns")
            assert found.residuals == expected.residuals
            assert (found.x == expected.x).all()
            few = [method(a, b, chunks=3, maxiter=2, **more) for more in ({}, {"client": client, "engine": "graph"})]
            assert few[0].residuals == few[1].residuals
            assert (few[0].x == few[1].x).all()
        spread = dsolver.lsmr(a, da.from_array(b, chunks=30), client=client)
        assert isinstance(spread.x, da.Array)
        assert np.abs(spread.x.compute() - dsolver.lsmr(a, b, client=False).x).max() <= 1e-5
        assert "2 workers" in spread.engine


def test_formats() -> None:
    a, b = random(200, 90), right(200)
    expected = dsolver.lsmr(a, b)
    for formats in ("chunks", "slices", "octets", "rows"):
        assert np.abs(dsolver.lsmr(a, b, formats=formats, chunks=2).x - expected.x).max() <= 1e-6
    for kind in ("csc", "coo", "lil", "dok", "bsr"):
        assert (dsolver.lsmr(a.asformat(kind), b).x == expected.x).all()
    assert (dsolver.lsmr(a, b.reshape(-1, 1)).x == expected.x).all()


@pytest.mark.parametrize("method", METHODS)
def test_several_right_hand_sides_have_the_bits_that_each_has_alone(method: Method) -> None:
    """Right-hand sides of any units, with guesses or without; one set-up serves them."""
    import dask.array as da

    a = random(60, 30)
    b = np.stack([right(60), np.zeros(60), 1e-200 * right(60)[::-1], right(60)[::-1]], axis=1)
    options: dict[str, Any] = {"damp": 0.1, "chunks": 2, "client": False}
    alone = [method(a, column, **options) for column in b.T]
    found: Any = method(a, b, **options)
    assert isinstance(found, dsolver.LeastSquaresSolutions)
    assert found.x.shape == (30, 4)
    for number, (one, expected) in enumerate(zip(found, alone, strict=True)):
        assert one.residuals == expected.residuals
        assert (found.x[:, number] == expected.x).all()
        assert (one.timings["setup"] > 0.0) == (number == 0)
    listed: Any = method(a, list(b.T), x0=found.x, **options)
    assert isinstance(listed.x, list)
    assert (listed[0].x == method(a, b[:, 0], x0=alone[0].x, **options).x).all()
    spread: Any = method(a, da.from_array(b, chunks=(40, 3)), **options)
    assert isinstance(spread.x, da.Array)
    assert (spread.x.compute() == found.x).all()


@pytest.mark.parametrize("method", [dsolver.lsmr, dsolver.cgls])
def test_lists_of_numbers_of_any_size(method: Any) -> None:
    """One solve, in units of b, however often it began, is what watchers hear of."""
    A, heard = sp.csr_array(np.eye(3)[:, :2]), list[events.Message]()
    unsubscribe = events.subscribe(heard.append)
    try:
        found = method(A, [1e300, 2e300, 1e300])
    finally:
        unsubscribe()
    np.testing.assert_allclose(found.x, [1e300, 2e300])
    assert [message["event"] for message in heard if message["event"] != "state"] == ["start", "end"]
    assert (heard[-1]["status"], heard[-1]["residual"]) == (str(found.status), found.true_residual)
    np.testing.assert_allclose(method(A, [[1.0, 4.0], [2.0, 5.0], [0.0, 6.0]]).x, [[1.0, 4.0], [2.0, 5.0]])


@pytest.mark.parametrize("method", [dsolver.lsmr, dsolver.cgls])
def test_x_beyond_all_numbers_is_refused(method: Any) -> None:
    A = sp.csr_array(1e-308 * np.eye(5)[:, :4])
    np.testing.assert_allclose(method(A, np.ones(5)).x, 1e308, rtol=1e-8)
    with pytest.raises(dsolver.InputError, match="x has values beyond the largest number there is"):
        method(A, np.full(5, 100.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": np.ones((2, 4))}, r"several for 4 rows have \(4, k\), each a column; pass numpy.moveaxis"),
        ({"b": np.ones((4, 0))}, "its last axis has length 0"),
        ({"b": np.ones((4, 2)), "x0": np.ones(3)}, "x0 must be 2 guesses like b"),
        ({"A": np.ones((4, 3))}, "A must be a sparse matrix of SciPy or CuPy, not a ndarray: scipy"),
        ({"A": sp.csr_array((0, 3))}, r"A has shape \(0, 3\)"),
        ({"A": sp.csr_array(1j * np.ones((4, 3)))}, "A is complex"),
        ({"A": sp.csr_array(np.full((4, 3), np.nan))}, "A has NaN or infinity in 12 entries"),
        ({"b": np.ones(3)}, r"b has shape \(3,\), but must be \(4,\): an item for each row of A"),
        ({"b": np.array([1.0, np.inf, 0.0, 0.0])}, "b has NaN or infinity in 1 value"),
        ({"b": 1j * np.ones(4)}, "b is complex and A real: pass b.real and b.imag"),
        ({"x0": np.ones(4)}, r"x0 has shape \(4,\), but must be \(3,\): an item for each column of A"),
        ({"damp": -1.0}, "damp must be a number >= 0, not -1.0"),
        ({"atol": np.nan}, "atol must be a number >= 0"),
        ({"maxiter": -1}, "maxiter must be an integer >= 0"),
        ({"scale": "rows"}, "scale must be None or 'columns'"),
        ({"scale": "columns", "damp": 1.0}, "damp= would damp the scaled unknowns"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"A": sp.csr_array(np.arange(12.0).reshape(4, 3)), "b": np.ones(4)} | change
    with pytest.raises(InputError, match=message):
        dsolver.lsmr(given.pop("A"), given.pop("b"), **given)


def test_solve_tells_of_least_squares() -> None:
    with pytest.raises(InputError, match=r"A has shape \(4, 3\): .* use dsolver\.lsmr\(A, b\)"):
        dsolver.solve(sp.csr_array(np.ones((4, 3))), np.ones(4))


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    import cupy

    a, b = random(400, 90), right(400)
    for method, scale, chunks in product(METHODS, (None, "columns"), (1, 3)):
        more = {"scale": scale, "chunks": chunks, **TIGHT}
        expected = method(a, b, device="cpu", **more)
        found = method(a, cupy.asarray(b), device="cuda", **more)
        assert isinstance(found.x, cupy.ndarray)
        assert found.converged
        assert np.abs(found.x.get() - expected.x).max() <= 1e-9
        assert (method(a, b, device="cuda", engine="reference", **more).x == found.x.get()).all()
    damped = [dsolver.lsmr(a, b, 0.5, x0=np.ones(90), device=device).x for device in ("cpu", "cuda")]
    assert np.abs(damped[0] - damped[1]).max() <= 1e-6


@pytest.mark.gpu
def test_rows_of_scipy_are_looked_at_where_they_are_solved() -> None:
    a = random(400, 90)
    wide = sp.csr_array((a.data.astype(np.float32), a.indices.astype(np.int64), a.indptr.astype(np.int64)), a.shape)
    for given in (a, wide):
        there = rectangular("A", given, gpu=True).rows
        assert isinstance(there, RowsOnGpu)
        assert there.shape == a.shape
        assert (there.get() != given.astype(np.float64)).nnz == 0
    row = np.repeat([0, 1], [2, 1])
    for columns in ([3, 1, 0], [1, 1, 0]):  # not sorted, given twice: the host mends them
        rows = rectangular("A", sp.csr_array((np.ones(3), np.array(columns), [0, 2, 3]), shape=(2, 4)), gpu=True).rows
        assert not isinstance(rows, RowsOnGpu)
        assert (rows.toarray() == sp.coo_array((np.ones(3), (row, columns)), shape=(2, 4)).toarray()).all()
    outside = sp.csr_array((np.ones(3), np.array([1, 2, 0]), [0, 2, 3]), shape=(2, 4))
    outside.indices[1] = 4
    with pytest.raises(InputError, match="A has"):
        rectangular("A", outside, gpu=True)
    a.data[5] = np.inf
    with pytest.raises(InputError, match="A has NaN or infinity in 1 entry"):
        rectangular("A", a, gpu=True)


@pytest.mark.gpu
def test_a_matrix_on_a_gpu() -> None:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    a, b = random(400, 90), right(400)
    there, expected = sparse.csr_matrix(sp.csr_matrix(a)), dsolver.lsmr(a, b, device="cuda").x
    for given in (there, there.tocsc(), there.tocoo()):
        for chunks in (1, 2):
            found = dsolver.lsmr(given, b, device="cuda", chunks=chunks)
            assert np.abs(found.x - expected).max() <= (0.0 if chunks == 1 else 1e-6)
    there.data[5] = np.inf
    with pytest.raises(InputError, match="A has NaN or infinity in 1 entry"):
        dsolver.lsmr(there, b, device="cuda")
