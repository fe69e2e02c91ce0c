"""Scratch memory on a GPU for the partial sums of dot products."""

from typing import Any

import cupy
import numpy as np

SLOTS = 64


class Scratch:
    """A place for partial sums on each device and stream, so that dots on two streams do not meet.

    Places are cut from slabs. One is made on a stream of its own: the one that asks may be recording a graph, which
    must neither clear the tickets at each launch nor wait.
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._places: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._free: dict[int, list[tuple[Any, Any]]] = {}

    def here(self) -> tuple[Any, Any]:
        """Partial sums and the ticket, which is zero between kernels, for the current device and stream."""
        stream = cupy.cuda.get_current_stream()
        key = (cupy.cuda.runtime.getDevice(), stream.ptr)
        place = self._places.get(key)
        # setdefault: of two threads that share a stream's key, both must get the same place.
        return place if place is not None else self._places.setdefault(key, self._take(key[0]))

    def _take(self, device: int) -> tuple[Any, Any]:
        free = self._free.setdefault(device, [])
        if not free:
            # Not from the pool, whose block could never be freed: it had 64 MiB.
            with cupy.cuda.using_allocator(), cupy.cuda.Stream(non_blocking=True) as apart:
                partials = cupy.empty((SLOTS, self._parts))
                tickets = cupy.zeros(SLOTS, dtype=np.uint32)
                apart.synchronize()  # other streams use the zeros, too
            free.extend((partials[i], tickets[i : i + 1]) for i in range(SLOTS))
        return free.pop()
