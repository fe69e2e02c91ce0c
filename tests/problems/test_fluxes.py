"""Fluxes of solutions: balance in each cell and as a whole, known ones, every kind of array; what is refused."""

from __future__ import annotations

import copy
from typing import Any

import dask.array as da
import numpy as np
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Neumann, Robin, diffusion
from tests.support.clusters import cluster

RANDOM = np.random.default_rng(3)
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "box": ((9, 7, 8), {"x-": Dirichlet(1.0), "x+": Robin(2.0, 3.0), "y-": Neumann(0.3), "z": "periodic"}),
    "two periodic cells": ((2, 7, 8), {"x": "periodic", "y-": Dirichlet(lambda x, y, z: x + z + 0.0 * y)}),
    "plane": ((7, 6), {"x-": Dirichlet(np.linspace(0.0, 1.0, 6))}),
    "one periodic cell": ((1, 6), {"x": "periodic", "y": Robin(1.0, 0.4)}),
}


def volumes(sizes: Any) -> Any:
    out = np.ones(())
    for along in sizes:
        out = out[..., None] * along
    return out


def solved(case: str, *, by_axis: bool = False) -> Any:
    """A solution with everything that a problem may have, and V (f - σ u) where cells are unknowns, else 0."""
    grid, bc = CASES[case]
    kappa, where = np.exp(RANDOM.standard_normal(grid)), RANDOM.random(grid) < 0.1
    mask, f = (RANDOM.random(grid) < 0.15) & ~where, RANDOM.standard_normal(grid)
    kappa[where], kappa[mask] = np.inf, np.nan
    sizes, values = [RANDOM.uniform(0.5, 1.5, n) for n in grid], RANDOM.standard_normal(grid)
    kappas = [1.5, kappa, 2.0 * kappa][: len(grid)] if by_axis else kappa
    problem = diffusion(grid, kappas, 0.2, bc=bc, fixed=(where, values), mask=mask, spacing=sizes)
    solution = dsolver.solve(problem, f, rtol=1e-12, device="cpu")
    assert solution.converged
    return solution, where, np.where(where | mask, 0.0, volumes(sizes) * (f - 0.2 * solution.x))


def faces_of(solution: Any) -> list[str]:
    return [axis + end for axis in "xyz"[: solution.x.ndim] for end in "-+"]


