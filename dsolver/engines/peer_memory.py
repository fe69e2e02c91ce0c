"""GPU memory that the other ranks of a host can write to, through CUDA's inter-process handles.

The memory comes from cudaMalloc itself and not from CuPy's pool: a handle opens the whole allocation, and blocks of a
pool are other people's too. Blocks are whole multiples of what the driver maps, for the same reason.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, final

import cupy

from dsolver.engines.shortage import give_back, is_shortage
from dsolver.memory import PEER_BLOCK, PEER_UNIT

_ALIGNMENT: Final = 256
_HANDLE_BYTES: Final = 64
_PLACE: Final = struct.Struct(f"<{_HANDLE_BYTES}sqq")


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something lies in a rank's memory, as it is told to the others.

    Attributes:
        handle: opens the block; `_HANDLE_BYTES` bytes.
        block: its number.
        offset: bytes from its beginning.
    """

    handle: bytes
    block: int
    offset: int

    def packed(self) -> bytes:
        """As `PLACE_BYTES` bytes."""
        return _PLACE.pack(self.handle, self.block, self.offset)

    @classmethod
    def unpacked(cls, data: bytes) -> Place:
        """The place that was packed."""
        handle, block, offset = _PLACE.unpack(data)
        return cls(handle=handle, block=block, offset=offset)


PLACE_BYTES: Final = _PLACE.size


@final
class Arena:
    """This rank's memory for others, all zero when it is taken, and the others' memory as it is seen from here."""

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._handles: list[bytes] = []
        self._free, self._end = 0, 0  # in the newest block
        self._spare: dict[int, list[Place]] = {}  # what was given back, by its size
        self._opened: dict[tuple[int, int], int] = {}

    def take(self, size: int) -> Place:
        """Room for so many bytes.

        Raises:
            cupy.cuda.runtime.CUDARuntimeError: there is no memory left, or none that others could open.
        """
        size = -(-size // _ALIGNMENT) * _ALIGNMENT
        if spare := self._spare.get(size):
            place = spare.pop()
            _clear(self.own(place), size)
            return place
        if self._free + size > self._end:
            self._add(-(-max(size, PEER_BLOCK) // PEER_UNIT) * PEER_UNIT)
        place = Place(handle=self._handles[-1], block=len(self._blocks) - 1, offset=self._free)
        self._free += size
        return place

    def give(self, place: Place, size: int) -> None:
        """Give back what was taken with this size, once all that others were to write there has been read.

        It is kept for whoever takes as much again, as a system that is set up anew does.
        """
        self._spare.setdefault(-(-size // _ALIGNMENT) * _ALIGNMENT, []).append(place)

    def own(self, place: Place) -> int:
        """The address of a place of this rank."""
        return self._blocks[place.block] + place.offset

    def of(self, peer: int, place: Place) -> int:
        """The address here of a place of another rank.

        Raises:
            cupy.cuda.runtime.CUDARuntimeError: its memory cannot be reached from here.
        """
        key = peer, place.block
        if key not in self._opened:
            self._opened[key] = int(cupy.cuda.runtime.ipcOpenMemHandle(place.handle))
        return self._opened[key] + place.offset

    def close(self) -> None:
        """Close the others' memory and free this rank's: only once nobody writes any more."""
        for address in self._opened.values():
            with suppress(cupy.cuda.runtime.CUDARuntimeError):  # whose it was may be gone
                cupy.cuda.runtime.ipcCloseMemHandle(address)
        for address in self._blocks:
            cupy.cuda.runtime.free(address)
        self._opened, self._blocks, self._handles, self._spare = {}, [], [], {}
        self._free = self._end = 0

    def _add(self, size: int) -> None:
        try:
            address: Any = cupy.cuda.runtime.malloc(size)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if not is_shortage(error):
                raise
            give_back()  # CuPy's pool does so for its own arrays alone
            address = cupy.cuda.runtime.malloc(size)
        self._blocks.append(int(address))
        _clear(int(address), size)
        self._handles.append(bytes(cupy.cuda.runtime.ipcGetMemHandle(address)))
        self._free, self._end = 0, size


def _clear(address: int, size: int) -> None:
    """Set memory to zero once nothing on this device reads it any more, and before anyone learns of it."""
    device = cupy.cuda.Device()
    device.synchronize()
    cupy.cuda.runtime.memset(address, 0, size)
    device.synchronize()
