"""A view without its base: the same memory, in an array of its own."""

from __future__ import annotations

import numpy as np
import pytest

from dsolver.kernels import load
from dsolver.kernels.views import without_base


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_view_apart_is_the_same_memory(name: str) -> None:
    backend = load(name)
    whole = backend.asarray(np.arange(24.0).reshape(2, 3, 4))
    for view in (whole[1], whole[:, 1]):  # the second one is not contiguous
        found = without_base(view)
        np.testing.assert_array_equal(backend.to_host(found), backend.to_host(view))
        found[...] = -1.0
        assert float(abs(view + 1.0).sum()) == 0.0
    assert without_base(whole[1]).base is not whole
