"""Capabilities of a device, measured once and kept (`dsolver.kernels.device_cache`)."""

from functools import cache
from itertools import pairwise
from typing import Any

import cupy

from dsolver.kernels import device_cache

COPY_BYTES = 1 << 31  # bytes of each of the two arrays, where memory allows it: many times any L2 cache
COPIES = 12
COPY = "copy_bandwidth"


@cache
def model(device: int) -> device_cache.Model:
    """The model of a device of this process: others of the model have the same measurements."""
    runtime = cupy.cuda.runtime
    return device_cache.Model(
        name=runtime.getDeviceProperties(device)["name"].decode(),
        driver=str(runtime.driverGetVersion()),
        toolkit=".".join(map(str, cupy.cuda.nvrtc.getVersion())),
    )


@cache
def copy_bandwidth(device: int) -> float:
    """Bytes a second that the current device, with this number, reads and writes in a copy of its memory.

    From disk if it is there. Else it is measured, which takes about 30 ms, and kept: the device should be idle then.
    """
    known = device_cache.read(model(device)).get(COPY)
    if isinstance(known, float) and known > 0.0:
        return known
    found = _measured()
    device_cache.keep(model(device), COPY, found)
    return found


def _measured() -> float:
    """The best of some copies: whatever else the device does makes one slower, nothing makes it faster."""
    size = min(COPY_BYTES, int(cupy.cuda.runtime.memGetInfo()[0]) // 4)
    source, target = (cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0) for _ in range(2))  # not from the pool
    stream = cupy.cuda.Stream(non_blocking=True)
    source.memset_async(1, size, stream)
    events: list[Any] = [cupy.cuda.Event() for _ in range(COPIES + 1)]
    for event in events[:-1]:
        event.record(stream)
        target.copy_from_device_async(source, size, stream)
    events[-1].record(stream)
    stream.synchronize()
    times = [cupy.cuda.get_elapsed_time(a, b) for a, b in pairwise(events)]
    return float(2.0 * size / (min(times) * 1e-3))
