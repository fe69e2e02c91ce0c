"""Residuals and sweeps of Jacobi in one pass, and prolongations into another vector, against SciPy's products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dsolver import kernels
from dsolver.kernels import Backend
from dsolver.kernels.formats.csr import Csr
from dsolver.kernels.formats.layout import Layout
from dsolver.kernels.general.complex_pair import complex_pair

BACKENDS = ("numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu))
LIMIT = {"float64": 1e-14, "float32": 1e-5}
ROWS, COARSE = 200, 61


def matrix(width: int) -> Any:
    """Rows of about so many entries."""
    found = sparse.random(ROWS, ROWS, width / ROWS, random_state=1, format="csr") + 3.0 * sparse.eye(ROWS)
    return sparse.csr_matrix(found)


def device(backend: Backend, a: Any) -> Csr:
    a.sort_indices()
    parts = a.indptr.astype(np.int64), a.indices.astype(np.int32), a.data
    return Csr(*(backend.asarray(part) for part in parts))


def vector(backend: Backend, layout: Layout, values: Any) -> Any:
    x = backend.zeros(layout.size)
    backend.kernel("load")(layout, backend.asarray(values.reshape(-1, 1, 1)), x)
    return x


def formats(backend: Backend, a: Any, layout: Layout) -> Iterator[Any]:
    """A in every format."""
    for name in ("slices", "chunks", "rows"):
        yield backend.general.matrix(device(backend, a), layout, name)


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("width", [4, 60])
@pytest.mark.parametrize("name", BACKENDS)
def test_residuals_and_sweeps(name: str, width: int, dtype: str) -> None:
    backend, a = kernels.load(name, 1, dtype), matrix(width)
    layout = backend.layouts.plain((ROWS, 1, 1))
    r, x = np.random.default_rng(0).standard_normal((2, ROWS))
    d = np.random.default_rng(1).uniform(1.0, 2.0, ROWS)
    size = abs(a) @ abs(x) + abs(a) @ abs(r) + abs(r) + abs(x)

    def close(found: Any, want: Any) -> None:
        got = backend.to_host(backend.vectors.unload(layout, found)).ravel()
        assert (abs(got - want) <= 4.0 * LIMIT[dtype] * size).all()
        assert not backend.to_host(found)[backend.guard + ROWS :].any()

    for local in formats(backend, a, layout):
        scaled = local.scaled(backend.asarray((d / a.diagonal()).reshape(-1, 1, 1)))
        fields = [backend.zeros(layout.size) for _ in range(4)]
        on_r, on_x = vector(backend, layout, r), vector(backend, layout, x)
        local.residual(on_r, on_x, fields[0])
        close(fields[0], r - a @ x)
        local.jacobi_first(scaled, on_r, fields[1], fields[2])
        close(fields[1], r / d)
        close(fields[2], r - a @ (r / d))
        local.jacobi_sweep(scaled, on_r, on_x, fields[3])
        close(fields[3], x + (r - a @ x) / d)
        swept, dot = backend.zeros(layout.size), backend.scalars(1)
        local.jacobi_sweep_dot(scaled, on_r, on_x, swept, dot)
        assert (swept == fields[3]).all()
        exact = r @ backend.to_host(backend.vectors.unload(layout, swept)).ravel()
        assert float(dot[0]) == pytest.approx(exact, rel=1e3 * LIMIT[dtype])
        local.spmv(on_x, fields[0])
        scaled.jacobi_step(on_r, on_x, fields[0])
        close(fields[0], x + (r - a @ x) / d)


@pytest.mark.parametrize("name", BACKENDS)
def test_sweeps_of_several_vectors_have_the_bits_of_one(name: str) -> None:
    backend, a = kernels.load(name), matrix(9)
    layout = backend.layouts.plain((ROWS, 1, 1))
    vectors = np.random.default_rng(0).standard_normal((4, ROWS))
    r, x = (backend.xp.stack([vector(backend, layout, v) for v in vectors[i : i + 2]]) for i in (0, 2))
    for local in formats(backend, a, layout):
        scaled = local.scaled(backend.asarray(np.full((ROWS, 1, 1), 1.5)))
        together, alone = ([backend.xp.zeros((2, layout.size)) for _ in range(3)] for _ in range(2))
        local.batched(2).jacobi_first(scaled, r, *together[:2])
        local.batched(2).jacobi_sweep(scaled, r, x, together[2])
        for n in range(2):
            local.jacobi_first(scaled, r[n], alone[0][n], alone[1][n])
            local.jacobi_sweep(scaled, r[n], x[n], alone[2][n])
        if name != "cuda":
            assert all((one == other).all() for one, other in zip(together, alone, strict=True))
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(backend.to_host(one), backend.to_host(other), rtol=1e-13)


@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize("name", BACKENDS)
def test_prolongations(name: str, width: int) -> None:
    backend = kernels.load(name)
    p = sparse.random(ROWS, COARSE, width / COARSE, random_state=2, format="csr")
    fine, coarse = (backend.layouts.plain((rows, 1, 1)) for rows in (ROWS, COARSE))
    fine_turned = backend.layouts.permuted(fine, np.random.default_rng(4).permutation(ROWS))
    xc, x = np.random.default_rng(0).standard_normal(COARSE), np.random.default_rng(3).standard_normal(ROWS)
    for order in (fine, fine_turned):
        made = backend.general.transfer(device(backend, p), order, coarse)
        y, given = backend.zeros(order.size), vector(backend, order, x)
        made.prolong_sum(vector(backend, coarse, xc), given, y)
        found = backend.to_host(backend.vectors.unload(order, y)).ravel()
        np.testing.assert_allclose(found, x + p @ xc, rtol=1e-12, atol=1e-13)
        made.prolong_add(vector(backend, coarse, xc), given)
        assert (backend.to_host(given) == backend.to_host(y)).all()
        back, rc = backend.general.transfer(device(backend, p.T.tocsr()), coarse, order), backend.zeros(coarse.size)
        back.restrict_full(vector(backend, order, x), rc)
        found = backend.to_host(backend.vectors.unload(coarse, rc)).ravel()
        np.testing.assert_allclose(found, p.T @ x, rtol=1e-12, atol=1e-13)


def less_turned(y: Any, sign: float, t: Any) -> Any:
    """y - sign i t, whose columns are real parts and then imaginary ones, in the place of y."""
    half = len(y) // 2
    y[:half] += sign * t[half:]
    y[half:] -= sign * t[:half]
    return y


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("width", [4, 60])
@pytest.mark.parametrize("vectors", [1, 2])
def test_complex_rows_in_one_pass_have_the_bits_of_several(width: int, vectors: int, dtype: str) -> None:
    backend, re = kernels.load("cuda", 1, dtype), matrix(width)
    im = re.copy()
    im.data = np.random.default_rng(5).standard_normal(len(im.data))
    layout, random = backend.layouts.plain((ROWS, 1, 1)), np.random.default_rng(0)
    r, x, start = (
        backend.xp.stack([vector(backend, layout, v) for v in random.standard_normal((2 * vectors, ROWS))])
        for _ in range(3)
    )
    weights = [vector(backend, layout, each) for each in random.standard_normal((2, ROWS))]
    step, paired = backend.kernel("complex_step"), 0
    for one, other in zip(formats(backend, re, layout), formats(backend, im, layout), strict=True):
        made = complex_pair(one, other)
        if made is None:
            continue
        paired += 1
        pair, one, other = (each.batched(2 * vectors) for each in (made, one, other))
        found, by_parts, turned = (backend.xp.zeros_like(x) for _ in range(3))
        one.spmv(x, by_parts)
        other.spmv(x, turned)
        pair.complex_spmv(x, found)
        assert (found == less_turned(by_parts, -1.0, turned)).all()
        one.residual(r, x, by_parts)
        pair.complex_residual(r, x, found)
        assert (found == less_turned(by_parts, 1.0, turned)).all()
        swept, first = x.copy(), backend.xp.zeros_like(x)
        pair.complex_sweep(*weights, r, x, found)
        pair.complex_first(*weights, r, start, first)
        for n in range(vectors):
            m = n + vectors
            step(1.0, *weights, by_parts[n], by_parts[m], swept[n], swept[m])
            step(0.0, *weights, r[n], r[m], x[n], x[m])
        assert (found == swept).all()
        assert (start == x).all()
        one.residual(r, x, by_parts)
        other.spmv(x, turned)
        assert (first == less_turned(by_parts, 1.0, turned)).all()
    assert paired
    assert complex_pair(*(next(formats(backend, a, layout)) for a in (re, matrix(width + 1)))) is None
