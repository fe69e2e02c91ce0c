"""Columns in a range and outside of it, by loops over blocks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dsolver.kernels.cpu.csr.ranges import BLOCK, outside
from dsolver.kernels.cpu.loops.team import Team

FIRST, LAST = 1000, 1300


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("others", ["none", "a few", "a block", "all"])
def test_numbers_outside_of_a_range_are_found(threads: int, kind: Any, others: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(FIRST, LAST, 5 * BLOCK + 3).astype(kind)
    every = np.arange(len(numbers))
    places = {"none": every[:0], "a few": every[[0, 3, 4, 700, -1]], "a block": every[BLOCK : 2 * BLOCK + 1]}
    at: npt.NDArray[np.int64] = places.get(others, every)
    numbers[at] = rng.choice([FIRST - 1, 0, LAST, LAST + 9], len(at))
    found = outside(numbers, FIRST, LAST, Team(threads, worth=1))
    assert found.dtype == np.int64
    assert found.tolist() == at.tolist()
