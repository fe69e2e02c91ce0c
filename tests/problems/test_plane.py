"""Problems in a plane and on a line: the bits of the same problem on a grid with one point along the other axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Neumann, Problem, Robin, diffusion, poisson5, poisson7, stencil
from tests.support.clusters import cluster

SHAPE = (9, 12)
BOX = (9, 12, 1)
RNG = np.random.default_rng(0)
KAPPA, B = RNG.lognormal(size=SHAPE), RNG.standard_normal(SHAPE)
WARM = np.linspace(0.0, 1.0, 12)
HOLE = np.zeros(SHAPE, bool)
HOLE[3:5, 4:8] = True
CUBE: Any = (4, 4, 4)
SQUARE: Any = (4, 4)
NONE: Any = ()
LINE = {"y": "neumann", "z": "neumann"}


def layered(x: Any, y: Any) -> Any:
    assert x.shape[1] == y.shape[0] == 1
    return 1.0 + x + 2.0 * y


def lacking(x: Any, y: Any) -> Any:
    return x.missing + y


def in_space(x: Any, y: Any, z: Any) -> Any:
    return 1.0 + x + 2.0 * y + 0.0 * z


def along(x: Any) -> Any:
    return 1.0 + x * x


def neighbors(center: float, corner: float) -> Any:
    weights = np.array([[corner, -1.0, corner], [-1.0, center, -1.0], [corner, -1.0, corner]])
    cube = np.zeros((3, 3, 3))
    cube[:, :, 1] = weights
    return weights, cube


NINE, NINE_IN_BOX = neighbors(8.0, -0.5)
ROWS = {(0, 0): 4.0 + KAPPA, (1, 0): -np.ones(SHAPE), (-1, 0): -np.ones(SHAPE)}
PAIRS: dict[str, tuple[Problem, Problem]] = {
    "poisson5": (
        poisson5(SHAPE),
        stencil(BOX, {(0, 0, 0): 4.0} | dict.fromkeys([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)], -1.0)),
    ),
    "nine points": (stencil(SHAPE, NINE), stencil(BOX, NINE_IN_BOX)),
    "periodic": (
        stencil(SHAPE, NINE, periodic=(True, False)),
        stencil(BOX, NINE_IN_BOX, periodic=(True, False, False)),
    ),
    "rows": (stencil(SHAPE, ROWS), stencil(BOX, {(*o, 0): w[:, :, None] for o, w in ROWS.items()})),
    "all offsets": (
        stencil(SHAPE, np.stack([np.full(SHAPE, w) for w in NINE.ravel()])),
        stencil(BOX, np.broadcast_to(NINE_IN_BOX[..., None, None, None], (3, 3, 3, *BOX))),
    ),
    "coefficients": (
        diffusion(SHAPE, KAPPA, sigma=0.1 * KAPPA, spacing=0.5, mask=HOLE),
        diffusion(
            BOX,
            KAPPA[..., None],
            sigma=0.1 * KAPPA[..., None],
            spacing=(0.5, 0.5, 1.0),
            mask=HOLE[..., None],
            bc={"x": "dirichlet", "y": "dirichlet"},
        ),
    ),
    "functions": (
        diffusion(
            SHAPE, layered, spacing=(0.1, np.linspace(0.1, 0.2, 12)), bc={"x": "dirichlet", "y+": Robin(2.0, layered)}
        ),
        diffusion(
            BOX,
            in_space,
            spacing=(0.1, np.linspace(0.1, 0.2, 12), 1.0),
            bc={"x": "dirichlet", "y+": Robin(2.0, in_space)},
        ),
    ),
    "axes": (
        diffusion(SHAPE, (KAPPA, 0.01), bc={"x-": Dirichlet(WARM), "x+": Neumann(0.3), "y": "periodic"}),
        diffusion(
            BOX,
            (KAPPA[..., None], 0.01, 1.0),
            bc={"x-": Dirichlet(WARM[:, None]), "x+": Neumann(0.3), "y": "periodic", "z": "neumann"},
        ),
    ),
    "line": (
        diffusion((108,), along, bc={"x-": Dirichlet(1.0)}),
        diffusion((108, 1, 1), lambda x, y, z: 1.0 + x * x + 0.0 * y * z, bc={"x-": Dirichlet(1.0), **LINE}),
    ),
    "weights on a line": (
        stencil((108,), [-1.0, 2.5, -1.0]),
        stencil((108, 1, 1), {(0, 0, 0): 2.5, (1, 0, 0): -1.0, (-1, 0, 0): -1.0}),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_bits_are_those_of_a_grid_with_one_point_along_the_other_axes(name: str) -> None:
    plane, box = PAIRS[name]
    b = np.where(HOLE, 0.0, B).reshape(plane.shape)
    ours, theirs = dsolver.solve(plane, b), dsolver.solve(box, b.reshape(box.grid))
    assert ours.converged
    assert ours.x.shape == plane.shape
    assert ours.residuals == theirs.residuals
    assert np.array_equal(ours.x, theirs.x.reshape(plane.shape))


def test_the_answer_is_that_of_the_differential_equation() -> None:
    n = 64
    x = (np.arange(n) + 0.5) / n
    exact = np.sin(np.pi * x)[:, None] * np.sin(2 * np.pi * x)
    solution = dsolver.solve(diffusion((n, n), spacing=1 / n), 5 * np.pi**2 * exact)
    assert np.abs(solution.x - exact).max() < 2e-3
    assert "64x64" in repr(solution)


def test_noise_in_a_plane_is_coarsened_by_couplings() -> None:
    """On the lattice 96² take 13 iterations, 1024² 50."""
    kappa = np.random.default_rng(0).lognormal(sigma=2.0, size=(96, 96))
    b = np.random.default_rng(1).standard_normal(kappa.shape)
    assert dsolver.solve(diffusion(kappa.shape, kappa), b, M="mg").iterations <= 10


def test_containers(tmp_path: Path) -> None:
    xr, zarr = pytest.importorskip("xarray"), pytest.importorskip("zarr")
    problem = diffusion(SHAPE, KAPPA)
    expected = dsolver.solve(problem, B).x
    lazy = dsolver.solve(diffusion(SHAPE, da.from_array(KAPPA, chunks=5)), da.from_array(B, chunks=(4, 12))).x
    assert isinstance(lazy, da.Array)
    assert lazy.shape == SHAPE
    assert np.array_equal(lazy.compute(), expected)
    labels = {"y": np.arange(12.0)}
    labeled = xr.DataArray(B, dims=("x", "y"), coords=labels)
    found = dsolver.solve(diffusion(SHAPE, xr.DataArray(KAPPA, dims=("x", "y"))), labeled).x
    assert found.dims == ("x", "y")
    assert found.coords["y"].equals(labeled.coords["y"])
    assert np.array_equal(found.data, expected)
    profile = xr.DataArray(KAPPA[0], dims=("z",))
    on_line = dsolver.solve(diffusion((12,), profile), xr.DataArray(B[0], dims=("z",))).x
    assert on_line.dims == ("z",)
    assert np.array_equal(on_line.data, dsolver.solve(diffusion((12,), KAPPA[0]), B[0]).x)
    upright = dsolver.solve(diffusion(SHAPE, xr.DataArray(KAPPA, dims=("x", "z"))), xr.DataArray(B, dims=("x", "z"))).x
    assert np.array_equal(upright.data, expected)
    stored = zarr.create_array(str(tmp_path / "b.zarr"), shape=SHAPE, chunks=(5, 5), dtype="float64")
    stored[...] = B
    assert np.array_equal(dsolver.solve(problem, stored).x, expected)
    flat, info = dsolver.cg(problem, B.ravel(), M="mg", rtol=1e-8)
    assert info == 0
    assert np.array_equal(flat.reshape(SHAPE), expected)


def test_a_solver_of_a_plane() -> None:
    with dsolver.Solver(diffusion(SHAPE, KAPPA, chunks=(2, 2))) as solver:
        assert "9x12" in repr(solver)
        both: Any = solver.solve(np.stack([B, 2.0 * B], axis=-1))
        assert both.x.shape == (*SHAPE, 2)
        solver.update(kappa=2.0 * KAPPA)
        assert np.allclose(solver.solve(B, x0=both[0].x).x, 0.5 * both[0].x, rtol=1e-6)
        assert solver.aspreconditioner().matvec(B.ravel()).shape == (108,)
        with pytest.raises(InputError, match=r"shape \(9, 12, 1\), but the one that is set up has \(9, 12\)"):
            solver.update(PAIRS["coefficients"][1])


def test_a_function_as_preconditioner_gets_arrays_of_the_plane() -> None:
    shapes = []

    def halved(r: Any) -> Any:
        shapes.append(r.shape)
        return 0.25 * r

    assert dsolver.solve(poisson5(SHAPE), B, M=halved).converged
    assert set(shapes) == {SHAPE}


def test_a_cluster_and_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    problem = diffusion(SHAPE, layered, bc={"x-": Dirichlet(layered)})
    store = dsolver.Checkpoint(tmp_path / "saves", every=0)
    with cluster(2) as client:
        b = da.from_array(B, chunks=(9, 6))
        there = dsolver.solve(problem, b, client=client, checkpoint=store, maxiter=3)
        assert there.x.chunks == ((4, 5), (12,)) or there.x.chunks == ((9,), (6, 6))
    resumed = dsolver.solve(problem, B, resume=store)
    assert resumed.converged
    assert resumed.residuals[0] < 1.001 * there.true_residual


def test_a_sparse_matrix_on_a_plane() -> None:
    sp = pytest.importorskip("scipy.sparse")
    line = sp.diags_array([-np.ones(15), 2.0 * np.ones(16), -np.ones(15)], offsets=[-1, 0, 1])
    square = sp.kron(line, sp.eye_array(16)) + sp.kron(sp.eye_array(16), line)
    b = np.random.default_rng(1).standard_normal(256)
    flat = dsolver.solve(dsolver.matrix(square, grid=(16, 16), chunks=(2, 1)), b, M="mg")
    plane = dsolver.solve(poisson5((16, 16), chunks=(2, 1)), b.reshape(16, 16))
    assert np.array_equal(flat.x, plane.x.ravel())


def test_an_estimate_of_a_plane() -> None:
    plan = dsolver.estimate(poisson5((4096, 4096)), workers=2, device="cpu")
    box = dsolver.estimate(PAIRS["poisson5"][1], workers=2, device="cpu")
    assert len(plan.workers) == 2
    assert plan.bytes > 8 * 4096**2 / 2 > box.bytes


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: poisson5(CUBE), r"poisson5: grid must be two integers, not \(4, 4, 4\); poisson7 serves a box"),
        (lambda: poisson7(SQUARE), r"poisson7: grid must be three integers, not \(4, 4\); poisson5 serves a plane"),
        (lambda: diffusion((*CUBE, 4)), "grid must be one to three integers"),
        (lambda: diffusion(NONE), "grid must be one to three integers"),
        (lambda: diffusion((4, 5), bc={"z": "neumann"}), "'z': the faces are x-, x., y-, y., or x, y for both ends"),
        (lambda: diffusion((4, 5), bc={"x-": Dirichlet(np.ones((5, 1)))}), r"shape \(5, 1\), but the face has \(5,\)"),
        (lambda: diffusion((4, 5), np.ones((4, 5, 1))), r"kappa has shape \(4, 5, 1\), but the grid is \(4, 5\)"),
        (lambda: diffusion((4, 5), (1.0, 1.0, 1.0)), "kappa has 3 entries: give one for all axes, or two"),
        (lambda: diffusion((4, 5), spacing=(1.0, 1.0, 1.0)), "spacing must be a number or one entry for each axis"),
        (lambda: diffusion((4, 5), chunks=(2, 2, 1)), r"chunks needs one entry for each axis of the grid \(4, 5\)"),
        (lambda: stencil((4, 5), np.ones((3, 3, 3))), r"must have shape \(3, 3\), not \(3, 3, 3\)"),
        (lambda: stencil((4, 5), {(0, 0, 0): 1.0}), "offset must be two integers, along x and y"),
        (lambda: stencil((4, 5), {(0, 2): 1.0, (0, 0): 1.0}), "offsets must be in -1 .. 1"),
        (
            lambda: stencil((4, 5), {(0, 0): np.ones((4, 5)), (1, 0): np.ones((4, 5))}),
            r"lacks the opposite of offset \(1, 0\)",
        ),
        (lambda: stencil((4, 5), NINE, periodic=(True, False, False)), "or one for each axis"),
        (lambda: dsolver.solve(poisson5((4, 5)), np.ones((5, 4))), r"b has shape \(5, 4\), but the grid is \(4, 5\)"),
        (lambda: dsolver.solve(poisson5((4, 5)), np.ones((2, 4, 5))), "is the last; pass numpy.moveaxis"),
        (lambda: dsolver.solve(diffusion((4, 5), in_space), np.ones((4, 5))), "function for kappa raised.*'z'\"\\)$"),
        (
            lambda: dsolver.solve(diffusion((4, 5), lacking), np.ones((4, 5))),
            "raised AttributeError.*test_plane.py, line",
        ),
    ],
)
def test_what_does_not_fit_a_plane_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make()


def test_dimensions_of_a_plane_stand_in_order() -> None:
    xr = pytest.importorskip("xarray")
    with pytest.raises(InputError, match=r"the order of a grid's is x, y: pass b.transpose\('x', 'y'\)"):
        dsolver.solve(poisson5(SHAPE), xr.DataArray(B.T, dims=("y", "x")))


def test_dimensions_of_a_coefficient_stand_in_order_too() -> None:
    """Else faces that bc names would be those of other axes."""
    xr = pytest.importorskip("xarray")
    square = xr.DataArray(np.ones((4, 4)), dims=("y", "x"))
    with pytest.raises(
        InputError, match=r"kappa has the dimensions \('y', 'x'\), .*: pass kappa.transpose\('x', 'y'\)"
    ):
        diffusion((4, 4), square)
    with pytest.raises(InputError, match="active has the dimensions"):
        diffusion((4, 4), active=square > 0.0)
    named = square.rename(y="lat", x="lon")
    with pytest.raises(InputError, match=r"kappa has the dimensions \('lat', 'lon'\), but b has \('lon', 'lat'\)"):
        dsolver.solve(diffusion((4, 4), named), named.T)
