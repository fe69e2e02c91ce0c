"""Colorings: rows of one color do not read each other, and are visited in the order that is named."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from dsolver import kernels, problems
from dsolver.errors import InputError
from dsolver.grid.box import Offsets, Triple
from dsolver.grid.coarse_grid import partition_of
from dsolver.grid.coloring import BEST_CLASSES, Order, colored_layout
from dsolver.grid.numbering import chunk_numbering
from dsolver.grid.partition import Partition
from dsolver.kernels.colorings import COLORINGS
from dsolver.problems import BOX_OFFSETS, STAR_OFFSETS
from dsolver.program.spec import SolveSpec
from tests.grid.test_coarse_grid import CUTS

NUMPY = kernels.load("numpy")
ORDERS = ("natural", "color8", "0 1 2 3 4 5 6 7", "7 5 2 6 1 4 3 0", *COLORINGS)
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
def test_rows_of_one_color_do_not_read_each_other_around_periodic_axes(text: str, shape: Triple) -> None:
    order = Order.parse(text)
    offsets = problems.STAR_OFFSETS if order.red_black else problems.BOX_OFFSETS
    for wrapped in product((False, True), repeat=3):
        color = order.colors(np, shape, (wrapped[0], wrapped[1], wrapped[2])).reshape(shape, order="F")
        assert 0 <= color.min() <= color.max() < order.count(shape, (wrapped[0], wrapped[1], wrapped[2]))
        for point, offset in product(np.ndindex(shape), offsets):
            there = [p + d for p, d in zip(point, offset, strict=True)]
            around = tuple(p % n if w else p for p, n, w in zip(there, shape, wrapped, strict=True))
            if offset != (0, 0, 0) and all(0 <= p < n for p, n in zip(around, shape, strict=True)):
                assert color[around] != color[point]


def test_two_colors_are_for_seven_points_and_the_natural_order_for_what_has_ends() -> None:
    assert Order.parse("color2").count((4, 4, 4)) == 2
    with pytest.raises(InputError, match="for 7-point stencils"):
        SolveSpec.plan(problems.hpcg((8, 8, 8)), (1, 1, 1), "color2")
    with pytest.raises(InputError, match="not periodic: use color8"):
        Order(None).colors(np, (4, 4, 4), wrapped=(True, False, False))
    with pytest.raises(InputError, match="order='jpl' is for grids that are not periodic"):
        Order.parse("jpl").colors(np, (4, 4, 4), wrapped=(True, False, False))
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


@pytest.mark.parametrize(("grid", "cut", "periodic"), CUTS)
@pytest.mark.parametrize("offsets", [STAR_OFFSETS, BOX_OFFSETS], ids=["star", "box"])
def test_rows_of_one_color_of_a_level_do_not_read_each_other(
    grid: Triple, cut: Any, periodic: tuple[bool, bool, bool], offsets: Offsets
) -> None:
    partition = partition_of(grid, cut, periodic)
    for chunk in partition:
        layout = colored_layout(NUMPY, partition, chunk.box, offsets)
        around = chunk_numbering(NUMPY, partition, chunk.number, offsets)
        color = np.asarray(layout.color)
        nx, ny, nz = chunk.box.shape
        for i, j, k in offsets:
            columns = around[1 + k : 1 + k + nz, 1 + j : 1 + j + ny, 1 + i : 1 + i + nx].reshape(-1)
            own = (columns >= 0) & (columns < layout.rows) & (columns != np.arange(layout.rows))
            assert (color[own] != color[columns[own]]).all()


def test_coarse_points_of_a_level_are_swept_first() -> None:
    whole = Partition((9, 8, 7))
    color = np.asarray(colored_layout(NUMPY, whole, whole.domain, BOX_OFFSETS).color).reshape(7, 8, 9)
    assert (color[1::2, 1::2, 1::2] == 0).all()
    assert (color > 0).sum() == color.size - 4 * 4 * 3
    red = np.asarray(colored_layout(NUMPY, whole, whole.domain, STAR_OFFSETS).color).reshape(7, 8, 9)
    assert (red[1::2, 1::2, 1::2] == 0).all()
    assert set(red.ravel()) == {0, 1}


def test_colors_of_a_level_do_not_depend_on_the_cut() -> None:
    grid = (11, 7, 6)
    whole = Partition(grid)
    color = np.asarray(colored_layout(NUMPY, whole, whole.domain, BOX_OFFSETS).color).reshape(grid[::-1])
    cut = Partition(grid, (3, 2, 2))
    for chunk in cut:
        x, y, z = chunk.box.slices
        own = np.asarray(colored_layout(NUMPY, cut, chunk.box, BOX_OFFSETS).color)
        assert (own == color[z, y, x].reshape(-1)).all()
