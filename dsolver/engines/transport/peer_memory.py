"""GPU memory that the other ranks of a host write to, through CUDA's inter-process handles, and where they write.

The memory comes from cudaMalloc itself and not from CuPy's pool: a handle opens the whole allocation, and blocks of a
pool are other people's too. Blocks are whole multiples of what the driver maps, for the same reason.
"""

import importlib
import struct
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Final, Self

from dsolver.engines.out_of_memory import free_unused, is_out_of_memory
from dsolver.engines.transport.segments import PeerSegments, Plans, Segment

PEER_BLOCK: Final = 32 << 20
"""Bytes of a block of peer memory, or a multiple of `PEER_UNIT` above: halos of a chunk of 256³ points need 7 MB, and
lists of its set-up as much again. Every block costs the driver a millisecond here and on each peer that opens it."""
PEER_UNIT: Final = 2 << 20  # bytes that the driver maps at a time
ROOMY: Final = 16
"""Times as much as is asked for that a released place may have: halos stay, and are not to keep that of lists."""

_ALIGNMENT: Final = 256
_HANDLE_BYTES: Final = 64
_ADDRESS: Final = struct.Struct(f"<{_HANDLE_BYTES}sqq")


@dataclass(frozen=True, kw_only=True)
class IpcAddress:
    """An address in a rank's memory, as it is sent to the others."""

    BYTES: ClassVar[int] = _ADDRESS.size  # size of one that is packed
    handle: bytes  # opens the block; `_HANDLE_BYTES` bytes
    block: int  # its number
    offset: int  # bytes from its beginning

    def packed(self) -> bytes:
        """The address as `BYTES` bytes."""
        return _ADDRESS.pack(self.handle, self.block, self.offset)

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """The address that was packed."""
        handle, block, offset = _ADDRESS.unpack(data)
        return cls(handle=handle, block=block, offset=offset)


class PeerMemory:
    """Blocks of this rank's memory for others, zeros at first, and the others' blocks as they are seen from here."""

    def __init__(self) -> None:
        self._cuda: Any = importlib.import_module("cupy").cuda
        self._blocks: list[int] = []
        self._handles: list[bytes] = []
        self.sizes: list[int] = []
        self._opened: dict[tuple[int, int], int] = {}
        self._stream = self._cuda.Stream(non_blocking=True)

    def address(self, block: int, offset: int) -> IpcAddress:
        """An address in a block of this rank."""
        return IpcAddress(handle=self._handles[block], block=block, offset=offset)

    def local(self, address: IpcAddress) -> int:
        """The pointer to an address of this rank."""
        return self._blocks[address.block] + address.offset

    def remote(self, peer: int, address: IpcAddress) -> int:
        """The pointer on this GPU to another rank's address; CUDARuntimeError where it cannot be reached from here."""
        key = peer, address.block
        if key not in self._opened:
            self._opened[key] = int(self._cuda.runtime.ipcOpenMemHandle(address.handle))
        return self._opened[key] + address.offset

    def add(self, size: int) -> None:
        """A further block of so many bytes; CUDARuntimeError where none is left, or none that others could open."""
        runtime = self._cuda.runtime
        try:
            pointer = int(runtime.malloc(size))
        except runtime.CUDARuntimeError as error:
            if not is_out_of_memory(error):
                raise
            free_unused()  # CuPy's pool does so for its own arrays alone
            pointer = int(runtime.malloc(size))
        self._blocks.append(pointer)
        self.sizes.append(size)
        self._handles.append(bytes(runtime.ipcGetMemHandle(pointer)))
        self.wipe((len(self._blocks) - 1, 0))

    def wipe(self, begin: tuple[int, int]) -> None:
        """Set all behind a byte of a block to zero, where nothing is read or written meanwhile."""
        block, offset = begin
        for pointer, size in zip(self._blocks[block:], self.sizes[block:], strict=True):
            self._cuda.runtime.memsetAsync(pointer + offset, 0, size - offset, self._stream.ptr)
            offset = 0
        self._stream.synchronize()  # for nothing but these

    def close(self) -> None:
        """Close the others' memory and free this rank's: only once no rank writes any more."""
        for pointer in self._opened.values():
            with suppress(self._cuda.runtime.CUDARuntimeError):  # whose it was may be gone
                self._cuda.runtime.ipcCloseMemHandle(pointer)
        for pointer in self._blocks:
            self._cuda.runtime.free(pointer)
        self._opened, self._blocks, self._handles, self.sizes = {}, [], [], []


