"""The levels and the V-cycle of general multigrid against dense algebra, on any grid and cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dsolver
from dsolver import kernels, problems
from dsolver.engines.base import Engine, Field, PerChunk
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import InputError
from dsolver.grid import coarse_grid
from dsolver.grid.box import Triple, three
from dsolver.grid.coarse_grid import partition_of
from dsolver.grid.partition import Partition
from dsolver.kernels import DENSE_ROWS, Backend
from dsolver.multigrid import hierarchy
from dsolver.multigrid.correction import CorrectionStep
from dsolver.multigrid.cycle import MultigridCycle
from dsolver.multigrid.finest_rows import FinestRows
from dsolver.multigrid.level import Level
from dsolver.preconditioners import Multigrid
from dsolver.problems import BOX_OFFSETS, STAR_OFFSETS, Problem
from tests.multigrid.hierarchies import on_host

F64 = npt.NDArray[np.float64]
Flags = tuple[bool, bool, bool]
NOWHERE: Flags = (False, False, False)
CUTS: tuple[Triple, ...] = ((1, 1, 1), (2, 1, 1), (2, 2, 2), (1, 1, 3))
BOXES: list[tuple[Triple, Flags, int]] = [
    ((8, 8, 8), NOWHERE, 7),
    ((7, 6, 9), NOWHERE, 27),
    ((7, 6, 9), (True, True, True), 7),
    ((9, 8, 5), (True, False, True), 27),
    ((11, 1, 31), (True, False, False), 7),
]


class Weights:
    """A symmetric matrix with rough coefficients, cut into chunks."""

    def __init__(self, partition: Partition, points: int) -> None:
        self.partition = partition
        self.offsets = STAR_OFFSETS if points == 7 else BOX_OFFSETS
        grid = partition.grid[::-1]
        kappa = np.exp(np.random.default_rng(1).standard_normal(grid))
        self.whole = np.zeros((len(self.offsets), *grid))
        center = self.offsets.index((0, 0, 0))
        for number, offset in enumerate(self.offsets):
            if offset == (0, 0, 0):
                continue
            other = np.roll(kappa, [-d for d in offset[::-1]], axis=(0, 1, 2))
            weight = 2.0 / (1.0 / kappa + 1.0 / other) / sum(map(abs, offset))
            for axis, step in enumerate(offset):
                edge: list[Any] = [slice(None)] * 3
                edge[2 - axis] = -1 if step > 0 else 0
                if step and not partition.periodic[axis]:
                    # u = 0 outside: what would go there stays on the diagonal.
                    self.whole[(center, *edge)] += weight[tuple(edge)]
                    weight[tuple(edge)] = 0.0
            self.whole[number] -= weight
            self.whole[center] += weight
        self.whole[center] += 0.05

    def __call__(self, backend: Backend, number: int) -> Any:
        x, y, z = self.partition[number].box.slices
        return backend.asarray(np.ascontiguousarray(self.whole[:, z, y, x]).reshape(-1))


def levels_of(
    grid: Triple, cut: Triple, periodic: Flags, points: int, backend: str = "cpu"
) -> tuple[EagerEngine, list[Level]]:
    cut = three("cut", (1 if n == 1 else c for c, n in zip(cut, grid, strict=True)))
    partition = partition_of(grid, cut, periodic)
    engine = EagerEngine(partition, kernels.load(backend))
    weights = Weights(partition, points)
    rows = FinestRows(partition=partition, offsets=weights.offsets, weights=engine.per_chunk(weights), constant=False)
    return engine, hierarchy.build(engine, lambda: rows)


class Space:
    """The vectors of a level, as arrays of its grid in lattice order."""

    def __init__(self, engine: Engine, partition: Partition, layout: PerChunk) -> None:
        self.engine, self.partition, self.layout = engine, partition, layout
        self.size = partition.domain.points

    def load(self, values: F64, out: Field) -> None:
        block = values.reshape(self.partition.grid, order="F")
        self.engine.load({c.number: block[c.box.slices] for c in self.partition}, self.layout, out)

    def unload(self, x: Field) -> F64:
        out = np.full(self.partition.grid, np.nan)
        for number, block in self.engine.unload(x, self.layout).items():
            out[self.partition[number].box.slices] = on_host(block)
        return out.reshape(-1, order="F")

    def matrix(self, into: Space, apply: Any) -> F64:
        """The dense matrix of apply(x, y), column by column."""
        x, y = self.engine.field(self.layout), into.engine.field(into.layout)
        columns = []
        for unit in np.eye(self.size):
            self.load(unit, x)
            into.load(np.zeros(into.size), y)
            apply(x, y)
            columns.append(into.unload(y))
        return np.array(columns).T


def space(level: Level) -> Space:
    return Space(level.engine, level.partition, level.chunks.at("layout"))


def product(level: Level) -> Any:
    """A x of a level."""
    return level.matrix.multiply


def rates(m: F64, a: F64) -> F64:
    """The eigenvalues of 1 - M A, for symmetric M and A."""
    root = np.linalg.cholesky(a)
    return 1.0 - np.linalg.eigvalsh(root.T @ m @ root)


@pytest.fixture(params=["gathered", "distributed"])
def _small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coarse levels live whole on every owner at once, or only when chunks are thin."""
    for name in ("numpy", "cpu"):
        monkeypatch.setitem(DENSE_ROWS, name, 30)
    if request.param == "distributed":
        monkeypatch.setattr(coarse_grid, "SMALL_GRID", 0)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize(("grid", "periodic", "points"), BOXES)
