"""Points of a level on a GPU: the bits of the host's loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels.amg import points
from dsolver.kernels.amg.pmis import COARSE, FINE


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1, 700])
def test_points_have_the_hosts_bits(count: int) -> None:
    import cupy

    from dsolver.kernels.cuda.amg import points as there

    rng = np.random.default_rng(0)

    def same(name: str, *arguments: Any) -> Any:
        expected = getattr(points, name)(*arguments)
        found = getattr(there, name)(*(cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments))
        assert found.dtype == expected.dtype
        assert np.array_equal(cupy.asnumpy(found), expected, equal_nan=True)
        return expected

    same("shares", rng.integers(0, 3, count) * rng.standard_normal(count), rng.random(count))
    same("damped", np.where(rng.random(count) < 0.1, np.nan, 3.0 * rng.random(count)), 1.2, 1.05, 0.3)
    same("first_states", rng.integers(0, 2, count), FINE)
    states = rng.integers(0, 3, count).astype(np.int8)
    before = same("coarse_before", states)
    numbers = same("numbered", states, before, 40)
    assert np.array_equal(same("states_of", numbers) == COARSE, states == COARSE)
    for values in (rng.standard_normal((count, 3)), np.empty((count, 0)), rng.integers(0, 99, count)):
        same("of_coarse", numbers, 40, int(before[-1]), values)
