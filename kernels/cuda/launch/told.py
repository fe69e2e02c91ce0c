"""Numbers in which kernels count, and their way to the host.

A set-up of seven levels has eighty of them. Zeros of their own would each be a launch, 10 us of the host's time, and a
copy to memory that is not page-locked takes 5 us more than one to memory that is. While a long kernel runs, the host
stores what is there: one for the finest level runs as long as that takes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost
ROOM: Final = 4096
"""Numbers that are set to zero at once."""
LARGEST: Final = 1 << 17
"""Bytes that page-locked memory is kept for."""


@final
class _Room(threading.local):
    """Zeros of a thread's last stream that nobody has had yet, page-locked memory, and what nobody waits for."""

    def __init__(self) -> None:
        self.stream: tuple[int, int] | None = None
        self.zeros: Any = None
        self.taken = 0
        self.pinned: npt.NDArray[np.uint8] | None = None
        self.errands: deque[Callable[[], object]] | None = None


_room: Final = _Room()


def counters(count: int) -> Array:
    """Zeros on the device, int64 (count,), for kernels on the current stream; count is at most `ROOM`."""
    stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    if _room.stream != stream or _room.taken + count > ROOM:
        _room.stream, _room.zeros, _room.taken = stream, cupy.zeros(ROOM, dtype=np.int64), 0
    first = _room.taken
    _room.taken += count
    return _room.zeros[first : _room.taken]


@contextmanager
def errands() -> Iterator[None]:
    """While this lasts, `meanwhile` puts work off; what is left of it in the end is forgotten."""
    before, _room.errands = _room.errands, deque()
    try:
        yield
    finally:
        _room.errands = before


def meanwhile(work: Callable[[], object]) -> None:
    """Do some work of this thread, now or while it waits for a long kernel."""
    if _room.errands is None:
        work()
    else:
        _room.errands.append(work)


def told(numbers: Array, *, patiently: bool = False) -> npt.NDArray[Any]:
    """A small contiguous array on the host, behind all that is enqueued on the current stream. It waits.

    patiently: that takes long as a rule, so there is time for errands.
    """
    size = numbers.nbytes
    if size > LARGEST:
        found: npt.NDArray[Any] = numbers.get()
        return found
    if _room.pinned is None:
        _room.pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(LARGEST), np.uint8, LARGEST)
    stream = cupy.cuda.get_current_stream()
    cupy.cuda.runtime.memcpyAsync(_room.pinned.ctypes.data, numbers.data.ptr, size, _TO_HOST, stream.ptr)
    if patiently and _room.errands:
        _run_errands(stream)
    stream.synchronize()
    known: npt.NDArray[Any] = _room.pinned[:size].view(numbers.dtype).reshape(numbers.shape).copy()
    return known


def _run_errands(stream: Any) -> None:
    """Do what was put off until the stream is done. Numbers that are told meanwhile come to memory of their own."""
    pinned, waiting = _room.pinned, _room.errands
    _room.pinned, _room.errands = None, None
    try:
        while waiting and not stream.done:
            waiting.popleft()()
    finally:
        _room.pinned, _room.errands = pinned, waiting
