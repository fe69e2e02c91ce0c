"""Rows of storage orders with their padding, against the layouts that are made."""

from __future__ import annotations

import pytest

from dsolver.distributed.slice_counts import Colors, padded_rows
from dsolver.grid.box import BOX_OFFSETS, STAR_OFFSETS, Offsets, Triple
from dsolver.grid.coloring import colored_layout
from dsolver.grid.partition import Partition
from dsolver.kernels import load
from dsolver.kernels.formats.layout import SLICE


@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 8, 8), (7, 5, 3), (65, 2, 1), (9, 9, 9)])
@pytest.mark.parametrize(("offsets", "colors"), [(STAR_OFFSETS, Colors.RED_BLACK), (BOX_OFFSETS, Colors.PARITY)])
def test_padded_rows_are_those_of_the_layout(shape: Triple, offsets: Offsets, colors: Colors) -> None:
    partition = Partition(shape, (1, 1, 1))
    layout = colored_layout(load("cpu"), partition, partition[0].box, offsets)
    assert layout.size == padded_rows(shape, colors) + 2 * SLICE  # one before all colors, one behind
