"""Places of numbers in windows, as tables tell them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsolver.kernels.cpu.amg.windows import places
from dsolver.kernels.cpu.loops.team import Team

TEAM = Team()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("behind", [False, True])
@given(
    first=st.integers(0, 30),
    rows=st.integers(1, 30),
    around=st.sets(st.integers(0, 90)),
    seed=st.integers(0, 2**32 - 1),
)
def test_places_are_those_of_the_window(
    kind: type[np.integer], behind: bool, first: int, rows: int, around: set[int], seed: int
) -> None:
    """behind: all ghosts come behind the own points, as in the rows of a block; else they ascend with them."""
    own = np.arange(first, first + rows)
    ghosts = np.array(sorted(around - set(own.tolist())), dtype=np.int64)
    below = 0 if behind else int(np.searchsorted(ghosts, first))
    numbers = np.concatenate([ghosts[:below], own, ghosts[below:]])
    wanted = np.random.default_rng(seed).integers(0, len(numbers), size=50)
    found = places(numbers[wanted].astype(kind), first, rows, ghosts, below, TEAM)
    assert np.array_equal(found, wanted)
