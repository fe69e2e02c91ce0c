from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import dsolver
from dsolver import problems
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.partition import Partition
from dsolver.kernels import Backend, load
from dsolver.multigrid.geometric.matrix_statistics import dominates, ending, is_rough, turning
from dsolver.preconditioners import Multigrid
from dsolver.problems import STAR_OFFSETS

GRID = (12, 10, 8)
CENTER = STAR_OFFSETS.index((0, 0, 0))
RNG = np.random.default_rng(3)
X, Y, Z = np.indices(GRID)


def star(kappa: Any, across: float = 1.0) -> Any:
    """Off-diagonal weights (7, rows) of harmonic averages, zero at the ends; the z axis is weaker by a factor."""
    ghosted = np.pad(kappa, 1, mode="edge")
    out = np.zeros((7, *GRID))
    for number, offset in enumerate(STAR_OFFSETS):
        if offset == (0, 0, 0):
            out[number] = 6.0
            continue
        other = ghosted[tuple(slice(1 + d, 1 + d + n) for d, n in zip(offset, GRID, strict=True))]
        out[number] = -2.0 / (1.0 / kappa + 1.0 / other) * (across if offset[2] else 1.0)
        for axis, d in enumerate(offset):
            if d:
                end: list[Any] = [slice(None)] * 3
                end[axis] = slice(-1, None) if d > 0 else slice(0, 1)
                out[(number, *end)] = 0.0
    return out


def of_rows(
    find: Callable[..., Any], weights: Any, cut: tuple[int, int, int] = (1, 1, 1), backend: Backend | None = None
) -> Any:
    """Findings of a function of the module in the rows of a grid that is cut so."""
    partition = Partition(GRID, cut)
    engine = EagerEngine(partition, backend or load("numpy"))

    def rows(backend: Backend, number: int) -> Any:
        own = weights[(slice(None), *partition[number].box.slices)]
        return backend.asarray(own.transpose(0, 3, 2, 1).reshape(-1))

    return find(engine, STAR_OFFSETS, engine.per_chunk(rows))


SMOOTH = np.exp(X / 3.0 + np.sin(Y) - Z / 5.0)
NOISE = np.exp(2.0 * RNG.standard_normal(GRID))
BLOCKS = np.where((X // 4 + Y // 4 + Z // 4) % 2, 1e4, 1.0)
ONE_CELL = np.where((X == 5) & (Y == 5) & (Z == 4), 1e4, 1.0)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (star(np.ones(GRID)), False),
        (star(np.ones(GRID), across=1e-4), False),
        (star(SMOOTH), False),
        (star(ONE_CELL), False),
        (star(NOISE), True),
        (star(BLOCKS), True),
    ],
    ids=["constant", "anisotropic", "smooth", "one cell", "noise", "blocks"],
)
def test_what_is_rough(weights: Any, expected: bool) -> None:
    assert of_rows(is_rough, weights) is expected
    assert of_rows(is_rough, weights, (2, 1, 2)) is expected


def test_where_lines_end() -> None:
    """Whole lines of 12, 10 and 8 points have two ends each; a wall across x cuts them in two."""
    box = star(np.ones(GRID))
    lines = [2 * 10 * 8, 2 * 12 * 8, 2 * 12 * 10]
    assert (
        of_rows(partial(ending, decide=float), box)
        == of_rows(partial(ending, decide=float), box, (2, 1, 2))
        == pytest.approx(sum(lines) / (3 * 960))
    )
    walled = box.copy()
    walled[:, 5] = 0.0
    walled[STAR_OFFSETS.index((1, 0, 0)), 4] = walled[STAR_OFFSETS.index((-1, 0, 0)), 6] = 0.0
    lines = [4 * 10 * 8, 2 * 11 * 8, 2 * 11 * 10]
    assert of_rows(partial(ending, decide=float), walled) == pytest.approx(sum(lines) / (3 * 880))


def leaning(*conductivities: Any) -> Any:
    """Weights (7, rows) with these conductivities along x, y and z."""
    out = np.zeros((7, *GRID))
    for number, offset in enumerate(STAR_OFFSETS):
        if any(offset):
            out[number] = star(conductivities[int(np.flatnonzero(offset)[0])])[number]
    return out


def test_whether_diagonals_dominate() -> None:
    weights = star(np.ones(GRID))
    weights[CENTER] = 6.0 / 0.9
    for cut in ((1, 1, 1), (2, 1, 2)):
        assert of_rows(partial(dominates, part=0.91), weights, cut)
        assert not of_rows(partial(dominates, part=0.89), weights, cut)
    weights[CENTER, -1, -2, -2] = 5.0  # in the last chunk
    for cut in ((1, 1, 1), (2, 1, 2)):
        assert not of_rows(partial(dominates, part=0.91), weights, cut)


def test_where_anisotropy_turns() -> None:
    """Not where it is the same everywhere, however strong; the corner has an eighth of all cells, or a 64th."""
    one = np.ones(GRID)
    corner, small = (np.where((x < 6) & (y < 5) & (z < 4), 1e3, 1.0) for x, y, z in ((X, Y, Z), (2 * X, 2 * Y, 2 * Z)))
    for weights, part in (
        (star(one), 0.0),
        (star(one, across=1e-6), 0.0),
        (star(SMOOTH, across=1e3), 0.0),
        (star(BLOCKS), 0.0),
        (leaning(corner, one, one), 5 * 6 * 4 / 960),
        (leaning(one, one, small), 3 * 3 * 2 / 960),
    ):
        found, beyond = of_rows(partial(turning, decide=list, ratios=[30.0, 1e4]), weights)
        assert found == pytest.approx(part, abs=0.02)
        assert beyond == 0.0
        assert of_rows(partial(turning, decide=list, ratios=[30.0]), weights, (2, 1, 2)) == [found]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_where_anisotropy_turns_on_gpus(dtype: Any) -> None:
    """Sums over chunks are of float64, whatever the vectors of the system are."""
    corner = np.where((X < 6) & (Y < 5) & (Z < 4), 1e3, 1.0)
    weights, find = leaning(corner, np.ones(GRID), np.ones(GRID)), partial(turning, decide=list, ratios=[30.0])
    for cut in ((1, 1, 1), (2, 1, 2)):
        assert of_rows(find, weights, cut, load("cuda", dtype=dtype)) == of_rows(find, weights)


def test_multigrid_smooths_more_where_it_is_rough() -> None:
    b = RNG.standard_normal((32, 32, 32))
    kappa = np.exp(2.0 * RNG.standard_normal((32, 32, 32)))
    problem = problems.diffusion((32, 32, 32), kappa)
    chosen = dsolver.solve(problem, b, rtol=1e-9, M="mg")
    assert chosen.residuals == dsolver.solve(problem, b, rtol=1e-9, M=Multigrid(sweeps=2, visits=2)).residuals
    plain = dsolver.solve(problem, b, rtol=1e-9, M=Multigrid(sweeps=1, visits=1))
    assert chosen.iterations < 0.9 * plain.iterations
    smooth = problems.diffusion((32, 32, 32), 1.0 + 0.1 * kappa / kappa.max())
    options = [dsolver.solve(smooth, b, rtol=1e-9, M=M).residuals for M in ("mg", Multigrid(sweeps=1, visits=1))]
    assert options[0] == options[1]
