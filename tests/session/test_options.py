"""Options of a solve: SciPy's limit, and values that mean nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dsolver.errors import InputError
from dsolver.session.options import Options


def test_the_limit_is_scipys() -> None:
    assert Options(rtol=1e-3, atol=0.0).limit(50.0) == 0.05
    assert Options(rtol=1e-3, atol=0.1).limit(50.0) == 0.1
    half: Any = np.float32(0.5)
    assert Options(rtol=half, atol=0).limit(2.0) == 1.0


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "1e-6", None, 1j])
def test_tolerances_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be a finite number >= 0"):
        Options(**{name: value})


@pytest.mark.parametrize("value", [-1, 2.5, "7", math.inf])
def test_iterations_that_cannot_be_counted_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="maxiter must be an integer >= 0"):
        Options(maxiter=value)