def test_coarse_matrices_are_galerkin_products(grid: Triple, periodic: Flags, points: int, cut: Triple) -> None:
    """A of every level is R A P of the one above, with R = P transposed, as the kernels apply them."""
    _, levels = levels_of(grid, cut, periodic, points)
    assert len(levels) >= 2
    cycle = MultigridCycle.of(levels)
    fine = space(levels[0])
    a = fine.matrix(fine, product(levels[0]))
    for step, below in zip(cycle._steps, levels[1:], strict=True):
        coarse = space(below)

        def prolong(xc: Field, x: Field, step: Any = step, below: Level = below) -> None:
            below.engine.copy(xc, step.xc)
            step.correct(x, x)

        def restrict(y: Field, rc: Field, step: Any = step, below: Level = below) -> None:
            step.restrict(y)
            below.engine.copy(step.rc, rc)

        p, r = coarse.matrix(fine, prolong), fine.matrix(coarse, restrict)
        np.testing.assert_allclose(r, p.T, atol=1e-14)
        coarse_a = coarse.matrix(coarse, product(below))
        np.testing.assert_allclose(coarse_a, p.T @ a @ p, atol=1e-12 * np.abs(a).max())
        fine, a = coarse, coarse_a


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(("backend", "cut"), [*(("cpu", cut) for cut in CUTS), ("numpy", (2, 1, 1))])
def test_the_cycle_is_symmetric_and_a_contraction(cut: Triple, backend: str) -> None:
    _, levels = levels_of((6, 7, 9), cut, (False, True, False), 7, backend)
    top = space(levels[0])
    m = top.matrix(top, MultigridCycle.of(levels).apply)
    np.testing.assert_allclose(m, m.T, atol=1e-13 * np.abs(m).max())
    found = rates(m, top.matrix(top, product(levels[0])))
    assert found.min() > -1e-10, "symmetric cycles with exact coarse solves overestimate nothing"
    assert found.max() < 0.5


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    ("sweeps", "visits", "cut"), [(2, 1, (1, 1, 1)), (1, 2, (1, 1, 1)), (2, 2, (1, 1, 1)), (2, 2, (2, 2, 2))]
)
def test_more_work_keeps_the_symmetry_and_contracts_more(sweeps: int, visits: int, cut: Triple) -> None:
    _, levels = levels_of((7, 6, 9), cut, NOWHERE, 7)
    top = space(levels[0])
    m, more = (top.matrix(top, MultigridCycle.of(levels, *n).apply) for n in ((1, 1), (sweeps, visits)))
    np.testing.assert_allclose(more, more.T, atol=1e-13 * np.abs(m).max())
    a = top.matrix(top, product(levels[0]))
    plain, better = rates(m, a), rates(more, a)
    assert better.min() > -1e-10
    assert better.max() < plain.max()


