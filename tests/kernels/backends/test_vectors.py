"""Steps of the iteration on vectors, and scalars that end a solve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels import load
from tests.kernels.backends.boxes import CASES, TOLERANCE, Box, both, box, close


def test_vectors(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        x, y, w, f = b.vector(1), b.vector(2), b.zeros(), b.zeros()
        dot, p = b.scalar(np.nan), b.vector(4)
        b.kernel("copy")(x, w)
        copied = b.block(w).copy()
        b.kernel("waxpby")(2.0, x, -0.25, y, w)
        b.kernel("waxpby")(1.0, x, 3.0, y, y)  # in place
        b.kernel("fill")(b.layout, 1.5, f)
        b.kernel("dot")(x, y, dot)
        b.kernel("update_p")(x, b.scalar(3.0), b.scalar(4.0), b.scalar(1.0), p)
        return copied, b.block(w), b.block(y), b.block(f), b.backend.to_host(dot), b.block(p)

    both(pair, run)


def test_blocks_in_any_order_of_axes(pair: tuple[Box, Box]) -> None:
    for b in pair:
        values = np.random.default_rng(1).standard_normal(b.layout.shape)
        for axes in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
            block = np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))
            x = b.zeros()
            b.kernel("load")(b.layout, b.backend.asarray(block), x)
            assert np.array_equal(b.block(x), values.astype(b.backend.dtype))


@pytest.mark.parametrize(("a", "b"), [(3.0, -0.5), (0.0, 2.0), (np.nan, 1.0), (1.0, np.inf), (-np.inf, 0.0)])
def test_axpby_leaves_y_where_a_scalar_is_not_finite(pair: tuple[Box, Box], a: float, b: float) -> None:
    def run(box: Box) -> Any:
        y = box.vector(2)
        box.kernel("axpby")(-2.0, box.scalar(a), box.vector(1), box.scalar(b), y)
        return box.block(y)

    both(pair, run)
    x, y = (pair[1].block(pair[1].vector(seed)) for seed in (1, 2))
    expected = -2.0 * a * x + b * y if np.isfinite([a, b]).all() else y
    close(run(pair[0]), expected, TOLERANCE[pair[0].backend.dtype.name])


NAN, INF = np.nan, np.inf
QUOTIENTS = [
    ((6.0, 3.0, 5.0, 4.0, 2.0, 1.0, 3.0), 2.5),
    ((6.0, 3.0, 5.0, 4.0, 1.0, 1.0, 3.0), NAN),  # converged
    ((6.0, 3.0, 5.0, 4.0, 4.0, 1.0, 3.0), NAN),  # diverged
    ((6.0, 0.0, 5.0, 4.0, 2.0, 1.0, 3.0), np.inf),
    ((0.0, 0.0, 5.0, 4.0, 2.0, 1.0, 3.0), NAN),
]
"""a, b, c, d, rr, limit, ceiling and what follows."""


@pytest.mark.parametrize(("scalars", "expected"), QUOTIENTS)
def test_quotients(name: str, scalars: tuple[float, ...], expected: float) -> None:
    one = box(CASES[4], name)
    out = one.scalar(7.0)
    one.kernel("quotient")(*map(one.scalar, scalars), out)
    assert np.array_equal(one.backend.to_host(out), [expected], equal_nan=True)


def test_steps_on_two_parts_are_those_on_complex_numbers(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        x, xi, y, yi = (b.vector(seed) for seed in (1, 2, 3, 4))
        dot, other = b.scalar(NAN), b.scalar(NAN)
        b.kernel("complex_dot")(x, xi, 1.0, y, yi, dot, other)
        one = b.scalar(NAN)
        for given, want in (((x, y, 1.0, xi, yi), dot), ((x, yi, -1.0, xi, y), other)):
            b.kernel("dot_plus")(*given, one)
            assert (one == want).all()
        numbers = [b.scalar(value) for value in (0.5, -2.0, 3.0, 0.25)]
        b.kernel("complex_axpby")(-1.0, *numbers[:2], x, xi, *numbers[2:], y, yi)
        made = b.block(y).copy(), b.block(yi).copy()
        one_, zero = b.scalar(1.0), b.scalar(0.0)
        for a in (0.5, NAN):
            fused, apart = ([b.vector(seed) for seed in range(5, 13)] for _ in "ab")
            (p, pi, ap, api, u, ui, r, ri), alpha = apart, (b.scalar(a), b.scalar(-2.0))
            b.kernel("complex_axpby")(1.0, *alpha, p, pi, one_, zero, u, ui)
            b.kernel("complex_axpby")(-1.0, *alpha, ap, api, one_, zero, r, ri)
            b.kernel("dot_plus")(r, r, 1.0, ri, ri, one)
            b.kernel("complex_update_x_r")(*alpha, *fused, other_one := b.scalar(NAN))
            assert (other_one == one).all()
            assert all((x == y).all() for x, y in zip(fused, apart, strict=True))
        for broken in (NAN, INF):
            b.kernel("complex_axpby")(1.0, numbers[0], b.scalar(broken), x, xi, *numbers[2:], y, yi)
            b.kernel("complex_axpby")(1.0, *numbers[:2], x, xi, b.scalar(broken), numbers[3], y, yi)
        assert np.array_equal(b.block(y), made[0]), "left where a number is not finite"
        assert np.array_equal(b.block(yi), made[1])
        return b.backend.to_host(dot), b.backend.to_host(other), *made

    both(pair, run)
    one = pair[0]
    x, y = (one.block(one.vector(k)) + 1j * one.block(one.vector(k + 1)) for k in (1, 3))
    dot, other, re, im = run(one)
    tolerance = TOLERANCE[one.backend.dtype.name]
    assert complex(dot[0], other[0]) == pytest.approx(np.vdot(x, y), rel=1e-3 if tolerance > 1e-9 else 1e-9)
    expected = -(0.5 - 2.0j) * x + (3.0 + 0.25j) * y
    close(re, expected.real, 4.0 * tolerance)
    close(im, expected.imag, 4.0 * tolerance)


@pytest.mark.parametrize(
    ("rr", "expected"), [(2.0, (1.0 + 2.0j) / (3.0 - 1.0j) * (2.0j / (-1.0 + 1e-3j))), (1.0, None)]
)
def test_quotients_of_complex_numbers(name: str, rr: float, expected: complex | None) -> None:
    one = box(CASES[4], name)
    numbers = [part for z in (1.0 + 2.0j, 3.0 - 1.0j, 2.0j, -1.0 + 1e-3j) for part in (z.real, z.imag)]
    out = one.scalar(7.0), one.scalar(7.0)
    one.kernel("complex_quotient")(*map(one.scalar, (*numbers, rr, 1.0, 3.0)), *out)
    found = complex(*(float(one.backend.to_host(part)[0]) for part in out))
    assert np.isnan(found.real) and np.isnan(found.imag) if expected is None else found == pytest.approx(expected)
    tiny = [1e-200 * number for number in numbers]
    one.kernel("complex_quotient")(*map(one.scalar, (*tiny, 2.0, 1.0, 3.0)), *out)
    assert np.isfinite(float(one.backend.to_host(out[0])[0])), "nothing leaves the range on the way"


def test_rotations_are_the_qr_factors_of_a_tridiagonal_matrix(name: str) -> None:
    one, rng = box(CASES[4], name), np.random.default_rng(1)
    diagonal, beside = rng.standard_normal(4), rng.uniform(0.5, 2.0, 5)
    guards = [one.scalar(value) for value in (1.0, 0.0, np.inf, 1e-8)]
    # beta, phi, c, s, c_old, s_old, size
    state = [one.scalar(value) for value in (beside[0], 1.0, 1.0, 0.0, 1.0, 0.0, 0.0)]
    written = [one.scalar(0.0) for _ in range(9)]
    rotate = one.kernel("rotation")
    found = []
    for delta, below in zip(diagonal, beside[1:], strict=True):
        rotate(one.scalar(delta), one.scalar(below**2), *guards, *state, *written)
        found.append([float(one.backend.to_host(scalar)[0]) for scalar in (*written, state[1])])
    t = np.zeros((5, 4))
    for i in range(4):
        t[i : i + 2, i] = diagonal[i], beside[i + 1]
        t[i, i + 1 : i + 2] = beside[i + 1]
    normals = [1.0]  # of what follows from zero
    for i, (scale, w1, w2, w3, tau, keep, move, on, normal, phi) in enumerate(found):
        size = np.hypot(diagonal, beside[1:])[: i + 1].max()
        if i:
            assert normal == pytest.approx(normals[i] / size)
        y = np.linalg.lstsq(t[: i + 2, : i + 1], np.eye(i + 2)[0], rcond=None)[0]
        r_i = np.eye(i + 2)[0] - t[: i + 2, : i + 1] @ y
        residual = np.linalg.norm(r_i)
        normals.append(float(np.linalg.norm(t[: i + 3, : i + 2] @ r_i) / residual) if i < 3 else np.nan)
        assert abs(phi) == pytest.approx(residual)
        assert on == 1.0
        assert scale == pytest.approx(1.0 / beside[i + 1])
        assert move == pytest.approx(-tau * w1)
        r = np.abs(np.linalg.qr(t)[1])
        assert abs(1.0 / w1) == pytest.approx(r[i, i])
        assert abs(w2 / w1) == pytest.approx(r[i - 1, i] if i else beside[0])  # times a vector of zeros
        assert abs(w3 / w1) == pytest.approx(r[i - 2, i] if i > 1 else 0.0, abs=1e-15)
        assert 0.0 < keep < 1.0
    before = [float(one.backend.to_host(scalar)[0]) for scalar in state]
    rotate(one.scalar(1.0), one.scalar(-1.0), *guards, *state, *written)
    assert [float(one.backend.to_host(scalar)[0]) for scalar in state] == before
    assert all(np.isnan(one.backend.to_host(scalar)[0]) for scalar in written)
    rotate(one.scalar(1.0), one.scalar(1.0), *guards[:3], one.scalar(2.0), *state, *written)
    assert [float(one.backend.to_host(scalar)[0]) for scalar in state] == before, "r is least already"
    assert [bool(np.isnan(one.backend.to_host(scalar)[0])) for scalar in written] == [True] * 8 + [False]


@pytest.mark.parametrize("damp", [0.0, 0.7])
def test_rotations_make_normal_residuals_of_a_bidiagonal_matrix_least(name: str, damp: float) -> None:
    one, rng = box(CASES[4], name), np.random.default_rng(1)
    alphas, betas, steps = rng.uniform(0.5, 2.0, 6), rng.uniform(0.5, 2.0, 6), 5
    first = alphas[0] * betas[0]
    state = [alphas[0], 1.0, 1.0, 1.0, 0.0, 0.0, first, betas[0], 0.0, 1.0, 0.0, 0.0, 0.0, alphas[0] ** 2, 0.0, 1e100]
    handles, written = [*map(one.scalar, state)], [one.scalar(0.0) for _ in range(7)]
    rotate = one.kernel("bidiagonal_rotations")
    b = np.diag(alphas) + np.diag(betas[1:], -1)
    for k in range(1, steps + 1):
        rotate(*map(one.scalar, (alphas[k], betas[k], damp, 0.0)), *handles, *written)
        keep, move, turn, rr, ss, aa, cond = (float(one.backend.to_host(scalar)[0]) for scalar in written)
        part, head = b[: k + 1, :k], np.eye(k + 1)[0]
        normal = np.vstack([part.T @ part + damp**2 * np.eye(k), alphas[k] * part[-1:]])
        y = np.linalg.lstsq(normal, first * head)[0]
        assert ss == pytest.approx(np.linalg.norm(first * head - normal @ y) ** 2)
        assert rr == pytest.approx(np.linalg.norm(betas[0] * head - part @ y) ** 2 + damp**2 * np.linalg.norm(y) ** 2)
        assert aa == pytest.approx(np.linalg.norm(part) ** 2)
        assert np.isfinite([keep, move, turn]).all()
        assert cond >= 1.0
    before = [float(one.backend.to_host(scalar)[0]) for scalar in handles]
    rotate(*map(one.scalar, (1.0, 1.0, damp, 2.0)), *handles, *written)
    assert [float(one.backend.to_host(scalar)[0]) for scalar in handles] == before
    assert all(np.isnan(one.backend.to_host(scalar)[0]) for scalar in written)


def test_steps_of_least_squares(name: str) -> None:
    one = box(CASES[4], name)

    def values(kernel: str, reads: tuple[float, ...], others: tuple[float, ...]) -> list[float]:
        handles = [*map(one.scalar, others)]
        one.kernel(kernel)(*map(one.scalar, reads), *handles)
        return [float(one.backend.to_host(scalar)[0]) for scalar in handles]

    assert values("half_step", (9.0, 2.0), (0.0, 0.0, 0.0)) == [3.0, 1.0 / 3.0, -1.5]
    assert values("half_step", (0.0, 2.0), (7.0, 7.0, 7.0)) == [0.0, np.inf, 0.0]
    assert values("normal_step", (8.0, 3.0, 4.0, 0.5, 0.0), (0.5, 0.0)) == [0.75, 2.0]
    assert values("normal_step", (8.0, 3.0, 4.0, 0.5, 0.0), (1.0, 0.0)) == [1.0, 2.0]
    stopped = values("normal_step", (8.0, 3.0, 4.0, 0.5, 1.0), (0.5, 0.0))
    assert stopped[0] == 0.5
    assert np.isnan(stopped[1])
    norms = {"rr": 4.0, "ss": 16.0, "aa": 25.0, "cond": 10.0, "xx": 9.0, "bb": 64.0}
    cases: list[tuple[dict[str, float], tuple[float, float, float], float]] = [
        ({}, (0.0, 0.0, 0.0), 0.0),
        ({}, (0.0, 0.25, 0.0), 1.0),
        ({}, (0.14, 0.0, 0.0), 1.0),  # of atol ‖A‖ ‖x‖
        ({"xx": 0.0}, (0.4, 0.0, 0.0), 2.0),
        ({}, (0.0, 0.0, 0.1), 3.0),
        ({"rr": 1e-40}, (0.0, 0.0, 0.0), 4.0),
        ({"ss": 1e-40}, (0.0, 0.0, 0.0), 5.0),
        ({"cond": 1e17}, (0.0, 0.0, 0.0), 6.0),
        ({"rr": np.nan}, (1.0, 1.0, 1.0), 8.0),
    ]
    for change, limits, expected in cases:
        assert values("settle", (*(norms | change).values(), *limits), (0.0,)) == [expected]
    assert values("settle", (*norms.values(), 1.0, 1.0, 1.0), (7.0,)) == [7.0]


def test_diagonal_steps(pair: tuple[Box, Box]) -> None:
    def run(b: Box) -> Any:
        r, w, z, d = b.vector(1), b.vector(2), b.zeros(), b.vector(3)
        b.kernel("jacobi")(b.matrix, r, 0.75, z)
        scaled = b.block(z).copy()
        b.kernel("chebyshev")(b.matrix, r, w, 0.5, 1.5, d, z)
        return scaled, b.block(d), b.block(z)

    both(pair, run)
    one, textbook = pair
    scaled, d, z = run(one)
    assert textbook.backend.name == "numpy"
    diagonal = textbook.matrix.diagonal.reshape(one.case.shape, order="F")
    r, w, before = (one.block(one.vector(seed)) for seed in (1, 2, 3))
    tolerance = TOLERANCE[one.backend.dtype.name]
    close(scaled, 0.75 * r / diagonal, tolerance)
    close(d, 0.5 * before + 1.5 * (r - w) / diagonal, tolerance)
    close(z, scaled + d, tolerance)


FROZEN: dict[str, tuple[float, ...]] = {
    "converged": (3.0, 4.0, 1.0, 1.0, INF),
    "diverged": (3.0, 4.0, 2.0, 1.0, 1.5),
    "no residual": (3.0, 4.0, np.nan, 1.0, INF),
    "M is not definite": (0.0, 4.0, 2.0, 1.0, INF),
    "A is not definite": (3.0, -4.0, 2.0, 1.0, INF),
    "no curvature": (3.0, 0.0, 2.0, 1.0, INF),
    "rz overflows": (INF, 4.0, 2.0, 1.0, INF),
    "pAp overflows": (3.0, INF, 2.0, 1.0, INF),
    "rz is NaN": (np.nan, 4.0, 2.0, 1.0, INF),
    "pAp is NaN": (3.0, np.nan, 2.0, 1.0, INF),
}
"""rz, pAp, rr, limit and ceiling that end a solve."""


GOES_ON = (3.0, 4.0, 2.0, 1.0, INF)
GOES_ON_AT_THE_CEILING = (3.0, 4.0, 2.0, 1.0, 2.0)


@pytest.mark.parametrize("scalars", [GOES_ON, FROZEN["converged"]])
def test_update_x_r(pair: tuple[Box, Box], scalars: tuple[float, ...]) -> None:
    updated(pair, scalars)


@pytest.mark.parametrize("scalars", [GOES_ON_AT_THE_CEILING, *FROZEN.values()])
def test_what_ends_a_solve_changes_nothing(name: str, scalars: tuple[float, ...]) -> None:
    """Scalars decide: one box shows it."""
    updated((box(CASES[4], name), box(CASES[4], "numpy")), scalars)


def updated(pair: tuple[Box, Box], scalars: tuple[float, ...]) -> None:
    """Both give the same, which is a change unless the scalars end the solve."""

    def run(b: Box) -> Any:
        x, r, dot = b.vector(3), b.vector(4), b.scalar(np.nan)
        b.kernel("update_x_r")(b.vector(1), b.vector(2), *map(b.scalar, scalars), x, r, dot)
        return b.block(x), b.block(r), b.backend.to_host(dot)

    both(pair, run)
    b = pair[0]
    changed = (run(b)[0] != b.block(b.vector(3))).any()
    assert changed == (scalars not in FROZEN.values())


def test_update_x_r_may_write_the_scalar_that_it_reads(name: str) -> None:
    b = box(CASES[0], name)
    dots = []
    for shared in (True, False):
        rr = b.scalar(1e3)
        dot = rr if shared else b.scalar()
        scalars = b.scalar(3.0), b.scalar(4.0), rr, b.scalar(1.0), b.scalar(1e4)
        b.kernel("update_x_r")(b.vector(1), b.vector(2), *scalars, b.vector(3), b.vector(4), dot)
        dots.append(float(b.backend.to_host(dot)[0]))
    assert dots[0] == dots[1]


@pytest.mark.parametrize(
    "case", ["M is not definite", "A is not definite", "no curvature", "rz overflows", "pAp is NaN"]
)
def test_a_breakdown_leaves_p_as_it_was(name: str, case: str) -> None:
    b = box(CASES[0], name)
    rz, pap, *_ = FROZEN[case]
    p = b.vector(1)
    b.kernel("update_p")(b.vector(2), b.scalar(rz), b.scalar(1.0), b.scalar(pap), p)
    assert (b.block(p) == b.block(b.vector(1))).all()


@pytest.mark.parametrize("count", [1, 7, 8, 13, 4095, 4097, 8195])
def test_dots_of_any_number_of_items(count: int) -> None:
    """Items behind the last whole register count, too: vectors of inverses and of users have any length."""
    vectors: Any = load("cpu").vectors
    x, y, dot = np.arange(1.0, count + 1.0), np.full(count, 2.0), np.empty(1)
    vectors.dot(x, y, dot)
    assert dot[0] == count * (count + 1.0)


@pytest.mark.parametrize("name", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_steps_on_two_parts_of_two_types(name: str) -> None:
    backend, rng = load(name, dtype="float32"), np.random.default_rng(1)
    wide, narrow = rng.standard_normal((2, 9024)), rng.standard_normal((2, 9024)).astype(np.float32)
    x, xi, y, yi = (backend.xp.asarray(part.copy()) for part in (*wide, *narrow))
    dot, other, *numbers = (backend.xp.asarray([value]) for value in (NAN, NAN, 1.0, 0.0, -0.5, 2.0))
    backend.kernel("complex_dot")(x, xi, -1.0, y, yi, dot, other)
    (u, ui), (v, vi) = wide, narrow.astype(np.float64)
    expected = (u + 1j * ui) @ (v + 1j * vi)
    found = complex(backend.to_host(dot)[0], backend.to_host(other)[0])
    assert abs(found - expected) < 1e-12 * 9024
    backend.kernel("complex_axpby")(1.0, *numbers[:2], y, yi, *numbers[2:], x, xi)
    made = backend.to_host(x) + 1j * backend.to_host(xi)
    np.testing.assert_allclose(made, (v + 1j * vi) + (-0.5 + 2j) * (u + 1j * ui), rtol=1e-13, atol=1e-13)
