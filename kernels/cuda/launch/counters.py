"""Counters of kernels: zeros on a device in which kernels count.

A set-up of seven levels has eighty of them. Zeros of their own would each be a launch, 10 us of the host's time.
"""

import threading
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.formats.layout import Array

ROOM: Final = 4096  # numbers that are set to zero at once


class _Counters(threading.local):
    """Zeros for a thread's last stream that are still unused."""

    def __init__(self) -> None:
        self.stream: tuple[int, int] | None = None
        self.zeros: Any = None
        self.taken = 0


_room: Final = _Counters()


def counters(count: int) -> Array:
    """Zeros on the device, int64 (count,), for kernels on the current stream; count is at most `ROOM`."""
    stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    if _room.stream != stream or _room.taken + count > ROOM:
        _room.stream, _room.zeros, _room.taken = stream, cupy.zeros(ROOM, dtype=np.int64), 0
    first = _room.taken
    _room.taken += count
    return _room.zeros[first : _room.taken]
