"""Smoothers against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.engines.base import Field
from dsolver.grid.partition import Triple
from dsolver.multigrid.smoothers import RATIO, chebyshev_steps
from tests.multigrid.test_cycle import levels_of, space


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
