"""Measurements on one GPU: medians between events, and the copy bandwidth that all is compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

REPEATS = 30


def timed(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median seconds of some work on the current stream."""
    stream = cupy.cuda.get_current_stream()
    work()
    events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(repeats)]
    for start, end in events:
        start.record(stream)
        work()
        end.record(stream)
    stream.synchronize()
    return float(np.median([cupy.cuda.get_elapsed_time(*pair) for pair in events])) / 1e3


def best(work: Callable[[], Any], repeats: int = 4) -> tuple[Any, float]:
    """The last result of some work that waits for numbers, and the seconds of the fastest; the first run compiles."""
    times, made = [], None
    for _ in range(1 + repeats):
        del made
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        made = work()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - began)
    return made, min(times[1:])


def in_graph(stream: Any, work: Callable[[], object]) -> Callable[[], object]:
    """The work as one CUDA graph launch."""
    work()
    stream.begin_capture()
    work()
    graph = stream.end_capture()
    return lambda: graph.launch(stream)


def copy_bandwidth() -> float:
    """Bytes a second of a device-to-device copy, read and written."""
    source = cupy.random.default_rng(0).random(1 << 28)  # 2 GiB
    target = cupy.empty_like(source)
    return 2.0 * int(source.nbytes) / timed(lambda: target.data.copy_from_device_async(source.data, source.nbytes))
