"""Algebraic levels of grids: the same to the bit however a grid is cut, with R = Pᵀ between boxes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver import kernels
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.box import BOX_OFFSETS
from dsolver.grid.partition import Partition
from dsolver.multigrid.algebraic.lattice.levels import symmetric_weights
from dsolver.multigrid.algebraic.lattice.rows import LatticeRows
from dsolver.multigrid.geometric import constant_stencil
from tests.multigrid.hierarchies import SMALL, hierarchy

RNG = np.random.default_rng(0)
NOISE = 10.0 ** RNG.uniform(-3.0, 3.0, (9, 8, 7))
WRAPPED = {"x": "periodic", "y": "dirichlet", "z": "dirichlet"}
AROUND = {"x": "dirichlet", "y": "dirichlet", "z": "periodic"}
CUTS = [(2, 1, 1), (1, 1, 2), (1, 1, 3), (1, 1, 7), (2, 2, 2)]


@pytest.mark.parametrize(
    "make",
    [
        lambda chunks: dsolver.problems.diffusion((9, 8, 7), NOISE, chunks=chunks),
        lambda chunks: dsolver.problems.diffusion((9, 8, 7), NOISE, bc=WRAPPED, chunks=chunks),
        lambda chunks: dsolver.problems.diffusion((9, 8, 7), NOISE, bc=AROUND, chunks=chunks),
        lambda chunks: dsolver.problems.poisson27((9, 8, 7), chunks=chunks),
    ],
    ids=["noise", "periodic", "periodic along the cuts", "27 points"],
)
def test_levels_are_the_same_bits_however_a_grid_is_cut(make: Any) -> None:
    whole, _, levels = hierarchy(make((1, 1, 1)), SMALL)
    assert len(levels) >= 2
    for cut in CUTS:
        assert hierarchy(make(cut), SMALL).digests == whole


def test_levels_with_the_interpolation_of_an_earlier_grid_are_the_same_bits() -> None:
    def grid(kappa: Any, cut: Any) -> Any:
        return dsolver.problems.diffusion((9, 8, 7), kappa, bc=WRAPPED, chunks=cut)

    whole = hierarchy(grid(2.0 + NOISE, (1, 1, 1)), SMALL, earlier=grid(NOISE, (1, 1, 1))).digests
    assert whole != hierarchy(grid(2.0 + NOISE, (1, 1, 1)), SMALL).digests
    for cut in CUTS:
        assert hierarchy(grid(2.0 + NOISE, cut), SMALL, earlier=grid(NOISE, cut)).digests == whole


def test_a_grid_whose_rows_are_stored_in_another_order_is_set_up_anew() -> None:
    """Chunks that are no slabs, stored as a lattice's: a constant stencil in another order than others."""
    kappas = np.ones((9, 8, 7)), NOISE
    constant, varied = (dsolver.problems.diffusion((9, 8, 7), kappa, chunks=(2, 1, 1)) for kappa in kappas)
    with dsolver.Solver(constant, M=SMALL, device="cpu") as solver:
        solver.update(reuse="interpolation")
        solver.update(varied, reuse="interpolation")
        found = solver.solve(NOISE)
    assert "stored in another order" in found.notes[0]
    assert found.iterations == dsolver.solve(varied, NOISE, M=SMALL, device="cpu").iterations


def test_restriction_is_the_transpose_of_prolongation_between_boxes_and_ranges() -> None:
    fine, coarse, *_ = hierarchy(dsolver.problems.diffusion((9, 8, 7), NOISE, chunks=(2, 2, 2)), SMALL).levels
    step: Any = fine.step(coarse)
    engine: Any = fine.engine
    x, y = engine.field(fine.layout), engine.field(fine.layout)
    u, v = RNG.standard_normal((9, 8, 7)), RNG.standard_normal(coarse.partition.grid)
    engine.load({c.number: u[c.box.slices] for c in fine.partition}, fine.layout, x)
    step.restrict(x)
    restricted = coarse.engine.unload(step.rc, coarse.layout)
    there: Any = coarse.engine
    there.load({n: v[coarse.partition[n].box.slices] for n in restricted}, coarse.layout, step.xc)
    engine.fill(fine.layout, 0.0, y)
    step.correct(y, y)
    prolonged = engine.unload(y, fine.layout)
    left = sum(np.vdot(block, v[coarse.partition[n].box.slices]) for n, block in restricted.items())
    right = sum(np.vdot(block, u[fine.partition[n].box.slices]) for n, block in prolonged.items())
    assert left == pytest.approx(right, rel=1e-13)
    assert abs(right) > 0.1