def test_more_work_is_an_option_of_the_preconditioner() -> None:
    grid = (24, 24, 24)
    kappa = np.exp(2.0 * np.random.default_rng(8).standard_normal(grid))
    problem, b = problems.diffusion(grid, kappa, chunks=(2, 1, 1)), np.random.default_rng(9).standard_normal(grid)
    plain = dsolver.solve(problem, b, rtol=1e-9, device="cpu", M=Multigrid(sweeps=1, visits=1))
    more = dsolver.solve(problem, b, rtol=1e-9, device="cpu", M=Multigrid(sweeps=2, visits=2))
    assert more.converged
    assert more.iterations < plain.iterations
    for options in ({"sweeps": 3}, {"visits": 0}, {"sweeps": 1.5}):
        with pytest.raises(InputError, match="must be 1 or 2"):
            Multigrid(**options)


def test_two_levels_are_the_text_book() -> None:
    """Forward Gauss-Seidel, coarse solve, backward Gauss-Seidel, by triangular solves in the order of the colors."""
    _, levels = levels_of((7, 6, 5), (1, 1, 1), NOWHERE, 27)
    assert len(levels) == 1
    _, levels = levels_of((9, 8, 7), (1, 1, 1), NOWHERE, 27)
    assert len(levels) == 2
    cycle = MultigridCycle.of(levels)
    step = cycle._steps[0]
    assert isinstance(step, CorrectionStep)
    top, coarse = space(levels[0]), space(levels[1])
    a, ac = top.matrix(top, product(levels[0])), coarse.matrix(coarse, product(levels[1]))

    def prolong(xc: Field, x: Field) -> None:
        coarse.engine.copy(xc, step.xc)
        step.correct(x, x)

    p = coarse.matrix(top, prolong)
    r = np.random.default_rng(2).standard_normal(top.size)
    layouts: Any = levels[0].chunks.at("layout")
    layout = layouts.items[0]
    order = np.argsort(layout.color, kind="stable")
    lower = np.zeros_like(a)
    lower[np.ix_(order, order)] = np.tril(a[np.ix_(order, order)])
    x = np.linalg.solve(lower, r)
    x += p @ np.linalg.solve(ac, p.T @ (r - a @ x))
    x += np.linalg.solve(lower.T, r - a @ x)
    found, right = (top.engine.field(top.layout) for _ in range(2))
    top.load(r, right)
    cycle.apply(right, found)
    np.testing.assert_allclose(top.unload(found), x, rtol=1e-11)


def test_the_coarsest_level_is_small_and_solved() -> None:
    engine, levels = levels_of((33, 20, 17), (2, 1, 1), NOWHERE, 7)
    assert [level.partition.grid for level in levels] == [(33, 20, 17), (16, 10, 8), (8, 5, 4)]
    assert [level.engine is engine for level in levels] == [True, False, False]
    assert [level.inverse is not None for level in levels] == [False, False, True]


