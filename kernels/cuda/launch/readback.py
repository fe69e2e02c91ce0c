"""Zeros of kernels, small arrays read back to the host, and work that the host defers until it waits for one.

A set-up of seven levels has eighty counters, and 50 to 70 small vectors and scalars. Zeros of their own would each be a
launch and an allocation, 10 to 20 us of the host's time.

A copy to memory that is not page-locked takes 5 us more than one to memory that is. While a long kernel runs, the host
stores what is there: one for the finest level runs as long as that takes.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import cupy
import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array

_TO_HOST: Final = 2  # cudaMemcpyDeviceToHost
_ALIGNMENT: Final = 8
LARGEST: Final = 1 << 17  # bytes that page-locked memory is kept for
ROOM: Final = 1 << 18  # bytes that are set to zero at once
CLOSE: Final = 1 << 10  # bytes of zeros between numbers that one copy brings, fewer than that; copies take as long
MOST_ZEROS: Final = 1 << 14  # bytes of an array of zeros that is a part of them, at most
VECTOR: Final = 256  # bytes, of a multiple of which a vector begins


class _Zeros(threading.local):
    """Zeros for a thread's last stream that are still unused."""

    def __init__(self) -> None:
        self.stream: tuple[int, int] | None = None
        self.zeros: Any = None
        self.taken = 0


class _ReadbackMemory(threading.local):
    """A thread's page-locked memory, and its deferred work where work may be deferred."""

    def __init__(self) -> None:
        self.pinned: tuple[npt.NDArray[np.uint8], int] | None = None  # with its address, which NumPy takes 3 us to tell
        self.asked: list[Asked] = []
        self.deferred: deque[Callable[[], object]] | None = None
        self.brief: deque[Callable[[], object]] = deque()
        self.together = False


_room: Final = _ReadbackMemory()
_zeros: Final = _Zeros()


def counters(count: int) -> Array:
    """Zeros as of `zeros`, int64 (count,), close to those before."""
    return zeros(count, np.int64, _ALIGNMENT)


