"""Launches that start early, before the last one on their stream has ended, and further streams beside that one."""

import ctypes
import os
import struct
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import cupy
import numpy as np

from dsolver.kernels.cuda.launch.foresight import ready_to_read

_LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_EARLY_START = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_FIRST_CAPABILITY = 90  # of a device on which the kernels' own waiting is compiled in


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_ARGUMENTS: Final = 64  # most arguments of a kernel
_BYTES: Final = 4096  # most bytes of the arguments together: CUDA takes so many everywhere


class _LaunchBuffer(threading.local):
    """Memory of a thread for the parameters of a launch, used again and again: the driver copies all of them.

    To make these structures anew took most of a launch's 21 us.
    """

    def __init__(self) -> None:
        self.values = (ctypes.c_char * _BYTES)()
        self.first = ctypes.addressof(self.values)
        self.even = (ctypes.c_void_p * _ARGUMENTS)(*(self.first + 8 * number for number in range(_ARGUMENTS)))
        self.places = (ctypes.c_void_p * _ARGUMENTS)()
        self.attribute = _Attribute(id=_EARLY_START)
        self.attribute.value[0] = 1
        self.config = _Config(attributes=ctypes.pointer(self.attribute), count=1)
        self.address = ctypes.addressof(self.config)

    def hold(self, arguments: tuple[Any, ...]) -> Any:
        """Put a kernel's arguments here and say where; raises ValueError where there is no room for so many."""
        array = cupy.ndarray
        if pack := _packing(tuple(map(type, arguments))):  # as most are: 3 us in place of 6
            pack(self.values, 0, *[one.data.ptr if type(one) is array else one for one in arguments])
            return self.even
        parts = [_bytes(argument) for argument in arguments]
        raw = b"".join(parts)
        if len(parts) > _ARGUMENTS or len(raw) > _BYTES:
            raise ValueError(f"{len(parts)} arguments of {len(raw)} bytes are more than a launch can tell a kernel")
        ctypes.memmove(self.first, raw, len(raw))
        place = self.first
        for number, part in enumerate(parts):
            self.places[number] = place
            place += len(part)
        return self.places


_room: Final = _LaunchBuffer()
_address: Final = struct.Struct("<Q").pack
_CODES: Final[dict[type[Any], str]] = {
    np.int32: "i4x",
    np.uint32: "I4x",
    np.int64: "q",
    np.uint64: "Q",
    np.float32: "f4x",
    np.float64: "d",
}
"""Codes of `struct` for numbers in eight bytes each."""


@cache
def _packing(kinds: tuple[type[Any], ...]) -> Callable[..., None] | None:
    """Packer of arguments of these types, eight bytes each, arrays by their addresses; None where there are others."""
    if len(kinds) > _ARGUMENTS or not all(kind is cupy.ndarray or kind in _CODES for kind in kinds):
        return None
    return struct.Struct("<" + "".join(_CODES.get(kind, "Q") for kind in kinds)).pack_into


@cache
def driver_function(name: str) -> Any:
    """A function of the driver that CuPy does not offer; None where it is missing."""
    try:
        function = getattr(ctypes.CDLL(_LIBRARY), name)
    except (OSError, AttributeError):  # no such library; an older driver
        return None
    function.restype = ctypes.c_int
    return function


@cache
def _driver() -> Any:
    """The driver's launch with attributes: CUDA 11.8 and later."""
    function = driver_function("cuLaunchKernelEx")
    if function is not None:
        function.argtypes = (ctypes.c_void_p,) * 4
    return function


@cache
def _starts_early(device: int) -> bool:
    return _driver() is not None and int(cupy.cuda.Device(device).compute_capability) >= _FIRST_CAPABILITY


def launch_early(
    kernel: Any,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: tuple[Any, ...],
    shared: int = 0,  # bytes of dynamic shared memory
) -> None:
    """Launch a kernel on the current stream so that it starts early: it calls `wait_for_last_launch` itself.

    Its blocks start as soon as the launch before it has none left to start, and wait inside the kernel for its results:
    2 us less between two launches than where the second one starts after the first, and a CUDA graph keeps it so.
    """
    if not (ready_to_read() and _starts_early(cupy.cuda.runtime.getDevice())):
        kernel(grid, block, arguments, shared_mem=shared)
        return
    room, config = _room, _room.config
    places = room.hold(arguments)
    config.grid_x, config.grid_y, config.grid_z = (*grid, 1, 1)[:3]
    config.block_x, config.block_y, config.block_z = (*block, 1, 1)[:3]
    config.shared_bytes = shared
    config.stream = cupy.cuda.get_current_stream().ptr
    status = _driver()(room.address, kernel.kernel.ptr, places, None)
    if status != 0:
        raise cupy.cuda.driver.CUDADriverError(status)


def _bytes(argument: Any) -> bytes:
    """An argument in a multiple of eight bytes: an array's address, a NumPy number or a structure of them."""
    if isinstance(argument, cupy.ndarray):
        return _address(argument.data.ptr)
    value: bytes = argument.tobytes()
    return value if len(value) == 8 else value.ljust(-(-len(value) // 8) * 8, b"\0")


class Fork:
    """Further streams beside a first one, and the events between them."""

    def __init__(self) -> None:
        self._sides: list[Any] = []
        self._events: list[Any] = []

    def sides(self, count: int) -> list[Any]:
        """Streams, as many as asked for, the same ones in each sweep."""
        while len(self._sides) < count:
            self._sides.append(cupy.cuda.Stream(non_blocking=True))
        return self._sides[:count]

    def event(self, number: int) -> Any:
        """An event for every number, to be used again in the next sweep."""
        while len(self._events) <= number:
            self._events.append(cupy.cuda.Event(disable_timing=True))
        return self._events[number]


class Forks:
    """The `Fork` of each device and stream: threads that solve at the same time must not meet on a side stream."""

    def __init__(self) -> None:
        self._forks: dict[tuple[int, int], Fork] = {}

    def here(self) -> Fork:
        """The `Fork` of the current device and stream."""
        key = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
        fork = self._forks.get(key)
        return fork if fork is not None else self._forks.setdefault(key, Fork())
