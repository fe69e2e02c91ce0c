"""Restriction and prolongation of the first color of a star, against those of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.grid.box import STAR_OFFSETS, Flags, Triple
from dsolver.kernels.formats.checkered.corners import Corners
from dsolver.kernels.formats.layout import SLICE
from tests.kernels.cuda.checkered.half_transfers import check_bits, half_and_whole
from tests.kernels.cuda.faces.test_faces import symmetric

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("grid", "wraps", "factors"),
    [
        ((66, 9, 7), (False, False, False), (2, 2, 2)),
        ((4, 3, 2), (False, False, False), (2, 2, 2)),
        ((6, 4, 8), (True, True, True), (2, 2, 2)),
        ((6, 5, 7), (False, False, False), (1, 1, 2)),
        ((6, 5, 4), (False, False, False), (2, 1, 2)),
        ((6, 4, 8), (True, True, True), (1, 2, 1)),
    ],
)
def test_corners_have_the_bits_of_slices(grid: Triple, wraps: Flags, factors: Triple) -> None:
    weights = np.pad(symmetric(grid, wraps), [(0, 0), (2, 2), (2, 2), (2, 2)], mode="wrap" if wraps[0] else "constant")
    layout, half, whole = half_and_whole(grid, wraps, factors, STAR_OFFSETS, weights, Corners, in_place=False)
    begin, end = (SLICE * int(first) for first in layout.color_slices[:2])  # of the first color, and its padding
    check_bits(half, whole, layout.size, read=np.arange(begin, end), unread=slice(end, None))
