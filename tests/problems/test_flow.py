"""Convection: rows and fluxes against a text of their own, exact solutions, order of the error, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import dsolver
from dsolver.cluster.rows import grid_rows
from dsolver.errors import InputError
from dsolver.krylov.bicgstab import BiConjugateGradientStabilized
from dsolver.matrices.checked import RowsOnGpu, look_at
from dsolver.matrices.problem import MatrixProblem
from dsolver.preconditioners import Algebraic
from dsolver.problems import Dirichlet, Neumann, Robin, diffusion
from dsolver.problems.fluxes import rows as fluxes
from dsolver.problems.fluxes.rows import flux_rows
from dsolver.problems.fluxes.slabs import slab_of, slabs
from tests.support.clusters import cluster

F64 = npt.NDArray[np.float64]
RANDOM = np.random.default_rng(3)
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "box": ((9, 7, 8), {"x-": Dirichlet(1.0), "x+": Robin(2.0, 3.0), "y-": Neumann(0.3), "z": "periodic"}),
    "plane": ((7, 6), {"x-": Dirichlet(1.0)}),
    "two periodic cells": ((2, 6), {"x": "periodic", "y": Robin(1.0, 0.4)}),
}


def rotating(dimensions: int) -> Any:
    """A flow around the middle of a box of size 1, whose speed at the middle of the faces is 1; no divergence."""

    def along_x(x: Any, y: Any, z: Any = 0.0) -> Any:
        return 1.0 - 2.0 * y + 0.0 * (x + z)

    def along_y(x: Any, y: Any, z: Any = 0.0) -> Any:
        return 2.0 * x - 1.0 + 0.0 * (y + z)

    return [along_x, along_y, 0.0][:dimensions]


@pytest.mark.parametrize("number", [1.0, 1.0 + 0.3j], ids=["real", "complex"])
@pytest.mark.parametrize("scheme", ["upwind", "central"])
@pytest.mark.parametrize("case", CASES)
def test_fluxes_balance_in_each_cell(case: str, scheme: str, number: complex) -> None:
    """With all that a problem may have. Fluxes are not made of the matrix, so they tell whether that is right."""
    grid, bc = CASES[case]
    shapes = [tuple(n + (other == axis) for other, n in enumerate(grid)) for axis in range(len(grid))]
    velocity: list[Any] = [RANDOM.standard_normal(shape) for shape in shapes]
    velocity[0] = lambda x, y, z=0.0: y + 0.3 * x + 0.0 * z
    velocity[1] = RANDOM.standard_normal(grid)
    where = RANDOM.random(grid) < 0.1
    mask, sizes = (RANDOM.random(grid) < 0.15) & ~where, [RANDOM.uniform(0.5, 1.5, n) for n in grid]
    where.flat[0], mask.flat[0] = True, False
    values = RANDOM.standard_normal(grid)
    f = np.where(where | mask, np.nan, RANDOM.standard_normal(grid))
    about: dict[str, Any] = {"bc": bc, "fixed": (where, values), "mask": mask, "spacing": sizes, "scheme": scheme}
    kappa = number * np.exp(RANDOM.standard_normal(grid))
    for chunks in (None, (2,) * len(grid)):
        problem = diffusion(grid, kappa, 2.0, velocity=velocity, chunks=chunks, **about)
        solution = dsolver.solve(problem, f, rtol=1e-12, device="cpu")
        assert solution.converged
        volumes = np.ones(())
        for along in sizes:
            volumes = volumes[..., None] * along
        sources = np.where(where | mask, 0.0, volumes * (np.nan_to_num(f) - 2.0 * solution.x))
        size = abs(sources).sum()
        divergence = sum(np.diff(flux, axis=axis) for axis, flux in enumerate(solution.face_fluxes()))
        assert abs(np.where(where, 0.0, divergence - sources)).max() <= 1e-10 * size
        faces = [axis + end for axis in "xyz"[: len(grid)] for end in "-+"]
        total = sum(solution.flux(face) for face in faces) + solution.flux(where)
        assert abs(total - sources.sum()) <= 1e-10 * size
        assert np.allclose(solution.x[where], values[where], rtol=1e-14)
        assert not solution.x[mask].any()


@pytest.mark.parametrize("scheme", ["upwind", "central"])
def test_rows_in_one_dimension(scheme: str) -> None:
    """κ = 2, v = 3, cells of size 1/2: T = 4, and 8 at faces; from u = 5 at the left to u = 7 at the right."""
    line = diffusion(
        4, 2.0, velocity=[3.0], spacing=0.5, bc={"x-": Dirichlet(5.0), "x+": Dirichlet(7.0)}, scheme=scheme
    )
    upwind = scheme == "upwind"
    lower, upper = (4.0 + 3.0, 4.0) if upwind else (4.0 + 1.5, 4.0 - 1.5)
    rows = np.diag(np.full(4, lower + upper)) - np.diag(np.full(3, lower), -1) - np.diag(np.full(3, upper), 1)
    rows[0, 0], rows[3, 3] = lower + 8.0, upper + 8.0 + (3.0 if upwind else 0.0)
    right = np.array([(8.0 + 3.0) * 5.0, 0.0, 0.0, (8.0 - (0.0 if upwind else 3.0)) * 7.0])
    x = dsolver.solve(line, np.zeros(4), rtol=1e-13).x
    np.testing.assert_allclose(x, np.linalg.solve(rows, right), rtol=1e-11)


@pytest.mark.parametrize(("scheme", "order"), [("upwind", 1.0), ("central", 2.0)])
def test_the_order_of_the_error(scheme: str, order: float) -> None:
    """Errors of u = (exp(v x / κ) - 1) / (exp(v / κ) - 1), from 0 to 1 along a line."""
    errors = []
    for n in (32, 64):
        ends = {"x-": Dirichlet(0.0), "x+": Dirichlet(1.0)}
        line = diffusion(n, 0.5, velocity=[2.0], spacing=1.0 / n, bc=ends, scheme=scheme)
        x = (np.arange(n) + 0.5) / n
        errors.append(abs(dsolver.solve(line, np.zeros(n), rtol=1e-12).x - np.expm1(4.0 * x) / np.expm1(4.0)).max())
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.2


def test_what_comes_in_is_carried_out() -> None:
    """Hardly any κ: u at the inlet is u everywhere, and the flux is v u."""
    tube = diffusion((8, 4, 4), 1e-9, velocity=(2.0, 0.0, 0.0), bc={"x-": Dirichlet(3.0)})
    solution = dsolver.solve(tube, np.zeros((8, 4, 4)))
    assert np.allclose(solution.x, 3.0)
    assert np.isclose(solution.flux("x+"), 2.0 * 3.0 * 16)
    assert np.isclose(solution.flux("x-"), -2.0 * 3.0 * 16)


@pytest.mark.parametrize("scheme", ["upwind", "central"])
def test_a_velocity_in_any_form_is_the_same_flow(scheme: str) -> None:
    """As numbers, functions, or arrays at faces or centers, between cells of any size: volumes, and so the same u."""
    grid, v = (5, 4, 3), (2.0, -1.0, 0.5)
    sizes = [RANDOM.uniform(0.2, 0.6, n) for n in grid]
    at_faces = [np.full([n + (other == axis) for other, n in enumerate(grid)], v[axis]) for axis in range(3)]
    forms: dict[str, list[Any]] = {
        "numbers": list(v),
        "functions": [lambda x, y, z, number=number: number + 0.0 * (x + y + z) for number in v],
        "faces": at_faces,
        "centers": [np.full(grid, number) for number in v],
    }
    made = {
        name: flux_rows(diffusion(grid, 0.3, velocity=form, spacing=sizes, bc={"x-": Dirichlet(1.0)}, scheme=scheme))
        for name, form in forms.items()
    }
    for name, rows in made.items():
        expected = made["numbers"].matrix.toarray()
        np.testing.assert_allclose(rows.matrix.toarray(), expected, rtol=0.0, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("peclet", [0.1, 10.0, 1e4])
def test_a_rotating_flow_takes_few_iterations(peclet: float, dimensions: int) -> None:
    n = {2: 64, 3: 24}[dimensions]
    flow = diffusion((n,) * dimensions, 1.0 / (n * peclet), velocity=rotating(dimensions), spacing=1.0 / n)
    b = np.ones(flow.shape)
    solution = dsolver.solve(flow, b, M="amg", device="cpu")
    assert solution.converged
    assert solution.solved_by.startswith("bicgstab")
    assert solution.iterations <= 40
    assert solution.x.min() > 0.0, "rows are those of an M-matrix"


@pytest.mark.parametrize(
    ("kappa", "more"),
    [
        (1.0, {"velocity": (1.0, 0.5)}),
        (np.array([[2.0, 0.7], [0.7, 3.0]]), {}),
        (np.full((8, 8), 1.0 + 1.0j), {}),
        (1.0, {"velocity": (1.0, 0.5), "fixed": (np.arange(64).reshape(8, 8) == 7, 1.0)}),
    ],
)
def test_a_cell_without_a_neighbor_is_zero(kappa: Any, more: dict[str, Any]) -> None:
    """A row with a diagonal of zero, or of rounding; infinite sources in cells that are left out led to a warning."""
    mask = np.zeros((8, 8), dtype=np.bool_)
    mask[2:5, 2:5] = True
    mask[3, 3] = False
    f = np.where(mask, np.inf, 1.0)
    found = dsolver.solve(diffusion((8, 8), kappa, mask=mask, **more), f, device="cpu")
    filled = mask.copy()
    filled[3, 3] = True
    without = dsolver.solve(diffusion((8, 8), kappa, mask=filled, **more), np.ones((8, 8)), device="cpu")
    assert found.converged
    assert found.x[3, 3] == 0.0
    np.testing.assert_allclose(found.x, without.x, rtol=1e-7)
    assert found.notes[-1].startswith("nothing fixes u in 1 cell without a neighbor")


@pytest.mark.parametrize("M", ["auto", "jacobi", "amg", None])
@pytest.mark.parametrize(
    ("kappa", "more"), [(0.3, {"velocity": (1.0, 0.5)}), (np.array([[2.0, 0.7], [0.7, 3.0]]), {"sigma": 0.1})]
)
def test_cells_that_are_held_or_left_out_have_their_values_to_the_bit(kappa: Any, more: dict[str, Any], M: Any) -> None:
    rng = np.random.default_rng(0)
    mask, held, values = rng.random((12, 12)) < 0.1, rng.random((12, 12)) < 0.1, rng.standard_normal((12, 12))
    problem = diffusion((12, 12), kappa, mask=mask, fixed=(held, values), **more)
    for chunks in (1, 2):
        cut = replace(problem, chunks=(chunks, 1, 1))
        found = dsolver.solve(cut, rng.standard_normal((12, 12)), M=M, rtol=1e-4, device="cpu")
        assert found.converged
        np.testing.assert_array_equal(found.x[held & ~mask], values[held & ~mask])
        assert not found.x[mask].any()


def test_a_closed_flow_that_nothing_fixes_has_mean_zero() -> None:
    flow = diffusion((16, 16), 0.1, velocity=_closed(16), spacing=1.0 / 16, bc="neumann")
    f = RANDOM.standard_normal(flow.shape)
    solution = dsolver.solve(flow, f - f.mean(), rtol=1e-10)
    assert solution.converged
    assert abs(solution.x.mean()) < 1e-9


def _closed(n: int) -> list[F64]:
    """Velocities at faces of a rotating flow through no face of the box, without divergence: of a stream function."""
    at = np.arange(n + 1) / n
    stream = np.sin(np.pi * at)[:, None] * np.sin(np.pi * at)
    return [n * np.diff(stream, axis=1), -n * np.diff(stream, axis=0)]


def test_a_cluster_and_this_process_choose_alike_and_get_the_same_bits() -> None:
    """Workers make the rows of slabs: levels of "amg" were others there, and a step in time did not take Jacobi."""
    grid, f = (33, 24, 16), RANDOM.standard_normal((33, 24, 16))
    slow = diffusion(grid, velocity=(1.0, 0.5, 0.0), chunks=(3, 1, 1))
    step = diffusion(grid, 1.0, 20.0, velocity=RANDOM.standard_normal((3, *grid)), chunks=(2, 1, 1))
    with cluster(2) as client:
        for problem, m, solved_by in ((slow, "amg", "bicgstab with Algebraic"), (step, "auto", "gmres with Jacobi")):
            there, here = (dsolver.solve(problem, f, M=m, client=each) for each in (client, False))
            assert there.solved_by == here.solved_by
            assert here.solved_by.startswith(solved_by)
            assert there.residuals == here.residuals
            assert np.array_equal(there.x, here.x)


def test_engines_chunks_and_kinds_of_arrays_have_the_same_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = (8, 6, 5)
    kappa, velocity = np.exp(RANDOM.standard_normal(grid)), RANDOM.standard_normal((3, *grid))
    f = RANDOM.standard_normal(grid)
    expected = dsolver.solve(diffusion(grid, kappa, 1.0, velocity=velocity), f, rtol=1e-11, M="amg").x
    lazy = diffusion(grid, da.from_array(kappa), 1.0, velocity=da.from_array(velocity), chunks=(2, 2, 1))
    with cluster(2) as client:
        found = dsolver.solve(lazy, da.from_array(f), rtol=1e-11, M="amg", client=client)
        np.testing.assert_allclose(np.asarray(found.x), expected, rtol=0.0, atol=1e-8)
        assert found.x.shape == grid
        tasks = dsolver.solve(lazy, da.from_array(f), M="amg", client=client, engine="graph", maxiter=2)
        assert tasks.residuals == found.residuals[:3]
        with dsolver.Solver(lazy, M="amg", client=client) as solver:
            solver.update(velocity=da.from_array(2.0 * velocity), kappa=2.0 * kappa, sigma=2.0)
            np.testing.assert_allclose(solver.solve(2.0 * f, rtol=1e-11).x, expected, rtol=0.0, atol=1e-8)
        with monkeypatch.context() as patch:
            patch.delattr("dsolver.cluster.rows.grid_rows.as_matrix")  # which makes the rows in this process
            x, info = dsolver.bicgstab(lazy, f, rtol=1e-11, M="amg", client=client)
        assert info == 0
        np.testing.assert_allclose(np.asarray(x), expected, rtol=0.0, atol=1e-8)
        closed = diffusion((16, 16), 0.1, velocity=_closed(16), spacing=1.0 / 16, bc="neumann")
        noise = RANDOM.standard_normal(closed.shape)
        balanced = dsolver.solve(closed, noise - noise.mean(), rtol=1e-10, client=client)
        assert balanced.converged
        assert abs(balanced.x.mean()) < 1e-9
    plane = diffusion(grid[:2], kappa[:, :, 0], velocity=(1.0, velocity[1, :, :, 0]))
    both = RANDOM.standard_normal((*grid[:2], 2))
    with dsolver.Solver(plane, M="amg") as solver:
        several = solver.solve(both, rtol=1e-11)
        assert several.x.shape == both.shape
        solver.update(velocity=(-1.0, 2.0), sigma=0.5)
        changed = solver.solve(both[..., 0], rtol=1e-11).x
    again = diffusion(grid[:2], kappa[:, :, 0], 0.5, velocity=(-1.0, 2.0))
    np.testing.assert_allclose(changed, dsolver.solve(again, both[..., 0], rtol=1e-11).x, atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("case", [*CASES, "periodic"])
def test_slabs_make_the_rows_of_the_whole_grid(case: str, count: int) -> None:
    grid, bc = CASES.get(case) or ((6, 5, 4), {"x": "periodic", "y-": Dirichlet(np.ones((6, 4)))})
    velocity: list[Any] = [RANDOM.standard_normal(grid), *([0.5] * (len(grid) - 1))]
    velocity[1] = RANDOM.standard_normal(tuple(n + (axis == 1) for axis, n in enumerate(grid)))
    where, values = RANDOM.random(grid) < 0.1, RANDOM.standard_normal(grid)
    mask, kappa = (RANDOM.random(grid) < 0.15) & ~where, np.exp(RANDOM.standard_normal(grid))
    sizes = [RANDOM.uniform(0.5, 1.5, n) for n in grid]
    about: dict[str, Any] = {"bc": bc, "fixed": (where, values), "mask": mask, "spacing": sizes, "velocity": velocity}
    problem = diffusion(grid, kappa, lambda x, y, z=0.0: x + 0.0 * (y + z), **about)
    whole = flux_rows(problem)
    made = [(flux_rows(slab_of(problem, slab, slab.arrays(problem))), slab) for slab in slabs(problem, count)]
    parts, look = [rows.of_slab(slab) for rows, slab in made], look_at(whole.matrix)
    assert abs(whole.matrix - scipy.sparse.vstack([part.matrix for part in parts])).max() <= 1e-13
    looks = [grid_rows._look(rows.matrix, slab.own) for rows, slab in made]
    assert sum(each.opened for each in looks) == look.opened
    if grid[0] > 2 or count == 1:  # two layers that are neighbors twice have couplings that slabs look at apart
        assert max(each.skewness for each in looks) == pytest.approx(look.skewness, rel=1e-12)
        for name in ("positive", "dominance"):
            total = sum(getattr(each, name) for each in looks)
            assert total == pytest.approx(getattr(look, name), rel=1e-12, abs=1e-12)
    assert whole.right is not None
    for name in ("volumes", "right", "loose"):
        np.testing.assert_allclose(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


@pytest.mark.parametrize("grid", [(5, 4, 3), (1, 4, 5), (6, 3), (7,)])
def test_rows_of_one_pattern_need_no_sorting(grid: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    velocity = RANDOM.standard_normal((len(grid), *grid))
    kappa, mask = np.exp(RANDOM.standard_normal(grid)), RANDOM.random(grid) < 0.2
    problem = diffusion(grid, kappa, 0.5, velocity=velocity, mask=mask, bc={"x-": Dirichlet(1.0), "x+": Neumann(0.2)})
    found = flux_rows(problem)
    monkeypatch.setattr(fluxes, "_is_star", lambda _: False)
    expected = flux_rows(problem)
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found.matrix, name), getattr(expected.matrix, name))
    assert np.array_equal(found.loose, expected.loose)


@pytest.mark.gpu
def test_a_flow_on_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    grid = (8, 6, 5)
    kappa, velocity = np.exp(RANDOM.standard_normal(grid)), RANDOM.standard_normal((3, *grid))
    f = RANDOM.standard_normal(grid)
    expected = dsolver.solve(diffusion(grid, kappa, 1.0, velocity=velocity), f, rtol=1e-11, device="cpu")
    there = diffusion(grid, cupy.asarray(kappa), 1.0, velocity=cupy.asarray(velocity))
    m = Algebraic(coarse_rows=20)
    found = dsolver.solve(there, cupy.asarray(f), rtol=1e-11, M=m, device="cuda")
    assert found.iterations <= 20
    np.testing.assert_allclose(cupy.asnumpy(found.x), expected.x, rtol=0.0, atol=1e-8)
    assert np.isclose(found.flux("y+"), expected.flux("y+"), rtol=1e-7)


@pytest.mark.gpu
def test_rows_of_a_step_of_a_flow_are_looked_at_on_the_gpu() -> None:
    grid, (u, v) = (8, 7), RANDOM.standard_normal((2, 8, 7))
    b = RANDOM.standard_normal(grid)
    expected = dsolver.solve(diffusion(grid, 0.1, 1.0, velocity=(v, u)), b, client=False, device="cpu", rtol=1e-10).x
    with dsolver.Solver(diffusion(grid, 0.1, 1.0, velocity=(u, v)), client=False, device="cuda") as solver:
        for velocity in (None, (v, u)):
            if velocity is not None:
                solver.update(velocity=velocity)
            problem = solver.problem
            assert isinstance(problem, MatrixProblem)
            assert isinstance(problem.matrix, RowsOnGpu)
        found = solver.solve(b, rtol=1e-10).x
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"velocity": 1.0}, "velocity must be three"),
        ({"velocity": (1.0, 2.0)}, "velocity must be three"),
        ({"velocity": (1.0, 2.0, np.inf)}, "velocity_z has values that are NaN or infinite"),
        ({"velocity": (1.0, 2.0, "fast")}, "velocity_z must be a number, a function, or real numbers at the cells'"),
        ({"velocity": (np.ones((4, 5, 4)), 0.0, 0.0)}, r"velocity_x must be .* at their faces, \(5, 4, 4\)"),
        ({"velocity": (1.0, 0.0, 0.0), "scheme": "quick"}, "scheme must be one of upwind, central"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        diffusion((4, 4, 4), **arguments)


def test_what_a_flow_cannot_have_is_told() -> None:
    flow = diffusion((6, 6), velocity=(1.0, 0.0))
    with pytest.raises(InputError, match=r"M='mg' coarsens a grid, .* those of a flow count: use M='amg'"):
        dsolver.solve(flow, np.ones((6, 6)), M="mg")
    with pytest.raises(InputError, match=r"M=Chebyshev\(\) is for symmetric matrices"):
        dsolver.solve(flow, np.ones((6, 6)), M="chebyshev")
    with pytest.raises(InputError, match="A is not symmetric"):
        dsolver.solve(flow, np.ones((6, 6)), method="cg")
    with pytest.raises(InputError, match="kappa must be positive"):
        dsolver.solve(diffusion((6, 6), np.full((6, 6), -1.0), velocity=(1.0, 0.0)), np.ones((6, 6)))
    assert "BiCGStab" in dsolver.solve(flow, np.ones((6, 6)), M="amg").notes[0]


def test_gmres_goes_on_where_bicgstab_breaks_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BiConjugateGradientStabilized, "health", lambda *_: 0.0)
    flow, b = diffusion((40, 40), 1e-3, velocity=rotating(2), spacing=1.0 / 40), np.ones((40, 40))
    solution = dsolver.solve(flow, b, M="amg", device="cpu")
    assert solution.converged
    assert any(
        "BiCGStab ended as breakdown after 1 iteration: the solve goes on with GMRES" in note for note in solution.notes
    )
    assert dsolver.solve(flow, b, M="amg", method="bicgstab", device="cpu").status is dsolver.Status.BREAKDOWN
