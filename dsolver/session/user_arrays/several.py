"""Several right-hand sides and solutions in one array."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dsolver.foreign_arrays import is_foreign, opened
from dsolver.session.user_arrays.given import labeled


def stacked(solutions: list[Any], like: Any, axis: int = 0) -> Any:
    """Arrays of one kind as one array with one more dimension, which a DataArray `like` names."""
    match type(like).__module__.partition(".")[0]:
        case "xarray":
            whole = stacked([x.data for x in solutions], like.data, axis)
            return labeled(like, whole)
        case "dask":
            import dask.array as da

            return da.stack(solutions, axis)
        case "cupy":
            return sys.modules["cupy"].stack(solutions, axis)
    if is_foreign(like):
        _, back = opened("b", like)
        inner = [opened("x", x)[0] if is_foreign(x) else x for x in solutions]
        return back(stacked(inner, inner[0], axis))
    return np.stack(solutions, axis)
