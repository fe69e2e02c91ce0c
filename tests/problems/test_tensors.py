"""Full tensors κ: rows against those of a diagonal κ, exact solutions, order of the error, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dsolver
from dsolver.errors import InputError
from dsolver.problems import Dirichlet, Neumann, Robin, diffusion
from dsolver.problems.fluxes.rows import flux_rows
from dsolver.problems.fluxes.slabs import slab_of, slabs
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
RANDOM = np.random.default_rng(5)
GRIDS = [(9, 7), (5, 6, 4)]


def random_tensors(shape: tuple[int, ...]) -> F64:
    """Positive definite ones, whose eigenvalues differ by orders of magnitude."""
    d = len(shape)
    turned = np.linalg.qr(RANDOM.standard_normal((*shape, d, d)))[0]
    values = np.exp(2.0 * RANDOM.standard_normal((*shape, d)))
    return np.asarray(np.einsum("...ik,...k,...jk->...ij", turned, values, turned))


def about(grid: tuple[int, ...], *, mask: bool = True) -> dict[str, Any]:
    """All that a problem may have."""
    where, left_out = RANDOM.random(grid) < 0.1, RANDOM.random(grid) < 0.1
    where.flat[0], left_out.flat[0] = True, False
    bc = {"x-": Dirichlet(1.0), "x+": Robin(2.0, 3.0), "y-": Neumann(0.3), "z": "periodic"}
    more: dict[str, Any] = {"mask": left_out & ~where, "fixed": (where, RANDOM.standard_normal(grid))} if mask else {}
    bc = {face: condition for face, condition in bc.items() if face[0] in "xyz"[: len(grid)]}
    return {"bc": bc, "spacing": [RANDOM.uniform(0.5, 1.5, n) for n in grid], **more}


@pytest.mark.parametrize("grid", GRIDS)
def test_of_a_diagonal_tensor_the_rows_are_those_of_a_diagonal_kappa(grid: tuple[int, ...]) -> None:
    d, rest = len(grid), about(grid)
    diagonal = np.exp(RANDOM.standard_normal((*grid, d)))
    f = RANDOM.standard_normal(grid)
    plain = diffusion(grid, [diagonal[..., axis] for axis in range(d)], 0.7, **rest)
    turned = diffusion(grid, diagonal[..., None] * np.eye(d), 0.7, **rest)
    found = [dsolver.solve(problem, f, rtol=1e-13, device="cpu") for problem in (plain, turned)]
    assert all(each.converged for each in found)
    np.testing.assert_allclose(found[1].x, found[0].x, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("grid", GRIDS)
def test_rows_are_symmetric_to_the_bit_and_positive_definite(grid: tuple[int, ...]) -> None:
    rows = flux_rows(diffusion(grid, random_tensors(grid), **about(grid))).matrix
    assert (rows != rows.T).nnz == 0
    assert np.linalg.eigvalsh(rows.toarray()).min() > 0.0
    closed = flux_rows(diffusion(grid, random_tensors(grid), bc="periodic")).matrix.toarray()
    values = np.linalg.eigvalsh(closed)
    assert abs(closed.sum(axis=1)).max() < 1e-12 * values[-1]
    assert values[0] > -1e-12 * values[-1]
    assert values[1] > 1e-6 * values[-1]


@pytest.mark.parametrize("grid", GRIDS)
def test_u_that_is_linear_is_found_exactly(grid: tuple[int, ...]) -> None:
    """For any constant tensor, with its values and its fluxes at the faces."""
    d, kappa = len(grid), random_tensors((1,) * len(grid)).reshape(len(grid), len(grid))
    slope, sizes = RANDOM.standard_normal(d), [RANDOM.uniform(0.5, 1.5, n) for n in grid]
    flux = kappa @ slope

    def u(*x: Any) -> Any:
        return 2.0 + sum(a * along for a, along in zip(slope, x, strict=True))

    bc = {"x-": Dirichlet(u), "x+": Robin(1.5, lambda *x: flux[0] + 1.5 * u(*x)), "y-": Neumann(-flux[1])}
    bc |= {"y+": Dirichlet(u)} | ({"z-": Dirichlet(u), "z+": Neumann(flux[2])} if d == 3 else {})
    solution = dsolver.solve(diffusion(grid, kappa, spacing=sizes, bc=bc), np.zeros(grid), rtol=1e-13, device="cpu")
    centers = np.ix_(*[np.cumsum(size) - 0.5 * size for size in sizes])
    np.testing.assert_allclose(solution.x, u(*centers), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_order_of_the_error(dimensions: int) -> None:
    """u = Π sin(π x) with a tensor that turns from place to place; f by differences of the fluxes."""

    def kappa(*x: Any) -> F64:
        angle = 1.0 + x[0] + 0.5 * x[1]
        c, s, one = np.cos(angle), np.sin(angle), np.ones_like(angle)
        turned = np.zeros((*angle.shape, dimensions, dimensions))
        turned[..., 0, 0], turned[..., 0, 1], turned[..., 1, 0], turned[..., 1, 1] = c, -s, s, c
        values = [10.0 * one, one, one][:dimensions]
        if dimensions == 3:
            turned[..., 2, 2] = 1.0
        return np.asarray(np.einsum("...ik,...k,...jk->...ij", turned, np.stack(values, -1), turned))

    def flux(axis: int, *x: Any) -> Any:
        slopes = []
        for number in range(dimensions):
            parts = [np.cos(np.pi * y) if other == number else np.sin(np.pi * y) for other, y in enumerate(x)]
            slopes.append(np.pi * np.prod(parts, axis=0))
        return -(kappa(*x)[..., axis, :] * np.stack(slopes, -1)).sum(axis=-1)

    errors = []
    for n in (24, 48) if dimensions == 2 else (8, 16):
        x = np.meshgrid(*[(np.arange(n) + 0.5) / n] * dimensions, indexing="ij")
        step, f = 1e-4, np.zeros((n,) * dimensions)
        for axis in range(dimensions):
            ahead, back = ([y + sign * step * (a == axis) for a, y in enumerate(x)] for sign in (1, -1))
            f += (flux(axis, *ahead) - flux(axis, *back)) / (2.0 * step)
        problem = diffusion((n,) * dimensions, kappa(*x), spacing=1.0 / n)
        solution = dsolver.solve(problem, f, rtol=1e-10, M="amg", device="cpu")
        assert solution.converged
        exact = np.prod([np.sin(np.pi * y) for y in x], axis=0)
        errors.append(np.sqrt(np.square(solution.x - exact).mean()))
    assert np.log2(errors[0] / errors[1]) > 1.8


@pytest.mark.parametrize("count", [1, 3])
def test_rows_of_slabs_are_those_of_the_grid(count: int) -> None:
    grid = (8, 5, 4)
    rest = about(grid) | {"bc": {"x": "periodic", "y-": Dirichlet(2.0)}}
    problem = diffusion(grid, random_tensors(grid), 0.3, **rest)
    whole, row = flux_rows(problem), 0
    for slab in slabs(problem, count):
        part = flux_rows(slab_of(problem, slab, slab.arrays(problem))).of_slab(slab)
        rows = whole.matrix[row : row + slab.rows]
        assert (part.matrix != rows).nnz == 0
        assert np.array_equal(part.right, whole.right[row : row + slab.rows])  # type: ignore[index,arg-type]
        row += slab.rows


def test_workers_of_a_cluster_make_the_rows_of_slabs() -> None:
    grid = (24, 10)
    problem = diffusion(grid, random_tensors(grid), 0.3, **about(grid))
    f = RANDOM.standard_normal(grid)
    mask = np.arange(grid[0])[:, None] % 8 + 0 * f == 7  # two regions away from x-
    walled = diffusion(grid, random_tensors(grid), mask=mask, bc={"x-": Dirichlet(1.0)})
    with cluster(2) as client:
        found = dsolver.solve(problem, f, client=client, M="amg", rtol=1e-10)
        pockets = dsolver.solve(walled, np.zeros(grid), client=client)
    assert found.converged
    assert pockets.closed_regions == 2
    np.testing.assert_allclose(pockets.x[:7], 1.0, atol=1e-6)
    assert not pockets.x[8:].any()
    assert found.solved_by.startswith("cg")
    alone = dsolver.solve(problem, f, client=False, device="cpu", M="amg", rtol=1e-10)
    np.testing.assert_allclose(found.x, alone.x, atol=1e-7)


def test_entries_may_be_of_any_kind_and_change() -> None:
    grid, image = (12, 10), RANDOM.random((12, 10))
    f = np.ones(grid)

    def across(x: Any, y: Any) -> Any:
        return 0.1 * x / 12 + 0.0 * y

    x, y = (0.5 + np.arange(12))[:, None], np.zeros((1, 10))
    whole = np.zeros((*grid, 2, 2))
    whole[..., 0, 0], whole[..., 1, 1] = 2.0, 1.0 + image
    whole[..., 0, 1] = whole[..., 1, 0] = across(x, y)
    given = diffusion(grid, [[2.0, across], [across, 1.0 + image]])
    assert (flux_rows(given).matrix != flux_rows(diffusion(grid, whole)).matrix).nnz == 0
    with dsolver.Solver(given, device="cpu") as solver:
        solver.update(kappa=[[2.0, 0.5], [0.5, 1.0]])
        changed = solver.solve(f, rtol=1e-12).x
    constant = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(changed, dsolver.solve(diffusion(grid, constant), f, rtol=1e-12).x, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kappa": [[1.0, 2.0], [0.0, 1.0]]}, r"must be a symmetric tensor: entries \[0, 1\] and \[1, 0\] differ"),
        ({"kappa": [[1.0, 2.0], [2.0, 1.0]]}, "finite and positive definite in each cell"),
        ({"kappa": [[1.0, 0.1], [0.1, 1.0]], "velocity": (1.0, 0.0)}, "goes with no velocity="),
        ({"kappa": [[1.0, 0.1j], [0.1j, 1.0]]}, "must be real"),
        ({"kappa": np.ones((4, 5, 3, 3))}, r"kappa has shape"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dsolver.solve(diffusion((4, 5), **arguments), np.ones((4, 5)), device="cpu")


@pytest.mark.parametrize("grid", GRIDS)
def test_fluxes_balance_in_each_cell(grid: tuple[int, ...]) -> None:
    rest = about(grid)
    where, values = rest["fixed"]
    f = RANDOM.standard_normal(grid)
    solution = dsolver.solve(diffusion(grid, random_tensors(grid), 0.4, **rest), f, rtol=1e-13, device="cpu")
    volumes = np.ones(())
    for size in rest["spacing"]:
        volumes = volumes[..., None] * size
    sources = np.where(where | (rest["mask"] != 0), 0.0, volumes * (f - 0.4 * solution.x))
    divergence = sum(np.diff(flux, axis=axis) for axis, flux in enumerate(solution.face_fluxes()))
    scale = abs(sources).sum()
    assert abs(np.where(where, 0.0, divergence - sources)).max() <= 1e-9 * scale
    faces = [axis + end for axis in "xyz"[: len(grid)] for end in "-+"]
    total = sum(solution.flux(face) for face in faces) + solution.flux(where)
    assert abs(total - sources.sum()) <= 1e-9 * scale
    np.testing.assert_allclose(solution.x[where], values[where], rtol=1e-12)


def test_fluxes_of_a_diagonal_tensor_are_those_of_a_diagonal_kappa() -> None:
    grid = (6, 5)
    rest, diagonal, f = about(grid), np.exp(RANDOM.standard_normal((6, 5, 2))), RANDOM.standard_normal(grid)
    plain = diffusion(grid, [diagonal[..., axis] for axis in range(2)], 0.7, **rest)
    turned = diffusion(grid, diagonal[..., None] * np.eye(2), 0.7, **rest)
    expected, found = (dsolver.solve(each, f, rtol=1e-13, device="cpu").face_fluxes() for each in (plain, turned))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-10)
