"""Columns in a range and outside of it, by loops over blocks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels.cpu.csr.ranges import BLOCK, left_out, outside
from dsolver.kernels.cpu.loops.team import Team

FIRST, LAST, SHIFT = 1000, 1300, 7


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("others", ["none", "a few", "a block", "all"])
def test_numbers_outside_of_a_range_are_found_and_left_out(threads: int, kind: Any, others: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(FIRST, LAST, 5 * BLOCK + 3).astype(kind)
    at = {"none": [], "a few": [0, 3, 4, 700, len(numbers) - 1], "a block": np.arange(BLOCK, 2 * BLOCK + 1)}.get(
        others, np.arange(len(numbers))
    )
    numbers[at] = rng.choice([FIRST - 1, 0, LAST, LAST + 9], len(at))
    values, team = rng.random(len(numbers)), Team(threads, worth=1)
    found = outside(numbers, FIRST, LAST, team)
    assert found.dtype == np.int64
    assert found.tolist() == list(at)
    columns, left = left_out(found, numbers, values, SHIFT, team)
    kept = np.setdiff1d(np.arange(len(numbers)), at)
    assert columns.dtype == np.int32
    assert columns.tolist() == (numbers[kept] - SHIFT).tolist()
    assert left.tolist() == values[kept].tolist()
