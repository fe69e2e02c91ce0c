"""A metric of Dask's workers: the memory of their GPU, reported to the scheduler with each heartbeat."""

import importlib
from typing import Any, Final

from dsolver.dask_types import Worker

GPU_MEMORY: Final = "dsolver-gpu-memory"
"""Name of the metric: (bytes used by all processes, bytes in total), or None where the device has failed."""


def tell_gpu_memory(worker: Worker) -> None:
    """Add the metric to those of a worker."""
    metrics: dict[str, Any] = worker.metrics
    metrics.setdefault(GPU_MEMORY, _gpu_memory)


async def _gpu_memory(_: Worker) -> tuple[int, int] | None:
    try:
        free, total = importlib.import_module("cupy").cuda.runtime.memGetInfo()
    except Exception:  # of a device that has failed, say: a heartbeat must not fail with it
        return None
    return int(total - free), int(total)
