"""`dsolver.jax.solve`: derivatives against finite differences, as JAX takes them and compiles them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.problems import Dirichlet, Neumann, Robin, diffusion

jax: Any = pytest.importorskip("jax")

GRID = (2, 3, 2)
EXACT: dict[str, Any] = {"rtol": 1e-13, "device": "cpu"}


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield
    dsolver.jax.release()


def array(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    return jax.numpy.asarray(np.random.default_rng(sum(shape)).uniform(low, high, shape))


def check(function: Any, *inputs: Any, order: int = 1) -> None:
    """Compare derivatives with finite differences."""
    from jax.test_util import check_grads

    check_grads(function, inputs, order=order, modes=["rev"], eps=1e-5, atol=1e-6, rtol=1e-6)


def test_a_plane() -> None:
    plane = diffusion((3, 2), bc={"x-": Dirichlet(lambda x, y: x + y), "y": Neumann(0.3)})
    kappa = array(3, 2, low=0.5, high=2.0)
    check(lambda f, k: dsolver.jax.solve(plane, f, kappa=k, **EXACT), array(3, 2), kappa)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_x_has_the_type_of_b(dtype: str) -> None:
    problem = diffusion((8, 6), spacing=(0.1 * np.arange(1.0, 9.0), 0.1))
    assert dsolver.jax.solve(problem, jax.numpy.ones((8, 6), dtype), rtol=1e-5).dtype == dtype


def test_diffusion_in_source_kappa_and_sigma() -> None:
    bc = {"x-": Robin(2.0, 0.7), "x+": Dirichlet(lambda x, y, z: x + y + z), "y-": Neumann(0.4), "z": "periodic"}
    problem = diffusion(GRID, spacing=[0.5, np.array([0.4, 0.7, 0.5]), 1.3], bc=bc)

    def solve(f: Any, kappa: Any, sigma: Any) -> Any:
        return dsolver.jax.solve(problem, f, kappa=kappa, sigma=sigma, **EXACT)

    kappa, sigma = array(*GRID, low=0.5, high=3.0), array(low=0.1)
    compiled, f = jax.jit(solve), array(*GRID)
    check(compiled, f, kappa, sigma)
    own = dsolver.solve(
        diffusion(GRID, np.asarray(kappa), float(sigma), spacing=[0.5, np.array([0.4, 0.7, 0.5]), 1.3], bc=bc),
        np.asarray(f),
        **EXACT,
    )
    np.testing.assert_allclose(compiled(f, kappa, sigma), own.x, rtol=1e-10)


@pytest.mark.parametrize("kind", ["BCOO", "BCSR"])
def test_a_sparse_matrix_in_its_entries_compiled_and_for_several_right_hand_sides(kind: str) -> None:
    from jax.experimental import sparse

    rng = np.random.default_rng(0)
    a = (sp.random_array((6, 6), density=0.4, rng=rng) + 3.0 * sp.eye_array(6)).tocsr()
    given = sparse.BCOO.from_scipy_sparse(a)
    matrix = given if kind == "BCOO" else sparse.BCSR.from_bcoo(given)

    def solve(matrix: Any, b: Any) -> Any:
        return dsolver.jax.solve(matrix, b, **EXACT)

    def of_entries(data: Any, b: Any) -> Any:
        parts = (data, matrix.indices) if kind == "BCOO" else (data, matrix.indices, matrix.indptr)
        return solve(type(matrix)(parts, shape=matrix.shape), b)

    b = array(6, 3)
    np.testing.assert_allclose(a @ np.asarray(jax.jit(solve)(matrix, b)), b, rtol=1e-10)
    check(jax.jit(of_entries), matrix.data, b, order=2 if kind == "BCOO" else 1)
    if kind == "BCSR":
        return
    given = matrix.data, b
    _, forward = jax.jvp(of_entries, given, given)  # x is as it was where A and b grow alike
    np.testing.assert_allclose(forward, 0.0, atol=1e-10)
    mapped = jax.vmap(solve, (None, 1), 1)(matrix, b)
    np.testing.assert_allclose(mapped, solve(matrix, b), rtol=1e-10)


@pytest.mark.parametrize("kind", ["BCOO", "BCSR"])
def test_entries_that_pad_a_sparse_matrix_have_no_derivative(kind: str) -> None:
    from jax.experimental import sparse

    padded, b = sparse.BCOO.fromdense(jax.numpy.asarray([[4.0, -1.0], [-1.0, 3.0]]), nse=6), array(2)
    a = padded if kind == "BCOO" else sparse.BCSR.from_bcoo(padded)
    places = [a.indices] if kind == "BCOO" else [a.indices, a.indptr]

    def total(data: Any) -> Any:
        return (dsolver.jax.solve(type(a)((data, *places), shape=(2, 2)), b, **EXACT) ** 2).sum()

    check(total, a.data, order=2)
    assert not jax.grad(total)(a.data)[4:].any()


def test_a_matrix_of_scipy_and_a_stencil_in_their_right_hand_sides() -> None:
    a = sp.diags_array([np.full(5, -1.0), np.full(6, 3.0), np.full(5, -0.5)], offsets=[-1, 0, 1])
    check(lambda b: dsolver.jax.solve(a, b, **EXACT), array(6))
    points = dsolver.problems.poisson7((4, 2, 2))
    check(lambda b: dsolver.jax.solve(points, b, **EXACT), array(4, 2, 2))


def test_where_a_constant_is_open_the_gradient_of_the_mean_is_zero() -> None:
    problem = diffusion(GRID, bc="neumann")

    def mean(f: Any, kappa: Any) -> Any:
        return dsolver.jax.solve(problem, f - f.mean(), kappa=kappa, **EXACT).mean()

    gradients = jax.jit(jax.grad(mean, (0, 1)))(array(*GRID), array(*GRID, low=0.5))
    assert max(float(abs(gradient).max()) for gradient in gradients) < 1e-12


def test_what_does_not_converge_is_no_gradient() -> None:
    problem, f = diffusion((8, 8, 8)), array(8, 8, 8)
    with pytest.raises(Exception, match="the solve ended as max_iterations after 1 iteration"):
        dsolver.jax.solve(problem, f, maxiter=1, device="cpu").block_until_ready()


def test_what_cannot_be_right_is_refused() -> None:
    with pytest.raises(dsolver.InputError, match=r"poisson7.* has no kappa"):
        dsolver.jax.solve(dsolver.problems.poisson7(GRID), array(*GRID), kappa=1.0)
    with pytest.raises(dsolver.InputError, match=r"ndarray: scipy.sparse.csr_array"):
        dsolver.jax.solve(np.eye(4), array(4))
    with pytest.raises(dsolver.InputError, match=r"b has dtype int64: use b.astype"):
        dsolver.jax.solve(diffusion(GRID), np.ones(GRID, dtype=np.int64))
    with pytest.raises(dsolver.InputError, match=r"b is a .*Tracer of JAX.*: dsolver.jax.solve may be traced"):
        jax.jit(lambda b: dsolver.solve(diffusion(GRID), b).x)(array(*GRID))


def refused() -> dict[str, tuple[Any, Any, dict[str, Any], str]]:
    cells, matrix, f = diffusion(GRID), sp.eye_array(4).tocsr(), np.ones(GRID)
    return {
        "kappa that is no number": (cells, f, {"kappa": "x"}, "kappa must be a number or an array of numbers"),
        "one of three kappa": (cells, f, {"kappa": [1.0, None, 1.0]}, "kappa must be a number .*, not None"),
        "kappa of another shape": (
            cells,
            f,
            {"kappa": f[:1]},
            r"kappa has shape \(1, 3, 2\), but the grid is \(2, 3, 2\)",
        ),
        "no b": (cells, None, {}, "b must be a number or an array of numbers, not None"),
        "b of another shape": (
            cells,
            f[0],
            {},
            r"b has shape \(3, 2\), but A .*\(2, 3, 2\), or several as \(2, 3, 2, k\)",
        ),
        "b of other rows": (
            matrix,
            np.ones(5),
            {},
            r"b has shape \(5,\), but A takes .*\(4,\), or several as \(4, k\)",
        ),
        "a rectangle": (matrix[:3], np.ones(3), {}, r"A has shape \(3, 4\): a system needs as many rows as columns"),
    }


@pytest.mark.parametrize("case", refused())
def test_what_no_value_can_make_right_is_refused_before_jax_computes(case: str) -> None:
    problem, b, coefficients, message = refused()[case]
    with pytest.raises(dsolver.InputError, match=message):
        dsolver.jax.solve(problem, b, device="cpu", **coefficients)
