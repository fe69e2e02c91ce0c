"""A finest level of which nothing is stored: the same coarse rows, the same iterations, the same solution."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import dsolver
from dsolver import problems
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.box import Box, Triple
from dsolver.grid.partition import Cut, Partition
from dsolver.kernels import load
from dsolver.kernels.cpu.sell.setup import CpuSell
from dsolver.kernels.formats.stencil.constant import ConstantStencil, StencilSetup
from dsolver.kernels.formats.stencil.rows import OFFSETS
from dsolver.kernels.lattice.coarsening import Coarsening
from dsolver.kernels.lattice.galerkin import galerkin, interpolation
from dsolver.kernels.reference.stencil import TextbookStencil
from dsolver.multigrid import hierarchy
from dsolver.multigrid.finest_rows import FinestRows
from dsolver.multigrid.geometric.constant_stencil import coarse_weights
from dsolver.multigrid.geometric.star_layers import StarPasses
from dsolver.multigrid.level import Level

STAR = {(0, 0, 0): 6.5, (1, 0, 0): -1.0, (0, 1, 0): -1.25, (0, 0, 1): -1.0}


def stencil(shape: Triple, faces: tuple[float, ...], wraps: tuple[bool, bool, bool]) -> ConstantStencil:
    weights = tuple(STAR.get((i, j, k), STAR.get((-i, -j, -k), 0.0)) for i, j, k in OFFSETS)
    return ConstantStencil(shape=shape, weights=weights, faces=faces, wraps=wraps, lo=(0, 0, 0))


@pytest.mark.parametrize(
    ("shape", "wraps"),
    [
        ((20, 19, 8), (False, False, False)),
        ((17, 3, 24), (False, False, False)),
        ((18, 16, 21), (True, False, False)),
        ((12, 13, 14), (False, False, True)),
    ],
)
def test_coarse_rows_of_a_small_grid_are_those_of_a_large_one(shape: Triple, wraps: tuple[bool, bool, bool]) -> None:
    faces = tuple(0.0 if wraps[n // 2] else 0.1 * (n + 1) - 0.3 for n in range(6))
    a = stencil(shape, faces, wraps)
    x, y, z = (n // 2 for n in shape)
    found = coarse_weights(load("numpy"), a, Box(lo=(0, 0, 0), hi=(x, y, z)))
    rows = np.broadcast_to(np.array(a.weights)[:, None, None, None], (27, *shape[::-1])).copy()
    rows[OFFSETS.index((0, 0, 0))] = a.diagonal
    for axis, wrapped in enumerate(wraps):
        width = [(2, 2) if 3 - axis == n else (0, 0) for n in range(4)]
        rows = np.pad(rows, width, mode="wrap") if wrapped else np.pad(rows, width)
    made = Coarsening(lo=(0, 0, 0), shape=shape, grid=shape, periodic=wraps, factors=(2, 2, 2))
    expected = galerkin(made, OFFSETS, rows, interpolation(made, OFFSETS, rows))
    assert np.abs(found - expected.ravel()).max() <= 1e-14


def levels_of(problem: problems.Problem, chunks: Cut = (1, 1, 1), weights: Any = None) -> list[Level]:
    partition = Partition(problem.grid, chunks)
    engine = EagerEngine(partition, load("numpy"))
    values = np.array(problem.weights) if weights is None else weights

    def make(_: Any, __: int) -> npt.NDArray[np.float64]:
        return values

    rows = FinestRows(partition=partition, offsets=problem.offsets, weights=engine.per_chunk(make), constant=True)
    return hierarchy.build(engine, lambda: rows)


def matrices(level: Level) -> list[Any]:
    """The matrix of every chunk."""
    chunks: Any = level.chunks
    return [chunk.local for chunk in chunks.items.values()]


def test_what_is_stored_of_a_constant_problem() -> None:
    star = levels_of(problems.poisson7((16, 14, 12)))
    assert isinstance(star[0].transfer, StarPasses)
    assert not any(isinstance(level.transfer, StarPasses) for level in star[1:])
    assert [type(matrix) for matrix in matrices(star[0])] == [TextbookStencil]
    box = levels_of(problems.poisson27((16, 14, 12)))
    assert not isinstance(box[0].transfer, StarPasses)
    assert [type(matrix) for matrix in matrices(box[0])] == [TextbookStencil]
    for chunks, between_pairs in ((((8, 8), (14,), (12,)), True), (((7, 9), (14,), (12,)), False)):
        cut = levels_of(problems.poisson7((16, 14, 12)), chunks)
        assert isinstance(cut[0].transfer, StarPasses) == between_pairs
        assert [type(matrix) for matrix in matrices(cut[0])] == [TextbookStencil] * 2


@pytest.mark.parametrize("chunks", [None, (2, 1, 2)])
def test_without_a_preconditioner_nothing_is_stored(chunks: Triple | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made, plain = [], StencilSetup.matrix

    def constant_matrix(self: StencilSetup, stencil: ConstantStencil) -> Any:
        made.append(stencil)
        return plain(self, stencil)

    def matrix(*_: Any) -> Any:
        raise AssertionError("a matrix is stored")

    monkeypatch.setattr(StencilSetup, "matrix", constant_matrix)
    monkeypatch.setattr(CpuSell, "matrix", matrix)
    problem = problems.poisson27((12, 10, 8), chunks=chunks)
    exact = np.random.default_rng(0).standard_normal(problem.grid)
    padded = np.pad(exact, 1)
    around = sum(np.roll(padded, o, axis=(0, 1, 2)) for o in OFFSETS)
    b = 27.0 * exact - np.asarray(around)[1:-1, 1:-1, 1:-1]
    found = dsolver.solve(problem, b, M=None, rtol=1e-12, engine="reference", device="cpu")
    assert found.converged
    np.testing.assert_allclose(found.x, exact, atol=1e-10)
    assert len(made) == (1 if chunks is None else 4)


def test_weights_that_the_value_type_cannot_hold_are_stored() -> None:
    for size, fits in ((1.0, True), (1e-60, False), (1e60, False)):
        weights = np.array(problems.poisson7((8, 8, 8)).weights) * size
        a = ConstantStencil(
            shape=(8, 8, 8), weights=tuple(weights), faces=(0.0,) * 6, wraps=(False, False, False), lo=(0, 0, 0)
        )
        assert a.fits(np.dtype(np.float64))
        assert a.fits(np.dtype(np.float32)) == fits


GRID = (20, 17, 18)
CONSTANT = {
    "poisson7": lambda chunks: problems.poisson7(GRID, chunks=chunks),
    "poisson27": lambda chunks: problems.poisson27(GRID, chunks=chunks),
    "dirichlet": lambda chunks: problems.diffusion(GRID, 2.0, spacing=(1.0, 1.5, 1.0), chunks=chunks),
    "neumann": lambda chunks: problems.diffusion(GRID, 2.0, sigma=0.1, bc="neumann", chunks=chunks),
    "periodic": lambda chunks: problems.diffusion((20, 16, 18), 1.0, sigma=0.1, bc="periodic", chunks=chunks),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CONSTANT)
def test_solutions_are_those_of_stored_rows(
    name: str, dtype: Literal["float64", "float32"], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = CONSTANT[name](None)
    b = np.random.default_rng(1).standard_normal(problem.grid)

    def solve(chunks: Triple | None) -> dsolver.Solution:
        return dsolver.solve(CONSTANT[name](chunks), b, rtol=1e-10, M="mg", precond_dtype=dtype)

    whole, cut = solve(None), solve((2, 1, 2))
    monkeypatch.setattr("dsolver.multigrid.geometric.constant_stencil.constant_stencil", lambda *_: None)
    stored = solve(None)
    assert stored.converged
    for other in (whole, cut):
        assert other.converged
        assert abs(other.iterations - stored.iterations) <= 2
        assert np.abs(np.asarray(other.x) - np.asarray(stored.x)).max() <= 1e-7 * np.abs(np.asarray(stored.x)).max()
    if dtype == "float64":
        assert whole.iterations == stored.iterations


@pytest.mark.parametrize("large", [1e12, 1e20])
def test_zero_is_held_in_all_cells_but_those_at_a_face(large: float) -> None:
    """Rows are the same but for their diagonal at a face, which is nothing beside the one inside."""
    sigma, f = np.full(GRID, large), np.zeros(GRID)
    sigma[0], turn = 0.0, np.pi / GRID[1]
    f[0] = np.cos(turn * (np.arange(GRID[1]) + 0.5))[:, None]
    found = dsolver.solve(problems.diffusion(GRID, 1.0, sigma, bc="neumann"), f, rtol=1e-10)
    assert found.converged
    np.testing.assert_allclose(found.x[0], f[0] / (3.0 - 2.0 * np.cos(turn)), rtol=0, atol=1e-9)
