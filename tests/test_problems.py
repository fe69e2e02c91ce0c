"""Problems, orders and levels: what they are, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from dsolver import problems
from dsolver.errors import InputError
from dsolver.levels import Hierarchy, coarse_rows
from dsolver.ordering import BEST_CLASSES, Order
from dsolver.partition import Partition, Triple

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


# -- orders ------------------------------------------------------------------------------------------------------------

ORDERS = ("natural", "color8", "0 1 2 3 4 5 6 7", "7 5 2 6 1 4 3 0")
SHAPES: tuple[Triple, ...] = ((1, 1, 1), (1, 5, 2), (4, 4, 4), (7, 3, 5))


@pytest.mark.parametrize("text", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_one_color_do_not_read_each_other(text: str, shape: Triple) -> None:
    order = Order.parse(text)
    flat = order.colors(np, shape)
    assert flat.dtype == np.int32
    assert 0 <= flat.min() <= flat.max() < order.count(shape)
    color = flat.reshape(shape, order="F")
    for point in product(*(range(n) for n in shape)):
        near = tuple(slice(max(0, a - 1), a + 2) for a in point)
        assert (color[near] == color[point]).sum() == 1


@pytest.mark.parametrize("text", ["color8", "color2", "7 5 2 6 1 4 3 0"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (5, 5, 3), (7, 3, 4), (4, 6, 8)])
@pytest.mark.parametrize("lo", [(0, 0, 0), (1, 0, 3)])
def test_rows_of_one_color_do_not_read_each_other_around_periodic_axes(text: str, shape: Triple, lo: Triple) -> None:
    order = Order.parse(text)
    offsets = problems.STAR_OFFSETS if order.red_black else problems.BOX_OFFSETS
    for wrapped in product((False, True), repeat=3):
        color = order.colors(np, shape, lo, (wrapped[0], wrapped[1], wrapped[2])).reshape(shape, order="F")
        assert 0 <= color.min() <= color.max() < order.count(shape, (wrapped[0], wrapped[1], wrapped[2]))
        for point, offset in product(np.ndindex(shape), offsets):
            there = [p + d for p, d in zip(point, offset, strict=True)]
            around = tuple(p % n if w else p for p, n, w in zip(there, shape, wrapped, strict=True))
            if offset != (0, 0, 0) and all(0 <= p < n for p, n in zip(around, shape, strict=True)):
                assert color[around] != color[point]


def test_parities_are_the_grid_s_where_the_chunk_s_place_is_told() -> None:
    """Chunks of odd extents then continue each other's colors."""
    for text in ("color8", "color2"):
        order = Order.parse(text)
        whole = order.colors(np, (7, 5, 6)).reshape((7, 5, 6), order="F")
        for chunk in Partition((7, 5, 6), (2, 2, 2)):
            part = order.colors(np, chunk.box.shape, chunk.box.lo).reshape(chunk.box.shape, order="F")
            assert (part == whole[chunk.box.slices]).all()


def test_two_colors_are_for_seven_points_and_the_natural_order_for_what_has_ends() -> None:
    assert Order.parse("color2").count((4, 4, 4)) == 2
    with pytest.raises(InputError, match="for 7-point stencils"):
        Hierarchy.plan(problems.hpcg((8, 8, 8)), (1, 1, 1), Order.parse("color2"))
    with pytest.raises(InputError, match="not periodic: use color8"):
        Order(None).colors(np, (4, 4, 4), wrapped=(True, False, False))
    with pytest.raises(InputError, match="not by classes"):
        Order(BEST_CLASSES, red_black=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_natural_order_colors_by_wavefronts(shape: Triple) -> None:
    """A neighbor comes before a row exactly when its row number is smaller."""
    color = Order.parse("natural").colors(np, shape).reshape(shape, order="F")
    row = np.arange(color.size).reshape(shape, order="F")
    for point in product(*(range(n) for n in shape)):
        near = tuple(slice(max(0, a - 1), a + 2) for a in point)
        assert ((color[near] < color[point]) == (row[near] < row[point])).all()


def test_parity_classes_are_visited_in_the_order_that_is_named() -> None:
    classes = (3, 1, 4, 0, 5, 2, 6, 7)
    color = Order(classes).colors(np, (2, 2, 2)).reshape((2, 2, 2), order="F")
    for i, j, k in product((0, 1), repeat=3):
        assert classes[color[i, j, k]] == i + 2 * j + 4 * k


def test_coarse_points_come_last_by_default() -> None:
    assert BEST_CLASSES[-1] == 0


@pytest.mark.parametrize("text", [*ORDERS, "color2"])
def test_an_order_is_written_as_it_is_read(text: str) -> None:
    assert str(Order.parse(text)) == text


@pytest.mark.parametrize("text", ["", "red-black", "0 1 2", "0 1 2 3 4 5 6 6", "1 2 3 4 5 6 7 8", None, 8])
def test_unknown_orders_are_refused_with_those_that_exist(text: Any) -> None:
    with pytest.raises(InputError, match="use natural, color8, or eight classes"):
        Order.parse(text)


# -- levels ------------------------------------------------------------------------------------------------------------


def test_a_hierarchy_halves_every_chunk() -> None:
    hierarchy = Hierarchy.plan(problems.hpcg((32, 16, 48)), (2, 1, 3), Order(None))
    assert hierarchy.depth == 4
    assert [p.grid for p in hierarchy.partitions] == [(32, 16, 48), (16, 8, 24), (8, 4, 12), (4, 2, 6)]
    assert {p.counts for p in hierarchy.partitions} == {(2, 1, 3)}


@pytest.mark.parametrize(
    ("grid", "chunks", "levels", "message"),
    [
        ((16, 12, 16), (1, 1, 1), 4, "chunks of 12 points along y that are not divisible by 8"),
        ((16, 16, 16), (1, 1, 4), 4, "chunks of 4 points along z that are not divisible by 8"),
        ((10, 16, 16), (3, 1, 1), 2, "chunks of 3 points along x that are not divisible by 2"),
    ],
)
def test_chunks_that_cannot_be_halved_so_often_are_refused(
    grid: Triple, chunks: Triple, levels: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Hierarchy.plan(problems.hpcg(grid), chunks, Order(None), levels)


def test_one_level_needs_no_divisibility() -> None:
    assert Hierarchy.plan(problems.hpcg((7, 5, 3)), (2, 3, 1), Order(None), levels=1).depth == 1


def test_coarse_rows_are_every_second_point() -> None:
    fine = np.arange(4 * 6 * 2).reshape((4, 6, 2), order="F")
    expected = fine[::2, ::2, ::2].ravel(order="F")
    assert (coarse_rows(np, (4, 6, 2), (2, 3, 1)) == expected).all()


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