class Arena:
    """Places in peer memory that a program takes and gives back.

    `memory`: where they are. It may have blocks of an earlier program, which are used again.
    """

    def __init__(self, memory: PeerMemory, begin: tuple[int, int] = (0, 0)) -> None:
        self._cuda: Any = importlib.import_module("cupy").cuda
        self.memory, self.begin = memory, begin
        self._released: list[tuple[int, IpcAddress]] = []  # with its room, ascending
        self._room: dict[tuple[int, int], int] = {}  # of what has been taken from there, by block and offset

    def allocate(self, size: int) -> IpcAddress:
        """Room for so many bytes, with whatever was there before; raises as `PeerMemory.add`."""
        size = _aligned(size)
        return self._released_before(size) or self._unused(size) or self._added(size)

    def allocate_zeros(self, sizes: Sequence[int]) -> list[IpcAddress]:
        """Room for so many bytes each, of zeros. It waits where places were used before, and nothing is left beside.

        What may still read there was enqueued on the current stream, or that waits for it.
        """
        places, used = [], False
        stream = self._cuda.get_current_stream()
        for size in map(_aligned, sizes):
            place = self._unused(size)
            if place is None and (place := self._released_before(size)) is not None:
                used = True
                self._cuda.runtime.memsetAsync(self.local(place), 0, size, stream.ptr)
            places.append(place or self._added(size))
        if used:
            stream.synchronize()
        return places

    def _released_before(self, size: int) -> IpcAddress | None:
        found = bisect_left(self._released, size, key=itemgetter(0))
        if found == len(self._released) or self._released[found][0] > ROOMY * size:
            return None
        room, address = self._released.pop(found)
        self._room[address.block, address.offset] = room
        return address

    def _unused(self, size: int) -> IpcAddress | None:
        """A place that has not been taken, in the blocks that there are."""
        (block, offset), sizes = self.begin, self.memory.sizes
        while block < len(sizes) and offset + size > sizes[block]:
            block, offset = block + 1, 0
        if block == len(sizes):
            return None
        self.begin = block, offset + size
        return self.memory.address(block, offset)

    def _added(self, size: int) -> IpcAddress:
        """A place in a further block."""
        self.memory.add(-(-max(size, PEER_BLOCK) // PEER_UNIT) * PEER_UNIT)
        block = len(self.memory.sizes) - 1
        self.begin = block, size
        return self.memory.address(block, 0)

    def release(self, address: IpcAddress, size: int) -> None:
        """Give back what was allocated with this size, once all that others were to write there has been read.

        It is kept for another allocation: lists of a set-up, of which no two are as long, take turns in one place.
        """
        room = self._room.pop((address.block, address.offset), _aligned(size))
        insort(self._released, (room, address), key=itemgetter(0))

    def local(self, address: IpcAddress) -> int:
        """As of `PeerMemory`."""
        return self.memory.local(address)

    def remote(self, peer: int, address: IpcAddress) -> int:
        """As of `PeerMemory`."""
        return self.memory.remote(peer, address)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class ReceiveLayout:
    """Byte offsets of a halo in this rank's memory: each own chunk's halo vector, then flags.

    A value arrives in a word, which holds a sequence number beside it. A peer that sends no values sends a flag, a word
    without a value, for its exchange has to be waited for too. There are two slots, used in turn.

    Attributes:
        flags: the peers that send a flag, with the number of its word.
        slot: bytes of a slot.
        size: bytes of both.
    """

    def __init__(self, plans: Plans, peers: Mapping[int, PeerSegments], word: int) -> None:
        self._word = word
        self._first: dict[int, int] = {}
        self.flags: dict[int, int] = {}
        words = 0
        for number, plan in plans.items():
            self._first[number], words = words, words + plan.size
        for peer, segments in peers.items():
            if not segments.receives:
                self.flags[peer], words = words, words + 1
        self.slot = -(-words * word // 16) * 16
        self.size = 2 * self.slot

    def offset(self, number: int, item: int) -> int:
        """Offset in slot 0 of an item of a chunk's halo vector."""
        return (self._first[number] + item) * self._word

    @property
    def first_flag(self) -> int:
        """Offset in slot 0 of the flags, one after the other."""
        return min(self.flags.values(), default=0) * self._word

    def flag(self, peer: int) -> int:
        """Offset in slot 0 of a peer's flag."""
        return self.flags[peer] * self._word

    def offsets(self, peer: int, segments: PeerSegments) -> list[int]:
        """Offsets in slot 0 to which a peer writes: one for each of its `sent_segments`."""
        return [self.offset(segment.own, segment.first) for segment in segments.receives] or [self.flag(peer)]


def sent_segments(segments: PeerSegments) -> Sequence[Segment | None]:
    """The segments sent to a peer; None, a flag, where there are none."""
    return segments.sends or (None,)
