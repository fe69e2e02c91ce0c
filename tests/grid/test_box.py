"""Boxes of a grid: numbers of points."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.grid.box import Box


@pytest.mark.parametrize("part", [Box(lo=(2, 3, 4), hi=(5, 7, 9)), Box(lo=(1, 2, 5), hi=(7, 8, 9))])
def test_some_points_have_the_numbers_that_all_have(part: Box) -> None:
    whole = Box(lo=(1, 2, 3), hi=(7, 8, 9))
    some = np.array([0, 3, 17, part.points - 1], dtype=np.int32)
    assert np.array_equal(whole.row_of(part, some), whole.rows_of(part)[some])
