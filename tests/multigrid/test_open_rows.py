"""Open cells of a grid as rows by themselves: no other cell has a row, and x is that of the whole grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver.preconditioners import Algebraic
from dsolver.problems import Dirichlet, diffusion
from dsolver.program.batches.batch import Batch
from tests.multigrid.hierarchies import SMALL, hierarchy
from tests.support.clusters import cluster

pytestmark = pytest.mark.filterwarnings("ignore::dsolver.InconsistentWarning")  # of pockets among the cells

GRID = (9, 8, 11)
RNG = np.random.default_rng(7)
KAPPA = 10.0 ** RNG.uniform(-2.0, 2.0, GRID)
NOISE = RNG.random(GRID)
B = RNG.standard_normal(GRID)
FIXED = {"x-": Dirichlet(1.0), "z+": Dirichlet(0.0)}
CASES: dict[str, dict[str, Any]] = {
    "few": {"mask": NOISE < 0.1, "bc": FIXED},
    "pores": {"mask": NOISE < 0.5, "bc": FIXED},
    "nearly all": {"mask": NOISE < 0.95, "bc": FIXED, "sigma": 1e-3},
    "pockets": {"mask": NOISE < 0.7, "bc": "neumann"},
    "periodic": {"mask": NOISE < 0.4, "bc": {"x": "periodic", "z": "periodic", "y": FIXED["x-"]}},
}


def problem(case: str, chunks: Any = None) -> Any:
    more = dict(CASES[case])
    return diffusion(GRID, KAPPA, more.pop("sigma", 0.0), chunks=chunks, **more)


@pytest.mark.parametrize("chunks", [(1, 1, 1), (1, 1, 3), (2, 2, 1)])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_the_open_cells_and_x_is_that_of_the_grid(case: str, chunks: Any) -> None:
    opened = ~CASES[case]["mask"]
    with dsolver.Solver(problem(case, chunks), M=SMALL, device="cpu") as solver:
        found, levels = solver.solve(B, rtol=1e-10), solver.hierarchy.levels
    wanted = dsolver.solve(problem(case), B, M="jacobi", device="cpu", rtol=1e-11)
    assert levels[0].rows == opened.sum()
    assert found.status is wanted.status
    assert found.closed_regions == wanted.closed_regions
    np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-7 * abs(wanted.x).max())
    assert not found.x[~opened].any()


@pytest.mark.parametrize("case", CASES)
def test_levels_are_the_same_bits_for_slabs_as_for_the_whole(case: str) -> None:
    whole, _, levels = hierarchy(problem(case, (1, 1, 1)), SMALL)
    assert len(levels) >= 2
    for cut in ((1, 1, 2), (1, 1, 3)):
        assert hierarchy(problem(case, cut), SMALL).digests == whole


def test_a_chunk_without_open_cells() -> None:
    mask = NOISE < 0.3
    mask[:, :, :4] = True
    for chunks in ((1, 1, 3), (1, 1, 1)):
        given = diffusion(GRID, KAPPA, mask=mask, bc=FIXED, chunks=chunks)
        found = dsolver.solve(given, B, M="amg", device="cpu", rtol=1e-10)
        assert found.converged
        wanted = dsolver.solve(given, B, M="jacobi", device="cpu", rtol=1e-11)
        np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-7 * abs(wanted.x).max())


def test_a_plane() -> None:
    mask = NOISE[0] < 0.4
    given = diffusion(mask.shape, KAPPA[0], mask=mask, bc={"x-": FIXED["x-"]})
    found, wanted = (dsolver.solve(given, B[0], M=m, device="cpu", rtol=1e-10) for m in (SMALL, "jacobi"))
    assert found.status is wanted.status
    np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-7 * abs(wanted.x).max())


@pytest.mark.parametrize("width", [1, 2])
def test_another_preconditioner_goes_on_from_the_same_vectors(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, original = [], Batch.laid_out

    def laid_out(self: Batch, *arguments: Any) -> Batch:
        moved.append(self.width)
        return original(self, *arguments)

    monkeypatch.setattr(Batch, "laid_out", laid_out)
    with dsolver.Solver(problem("pores"), M="auto", device="cpu") as solver:
        session = solver._session
        several = [B] if width == 1 else [B, 2.0 * B]
        first = solver.solve(several, rtol=1e-9)
        session.precondition(m=dsolver.preconditioners.Multigrid())
        again = solver.solve(several, rtol=1e-9)
    assert moved
    for one, other in zip(first, again, strict=True):
        assert other.status is one.status
        np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-6 * abs(one.x).max())


def test_an_update_with_another_kappa_keeps_the_interpolation() -> None:
    with dsolver.Solver(problem("pores"), M=SMALL, device="cpu") as solver:
        solver.update(kappa=KAPPA, reuse="interpolation")
        solver.update(kappa=2.0 * KAPPA, reuse="interpolation")
        found = solver.solve(B, rtol=1e-10)
    assert "has kept it" in found.notes[0]
    wanted = dsolver.solve(diffusion(GRID, 2.0 * KAPPA, **CASES["pores"]), B, M="jacobi", device="cpu", rtol=1e-11)
    np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-7 * abs(wanted.x).max())


@pytest.mark.parametrize("engine", ["resident", "graph"])
def test_workers_have_the_same_bits(engine: Any) -> None:
    given, m = problem("pores", (1, 1, 2)), Algebraic(coarse_rows=20, gathered_rows=20)
    wanted = dsolver.solve(given, B, M=m, device="cpu", maxiter=3)
    with cluster(2) as client:
        found = dsolver.solve(given, B, M=m, client=client, engine=engine, maxiter=3)
    assert found.residuals == wanted.residuals
    assert (found.x == wanted.x).all()
