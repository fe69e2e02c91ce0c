"""Both half sweeps of a small level in one launch (flow.cu)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.config import chosen
from dsolver.kernels.cuda.launch.loader import kernel
from dsolver.kernels.cuda.launch.schedule import device_property
from dsolver.kernels.cuda.launch.streams import can_cooperate, launch_early
from dsolver.kernels.cuda.launch.tables import table
from dsolver.kernels.cuda.sell.slice_widths import Widths
from dsolver.kernels.formats.layout import SLICE, Array, Layout

MOST_WARPS = 8
"""Warps of a block, as flow.cu says too: as many of them need the registers."""
MOST_COLUMNS = 26
MOST_STEPS = 16
"""Most colors: a warp's lanes know a slice of each, and a barrier for both its halves."""
VECTORS = 4
"""Vectors that are told: for each half sweep one in use and one that is being cleared."""
_raising: Final = threading.Lock()
"""Lock of threads that raise the shared memory of the kernel: the lower bound must not be the last one."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Launch of a level, with what passes between its warps.

    Attributes:
        plan: int32 (colors, 2), the first slice and the number of slices of each color that has some.
        room: entry columns that a warp can have in shared memory.
    """

    plan: Array
    room: int
    grid: tuple[int]
    block: tuple[int]
    shared: int
    size: int
    dtype: np.dtype[Any]
    _places: dict[tuple[int, int], tuple[Array, Array]] = field(default_factory=dict, compare=False)

    def here(self) -> tuple[Array, Array] | None:
        """Vectors that are told and counters, for the current device and stream.

        Two streams must not meet in them. They are made when a stream first asks; None while it is captured, which must
        not allocate: the launches of each color, which leave the same bits, are captured then.
        """
        stream = cupy.cuda.get_current_stream()
        key = cupy.cuda.runtime.getDevice(), stream.ptr
        place = self._places.get(key)
        if place is None and not stream.is_capturing():
            told = cupy.empty((VECTORS, self.size), self.dtype)
            told.view(np.uint8).fill(0xFF)  # UNKNOWN
            told[:, 0] = 0.0  # in the guard: what holes read
            place = self._places.setdefault(key, (told, cupy.zeros(2, dtype=np.uint32)))
        return place

    def launch(self, head: tuple[Any, ...], place: tuple[Array, Array], vectors: tuple[Array | None, ...]) -> None:
        """Run both half sweeps.

        Args:
            vectors: r, kept, tail, w, change and x of flow.cu; kept and tail, w and change may be None.
        """
        function = kernel("hpcg/flow.cu", "flow", self.dtype.name)
        with _raising:
            if function.max_dynamic_shared_size_bytes < self.shared:
                function.max_dynamic_shared_size_bytes = self.shared
        told, count = place
        arguments = (*head, *(np.uintp(0) if v is None else v for v in vectors), self.plan)
        numbers = np.int32(len(self.plan)), np.int32(self.room)
        tail = (*numbers, told, np.int32(self.size), count)
        launch_early(function, self.grid, self.block, (*arguments, *tail), self.shared, cooperative=True)


def plan(layout: Layout, dtype: np.dtype[Any], widths: Widths) -> Flow | None:
    """Launch of a level; None where it is not chosen or does not fit: many or wide slices, many colors."""
    if not chosen(dtype.itemsize).flow:
        return None
    ranges = [(int(a) - 1, int(b) - int(a)) for a, b in pairwise(layout.color_slices) if a < b]
    processors = device_property("multiProcessorCount")
    most = max((count for _, count in ranges), default=0)
    if not can_cooperate() or not 2 <= len(ranges) <= MOST_STEPS or most > MOST_WARPS * processors:
        return None
    if max(widths.lower.max(), widths.rest.max()) > MOST_COLUMNS:
        return None
    warps = -(-most // processors)
    barriers = 2 * len(ranges) * 8
    limit = (device_property("sharedMemPerBlockOptin") // warps - barriers - 16) // (SLICE * dtype.itemsize + 4)
    room = min(widths.both, limit)
    if widths.half > room:
        return None
    shared = warps * (room * SLICE * dtype.itemsize + -(-room * 4 // 16) * 16 + barriers)
    return Flow(
        plan=table(np.array(ranges, dtype=np.int32)),
        room=room,
        grid=(-(-most // warps),),
        block=(warps * SLICE,),
        shared=shared,
        size=layout.size,
        dtype=dtype,
    )
