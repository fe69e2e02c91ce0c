"""Vectors side by side: products, combinations and multiples, as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.kernels import load

BACKENDS = ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SHAPES = [(3, 2, 64), (36, 24, 5024), (70, 20, 352), (1, 1, 9024), (100, 67, 192), (1600, 5, 64)]  # of whole slices


def pair(rows: int, columns: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(items)
    return rng.standard_normal((rows, items)), rng.standard_normal((columns, items))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_all_columns(name: str, shape: tuple[int, int, int]) -> None:
    backend, (s, t) = load(name), pair(*shape)
    found = backend.vectors.gram(backend.asarray(s), backend.asarray(t))
    np.testing.assert_allclose(backend.to_host(found), s @ t.T, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_of_some_columns(name: str, shape: tuple[int, int, int]) -> None:
    backend, (s, t) = load(name), pair(*shape)
    weights, some = np.linspace(1.0, 2.0, shape[2]), (shape[1] + 1) // 2
    found = backend.vectors.gram(backend.asarray(s), backend.asarray(t), backend.asarray(weights), some)
    expected = s @ np.concatenate([weights * t[:some], t[some:]]).T
    np.testing.assert_allclose(backend.to_host(found), expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["ones", "weights", "block"])
def test_residuals_and_squares(name: str, shape: tuple[int, int, int], kind: str) -> None:
    _, columns, items = shape
    backend, (x, r) = load(name), pair(columns, columns, items)
    values, sizes = np.arange(1.0, columns + 1.0), np.linspace(0.5, 3.0, items)
    b = {"ones": None, "weights": np.linspace(2.0, 1.0, items), "block": x[::-1] + 1.0}[kind]
    of_b = x if b is None else b if kind == "block" else b * x
    expected = r - values[:, None] * of_b
    found, squares = backend.asarray(r), backend.asarray(np.zeros((4, columns)))
    given = None if b is None else backend.asarray(b)
    backend.kernel("residuals")(values, backend.asarray(x), given, backend.asarray(sizes), found, squares)
    np.testing.assert_allclose(backend.to_host(found), expected, rtol=1e-13, atol=1e-13)
    sums = [(part * part).sum(axis=1) for part in (expected, sizes * x, x, of_b)]
    np.testing.assert_allclose(backend.to_host(squares), sums, rtol=1e-13)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keep", [0.0, 1.0, -0.5])
def test_combinations_leave_out_what_has_no_coefficients(name: str, shape: tuple[int, int, int], keep: float) -> None:
    backend, (s, t) = load(name), pair(*shape)
    c = np.random.default_rng(1).standard_normal((shape[0], shape[1]))
    expected = keep * t + c.T @ s
    if shape[0] > 1:
        expected -= np.outer(c[1], s[1])
        c[1], s[1] = 0.0, np.nan
    target = backend.asarray(t.copy())
    backend.kernel("combine")(keep, backend.asarray(s), c, target)
    np.testing.assert_allclose(backend.to_host(target), expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("rows", "items"), [(5, 704), (36, 9024), (290, 64)])
def test_combinations_replace_columns_of_their_own(name: str, rows: int, items: int) -> None:
    backend, rng = load(name), np.random.default_rng(rows)
    s, c = rng.standard_normal((rows, items)), rng.standard_normal((rows, rows - 1))
    expected = s.copy()
    expected[1:] = c.T @ s
    on_device = backend.asarray(s.copy())
    backend.kernel("combine")(0.0, on_device, c, on_device[1:])
    np.testing.assert_allclose(backend.to_host(on_device), expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("name", BACKENDS)
def test_multiples_of_one_or_several(name: str) -> None:
    backend, (s, t) = load(name), pair(3, 1, 5000)
    found = backend.asarray(np.zeros_like(s))
    backend.kernel("times")(backend.asarray(t[0]), backend.asarray(s), found)
    assert np.array_equal(backend.to_host(found), t[0] * s)
    backend.kernel("times")(backend.asarray(t[0]), backend.asarray(s[0]), found[2])
    assert np.array_equal(backend.to_host(found)[2], t[0] * s[0])


@pytest.mark.parametrize("name", BACKENDS)
def test_bits_do_not_depend_on_how_often_products_are_made(name: str) -> None:
    backend, (s, t) = load(name), pair(20, 4, 12352)
    first, second = (backend.to_host(backend.vectors.gram(backend.asarray(s), backend.asarray(t))) for _ in range(2))
    assert np.array_equal(first, second)


def test_bits_do_not_depend_on_threads() -> None:
    s, t = pair(7, 3, 300_000)
    c = np.random.default_rng(1).standard_normal((7, 3))
    targets = [t.copy() for _ in range(2)]
    found = [load("cpu", threads).vectors.gram(s, t) for threads in (1, 3)]
    for threads, target in zip((1, 3), targets, strict=True):
        load("cpu", threads).kernel("combine")(1.0, s, c, target)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(targets[0], targets[1])
