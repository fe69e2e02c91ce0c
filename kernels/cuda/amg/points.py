"""Points of a level on a GPU, a launch for each of `dsolver.kernels.cpu.amg.points`: the same bits."""

from math import prod
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.loader import for_each
from dsolver.kernels.cuda.sparse.starts import starts_of
from dsolver.kernels.formats.layout import Array

FILE: Final = "amg/points.cu"


def damped(share: Array, least: float, dominance: float, factor: float) -> Array:
    numbers = (np.float64(least), np.float64(dominance), np.float64(factor))
    return _each("damped", len(share), cupy.empty(len(share)), share, *numbers)


def coarse_before(states: Array, total: Array) -> Array:
    """See `dsolver.kernels.cpu.amg.points.coarse_before`; total: int64 (1,), where the number of all is written too."""
    return starts_of(states, total)


def numbered(states: Array, before: Array, first: int) -> Array:
    out = cupy.empty(len(states), dtype=np.int64)
    return _each("numbered", len(states), out, states, before, np.int64(first))


def states_of(numbers: Array) -> tuple[Array, Array]:
    names = cupy.empty(len(numbers), dtype=np.int32)
    return _each("states_of", len(numbers), cupy.empty(len(numbers), dtype=np.int8), numbers, names), names


def through(numbers: Array, first: int, others: Array) -> Array:
    return _each("through", len(numbers), cupy.empty_like(numbers), numbers, np.int64(first), others)


def leads(start: Array, values: Array) -> tuple[Array, Array]:
    bits, rows = cupy.empty(len(values), dtype=np.uint8), len(start) - 1
    return bits, _each("leads", rows, cupy.empty(rows, dtype=np.int64), start, values, bits)


def of_coarse(numbers: Array, first: int, count: int, values: Array) -> Array:
    width = prod(values.shape[1:])
    out = cupy.empty((count, *values.shape[1:]), dtype=values.dtype)
    if count * width:
        words = cupy.ascontiguousarray(values).view(np.uint64)
        _each("of_coarse", len(numbers), out.view(np.uint64), numbers, np.int64(first), words, np.int32(width))
    return out


def _each(name: str, count: int, out: Array, *arguments: Any) -> Array:
    """Items that a kernel writes, a thread a point."""
    for_each(FILE, name, count, *arguments, np.int64(count), out)
    return out
