"""Copy bandwidth of devices: bytes a second that a copy reads and writes, measured once."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from dsolver.cluster import devices
from dsolver.dask_types import Client, Worker

COPIED: Final = 1 << 26
"""Bytes of the arrays that a CPU copies, all threads together: beyond most caches, and a few 10 ms."""
ROUNDS: Final = 3

_KNOWN: WeakKeyDictionary[Client, dict[tuple[Any, ...], float]] = WeakKeyDictionary()


@cache
def of_cpu(threads: int = 1) -> float:
    """Bytes a second that so many threads of this process read and write: the fastest of some copies."""
    return measured(threads, COPIED, ROUNDS)


def measured(threads: int, size: int, rounds: int) -> float:
    """Bytes a second of the fastest of so many copies of so many bytes, each thread with arrays of its own."""
    sources = [np.ones(max(1, size // 8 // threads)) for _ in range(threads)]
    targets = [np.zeros_like(source) for source in sources]
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            list(pool.map(np.copyto, targets, sources))  # NumPy copies without the interpreter's lock
            best = max(best, 2 * sum(source.nbytes for source in sources) / (time.perf_counter() - began))
    return best


def of_workers(client: Client, workers: Sequence[str], device: str) -> float:
    """Bytes a second of workers' devices together, measured at once, once for a client. ClusterError, DeviceError."""
    known = _KNOWN.setdefault(client, {})
    key = device, *workers
    if key not in known:
        question: Callable[..., Any] = _of_gpu if device == "cuda" else _of_worker
        known[key] = sum(devices.ask_all(client, question, workers).values())
    return known[key]


async def _of_gpu() -> float:
    return await asyncio.to_thread(devices.copy_bandwidth)


async def _of_worker(dask_worker: Worker) -> float:
    """The measurement in a thread of its own: a worker whose event loop stands still misses its heartbeats."""
    return await asyncio.to_thread(of_cpu, int(dask_worker.state.nthreads))
