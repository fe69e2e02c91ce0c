"""Launches of set-up's lattice kernels: one each, where an array library takes dozens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.coarsening import Coarsening, Triple, pairs
from dsolver.kernels.cuda.loader import kernel
from dsolver.kernels.cuda.tables import table
from dsolver.kernels.layout import Array

FILE, DTYPE = "transfers.cu", "float64"
THREADS = 256
LINES = (64, 4)
"""Threads of a block along a line, and lines of a block, where each line has its own."""
MOST_BLOCKS = 2048


def restriction(made: Coarsening, p: Array, around: Array) -> tuple[Array, Array]:
    """See `dsolver.kernels.transfers.restriction`."""
    rows = int(np.prod(made.coarse_shape))
    count = int(np.prod([1 + 2 * axis.reach for axis in made.axes]))
    columns, values = cupy.empty((count, rows), dtype=np.int32), cupy.empty((count, rows))
    _launch("restriction", rows, _lattice(made, (0, 0, 0)), cupy.ascontiguousarray(p), around, columns, values)
    return columns, values


def prolongation(made: Coarsening, p: Array, around: Array, base: Triple) -> tuple[Array, Array]:
    """See `dsolver.kernels.transfers.prolongation`."""
    rows = int(np.prod(made.shape))
    count = int(np.prod([1 + axis.reach for axis in made.axes]))
    columns, values = cupy.empty((count, rows), dtype=np.int32), cupy.empty((count, rows))
    _, ny, nx = (np.int32(n) for n in around.shape)
    _launch("prolongation", rows, _lattice(made, base), cupy.ascontiguousarray(p), around, nx, ny, columns, values)
    return columns, values


def numbers(shape: Triple) -> Array:
    """See `Backend.numbers`."""
    nx, ny, nz = shape
    out = cupy.empty((nz + 2, ny + 2, nx + 2), dtype=np.int32)
    _launch("numbers", out.size, np.int32(nx), np.int32(ny), np.int32(nz), np.int64(out.size), out)
    return out


def framed(values: Array, width: int) -> Array:
    """See `dsolver.kernels.transfers.framed`."""
    count, nz, ny, nx = values.shape
    out = cupy.empty((count, nz + 2 * width, ny + 2 * width, nx + 2 * width))
    lines = out.size // out.shape[3]
    sizes = (np.int32(n) for n in (nx, ny, nz, width, lines))
    if lines:
        kernel(FILE, "framed", DTYPE)((-(-lines // LINES[1]),), LINES, (cupy.ascontiguousarray(values), *sizes, out))
    return out


def spread(values: Array, like: Sequence[Any]) -> Array:
    """See `dsolver.kernels.transfers.spread`."""
    count, *small = values.shape
    large = [len(places) for places in like]
    out = cupy.empty((count, *large[::-1]))
    places = table(np.concatenate(like).astype(np.int32))
    mx, my, mz = (np.int32(n) for n in small[::-1])
    nx, ny, nz = (np.int32(n) for n in large)
    _launch("spread", out.size, cupy.ascontiguousarray(values), mx, my, mz, places, nx, ny, nz, np.int64(out.size), out)
    return out


def couplings(offsets: tuple[Triple, ...], weights: Array) -> Array:
    """See `dsolver.kernels.coarsening.couplings`."""
    weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
    rows = weights.shape[1]
    steps = np.array([sum((step != 0) << axis for axis, step in enumerate(o)) for o in offsets], dtype=np.int32)
    blocks = min(MOST_BLOCKS, max(1, -(-rows // THREADS)))
    parts, out = cupy.empty((3, blocks)), cupy.empty(3)
    center = np.int32(offsets.index((0, 0, 0)))
    arguments = (weights, table(steps), np.int32(len(offsets)), center, np.int64(rows), parts)
    kernel(FILE, "couplings", DTYPE)((blocks,), (THREADS,), arguments)
    kernel(FILE, "couplings_total", DTYPE)((1,), (THREADS,), (parts, np.int32(blocks), out))
    return out


def jumps(offsets: tuple[Triple, ...], weights: Array, ratio: float) -> Array:
    """See `dsolver.kernels.coarsening.jumps`."""
    weights = cupy.ascontiguousarray(weights.reshape(len(offsets), -1))
    rows, out = weights.shape[1], cupy.zeros(3)
    both = table(np.array(pairs(offsets), dtype=np.int32))
    _launch("jumps", rows, weights, both, np.int64(rows), np.float64(ratio), out)
    return out


def _lattice(made: Coarsening, base: Triple) -> Array:
    """LATTICE of transfers.cu: int32."""
    numbers: list[int] = []
    places: list[Any] = []
    along = zip(made.axes, made.factors, made.coarse_shape, made.shape, base, strict=True)
    for axis, factor, points, fine, start in along:
        numbers += [
            axis.first,
            factor,
            axis.reach,
            points,
            fine,
            sum(len(place) for place in places),
            axis.folded,
            start,
        ]
        places.append(axis.base)
    return table(np.concatenate([np.array(numbers, dtype=np.int32), *places]))


def _launch(name: str, count: int, *arguments: Any) -> None:
    if count:
        kernel(FILE, name, DTYPE)((-(-count // THREADS),), (THREADS,), arguments)
