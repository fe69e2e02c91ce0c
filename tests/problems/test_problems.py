"""Problems, orders and levels: what they are, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.errors import InputError
from dsolver.grid.box import Triple

LAPLACIAN = np.zeros((3, 3, 3))
LAPLACIAN[1, 1, :] = LAPLACIAN[1, :, 1] = LAPLACIAN[:, 1, 1] = -1.0
LAPLACIAN[1, 1, 1] = 6.0


def changed(value: Any, *where: Triple) -> Any:
    weights = LAPLACIAN.copy()
    for place in where:
        weights[place] = value
    return weights


# -- problems ----------------------------------------------------------------------------------------------------------


def test_the_named_problems_have_their_stencils() -> None:
    hpcg = problems.hpcg((8, 8, 8))
    assert dict(zip(hpcg.offsets, hpcg.weights, strict=True)) == {
        offset: 26.0 if offset == (0, 0, 0) else -1.0 for offset in product((-1, 0, 1), repeat=3)
    }
    poisson = problems.poisson7((8, 8, 8))
    assert len(poisson.offsets) == 7
    assert dict(zip(poisson.offsets, poisson.weights, strict=True))[0, 0, 0] == 6.0
    assert sum(poisson.weights) == 0.0
    assert problems.poisson27((8, 8, 8)).weights == hpcg.weights


def test_weights_are_addressed_by_offset_along_x_y_z() -> None:
    weights = LAPLACIAN.copy()
    weights[0, 1, 1] = weights[2, 1, 1] = -2.0
    weights[1, 1, 0] = weights[1, 1, 2] = -3.0
    found = problems.stencil((8, 8, 8), weights)
    by_offset = dict(zip(found.offsets, found.weights, strict=True))
    assert by_offset[1, 0, 0] == by_offset[-1, 0, 0] == -2.0
    assert by_offset[0, 0, 1] == by_offset[0, 0, -1] == -3.0


def test_a_stencil_off_the_axes_has_27_points() -> None:
    assert len(problems.stencil((8, 8, 8), changed(-0.5, (0, 0, 0), (2, 2, 2))).offsets) == 27
    assert len(problems.stencil((8, 8, 8), LAPLACIAN).offsets) == 7


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(27), r"shape \(3, 3, 3\), not \(27,\)"),
        ([[1.0], [2.0, 3.0]], r"shape \(3, 3, 3\)"),
        ("laplacian", "real numbers"),
        (LAPLACIAN * 1j, "real numbers"),
        (changed(np.nan, (1, 1, 1)), "not finite"),
        (changed(np.inf, (0, 1, 1), (2, 1, 1)), "not finite"),
        (changed(0.0, (1, 1, 1)), "zero diagonal"),
        (changed(-2.0, (0, 1, 1)), "not symmetric"),
        (changed(-2.0, (0, 0, 2)), "not symmetric"),
    ],
)
def test_weights_that_cannot_be_right_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problems.stencil((8, 8, 8), weights)


@pytest.mark.parametrize(
    ("grid", "chunks", "message"),
    [
        ((8, 8), None, "grid must be three integers"),
        ((8, 8, 0), None, "0 points along z"),
        ((8, 8, 8), (1, 9, 1), "9 chunks along y"),
        ((8, 8, 8), (2, 2), "chunks must be three integers"),
    ],
)
def test_grids_that_cannot_be_cut_are_refused_at_once(grid: Any, chunks: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problems.hpcg(grid, chunks=chunks)


def test_a_list_is_a_grid_too() -> None:
    grid: Any = [8, 16, 8]
    chunks: Any = np.array([1, 2, 1])
    problem = problems.hpcg(grid, chunks=chunks)
    assert problem.grid == (8, 16, 8)
    assert problem.chunks == (1, 2, 1)
    assert hash(problem) == hash(problems.hpcg((8, 16, 8), chunks=(1, 2, 1)))


@pytest.mark.parametrize(
    ("offsets", "weights", "message"),
    [
        (((0, 0, 0),), (1.0, 2.0), "1 offsets but 2 weights"),
        (((0, 0, 0), (0, 0, 0)), (1.0, 2.0), "different from each other"),
        (((0, 0, 0), (2, 0, 0), (-2, 0, 0)), (1.0, 2.0, 2.0), "in -1 .. 1"),
        (((1, 0, 0), (-1, 0, 0)), (1.0, 1.0), "zero diagonal"),
    ],
)
def test_stencils_by_hand_are_checked_too(offsets: Any, weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problems.Problem(name="mine", grid=(4, 4, 4), offsets=offsets, weights=weights)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("value at face x-", lambda hidden: problems.diffusion(hidden.shape, bc={"x-": problems.Dirichlet(hidden[0])})),
        ("spacing along z", lambda hidden: problems.diffusion(hidden.shape, spacing=(1.0, 1.0, hidden[0, 0]))),
        ("weights", lambda hidden: problems.stencil((8, 8, 8), hidden)),
    ],
)
def test_masked_arrays_are_refused_wherever_values_are_taken(name: str, make: Callable[[Any], Any]) -> None:
    hidden = np.ma.masked_greater(np.arange(1.0, 28.0).reshape(3, 3, 3), 2.0)
    with pytest.raises(InputError, match=f"{name}: a masked array"):
        make(hidden)
