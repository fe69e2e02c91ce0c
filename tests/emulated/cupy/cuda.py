"""`cupy.cuda` of the emulator: one device; streams, events and graphs whose work is done at once."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import types
from collections.abc import Callable
from typing import Any, Self

from tests.emulated import compiler

from . import arrays

ATTRIBUTES = {"MultiProcessorCount": 4, "MaxSharedMemoryPerBlockOptin": 232448}
PROPERTIES = {
    "name": b"emulated GPU",
    "multiProcessorCount": 4,
    "sharedMemPerMultiprocessor": 233472,
    "l2CacheSize": 1 << 20,
    "major": 8,
    "minor": 0,
    "totalGlobalMem": 8 << 30,
    "uuid": bytes(16),
}
_current = threading.local()


class CUDARuntimeError(RuntimeError):
    """An error of the runtime, by its number or in words."""

    def __init__(self, status: Any) -> None:
        super().__init__(status)
        self.status = status


class CUDADriverError(CUDARuntimeError):
    """An error of the driver."""


class Device:
    """The only device."""

    id = 0
    compute_capability = "80"  # later ones have launches that only the driver knows
    attributes = ATTRIBUTES

    def __init__(self, device: Any = None) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device)

    def __hash__(self) -> int:
        return 0

    def use(self) -> None: ...

    def synchronize(self) -> None: ...


class Stream:
    """A stream, whose work is done when it is enqueued, or recorded in a graph; it says that it is not done yet."""

    count, done = 0, False

    def __init__(self, *, non_blocking: bool = False, priority: int = 0) -> None:
        Stream.count += 1
        self.ptr = Stream.count
        self._graph: list[Any] | None = None  # that it captures, or whose capture it has joined by an event
        self._left: list[Any] = []  # graphs of others that are captured while it is the current one

    def __enter__(self) -> Self:
        _streams().append(self)
        self._left.append(arrays.work())
        if arrays.work() is not self._graph:
            arrays.recording.work = None
        return self

    def __exit__(self, *_: object) -> None:
        _streams().pop()
        arrays.recording.work = self._left.pop()

    def synchronize(self) -> None:
        arrays.refuse_in_graphs()

    def wait_event(self, event: Event) -> None:
        self._graph = self._graph if event.graph is None else event.graph

    def begin_capture(self) -> None:
        arrays.recording.work = self._graph = []

    def end_capture(self) -> Graph:
        return Graph(self)


class Graph:
    """Launches, copies and assignments since a stream's capture began, to be repeated."""

    def __init__(self, _: Stream) -> None:
        self._work: list[Callable[[], Any]] = arrays.recording.work
        arrays.recording.work = None

    def launch(self, stream: Any = None) -> None:
        for call in self._work:
            call()

    def upload(self, stream: Any = None) -> None: ...


class Event:
    """A point in time, of which it says some times that it has not come yet."""

    def __init__(self, *, disable_timing: bool = False) -> None:
        self.time, self._asked = 0.0, 0
        self.graph: list[Any] | None = None

    @property
    def done(self) -> bool:
        self._asked += 1
        return self._asked > 8

    def record(self, stream: Any = None) -> None:
        self.time, self.graph = time.perf_counter(), arrays.work()

    def synchronize(self) -> None: ...


def get_elapsed_time(start: Event, stop: Event) -> float:
    return 1e3 * (stop.time - start.time)


def _streams() -> list[Stream]:
    if not hasattr(_current, "streams"):
        _current.streams = [Stream()]
    found: list[Stream] = _current.streams
    return found


def get_current_stream() -> Stream:
    return _streams()[-1]


def using_allocator() -> Any:
    """A context in which memory is not the pool's, as none is here."""
    return contextlib.nullcontext()


def alloc_pinned_memory(size: int) -> Any:
    made: Any = (ctypes.c_char * max(1, size))()
    made.ptr = ctypes.addressof(made)
    return made


class Pool:
    """A pool of memory that holds none back."""

    def free_bytes(self) -> int:
        return 0

    def used_bytes(self) -> int:
        return arrays.Guarded.used

    def get_limit(self) -> int:
        return 0

    def free_all_blocks(self) -> None: ...


def _count() -> int:
    if reason := compiler.missing():
        raise CUDARuntimeError(reason)
    return 1


def _copy(target: int, source: int, size: int, kind: int, stream: Any = None) -> None:
    work = arrays.work()
    if work is None:
        ctypes.memmove(target, source, size)
    else:
        work.append(lambda: ctypes.memmove(target, source, size))


def _set(target: int, value: int, size: int, stream: Any) -> None:
    arrays.refuse_in_graphs()
    ctypes.memset(target, value, size)


_blocks: dict[int, Any] = {}
"""Memory of the driver's own by address. Handles of it are addresses: ranks of one process open each other's."""


def _malloc(size: int) -> int:
    block = ctypes.create_string_buffer(b"\xff" * size, size)
    _blocks[ctypes.addressof(block)] = block
    return ctypes.addressof(block)


runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=_count,
    getDevice=lambda: 0,
    getDeviceProperties=lambda _: PROPERTIES,
    deviceGetPCIBusId=lambda _: "0000:00:00.0",
    driverGetVersion=lambda: 0,  # too old for all machine code: a package's is for GPUs
    memGetInfo=lambda: (4 << 30, 8 << 30),
    memcpyAsync=_copy,
    memcpy=_copy,
    memsetAsync=_set,
    memset=ctypes.memset,
    memcpyDeviceToHost=2,
    malloc=_malloc,
    free=_blocks.pop,
    ipcGetMemHandle=lambda address: address.to_bytes(64, "little"),
    ipcOpenMemHandle=lambda handle: int.from_bytes(handle, "little"),
    ipcCloseMemHandle=lambda _: None,
)
nvrtc = types.SimpleNamespace(getVersion=lambda: (13, 0))
driver = types.SimpleNamespace(CUDADriverError=CUDADriverError)
