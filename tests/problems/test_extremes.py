"""Sizes beyond all measure, and arguments that are far too long to be repeated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.preconditioners import Algebraic
from dsolver.problems import Dirichlet, diffusion, poisson7, stencil
from dsolver.session.solving.report import INSULATED

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


def ends(size: float) -> dict[str, Dirichlet]:
    return {"x-": Dirichlet(size), "x+": Dirichlet(0.0)}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e200])
def test_sizes_of_all_that_makes_b_do_not_matter(size: float, dtype: Any) -> None:
    """Values at faces and in held cells beside sources, of sizes whose squares are no numbers."""
    if dtype == "float32" and not 1e-38 < size < 1e38:
        pytest.skip("x is no number in float32")
    shape, rtol = (6, 5, 4), 1e-5 if dtype == "float32" else 1e-10
    f, held = np.random.default_rng(0).standard_normal(shape), np.zeros(shape, dtype=bool)
    held[3, 2] = True
    for fixed in (None, held):
        found, expected = (
            dsolver.solve(
                diffusion(shape, bc=ends(unit), fixed=None if fixed is None else (fixed, unit)),
                unit * f,
                dtype=dtype,
                rtol=rtol,
                device="cpu",
            )
            for unit in (size, 1.0)
        )
        assert found.converged
        np.testing.assert_allclose(found.x / size, expected.x, atol=100 * rtol)
        np.testing.assert_allclose(found.b_norm / size, expected.b_norm)


@pytest.mark.parametrize("engine", ["resident", "reference"])
@pytest.mark.parametrize("kappa", [1e-200, 1e200, 1e-200 * np.array([[2.0, 0.5], [0.5, 1.0]]), 1e-200 + 1e-200j])
def test_sizes_of_kappa_do_not_matter(kappa: Any, engine: Any) -> None:
    shape, none = (6, 5), np.zeros((6, 5))
    found, expected = (
        dsolver.solve(diffusion(shape, kappa * unit, bc=ends(1.0)), none, rtol=1e-10, engine=engine, device="cpu")
        for unit in (1.0, 1.0 / np.abs(kappa).max())
    )
    assert found.converged
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-8)
    np.testing.assert_allclose(dsolver.effective_conductivity(np.full((4, 4), 1e-200), "x").conductivity, 1e-200)


@pytest.mark.parametrize("flow", [{}, {"velocity": (1.0, 0.0)}])
@pytest.mark.parametrize("kappa", [1e-300, 5e-324])
def test_a_kappa_that_would_decouple_cells_is_refused(kappa: float, flow: Any) -> None:
    for values in (kappa, np.full((4, 3), kappa)):
        with pytest.raises(InputError, match=r"kappa must be .*, 1e-250 or more"):
            dsolver.solve(diffusion((4, 3), values, **flow), np.ones((4, 3)), device="cpu")


@pytest.mark.parametrize(("shape", "around"), [((6,), {}), ((6, 5), {"y": "periodic"})])
def test_cells_whose_flow_cancels_on_the_diagonal_are_not_closed(shape: tuple[int, ...], around: Any) -> None:
    velocity, bc = (1.0, 1.0)[: len(shape)], {"x-": Dirichlet(1.0), **around}
    problem = diffusion(shape, 1e-200, velocity=velocity, scheme="central", bc=bc)
    a, b = problem.to_scipy(), np.random.default_rng(0).standard_normal(shape)
    assert not a.diagonal().reshape(shape)[1:-1].any()
    found = dsolver.solve(problem, b, device="cpu")
    right = b + 0.0
    right[0] += 1.0  # that flows in
    np.testing.assert_allclose(a @ found.x.ravel(), right.ravel(), atol=1e-10)


@pytest.mark.parametrize("of", [{"velocity": (1.0, 1.0)}, {"kappa": 1.0 + 1.0j}])
def test_a_single_cell_beside_itself(of: Any) -> None:
    """Rows of a periodic grid, which has no couplings."""
    found = dsolver.solve(diffusion((1, 1), sigma=2.0, bc={"x": "periodic"}, **of), np.ones((1, 1)), device="cpu")
    np.testing.assert_allclose(found.x, 0.5)


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


@pytest.mark.parametrize("m", ["auto", "amg", Algebraic(coarsening="aggregation")], ids=str)
@pytest.mark.parametrize("conducting", [1e-10, 1e-14])
def test_an_island_behind_insulation_is_told_of(conducting: float, m: Any) -> None:
    """The island's constant, which is 1 as the faces' values are, and of which ‖b - A x‖ has no digit left."""
    kappa = np.ones((24, 24))
    kappa[6:18, 6:18] = conducting
    kappa[8:16, 8:16] = 1.0
    problem = diffusion(kappa.shape, kappa=kappa, bc=Dirichlet(1.0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        solution = dsolver.solve(problem, np.zeros(kappa.shape), device="cpu", M=m, rtol=1e-10)
    assert solution.converged
    lost = not np.allclose(solution.x, 1.0, atol=1e-2)
    assert lost == (INSULATED in solution.notes) == (INSULATED in map(str, (each.message for each in told)))
    assert lost == (conducting < 1e-12)


@pytest.mark.parametrize("flow", [0.0, 0.3])
@pytest.mark.parametrize("conducting", [1e-10, 1e-16])
def test_factors_tell_of_insulation_too(conducting: float, flow: float) -> None:
    """An island by factors of the matrix, symmetric or not, which a default call takes."""
    kappa = np.ones((24, 24))
    kappa[6:18, 6:18] = conducting
    kappa[8:16, 8:16] = 1.0
    plain = sp.csr_array(dsolver.matrix(diffusion(kappa.shape, kappa=kappa, bc=Dirichlet(1.0)).to_scipy()).to_scipy())
    couplings = sp.triu(plain, 1) * flow
    a = sp.csr_array(plain + couplings - sp.diags_array(couplings.sum(axis=0)))
    x = np.random.default_rng(0).standard_normal(576) + 1.0
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        solution = dsolver.solve(a, a @ x, device="cpu")
    assert solution.converged
    assert "Direct" in solution.solved_by
    lost = not np.allclose(solution.x, x, atol=1e-2)
    assert lost == (INSULATED in solution.notes) == (INSULATED in map(str, (each.message for each in told)))
    assert lost == (conducting < 1e-12)


def test_insulation_of_an_earlier_matrix_is_not_told_of() -> None:
    """M of a matrix with insulation, kept for one without it."""
    kappa = np.ones((24, 24))
    kappa[6:18, 6:18], kappa[8:16, 8:16] = 1e-14, 1.0
    b = np.zeros(kappa.shape)
    with dsolver.Solver(diffusion(kappa.shape, kappa=kappa, bc=Dirichlet(1.0)), device="cpu", M="mg") as solver:
        with pytest.warns(RuntimeWarning, match="insulation"):
            solver.solve(b)
        there = np.where(kappa < 1.0, 0.01, 1.0)
        solver.update(diffusion(kappa.shape, kappa=there, bc=Dirichlet(1.0)), reuse="preconditioner")
        after = solver.solve(b)
    assert INSULATED not in after.notes
    np.testing.assert_allclose(after.x, 1.0, atol=1e-6)


def test_scales_of_rows_and_columns_are_no_insulation() -> None:
    """Matrix of a plane with rows and columns of sizes of their own, of which pivots are small beside the diagonal."""
    rng = np.random.default_rng(13)
    plane, n = dsolver.matrix(diffusion((16, 16), sigma=0.1).to_scipy()).to_scipy(), 256
    rows, columns = (sp.diags_array(10.0 ** rng.uniform(-4, 4, n)) for _ in range(2))
    scaled = sp.csr_array(rows @ plane @ columns)
    x = rng.standard_normal(n) / columns.diagonal()
    assert INSULATED not in dsolver.solve(scaled, scaled @ x, M="direct", device="cpu").notes
    solution = dsolver.solve(scaled, scaled @ x, M="amg", device="cpu")
    assert INSULATED not in solution.notes
    np.testing.assert_allclose(solution.x * columns.diagonal(), x * columns.diagonal(), atol=1e-3)
