"""Coordinates of xarray, and the cells that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, diffusion, poisson5

xr = pytest.importorskip("xarray")

GRID = (8, 6, 5)
X, Y = 2.0 + 0.25 * (np.arange(8) + 0.5), 0.1 * (np.arange(6) + 0.5)
SIZES = 0.01 * 1.3 ** np.arange(5)  # along z
Z = np.cumsum(SIZES) - 0.5 * SIZES
VALUES = np.random.default_rng(0).uniform(0.5, 2.0, GRID)


def labeled(values: Any = VALUES, **more: Any) -> Any:
    return xr.DataArray(values, dims=("x", "y", "z"), coords={"x": X, "y": Y, "z": Z, **more})


def sizes(problem: dsolver.Problem) -> Any:
    rule: Any = problem.rule
    return rule.sizes


def test_cells_have_the_sizes_that_coordinates_tell() -> None:
    for problem in (
        diffusion(GRID, labeled()),
        diffusion(GRID, 1.0, labeled()),
        diffusion(GRID, mask=labeled() > 1.9),
        diffusion(GRID, spacing=labeled()),
        diffusion(GRID, labeled().astype("float32").assign_coords(x=X.astype("float32")), spacing=(0.25, 0.1, SIZES)),
    ):
        x, y, z = sizes(problem)
        assert np.ptp(x) == np.ptp(y) == 0.0  # of equal cells to the last bit
        np.testing.assert_allclose((x[0], y[0]), (0.25, 0.1), rtol=1e-12)
        np.testing.assert_allclose(z, SIZES, rtol=1e-6)
    f = labeled(np.ones(GRID))
    found = dsolver.solve(diffusion(GRID, labeled()), f, rtol=1e-10).x
    expected = dsolver.solve(diffusion(GRID, VALUES, spacing=(0.25, 0.1, SIZES)), np.ones(GRID), rtol=1e-10).x
    np.testing.assert_allclose(found.values, expected, rtol=1e-7)
    assert found.coords.identical(f.coords)


def test_functions_are_called_with_the_coordinates() -> None:
    def of_x(x: Any, y: Any, z: Any) -> Any:
        return x + 0.0 * (y + z)

    bc = {"x-": Dirichlet(of_x), "x+": Dirichlet(of_x)}
    u = dsolver.solve(diffusion(GRID, spacing=labeled(), bc=bc), np.zeros(GRID), rtol=1e-12).x
    np.testing.assert_allclose(u, np.broadcast_to(X[:, None, None], GRID), rtol=1e-9)


def test_a_right_hand_side_of_other_cells_is_refused() -> None:
    b = labeled()
    with pytest.raises(InputError, match=r"b has coordinates along 'x' \(8 from 2.125 to 3.875\) .* with spacing=b"):
        dsolver.solve(diffusion(GRID), b)
    with dsolver.Solver(diffusion(GRID, spacing=b)) as solver:
        assert solver.solve(b).converged
        assert solver.solve(VALUES).converged
        with pytest.raises(InputError, match="b has coordinates along 'x'"):
            solver.solve(labeled(x=X + 1.0))
        with pytest.raises(InputError, match="kappa has coordinates along 'y'"):
            solver.update(kappa=labeled(y=2.0 * Y))
    assert dsolver.solve(diffusion(GRID, spacing=(0.25, 0.1, SIZES)), labeled(x=X + 1.0)).converged  # the same sizes


def test_arrays_of_different_cells_are_refused() -> None:
    with pytest.raises(InputError, match=r"kappa and sigma have different coordinates along 'x'"):
        diffusion(GRID, labeled(), labeled(x=X + 0.1))
    with pytest.raises(InputError, match=r"kappa and b have different coordinates along 'y' .*: they are not of the"):
        dsolver.solve(diffusion(GRID, labeled()), labeled(y=Y + 1.0))
    plane = xr.DataArray(np.ones((4, 4)), dims=("x", "y"), coords={"x": [3, 1, 2, 0], "y": list("abcd")})
    assert dsolver.solve(poisson5((4, 4)), plane).converged  # of a stencil they only have to be equal
    with pytest.raises(InputError, match="b and x0 have different coordinates along 'x'"):
        dsolver.solve(poisson5((4, 4)), plane, x0=plane.sortby("x"))
    with pytest.raises(InputError, match=r"value at face x- has coordinates along 'y' .* array.drop_vars\('y'\)"):
        diffusion(GRID, labeled(), bc={"x-": Dirichlet(labeled(y=Y + 1.0)[0])})


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (labeled(x=np.arange(8) ** 2), "kappa has coordinates along 'x' whose distances are neither equal nor grow"),
        (labeled(y=-Y), "kappa has coordinates along 'y' that do not increase .*: kappa.sortby"),
        (labeled(y=[0.0, 1.0, 2.0, np.nan, 4.0, 5.0]), "do not increase"),
        (labeled().drop_vars("z"), "kappa has no coordinates along its axis 2"),
    ],
)
def test_coordinates_that_tell_no_cells_are_refused(array: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        diffusion(GRID, array)


def test_a_plane_and_one_layer_of_cells() -> None:
    (x, y, z) = sizes(diffusion((8, 6), labeled()[:, :, 0].drop_vars("z")))
    assert (x[0], z[0]) == (0.25, 1.0)
    assert y[0] == pytest.approx(0.1)
    assert sizes(diffusion((8, 6, 1), labeled()[:, :, :1]))[2][0] == 1.0


@pytest.mark.parametrize("sizes_of", [np.array, list])
def test_sizes_of_the_cells_of_a_line_may_stand_alone(sizes_of: Any) -> None:
    for cells in (0.1 * 1.1 ** np.arange(7), np.array([0.5])):
        alone, named = (diffusion(len(cells), spacing=spacing) for spacing in (sizes_of(cells), (cells,)))
        assert all(np.array_equal(one, other) for one, other in zip(sizes(alone), sizes(named), strict=True))
