"""Points of a level on a GPU: the bits of the host's loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.kernels.amg import COARSE
from dsolver.kernels.cpu.amg import points


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1, 700])
def test_points_have_the_hosts_bits(count: int) -> None:
    import cupy

    from dsolver.kernels.cuda.amg import points as there

    rng = np.random.default_rng(0)

    def same(name: str, *arguments: Any) -> Any:
        expected = getattr(points, name)(*arguments)
        found = getattr(there, name)(*(cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments))
        for one, other in zip(*((a if isinstance(a, tuple) else (a,)) for a in (found, expected)), strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(cupy.asnumpy(one), other, equal_nan=True)
        return expected

    same("damped", np.where(rng.random(count) < 0.1, np.nan, 3.0 * rng.random(count)), 1.2, 1.05, 0.3)
    states, total = rng.integers(0, 3, count).astype(np.int8), cupy.zeros(1, dtype=np.int64)
    before = points.coarse_before(states)
    assert np.array_equal(there.coarse_before(cupy.asarray(states), total).get(), before)
    assert int(total[0]) == before[-1]
    numbers = same("numbered", states, before, 40)
    assert np.array_equal(same("states_of", numbers)[0] == COARSE, states == COARSE)
    same("through", numbers, 40, rng.integers(-1, 9, int(before[-1])))
    ends = np.sort(rng.integers(0, count + 1, 30))
    start, bits = np.append(0, ends), rng.integers(0, 4, ends[-1]).astype(np.float64)
    expected, found = points.leads(start, bits), there.leads(cupy.asarray(start), cupy.asarray(bits))
    assert all(np.array_equal(one.get(), other) for one, other in zip(found, expected, strict=True))
    assert expected[1].sum() == np.count_nonzero(bits > 1)
    for values in (rng.standard_normal((count, 3)), np.empty((count, 0)), rng.integers(0, 99, count)):
        same("of_coarse", numbers, 40, int(before[-1]), values)
