"""A whole solve on a GPU with faces, corners along one axis and rows without zeros, against the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver import kernels
from dsolver.kernels import DENSE_ROWS
from dsolver.kernels.formats.checkered.corners import Corners
from dsolver.kernels.formats.checkered.faces import Faces

GRID = (8, 6, 10)


@pytest.mark.gpu
def test_flat_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DENSE_ROWS, "cuda", 40)  # else so few rows are inverted
    monkeypatch.setitem(DENSE_ROWS, "cpu", 40)
    sell, made = type(kernels.load("cuda").format("sell")), []
    for name in ("matrix", "half_transfer"):
        plain = getattr(sell, name)

        def noted(self: Any, *given: Any, plain: Any = plain, **named: Any) -> Any:
            made.append(plain(self, *given, **named))
            return made[-1]

        monkeypatch.setattr(sell, name, noted)
    rng = np.random.default_rng(0)
    problem = dsolver.problems.diffusion(GRID, np.exp(0.1 * rng.standard_normal(GRID)), spacing=(1.0, 1.0, 0.1))
    b = rng.standard_normal(GRID)
    found, want = (
        dsolver.solve(problem, b, device=device, M="mg", rtol=1e-8, precond_dtype="float64")
        for device in ("cuda", "cpu")
    )
    for kind in (Faces, Corners):
        assert any(isinstance(one, kind) for one in made)
    assert found.iterations == want.iterations
    np.testing.assert_allclose(found.x, want.x, rtol=0.0, atol=1e-12 * abs(want.x).max())
