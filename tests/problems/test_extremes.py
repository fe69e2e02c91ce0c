"""Sizes beyond all measure, and arguments that are far too long to be repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.problems import diffusion, poisson7, stencil

LONG = "x" * 10**6


@pytest.mark.parametrize("grid", [(2**34,), (10**6, 10**6, 10**6), (10**18, 1, 1)])
def test_what_no_memory_holds_is_refused_at_once(grid: tuple[int, ...]) -> None:
    b = np.broadcast_to(1.0, grid)
    for problem in (diffusion(grid), *([poisson7(grid)] if len(grid) == 3 else [])):
        with pytest.raises(DeviceMemoryError, match=r"but the system needs .* TiB"):
            dsolver.solve(problem, b, device="cpu")
        assert not dsolver.estimate(problem, device="cpu", bandwidth=1e10).fits


@pytest.mark.parametrize("grid", [(10**30,), (2**22, 2**22, 2**22)])
def test_what_64_bits_cannot_count_is_refused(grid: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="has more points than 64 bits can count"):
        diffusion(grid)


@pytest.mark.parametrize("spacing", [1e-200, 1e200, (1.0, 1e-200, 1.0), (1.0, 1.0, np.array([1.0, 1e-51]))])
def test_cells_of_which_float64_holds_no_volume_are_refused(spacing: Any) -> None:
    with pytest.raises(InputError, match=r"spacing along . must be between 1e-50 and 1e\+50"):
        diffusion((3, 3, 2), spacing=spacing)
    assert dsolver.solve(diffusion((3, 3, 2), spacing=1e-50), np.ones((3, 3, 2)), device="cpu").converged


def test_a_number_is_a_line() -> None:
    line = diffusion(1000)
    assert line.shape == stencil(1000, [-1, 2, -1]).shape == (1000,)
    assert np.array_equal(dsolver.solve(line, np.ones(1000)).x, dsolver.solve(diffusion((1000,)), np.ones(1000)).x)


def test_an_array_for_a_grid_is_not_repeated() -> None:
    message = r"not a ndarray of shape \(8, 8, 8\): its shape is the grid, and comes before it"
    with pytest.raises(InputError, match=message) as refused:
        diffusion(np.ones((8, 8, 8)))  # type: ignore[arg-type]
    assert len(str(refused.value)) < 200


def test_what_is_too_long_is_not_repeated() -> None:
    problem, b = poisson7((4, 4, 4)), np.ones((4, 4, 4))
    many: dict[str, Any] = {"checkpoint": "x" * 300, "spans": "x" * 300}
    for name in ("M", "method", "order", "precond_dtype", "engine", "device", "kernels", "x0", "rtol", "callback"):
        many[name] = LONG
    for name, value in many.items():
        arguments: dict[str, Any] = {name: value}
        with pytest.raises(InputError) as refused:
            dsolver.solve(problem, b, **arguments)
        assert len(str(refused.value)) < 500, name
    unknown: dict[str, Any] = {LONG: 1}
    with pytest.raises(TypeError) as unexpected:
        dsolver.solve(problem, b, **unknown)
    assert len(str(unexpected.value)) < 500
    assert len(str(InputError(f"this is about {LONG}: so be it"))) < 2100


def test_a_stencil_that_is_not_symmetric_comes_with_a_way_out() -> None:
    with pytest.raises(InputError, match=r"not symmetric at .*: with symmetric=False .* by GMRES"):
        stencil((4, 4), [[0, -1, 0], [-1, 4, -2], [0, -1, 0]])