def test_a_grid_is_solved_with_vectors_of_the_grid() -> None:
    b = RNG.standard_normal((9, 8, 7, 2))
    with dsolver.Solver(
        dsolver.problems.diffusion((9, 8, 7), NOISE, chunks=(2, 2, 1)), M=SMALL, device="cpu"
    ) as solver:
        several: Any = solver.solve(b)
        alone = solver.solve(b[..., 0], x0="fmg")
        assert solver.hierarchy.levels[0].chunks == 4
    assert several.converged
    assert all(solution.iterations < 15 for solution in several)
    np.testing.assert_allclose(alone.x, several.x[..., 0], rtol=1e-4)


def test_closed_pockets_and_float32_are_right() -> None:
    solid = np.random.default_rng(1).random((9, 8, 7)) < 0.6
    problem = dsolver.problems.diffusion((9, 8, 7), mask=solid, bc="neumann", chunks=(2, 2, 1))
    b = np.where(solid, 0.0, RNG.standard_normal((9, 8, 7)))
    with pytest.warns(dsolver.InconsistentWarning):
        solution = dsolver.solve(problem, b, M="amg", precond_dtype="float32", device="cpu")
    with pytest.warns(dsolver.InconsistentWarning):
        lattice = dsolver.solve(problem, b, M="mg", device="cpu", rtol=1e-11)
    assert solution.closed_regions == lattice.closed_regions > 1
    np.testing.assert_allclose(solution.x, lattice.x, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 2)])
def test_cells_that_are_left_out_are_no_rows_of_vectors(
    chunks: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever f and x0 have there; the other cells have the same solution by the same levels."""
    f, solid = RNG.standard_normal((9, 8, 7)), NOISE > 3.0
    f[solid] = np.nan
    problem = dsolver.problems.diffusion((9, 8, 7), NOISE, 1e-3, mask=solid, chunks=chunks)
    monkeypatch.setattr(constant_stencil, "FEW", 1)
    with dsolver.Solver(problem, M="mg", device=device, engine="reference") as solver:
        found = solver.solve(f, x0=f)
        assert not np.asarray(solver.aspreconditioner() @ np.ones(solid.size)).reshape(solid.shape)[solid].any()
    monkeypatch.setattr(constant_stencil, "FEW", solid.size)
    with dsolver.Solver(problem, M="mg", device=device, engine="reference") as solver:
        expected = solver.solve(f)
    assert found.iterations == expected.iterations
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-9 * abs(expected.x).max())


@pytest.mark.parametrize("chunks", [(1, 1, 1), (2, 1, 1), (2, 1, 2)])
def test_rows_that_leave_a_lattice_are_the_symmetric_part(chunks: Any) -> None:
    """Entries on one side alone among them, and an axis around which both neighbors are one point."""
    grid, periodic = (6, 2, 5), (True, True, False)
    rng = np.random.default_rng(1)
    weights = rng.uniform(-1.0, 0.0, (27, *grid[::-1])) * (rng.random((27, *grid[::-1])) < 0.5)
    weights[BOX_OFFSETS.index((0, 0, 0))] = 26.0
    points = list(np.ndindex(grid))
    dense = np.zeros((len(points), len(points)))
    for place, offset in enumerate(BOX_OFFSETS):
        for x, y, z in points:
            i, j, k = offset
            if 0 <= z + k < 5:
                dense[number_of(x, y, z), number_of((x + i) % 6, (y + j) % 2, z + k)] += weights[place, z, y, x]
    partition = Partition(grid, chunks, periodic)
    engine = EagerEngine(partition, kernels.load("cpu"))
    made = engine.per_chunk(
        lambda _, number: weights[(slice(None), *partition[number].box.slices[::-1])].reshape(-1).copy()
    )
    symmetric = symmetric_weights(engine, partition, BOX_OFFSETS, made)
    of_grid = LatticeRows(engine, partition, BOX_OFFSETS, symmetric)
    assert all({*found} <= {*may} for found, may in zip(of_grid.senders, of_grid.reach, strict=True))
    rows: Any = of_grid.rows
    found = np.zeros_like(dense)
    for part in rows.items.values():
        of_entry = np.repeat(np.arange(part.rows), np.diff(part.matrix.start)) + part.window.first
        places = of_entry, part.window.numbers[part.matrix.columns]
        assert len(np.unique(np.stack(places), axis=1).T) == len(of_entry)
        found[places] = part.matrix.values
    np.testing.assert_allclose(found, (dense + dense.T) / 2, rtol=0, atol=1e-14)


def number_of(x: int, y: int, z: int) -> int:
    return x + 6 * (y + 2 * z)
