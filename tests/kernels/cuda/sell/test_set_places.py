"""Places of flags on a GPU, whose number a set-up foresees."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.deferred import UnforeseenError

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("size", [0, 1, 255, 5000])
@pytest.mark.parametrize("part", [0.0, 0.1, 1.0])
def test_places_ascend(size: int, part: float) -> None:
    from dsolver.kernels.cuda.sell.assembly.assembly import set_places

    backend = load("cuda")
    flags = (np.random.default_rng(size).random(size) < part).astype(np.uint8)
    found = backend.to_host(set_places(backend.asarray(flags)))
    assert found.dtype == np.int32
    assert found.tolist() == np.flatnonzero(flags).tolist()


@pytest.mark.parametrize("others", [40, 3])
def test_another_number_than_foreseen_writes_nowhere_else(others: int) -> None:
    from dsolver.kernels.cuda.sell.assembly.assembly import set_places

    backend = load("cuda")
    for count in (20, 20, others):
        flags = np.zeros(64, np.uint8)
        flags[:count] = 1
        try:
            with backend.foreseeing("a number of places") as foresight:
                found = set_places(backend.asarray(flags))
                foresight.confirm()
        except UnforeseenError:
            assert count == others
        else:
            assert backend.to_host(found).tolist() == list(range(count))
            assert count == 20
