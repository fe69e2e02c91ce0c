"""Smoothers against dense algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.engines.base import Field
from dsolver.grid.box import Triple
from dsolver.multigrid.smoothers import RATIO, chebyshev_steps
from dsolver.preconditioners import Algebraic
from tests.multigrid.hierarchies import hierarchy
from tests.multigrid.test_cycle import levels_of, space

F64 = npt.NDArray[np.float64]


@pytest.mark.parametrize("sweeps", [1, 2])
@pytest.mark.parametrize("cut", [(1, 1, 1), (2, 1, 2)])
def test_gauss_seidel_after_is_the_transpose_of_before(cut: Triple, sweeps: int) -> None:
    _, levels = levels_of((7, 6, 9), cut, (False, True, False), 7)
    top, smoother = space(levels[0]), levels[0].smoother(sweeps)

    def before(r: Field, x: Field) -> None:
        smoother.before(r, x)

    def left(r: Field, out: Field) -> None:
        top.engine.copy(smoother.before(r, top.engine.field(top.layout)), out)

    s, a = top.matrix(top, before), top.matrix(top, levels[0].matrix.multiply)
    np.testing.assert_allclose(top.matrix(top, smoother.after), s.T, atol=1e-13)
    np.testing.assert_allclose(top.matrix(top, left), np.eye(top.size) - a @ s, atol=1e-13)


def of_a_matrix() -> Any:
    """Rows of sizes over four decades; one has entries in all other chunks, and one has none beside its diagonal."""
    rng = np.random.default_rng(4)
    a = (sp.random_array((300, 300), density=0.004, rng=rng) + sp.diags_array(np.ones(299), offsets=1)).tolil()
    a[150, ::7] = 0.1
    a[200, :] = a[:, 200] = 0.0
    a = sp.csr_array(a + a.T)
    scale = sp.diags_array(10.0 ** rng.uniform(-1.0, 1.0, 300))
    a = scale @ (sp.diags_array(a.sum(axis=1) + 0.1) - a) @ scale
    return dsolver.matrix(a, chunks=3).planned(3)


def of_a_grid() -> Any:
    """Cells whose colors are the other way round in every second chunk, and neighbors across periodic faces."""
    kappa = 10.0 ** np.random.default_rng(5).uniform(-3.0, 3.0, (9, 8, 7))
    return problems.diffusion(kappa.shape, kappa, bc={"x": "periodic", "y": "dirichlet"}, chunks=(1, 2, 3))


@pytest.mark.parametrize("backend", ["numpy", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("make", "dtype"), [(of_a_matrix, "float64"), (of_a_grid, "float32")])
def test_ghosts_take_part_in_sweeps_of_jacobi(make: Callable[[], Any], backend: str, dtype: str) -> None:
    """With S r made before the correction, what is left is r - A S r, and after it y becomes y + S (r - A y)."""
    found = hierarchy(make(), Algebraic(coarse_rows=20, gathered_rows=20, aggressive_levels=0), backend, dtype=dtype)
    levels = [(level, a) for level, a in zip(found.levels, found.matrices, strict=True) if level.engine.coupled]
    assert len(levels) >= 2
    tolerance, random = {"float64": 1e-13, "float32": 1e-5}[dtype], np.random.default_rng(6)
    for level, a, sweeps in [*((level, a, 1) for level, a in levels), (*levels[0], 2)]:
        assert str(level.engine.backend.dtype) == dtype  # type: ignore[attr-defined]
        engine, smoother, at, size = level.engine, level.smoother(sweeps), space(level), a.diagonal() ** 0.5
        right, iterate = size * random.standard_normal(at.size), random.standard_normal(at.size) / size
        r, x, parts, dot = (
            engine.field(level.layout),
            engine.field(level.layout),
            engine.partial_sums(),
            engine.scalar(0),
        )
        at.load(right, r)
        left = at.unload(smoother.before(r, x))
        near(left, right - a @ at.unload(x), 1.0 / size, tolerance)
        at.load(right - a @ iterate, r)
        smoother.before(r, x)
        expected = iterate + at.unload(x)
        at.load(right, r)
        for dotted in (False, True):
            at.load(iterate, smoother.corrected(x))
            if dotted:
                assert smoother.after_dot(r, x, parts)
            else:
                smoother.after(r, x)
            near(at.unload(x), expected, size, tolerance)
        engine.total(parts, dot)
        assert engine.read(dot)[0] == pytest.approx(right @ at.unload(x), rel=10 * tolerance)


def near(found: F64, expected: F64, scale: F64, tolerance: float) -> None:
    """Items that are of about the same size once they are scaled."""
    assert np.abs(scale * (found - expected)).max() <= tolerance * np.abs(scale * expected).max()


def test_the_polynomial_is_chebyshevs() -> None:
    (none, first), (keep, gain) = chebyshev_steps(1.0, RATIO, 2)
    assert (none, RATIO) == (0.0, 4.0)
    x = np.linspace(0.25, 1.0, 1001)
    left = 1.0 - first * x
    step = keep * first + gain * left
    left = left - step * x
    worst = 1.0 / np.cosh(2.0 * np.arccosh(1.25 / 0.75))
    assert np.abs(left).max() == pytest.approx(worst)
    assert left[0] == pytest.approx(worst)
    assert left[-1] == pytest.approx(worst)