def zeros(size: int, dtype: Any, alignment: int = VECTOR) -> Array:
    """Zeros (size,) on the device, for kernels on the current stream; small ones are set with others."""
    kind = np.dtype(dtype)
    wanted = size * kind.itemsize
    if not 0 < wanted <= MOST_ZEROS:
        return cupy.zeros(size, kind)
    stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    first = -(-_zeros.taken // alignment) * alignment
    if _zeros.stream != stream or first + wanted > ROOM:
        _zeros.stream, _zeros.zeros, first = stream, cupy.zeros(ROOM, dtype=np.uint8), 0
    _zeros.taken = first + wanted
    return _zeros.zeros[first : _zeros.taken].view(kind)


@contextmanager
def deferring(*, together: bool = False) -> Iterator[None]:
    """Context in which `defer` puts work off; what is left of it in the end is forgotten.

    together: ranks that meet often do all of it in the next long wait, whether that is over or not. Where each looked
    for itself, one stored a level before the others did, which waited for it, and it for them: 5 of 127 ms of a set-up.
    What is a long wait follows from a rank's own rows, so ranks may differ in it, which costs time alone.
    """
    before = _room.deferred, _room.brief, _room.together
    _room.deferred, _room.brief, _room.together = deque(), deque(), together
    try:
        yield
    finally:
        _room.deferred, _room.brief, _room.together = before


def defer(work: Callable[[], object], *, brief: bool = False) -> None:
    """Do some work of this thread, now or while it waits for a long kernel; brief: one each while it waits for any."""
    if _room.deferred is None:
        work()
    else:
        (_room.brief if brief else _room.deferred).append(work)


def read_back(numbers: Array, *, long_wait: bool = False) -> npt.NDArray[Any]:
    """A small contiguous array on the host, behind all on the current stream; long_wait: time for deferred work."""
    size = numbers.nbytes
    if size > LARGEST:
        return numbers.get()
    if _room.pinned is None:
        memory = cupy.cuda.alloc_pinned_memory(LARGEST)
        _room.pinned = np.frombuffer(memory, np.uint8, LARGEST), memory.ptr
    (pinned, address), stream = _room.pinned, cupy.cuda.get_current_stream()
    others = [each for each in _room.asked if each.stream == stream.ptr]
    asked = _copied((numbers, *(each.numbers for each in others)), address, stream.ptr)
    _room.asked = []
    if _room.brief or (long_wait and _room.deferred):
        _run_deferred(stream, long_wait=long_wait)
    else:
        stream.synchronize()
    known: npt.NDArray[Any]
    known, *rest = (pinned[at : at + array.nbytes].view(array.dtype).reshape(array.shape).copy() for at, array in asked)
    for each, found in zip(others, rest, strict=False):
        each.known = found
    return known


def _copied(arrays: Sequence[Array], address: int, stream: int) -> list[tuple[int, Array]]:
    """The first of some arrays, and the others for which there is room, on their way to an address of the host.

    Those that are parts of the same zeros, close to each other, come in one copy.

    Returns:
        each with the bytes before it there.
    """
    room = LARGEST
    taken: list[Array] = []
    for array in arrays:
        room -= array.nbytes + CLOSE * bool(taken)
        if room < 0:
            break
        taken.append(array)
    places: dict[int, int] = {}
    spans: list[list[Any]] = []  # memory, its first byte and the one behind the last, bytes before it there
    end = 0
    for array in sorted(taken, key=_address):
        begin, memory = _address(array), array.data.mem
        if not (spans and spans[-1][0] is memory and begin - spans[-1][2] < CLOSE):
            end = -(-end // _ALIGNMENT) * _ALIGNMENT
            spans.append([memory, begin, begin, end])
        places[id(array)] = spans[-1][3] + begin - spans[-1][1]
        spans[-1][2] = max(spans[-1][2], begin + array.nbytes)
        end = spans[-1][3] + spans[-1][2] - spans[-1][1]
    for _, begin, last, place in spans:
        cupy.cuda.runtime.memcpyAsync(address + place, begin, last - begin, _TO_HOST, stream)
    return [(places[id(array)], array) for array in taken]


def _address(array: Array) -> int:
    return int(array.data.ptr)


class Asked:
    """A few numbers that come to the host with the next ones that it waits for, or are waited for when they are called.

    What a host needs to know of several things that are enqueued is so read at once.
    """

    def __init__(self, numbers: Array) -> None:
        self.numbers, self.stream = numbers, cupy.cuda.get_current_stream().ptr
        self.known: npt.NDArray[Any] | None = None
        _room.asked.append(self)

    def __call__(self) -> npt.NDArray[Any]:
        """The numbers."""
        if self.known is None:
            if self in _room.asked:
                _room.asked.remove(self)  # so that they are copied once
            self.known = read_back(self.numbers)
        return self.known


class Sent:
    """A small contiguous array on its way to the host, behind what the stream has now and nothing later."""

    def __init__(self, numbers: Array) -> None:
        memory = cupy.cuda.alloc_pinned_memory(numbers.nbytes)
        self._known = np.frombuffer(memory, numbers.dtype, numbers.size).reshape(numbers.shape)
        stream = cupy.cuda.get_current_stream()
        cupy.cuda.runtime.memcpyAsync(memory.ptr, numbers.data.ptr, numbers.nbytes, _TO_HOST, stream.ptr)
        self._arrived = cupy.cuda.Event(disable_timing=True)
        self._arrived.record(stream)

    def __call__(self) -> npt.NDArray[Any]:
        """The array. It waits."""
        self._arrived.synchronize()
        return self._known


def _run_deferred(stream: Any, *, long_wait: bool) -> None:
    """Wait for a stream, with deferred work meanwhile: not for its kernels, which run while the host goes on.

    What is read back meanwhile comes to memory of its own.
    """
    pinned, waiting, brief = _room.pinned, _room.deferred, _room.brief
    _room.pinned, _room.deferred, _room.brief = None, None, deque()
    arrived = cupy.cuda.Event(disable_timing=True)
    arrived.record(stream)
    try:
        if brief:
            brief.popleft()()
        while long_wait and waiting and (_room.together or not arrived.done):
            waiting.popleft()()
        arrived.synchronize()
    finally:
        _room.pinned, _room.deferred, _room.brief = pinned, waiting, brief
