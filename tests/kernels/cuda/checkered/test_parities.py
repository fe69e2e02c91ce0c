"""Restriction and prolongation between levels of eight colors, against those of all rows."""

from __future__ import annotations

import pytest

from dsolver.grid.box import BOX_OFFSETS, Flags, Triple
from dsolver.kernels.formats.checkered.parities import Parities, fits, starts
from tests.kernels.cuda.checkered.half_transfers import check_bits, half_and_whole
from tests.kernels.lattice.test_galerkin import random_rows, whole, with_ghosts

NONE: Flags = (False, False, False)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("grid", "wraps", "factors"),
    [
        ((66, 9, 7), NONE, (2, 2, 2)),
        ((4, 3, 2), NONE, (2, 2, 2)),
        ((8, 4, 12), (True, True, True), (2, 2, 2)),
        ((67, 5, 8), NONE, (1, 1, 2)),
        ((6, 8, 4), (True, False, True), (1, 1, 2)),
        ((7, 5, 4), NONE, (2, 1, 2)),
        ((6, 4, 8), (True, True, True), (1, 2, 1)),
        ((9, 1, 4), NONE, (2, 1, 1)),
        ((4, 9, 1), NONE, (1, 2, 1)),
        ((5, 4, 6), NONE, (1, 2, 2)),
        ((5, 4, 6), NONE, (2, 2, 1)),
    ],
)
def test_parities_have_the_bits_of_slices(grid: Triple, wraps: Flags, factors: Triple) -> None:
    assert fits(grid, wraps, factors)
    weights = with_ghosts(random_rows(grid, wraps, BOX_OFFSETS, shift=0.1), whole(grid, wraps, factors))
    layout, half, all_rows = half_and_whole(grid, wraps, factors, BOX_OFFSETS, weights, Parities, in_place=True)
    own = layout.position
    check_bits(half, all_rows, layout.size, read=own[layout.color != 7], unread=own[layout.color == 7])


def test_colors_that_do_not_fit() -> None:
    ring = (True, False, False)
    assert fits((5, 5, 5), NONE, (2, 2, 2))
    assert fits((8, 5, 5), ring, (2, 2, 2))
    for grid, factors in (
        ((5, 4, 4), (1, 2, 2)),
        ((6, 4, 4), (2, 2, 2)),
        ((2, 4, 4), (2, 1, 1)),
        ((8, 4, 4), (1, 1, 1)),
    ):
        assert not fits(grid, ring, factors)


def test_weights_of_all_classes() -> None:
    assert starts((8, 8, 8), (2, 2, 2)) == (0, 0, 8, 16, 20, 28, 32, 36, 36)
    assert starts((8, 8, 8), (1, 1, 2)) == (0, 0, 4, 8, 12, 12, 12, 12, 12)