@pytest.mark.parametrize(
    ("spacing", "coarse"), [((1.0, 1.0, 100.0), (16, 16, 32)), ((1.0, 100.0, 100.0), (16, 32, 32)), (1.0, (16, 16, 16))]
)
def test_only_axes_with_strong_couplings_are_coarsened(spacing: Any, coarse: Triple) -> None:
    grid = (32, 32, 32)
    rule = problems.diffusion(grid, spacing=spacing)
    solution = dsolver.solve(rule, np.ones(grid), rtol=1e-9, device="cpu", M="mg")
    assert solution.converged
    assert solution.iterations <= 12
    x = np.broadcast_to(spacing, 3)
    strengths = 1.0 / x**2
    assert coarse == tuple(n // (2 if s >= 0.5 * strengths.max() else 1) for n, s in zip(grid, strengths, strict=True))


# -- whole solves ------------------------------------------------------------------------------------------------------


def jumps(x: Any, y: Any, z: Any) -> Any:
    """κ = 1 or 10⁴ in a checkerboard of blocks of four cells."""
    return np.where((x // 4 + y // 4 + z // 4) % 2 < 1, 1.0, 1e4)


PROBLEMS: dict[str, tuple[Problem, int]] = {
    "27 points": (problems.poisson27((24, 24, 24)), 8),
    "7 points": (problems.poisson7((24, 24, 24)), 12),
    "odd": (problems.poisson7((25, 17, 31)), 12),
    "prime": (problems.diffusion((23, 29, 19)), 12),
    "neumann": (problems.diffusion((23, 20, 17), bc="neumann"), 13),
    "periodic": (problems.diffusion((24, 21, 16), bc="periodic"), 12),
    "one cell thick": (problems.diffusion((61, 1, 40)), 12),
    "a line": (problems.diffusion((1, 1, 700)), 12),
    "jumps": (problems.diffusion((24, 24, 24), jumps), 20),
    "anisotropic": (problems.diffusion((24, 24, 24), spacing=(1.0, 1.0, 100.0)), 12),
    "holes": (problems.diffusion((20, 20, 20), mask=lambda x, y, z: (x - 10) ** 2 + (y - 10) ** 2 + z**2 < 30), 16),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_iterations_do_not_depend_on_the_cut(name: str) -> None:
    problem, most = PROBLEMS[name]
    b = np.random.default_rng(5).standard_normal(problem.grid)
    if problem.singular:
        b -= b.mean()
    counts = []
    for cut in ((1, 1, 1), (2, 1, 1), (2, 2, 2)):
        chunks: Any = tuple(1 if n == 1 else c for c, n in zip(cut, problem.grid, strict=True))
        solution = dsolver.solve(replace(problem, chunks=chunks), b, rtol=1e-9, device="cpu", M="mg")
        assert solution.converged, solution
        counts.append(solution.iterations)
    assert max(counts) - min(counts) <= 1, counts
    assert max(counts) <= most, counts


def blocks_of_two(x: Any, y: Any, z: Any) -> Any:
    """κ = 1 or 10⁶ in a checkerboard."""
    return np.where((x // 2 + y // 2 + z // 2) % 2 < 1, 1.0, 1e6)


HELD = {"x-": "dirichlet"} | dict.fromkeys(("x+", "y", "z"), "neumann")
TURNING: dict[str, Problem] = {
    "blocks that are thinner at faces": problems.diffusion((17, 13, 19), blocks_of_two, bc="neumann"),
    "stretched": problems.diffusion((24, 20, 22), bc=HELD, spacing=[1.2 ** np.arange(n) for n in (24, 20, 22)]),
}
"""The lattice took 87 and 108 iterations: it is made coarser along the same axes everywhere."""


@pytest.mark.parametrize("name", TURNING)
@pytest.mark.parametrize("cut", [(1, 1, 1), (2, 2, 2)])
def test_where_anisotropy_turns_coarse_points_follow_couplings(name: str, cut: tuple[int, int, int]) -> None:
    b = np.random.default_rng(5).standard_normal(TURNING[name].grid)
    solution = dsolver.solve(replace(TURNING[name], chunks=cut), b - b.mean(), rtol=1e-9, device="cpu", M="mg")
    assert solution.converged
    assert solution.iterations <= 13


@pytest.mark.parametrize("grid", [(16, 2, 2), (9, 5, 8)])
def test_chunks_of_one_point_along_strong_couplings(grid: tuple[int, int, int]) -> None:
    """Side by side, Gauss-Seidel leaves (1, -1) nearly as it is there, and no coarse point sees it: 4 and 11
    iterations, and 584 in a medium of 23 x 3 x 32 cells."""
    problem = problems.diffusion(grid, (1.0, 1000.0, 100.0), chunks=(1, grid[1], 2))
    b = np.random.default_rng(5).standard_normal(grid)
    found, expected = (dsolver.solve(p, b, device="cpu", M="mg") for p in (problem, replace(problem, chunks=(1, 1, 1))))
    assert found.iterations <= expected.iterations + 1


def test_iterations_do_not_grow_with_the_grid() -> None:
    counts = []
    for n in (12, 24, 48):
        b = np.random.default_rng(6).standard_normal((n, n, n))
        counts.append(dsolver.solve(problems.poisson27((n, n, n)), b, rtol=1e-9, device="cpu", M="mg").iterations)
    assert max(counts) <= 8, counts


def test_chunks_thinner_than_a_halo() -> None:
    problem = problems.diffusion((9, 12, 10), bc="periodic", sigma=0.1, chunks=((1, 2, 1, 3, 2), (12,), (4, 1, 5)))
    b = np.random.default_rng(7).standard_normal(problem.grid)
    cut, whole = (dsolver.solve(replace(problem, chunks=c), b, rtol=1e-9, M="mg") for c in (problem.chunks, (1, 1, 1)))
    assert cut.converged
    assert abs(cut.iterations - whole.iterations) <= 3, (cut.iterations, whole.iterations)
    np.testing.assert_allclose(cut.x, whole.x, atol=1e-7 * np.abs(whole.x).max())


# -- full multigrid ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CUTS[:3])
@pytest.mark.parametrize("kind", ["constant", "variable"])
def test_a_guess_of_full_multigrid_is_better_than_a_cycle_and_saves_iterations(chunks: Triple, kind: str) -> None:
    grid = (33, 30, 34)
    kappa = 1.0 if kind == "constant" else np.exp(np.random.default_rng(3).standard_normal(grid))
    problem = replace(problems.diffusion(grid, kappa), chunks=chunks)
    b = np.cos(np.arange(33) / 12.0)[:, None, None] * np.ones(grid)  # smooth, so that much of it is seen by all levels
    with dsolver.Solver(problem, device="cpu", M="mg") as solver:
        exact = solver.solve(b, rtol=1e-12).x
        without = solver.solve(b)
        guess = solver.solve(b, x0="fmg", maxiter=0)
        cycle = solver.solve(b, maxiter=1)
        several = solver.solve([b, 2.0 * b], x0="fmg")
        assert solver.solve(b).residuals == without.residuals  # the preconditioner is what it was

    # Conjugate gradients scale a cycle so that its error is smallest, and no method scales a guess.
    assert kind == "variable" or np.linalg.norm(guess.x - exact) < np.linalg.norm(cycle.x - exact)
    assert several.converged
    assert several[0].iterations < without.iterations
    assert several[0].iterations == several[1].iterations


def test_a_guess_of_full_multigrid_in_float32_begins_as_well_as_one_in_float64() -> None:
    problem = problems.poisson27((33, 30, 34))
    b = 1e-30 * np.random.default_rng(4).standard_normal(problem.grid)

    double, single = (
        dsolver.solve(problem, b, x0="fmg", device="cpu", M="mg", precond_dtype=dtype)
        for dtype in ("float64", "float32")
    )

    assert single.residuals[0] == pytest.approx(double.residuals[0], rel=1e-3)
    assert single.iterations == double.iterations


def test_a_name_that_is_no_guess_is_refused() -> None:
    problem = problems.poisson7((4, 4, 4))
    b = np.ones(problem.grid)
    with pytest.raises(InputError, match="must be an array like b or 'fmg'"):
        dsolver.solve(problem, b, x0="zero")
    with pytest.raises(InputError, match="needs M='mg'"):
        dsolver.solve(problem, b, x0="fmg", M="jacobi")
    with dsolver.Solver(problem, M=None) as solver, pytest.raises(InputError, match="needs M='mg'"):
        solver.solve([b, b], x0="fmg")
