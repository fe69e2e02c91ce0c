"""Measures which launches suit the device at hand, on matrices like those that they are for.

A choice is found one attribute after the other: each is tried with the best of those before it, on cubes of 27-point
rows in eight colors of the size for which it matters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from statistics import median
from typing import Any

import cupy
import numpy as np

from dsolver.kernels.cuda.hpcg.matrix import with_launches
from dsolver.kernels.cuda.hpcg.mixed_colors import MIXED_BYTES
from dsolver.kernels.cuda.launch import config, probe
from dsolver.kernels.cuda.launch.config import LaunchConfig
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.formats.layout import Array, Layout
from dsolver.kernels.formats.sell import SellMatrix
from dsolver.kernels.formats.stencil.rows import StencilRows

REPEATS = 9
GAIN = 0.995
"""A candidate must take less than this share of the best one's time: less is noise."""
BYTES_A_ROW = 400
"""Bytes a row of a stored level with its vectors, and of making it."""
SMALL = 64
ORDER = (7, 5, 6, 1, 2, 3, 4, 0)
"""The parity classes as HPCG's sweeps visit them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A candidate, for a cube of so many points along an axis, and seconds of a pre- and a post-smoother with it."""

    size: int
    choice: LaunchConfig
    seconds: float


def questions(itemsize: int) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    """(kind of cube, attribute of a choice, candidates), in the order in which they are asked."""
    most = config.MOST_WARPS[itemsize]
    mixed = (0.0, 0.35, 0.47, 0.6) if itemsize == MIXED_BYTES else (0.0,)
    return (
        ("large", "warps", tuple(w for w in (8, 4, 2, 1) if w <= most)),
        ("large", "narrow", (True, False)),
        ("large", "slab_share", (0.18, 0.22, 0.27, 0.36, 0.54)),
        ("large", "mixed_share", mixed),
        ("medium", "cached_slabs", (1, 2, 4)),
        ("small", "flow", (True, False)),
    )


def sizes(itemsize: int) -> dict[str, int]:
    """Points along an axis of each kind of cube: x twice as large as L2, at most half of it, and a few SMs' worth."""
    cache = int(device_property("l2CacheSize"))
    large, medium = (
        int(np.cbrt(share * cache / itemsize) / 32 + half) * 32 for share, half in ((2.0, 0.5), (0.5, 0.0))
    )
    return {"large": large, "medium": max(medium, 96), "small": SMALL}


def tune(backend: Any, told: Callable[[Trial], None] = lambda _: None) -> LaunchConfig:
    """The best choice for a backend's value type on its current device; kept, and used from now on.

    Takes a second or two and up to 7 GB of memory, less where less is free: what a device has no room to try keeps its
    default. To be called while the device is idle.
    """
    itemsize = int(backend.dtype.itemsize)
    best = config.default(itemsize)
    cubes = sizes(itemsize)
    free = int(cupy.cuda.runtime.memGetInfo()[0]) + int(cupy.get_default_memory_pool().free_bytes())
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for kind in cubes:
            if cubes[kind] ** 3 * BYTES_A_ROW > free:
                logger.warning("no room for a cube of %d points: its choices are defaults", cubes[kind] ** 3)
                continue
            matrix = _cube(backend, cubes[kind])
            for _, attribute, candidates in (q for q in questions(itemsize) if q[0] == kind):
                found = {value: _seconds(backend, matrix, replace(best, **{attribute: value})) for value in candidates}
                for value, seconds in found.items():
                    told(Trial(size=cubes[kind], choice=replace(best, **{attribute: value}), seconds=seconds))
                fastest, standing = min(found, key=lambda value: found[value]), getattr(best, attribute)
                if standing not in found or found[fastest] < GAIN * found[standing]:
                    best = replace(best, **{attribute: fastest})
            del matrix
            stream.synchronize()
            cupy.get_default_memory_pool().free_all_blocks()
    if not config.keep(probe.model(int(cupy.cuda.runtime.getDevice())), itemsize, best):
        logger.warning("what was found is not kept: no folder for it can be written (see DSOLVER_CACHE)")
    logger.info("chosen for %d bytes a value: %s", itemsize, asdict(best))
    return best


def _seconds(backend: Any, matrix: tuple[SellMatrix, Array], candidate: LaunchConfig) -> float:
    """Median time of a pre- and a post-smoother in a CUDA graph, of a matrix and where its coarse entries begin."""
    itemsize = int(backend.dtype.itemsize)
    stream = cupy.cuda.get_current_stream()
    with config.using(itemsize, candidate):
        a = with_launches(*matrix)
        r, c, e, x, w = (backend.zeros(a.layout.size) for _ in range(5))
        r[a.layout.position] = 1.0

        def smoothers() -> None:
            a.presmooth(r, x, e)
            a.postsmooth(r, c, e, x, w)

        smoothers()
        stream.begin_capture()
        smoothers()
        graph = stream.end_capture()
    events = [cupy.cuda.Event() for _ in range(REPEATS + 2)]
    for event in events:
        graph.launch(stream)
        event.record(stream)
    stream.synchronize()
    return median(1e-3 * float(cupy.cuda.get_elapsed_time(*pair)) for pair in pairwise(events[1:]))


def _cube(backend: Any, n: int) -> tuple[SellMatrix, Array]:
    """Rows of 27 points, 26 on the diagonal and -1 beside it, in eight colors; the last one has the coarse points."""
    rows = n**3
    numbering = cupy.full((n + 2,) * 3, -1, dtype=np.int32)
    numbering[1:-1, 1:-1, 1:-1] = cupy.arange(rows, dtype=np.int32).reshape(n, n, n)
    offsets = tuple((i, j, k) for k, j, i in product((-1, 0, 1), repeat=3))
    weights = np.array([26.0 if offset == (0, 0, 0) else -1.0 for offset in offsets])
    rank = cupy.asarray(np.argsort(ORDER).astype(np.int32))
    odd = cupy.arange(n, dtype=np.int32) % 2
    color = rank[odd[None, None, :] + 2 * odd[None, :, None] + 4 * odd[:, None, None]].reshape(-1)
    layout: Layout = backend.layouts.colored(color, 8, (n, n, n))
    stencil = StencilRows(shape=(n, n, n), numbering=numbering.reshape(-1), offsets=offsets, weights=weights)
    made = backend.format("hpcg").matrix(layout, stencil, color == 7)
    return SellMatrix(layout=made.layout, diagonal=made.diagonal, local=made.local), made.coarse
