"""The memory of a worker's GPU among what the worker tells its scheduler with each heartbeat."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from distributed import Worker

GPU_MEMORY: Final = "dsolver-gpu-memory"
"""The metric's name: bytes used, by whomever, and bytes there are; None where the device does not tell."""


def tell_gpu_memory(worker: Worker) -> None:
    """From now on this worker tells it."""
    metrics: dict[str, Any] = worker.metrics
    metrics.setdefault(GPU_MEMORY, _gpu_memory)


async def _gpu_memory(_: Worker) -> tuple[int, int] | None:
    try:
        free, total = importlib.import_module("cupy").cuda.runtime.memGetInfo()
    except Exception:  # of a device that has failed, say: a heartbeat must not fail with it
        return None
    return int(total - free), int(total)