@pytest.mark.parametrize("by_axis", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_leaves_is_what_sources_give(case: str, by_axis: bool) -> None:
    solution, where, sources = solved(case, by_axis=by_axis)
    total = sum(solution.flux(face) for face in faces_of(solution)) + solution.flux(where)
    size = abs(sources).sum()
    assert abs(total - sources.sum()) <= 1e-9 * size
    along = solution.face_fluxes()
    divergence = sum(np.diff(flux, axis=axis) for axis, flux in enumerate(along))
    assert abs(np.where(where, 0.0, divergence - sources)).max() <= 1e-9 * size
    # To rounding, whatever the solve has left:
    through = [flux.take(end, axis).sum() for axis, flux in enumerate(along) for end in (0, -1)]
    for face, flux in zip(faces_of(solution), through, strict=True):
        assert abs(solution.flux(face) - (flux if face[1] == "+" else -flux)) <= 1e-13 * size
    assert abs(divergence[where].sum() + solution.flux(where)) <= 1e-13 * size
    assert abs(divergence.sum() - sum(solution.flux(face) for face in faces_of(solution))) <= 1e-13 * size
    for axis, flux in enumerate(along):
        if "periodic" in solution.problem.faces[f"{'xyz'[axis]}-"]:
            assert np.array_equal(flux.take(0, axis), flux.take(-1, axis))


def test_a_residual_of_1e_8_balances_to_1e_6() -> None:
    kappa = np.exp(2.0 * RANDOM.standard_normal((32, 32, 32)))
    solution = dsolver.solve(diffusion(kappa.shape, kappa), np.ones(kappa.shape), device="cpu")
    total = sum(solution.flux(face) for face in faces_of(solution))
    assert abs(total / kappa.size - 1.0) < 1e-6


def test_known_fluxes() -> None:
    """Two layers in a row, κ 1 and 3: their resistances add up, from u = 2 to u = 0."""
    kappa = np.ones((10, 4, 5))
    kappa[5:] = 3.0
    ends = {"x-": Dirichlet(2.0), "x+": Dirichlet(0.0)}
    solution = dsolver.solve(diffusion(kappa.shape, kappa, spacing=(0.1, 0.5, 0.2), bc=ends), 0.0 * kappa, rtol=1e-12)
    expected = 2.0 * 2.0 / (0.5 + 0.5 / 3.0)
    assert np.isclose(solution.flux("x+"), expected, rtol=1e-10)
    assert np.isclose(solution.flux("x-"), -expected, rtol=1e-10)
    assert solution.flux("y-") == solution.flux("z+") == 0.0
    half = np.zeros(kappa.shape, dtype=bool)
    half[3:] = True
    assert np.isclose(solution.flux(half), expected, rtol=1e-10)


def test_complex_coefficients() -> None:
    kappa = (1.0 + 0.5j) * np.exp(RANDOM.standard_normal((6, 5, 4)))
    ends = {"x-": Dirichlet(1.0), "x+": Dirichlet(0.0)}
    solution = dsolver.solve(diffusion(kappa.shape, kappa, bc=ends), np.zeros(kappa.shape), rtol=1e-12)
    real = dsolver.solve(diffusion(kappa.shape, kappa.real, bc=ends), np.zeros(kappa.shape), rtol=1e-12)
    assert np.isclose(solution.flux("x+"), (1.0 + 0.5j) * real.flux("x+"), rtol=1e-8)
    assert np.isclose(solution.flux("x+"), -solution.flux("x-"), rtol=1e-8)


def conducted(xp: Any, kappa: Any, where: Any, *, client: Any = None) -> Any:
    value = {"x-": Dirichlet(1.0), "y": "periodic"}
    problem = diffusion(where.shape, kappa, bc=value, fixed=(where, 0.5), chunks=(2, 2, 1))
    return dsolver.solve(problem, xp, rtol=1e-11, **({} if client is None else {"client": client}))


def test_every_kind_of_array_has_the_same_fluxes() -> None:
    xarray = pytest.importorskip("xarray")
    grid = (6, 5, 4)
    kappa, where, f = np.exp(RANDOM.standard_normal(grid)), RANDOM.random(grid) < 0.2, RANDOM.standard_normal(grid)
    expected = conducted(f, kappa, where)

    def check(solution: Any) -> None:
        for face in faces_of(expected):
            assert np.isclose(solution.flux(face), expected.flux(face), rtol=1e-9)
        assert np.isclose(solution.flux(where), expected.flux(where), rtol=1e-9)
        for mine, theirs in zip(solution.face_fluxes(), expected.face_fluxes(), strict=True):
            np.testing.assert_allclose(np.asarray(mine), theirs, rtol=0.0, atol=1e-9)

    lazy = da.from_array(f, chunks=(3, 5, 2))
    check(conducted(lazy, kappa, where))
    check(conducted(xarray.DataArray(f, dims=("x", "y", "z")), kappa, where))
    with cluster(2) as client:
        found = conducted(lazy, da.from_array(kappa, chunks=(2, 5, 4)), where, client=client)
        assert isinstance(found.face_fluxes()[0], da.Array)
        check(found)

    def function(x: Any, y: Any, z: Any) -> Any:
        return 1.0 + x + 0.5 * y + 0.0 * z

    expected = conducted(f, function, where)
    check(conducted(lazy, function, where))


@pytest.mark.gpu
def test_fluxes_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    grid = (6, 5, 4)
    kappa, where, f = np.exp(RANDOM.standard_normal(grid)), RANDOM.random(grid) < 0.2, RANDOM.standard_normal(grid)
    expected = conducted(f, kappa, where)
    for coefficient in (kappa, cupy.asarray(kappa)):
        found = conducted(cupy.asarray(f), coefficient, cupy.asarray(where))
        for face in faces_of(expected):
            assert np.isclose(found.flux(face), expected.flux(face), rtol=1e-9)
        assert np.isclose(found.flux(where), expected.flux(where), rtol=1e-9)
        assert np.allclose(cupy.asnumpy(found.face_fluxes()[1]), expected.face_fluxes()[1], atol=1e-9)


def test_what_has_no_fluxes_is_told() -> None:
    solution = dsolver.solve(diffusion((4, 4)), np.ones((4, 4)))
    for wrong in ("z-", "left", np.ones((4, 5), dtype=bool), np.ones((4, 4)), 3):
        with pytest.raises(InputError, match="flux"):
            solution.flux(wrong)
    stencil = dsolver.solve(dsolver.problems.poisson5((4, 4)), np.ones((4, 4)))
    for other in (stencil, copy.copy(solution)):  # as pickled ones are
        with pytest.raises(InputError, match="have fluxes, before they were pickled"):
            other.flux("x-")
