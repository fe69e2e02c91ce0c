"""Memory of one call of a compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from dsolver.kernels.cpu import ahead
from dsolver.kernels.cpu.loops.compiled import inlined
from dsolver.kernels.cpu.loops.scratch import fill, scratch


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_])
def test_it_is_an_array_of_its_shape_and_dtype(dtype: Any) -> None:
    @njit
    def made(n: Any, like: Any) -> Any:
        line, plane = scratch(n, like.dtype), scratch((3, n), like.dtype)
        fill(line, 1)
        for row in range(3):
            fill(plane[row], row % 2)
        return line, plane

    line, plane = made(5, np.empty(0, dtype))
    assert (line.dtype, plane.dtype) == (dtype, dtype)
    assert np.array_equal(line, np.ones(5, dtype))
    assert np.array_equal(plane, np.array([[0] * 5, [1] * 5, [0] * 5], dtype))
    assert plane.flags.c_contiguous


def test_no_loop_that_is_compiled_ahead_compiles_numpys_for_memory() -> None:
    """Each is a function or three of its own, for each kind of shape and dtype."""
    for loop, _ in (found for loops in ahead.LOOPS.values() for found in loops()):
        assert not {"empty", "zeros", "full", "ones"} & set(loop.py_func.__code__.co_names), loop.__name__


def test_what_loops_call_cannot_be_called_by_python() -> None:
    """Python's wrapper of each of them was compiled, too."""

    @inlined()
    def twice(x: float) -> float:
        return 2.0 * x

    options: Any = twice
    assert options.targetoptions["no_cpython_wrapper"]
