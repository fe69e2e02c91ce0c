"""Looks at rows and coefficients of a lattice on a GPU, one launch each: see `dsolver.kernels.lattice.statistics`."""

from functools import partial
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.foresight import answer
from dsolver.kernels.cuda.launch.loader import THREADS, for_each, kernel
from dsolver.kernels.cuda.launch.readback import zeros
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.formats.stencil.alike import CANCELED, ROUNDING, Alike, probes
from dsolver.kernels.formats.stencil.rows import StencilRows
from dsolver.kernels.lattice.coarsening import Triple
from dsolver.kernels.lattice.statistics import pairs

FILE, DTYPE = "lattice/look.cu", "float64"
MOST_BLOCKS: Final = 2048  # blocks of a launch: as many as run at a time on a large device
OFFSET_BLOCKS: Final = 512  # blocks of each offset
MOST_LIMITS: Final = 4  # limits that `turns` counts for, as look.cu says too
FLAGS, WRAPS, BASE, GAINS, WORDS = 0, 1, 2, 3, 9  # words of `alike` behind two for each offset
SIGN: Final = np.uint64(1 << 63)


def alike(rows: StencilRows) -> Alike | None:
    """The numbers that rows with entries of their own, (K, rows), have in common: see `stencil.alike`."""
    count = len(rows.offsets)
    offset, places = probes(rows)
    found = zeros(2 * count + WORDS, np.uint64)
    arguments = (
        cupy.ascontiguousarray(rows.weights),
        rows.numbering,
        table(np.array(rows.offsets, dtype=np.int32)),
        np.int32(rows.offsets.index((0, 0, 0))),
        *(np.int32(n) for n in rows.shape),
        np.int32(offset if places else -1),
        *(np.int32(place) for place in places or (0, 0, 0)),
        np.float64(ROUNDING),
        np.float64(CANCELED),
        found,
    )
    kernel(FILE, "alike", DTYPE)((_blocks(rows.rows, OFFSET_BLOCKS), count), (THREADS,), arguments)
    return answer(partial(_alike, rows.offsets), found)


def _alike(offsets: tuple[Triple, ...], words: Any) -> Alike | None:
    """The result of `alike`, from its words."""
    count = len(offsets)
    rest, ends = words[2 * count :], words[: 2 * count].reshape(-1, 2)
    if rest[FLAGS]:
        return None
    some = ends[:, 0] > 0
    high, low = (np.where(some, _numbers(keys), 0.0) for keys in (ends[:, 0], ~ends[:, 1]))
    if not np.array_equal(high, low):  # nor are there NaN
        return None
    numbers = rest.view(np.float64)
    weights = [float(numbers[BASE]) if not any(o) else float(w) for o, w in zip(offsets, high, strict=True)]
    x, y, z = (bool(int(rest[WRAPS]) >> axis & 1) for axis in range(3))
    return Alike(wraps=(x, y, z), weights=tuple(weights), faces=tuple(numbers[GAINS:WORDS].tolist()))


def leanings(offsets: tuple[Triple, ...], weights: Array) -> Array:
    weights, both, rows = _rows(offsets, weights)
    blocks = _blocks(rows, MOST_BLOCKS)
    parts = cupy.empty((6, blocks))
    kernel(FILE, "leanings", DTYPE)((blocks,), (THREADS,), (weights, both, np.int64(rows), parts))
    return _totals(parts)


def couplings(offsets: tuple[Triple, ...], weights: Array) -> Array:
    weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
    rows = weights.shape[1]
    blocks = _blocks(rows, MOST_BLOCKS)
    steps, parts = [sum((step != 0) << axis for axis, step in enumerate(o)) for o in offsets], cupy.empty((3, blocks))
    numbers = np.int32(len(offsets)), np.int32(offsets.index((0, 0, 0))), np.int64(rows)
    arguments = (weights, table(np.array(steps, dtype=np.int32)), *numbers, parts)
    kernel(FILE, "couplings", DTYPE)((blocks,), (THREADS,), arguments)
    return _totals(parts)


def _totals(parts: Array) -> Array:
    """Sums of the blocks' parts, (n, blocks)."""
    out = cupy.empty(len(parts))
    kernel(FILE, "totals", DTYPE)((len(parts),), (THREADS,), (parts, np.int32(parts.shape[1]), out))
    return out


def turns(offsets: tuple[Triple, ...], weights: Array, sums: Array, limits: tuple[float, ...]) -> Array:
    if len(limits) > MOST_LIMITS:
        raise ValueError(f"{len(limits)} limits are more than a launch counts for")
    weights, both, rows = _rows(offsets, weights)
    out = zeros(len(limits), np.float64)
    arguments = (np.int64(rows), cupy.ascontiguousarray(sums), table(np.array(limits)), np.int32(len(limits)), out)
    for_each(FILE, "turns", rows, weights, both, *arguments, most=MOST_BLOCKS)
    return out


def outweighed(offsets: tuple[Triple, ...], weights: Array, part: float) -> Array:
    weights, out = cupy.ascontiguousarray(weights.reshape(len(offsets), -1)), zeros(1, np.float64)
    rows, center = weights.shape[1], offsets.index((0, 0, 0))
    numbers = np.int32(len(offsets)), np.int32(center), np.int64(rows), np.float64(part)
    for_each(FILE, "outweighed", rows, weights, *numbers, out, most=MOST_BLOCKS)
    return out


def unfit(values: Array, least: float, *, left_out: bool) -> int:
    values, out = cupy.ascontiguousarray(values), zeros(1, np.int32)
    numbers = np.int64(values.size), np.float64(least), np.int32(left_out)
    for_each(FILE, "unfit", values.size, values, *numbers, out, most=MOST_BLOCKS)
    return answer(_only, out)


def _only(values: Any) -> int:
    """The number in an array of one."""
    return int(values[0])


def _rows(offsets: tuple[Triple, ...], weights: Array) -> tuple[Array, Array, int]:
    """The weights (K, rows), the offsets to both sides along each axis, and the number of rows."""
    weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
    return weights, table(np.array(pairs(offsets), dtype=np.int32)), weights.shape[1]


def _numbers(keys: Any) -> Any:
    """Numbers from their keys, uint64: see `key_of` of look.cu."""
    return np.where(keys & SIGN, keys ^ SIGN, ~keys).view(np.float64)


def _blocks(items: int, most: int) -> int:
    return min(most, max(1, -(-items // THREADS)))
