"""Coarsening "air": nearly ideal restriction for flows, with sweeps over fine and coarse points in turn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsolver
from dsolver.errors import InputError
from dsolver.multigrid.algebraic.classical.ideal_restriction import COUPLED
from dsolver.multigrid.level import Level
from dsolver.preconditioners import Algebraic
from dsolver.problems import diffusion
from tests.multigrid.hierarchies import hierarchy_of_matrix, loaded, transfers, unloaded
from tests.multigrid.matrices import poisson
from tests.multigrid.test_symmetric_part import convection, one_sided

AIR = Algebraic(coarsening="air")
SMALL = Algebraic(coarsening="air", coarse_rows=20, gathered_rows=50)


def rotating(cells: int, peclet: float, **more: Any) -> Any:
    """A flow around the middle of a square with this cell Péclet number."""
    velocity = (lambda x, y: 1.0 - 2.0 * y + 0.0 * x, lambda x, y: 2.0 * x - 1.0 + 0.0 * y)
    kappa = 1.0 / (cells * peclet)
    return diffusion((cells, cells), kappa, velocity=velocity, spacing=1.0 / cells, **more)


@pytest.mark.parametrize("matrix", [convection(16, 3.0), one_sided(16)], ids=["both", "one-sided"])
def test_levels_are_the_same_bits_for_any_number_of_chunks(matrix: Any) -> None:
    hashes, _, levels = hierarchy_of_matrix(matrix, 1, SMALL)
    assert len(levels) >= 3
    for chunks in (2, 3, 8):
        assert hierarchy_of_matrix(matrix, chunks, SMALL).digests == hashes


@pytest.mark.parametrize("chunks", [1, 3])
def test_transfers_are_what_their_formulas_say(chunks: int) -> None:
    """Coarse points are the columns of the unit matrix in R, and coarse rows R A P."""
    matrix = convection(12, 3.0)
    _, matrices, levels = hierarchy_of_matrix(matrix, chunks, SMALL)
    a = matrix.toarray()
    for (fine, coarse), found in zip(pairwise(levels), matrices[1:], strict=True):
        p, r = transfers(fine, coarse)
        points = coarse_points(p, r)
        others = np.setdiff1d(np.arange(len(a)), points)
        d = a.diagonal()
        b = np.where(abs(a / d) >= COUPLED, a / d, 0.0)  # A D⁻¹, without weak couplings
        b_ff = b[np.ix_(others, others)] - np.eye(len(others))
        ideal = np.zeros_like(r)
        ideal[:, points] = np.eye(len(points))
        ideal[:, others] = -b[np.ix_(points, others)] @ (np.eye(len(others)) - b_ff)
        assert abs(r - ideal).max() <= 1e-13 * abs(ideal).max()
        assert set(np.unique(p)) <= {0.0, 1.0}
        symmetric = abs(a + a.T)[np.ix_(others, points)]
        assert (p[others].sum(axis=1) == symmetric.any(axis=1)).all()
        assert np.allclose((symmetric * p[others]).sum(axis=1), symmetric.max(axis=1))
        a = r @ a @ p
        assert abs(found.toarray() - (a + a.T) / 2).max() <= 1e-13 * abs(a).max()


def coarse_points(p: Any, r: Any) -> Any:
    """The fine rows that R takes as they are: of each coarse one the row that stands in no other and has its value."""
    alone = np.count_nonzero(r, axis=0) == 1
    return np.array(
        [np.flatnonzero(alone & (row == 1.0) & (column == 1.0))[0] for row, column in zip(r, p.T, strict=True)]
    )


@pytest.mark.parametrize("chunks", [1, 3])
def test_smoothing_is_two_sweeps_over_fine_points_and_one_over_coarse_ones(chunks: int) -> None:
    matrix = convection(12, 3.0)
    levels: list[Level] = hierarchy_of_matrix(matrix, chunks, SMALL).levels
    fine, engine = levels[0], levels[0].engine
    p, r = transfers(fine, levels[1])
    points, d = coarse_points(p, r), matrix.diagonal()
    random = np.random.default_rng(0)
    b, x = random.standard_normal((2, matrix.shape[0]))
    on_coarse = np.isin(np.arange(len(d)), points)
    for sweeps in (1, 2):
        smoother: Any = fine.smoother(sweeps)
        right, out = (engine.field(fine.layout) for _ in range(2))
        loaded(fine, b, right)
        left = smoother.before(right, out)
        assert not unloaded(fine, out).any()
        assert np.array_equal(unloaded(fine, left), b)
        loaded(fine, x, smoother.corrected(out))
        smoother.after(right, out)
        expected = x
        for turned in (~on_coarse, ~on_coarse, on_coarse) * sweeps:
            expected = expected + np.where(turned, (b - matrix @ expected) / d, 0.0)
        assert np.allclose(unloaded(fine, out), expected, rtol=0.0, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("peclet", [0.1, 10.0, 1e4])
def test_iterations_hardly_grow_with_the_grid_or_the_flow(peclet: float) -> None:
    """With aggregation they were 14 to 32 for 64² cells and 20 to 39 for 128²."""
    for cells in (64, 128):
        solution = dsolver.solve(rotating(cells, peclet), np.ones((cells, cells)), M="amg", device="cpu")
        assert solution.converged
        assert solution.iterations <= 14


def test_flows_on_grids_and_matrices_with_short_rows_take_it() -> None:
    flow, b = rotating(40, 100.0), np.ones((40, 40))
    usual, asked, before, smoothed = (
        dsolver.solve(flow, b, M=m, device="cpu").residuals
        for m in ("amg", AIR, Algebraic(coarsening="aggregation"), Algebraic(smoother="chebyshev"))
    )
    assert list(usual) == list(asked)
    assert list(before) == list(smoothed)
    assert len(usual) < 0.6 * len(before)
    a = convection(60, 1000.0)
    strong = a @ np.random.default_rng(0).standard_normal(a.shape[0])
    air, other = (
        dsolver.solve(a, strong, M=m, device="cpu").iterations for m in ("amg", Algebraic(coarsening="aggregation"))
    )
    assert air < 0.6 * other


def test_what_is_not_elliptic_or_has_long_rows_or_nodes_takes_aggregates() -> None:
    """Tetrahedra with SUPG: "air" may not converge, or takes a set-up twice as long."""
    short = convection(20, 10.0)
    count, b = short.shape[0], np.ones(short.shape[0])
    couplings = sp.triu(short, 1).tolil()
    couplings[couplings.nonzero()] = 0.5  # beside negative ones below the diagonal
    long = sp.csr_array(
        short
        + 0.01 * (10.0 * sp.eye_array(count) - sp.diags_array([1.0] * 10, offsets=range(30, 40), shape=(count, count)))
    )
    for matrix, size, taken in (
        (short, None, "air"),
        (convection(20, 0.2), None, "pmis"),  # transport is short
        (convection(20, 1.0) + 0.5 * sp.eye_array(count), None, "pmis"),  # and here it ends soon
        (convection(20, 4.0) + 0.5 * sp.eye_array(count), None, "air"),
        (short, 2, "aggregation"),
        (long, None, "aggregation"),
        (sp.csr_array(sp.tril(short) + couplings), None, "aggregation"),
    ):
        problem = dsolver.matrix(sp.csr_array(matrix), block_size=size)
        usual, asked = (
            dsolver.solve(problem, b, M=m, maxiter=9, device="cpu").residuals
            for m in (Algebraic(coarse_rows=20), Algebraic(coarsening=taken, coarse_rows=20))
        )
        assert list(usual) == list(asked)


@pytest.mark.parametrize("options", [{"precond_dtype": "float32"}, {"method": "gmres"}, {"method": "fgmres"}])
def test_levels_serve_other_methods_and_value_types(options: dict[str, Any]) -> None:
    flow, b = rotating(32, 10.0), np.random.default_rng(0).standard_normal((32, 32))
    solution = dsolver.solve(flow, b, M=Algebraic(coarsening="air", coarse_rows=20), device="cpu", **options)
    assert solution.converged
    assert np.allclose(solution.x, dsolver.solve(flow, b, M="direct").x, rtol=0.0, atol=1e-6 * abs(solution.x).max())


def test_chunks_and_several_right_hand_sides_have_the_same_bits() -> None:
    b = np.random.default_rng(0).standard_normal((24, 24, 2))
    m = Algebraic(coarse_rows=20, gathered_rows=60)
    one = dsolver.solve(dsolver.matrix(convection(24, 30.0), chunks=3), b[..., 0].ravel(), M=m, device="cpu")
    assert one.converged
    with dsolver.Solver(rotating(24, 30.0), M=m, device="cpu") as solver:
        both = solver.solve(b)
        assert both.converged
        for n in range(2):
            assert np.array_equal(solver.solve(b[..., n]).x, both.x[..., n])


def test_points_are_kept_with_their_transfers_for_other_values() -> None:
    """Points chosen anew would differ from those that the kept R and P are between."""
    before, after = rotating(40, 1.0), rotating(40, 100.0)
    b, m = np.ones((40, 40)), Algebraic(coarse_rows=20)
    with dsolver.Solver(before, M=m, device="cpu") as solver:
        solver.update(before, reuse="preconditioner")
        same = solver.solve(b)
        solver.update(after, reuse="preconditioner")
        kept = solver.solve(b)
    assert list(same.residuals) == list(dsolver.solve(before, b, M=m, device="cpu").residuals)
    assert kept.converged
    assert kept.iterations <= 40
    assert np.allclose(kept.x, dsolver.solve(after, b, device="cpu").x, rtol=0.0, atol=1e-6 * abs(kept.x).max())


def test_rows_without_couplings_and_empty_chunks() -> None:
    a = sp.block_diag([convection(10, 5.0), sp.eye_array(60)], format="csr")
    b = np.random.default_rng(0).standard_normal(160)
    m = Algebraic(coarsening="air", coarse_rows=4, gathered_rows=4)
    solution = dsolver.solve(dsolver.matrix(a, chunks=(100, 60)), b, M=m, device="cpu")
    assert solution.converged
    assert np.allclose(a @ solution.x, b, rtol=0.0, atol=1e-7)


def test_symmetric_matrices_and_smoothers_are_refused() -> None:
    with pytest.raises(InputError, match="coarsening='air' is for matrices that are not symmetric"):
        dsolver.solve(poisson(6), np.ones(216), M=AIR)
    with pytest.raises(InputError, match="coarsening='air' is for matrices that are not symmetric"):
        dsolver.solve(dsolver.problems.poisson7((6, 6, 6)), np.ones((6, 6, 6)), M=AIR)
    with pytest.raises(InputError, match="smoother must be left out"):
        dsolver.solve(convection(8, 3.0), np.ones(64), M=Algebraic(coarsening="air", smoother="jacobi"))
