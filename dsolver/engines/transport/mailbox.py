"""Messages between GPUs of one host: each rank fetches its own out of the other's memory.

A rank lays the arrays for a peer into an outbox and tells the peer in one frame where they lie and how long they are;
the peer copies them into arrays of its own. Between the two all streams meet, and no host waits for them. A rank that
has come there has fetched what was in the outbox before the last one, so two take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import cupy
import numpy as np

from dsolver.engines.transport.connections import Connections, exchanged
from dsolver.engines.transport.messages import Messages, Outgoing, PeerMessages
from dsolver.engines.transport.peer_memory import Arena, IpcAddress

ALIGNMENT: Final = 256  # bytes, of a multiple of which each array begins
SMALLEST: Final = 1 << 16  # bytes of an outbox, at least
_ON_DEVICE: Final = 3  # cudaMemcpyDeviceToDevice


class _Outbox:
    """Room for messages to a peer."""

    def __init__(self) -> None:
        self.address: IpcAddress | None = None
        self.size = 0


class Mailbox:
    """Outboxes of this rank for each peer, and what it fetches from theirs.

    `meet`: lets the current stream wait until those of all ranks have come there.
    """

    def __init__(self, connections: Connections, arena: Arena, meet: Callable[[], None]) -> None:
        self._connections, self._arena, self._meet = connections, arena, meet
        self._boxes: dict[int, list[_Outbox]] = {}

    def deliver(self, outgoing: Outgoing, peers: Mapping[int, PeerMessages], kinds: Sequence[str]) -> Messages:
        """As of `Transport.deliver`; peers: the messages by peer."""
        stream = cupy.cuda.get_current_stream()
        frames, sizes = {}, {}
        for peer, messages in peers.items():
            parts = [cupy.ascontiguousarray(part) for part in messages.parts(outgoing)]
            places = _places(parts)
            address = self._room(peer, places[-1])
            base = self._arena.local(address)
            for part, place in zip(parts, places[:-1], strict=True):
                cupy.cuda.runtime.memcpyAsync(base + place, part.data.ptr, part.nbytes, _ON_DEVICE, stream.ptr)
            frames[peer] = address.packed() + messages.lengths(outgoing, kinds).tobytes()
            sizes[peer] = IpcAddress.BYTES + messages.told(kinds).nbytes
        self._meet()
        found: Messages = {}
        for peer, frame in exchanged(self._connections, frames, sizes).items():
            told = np.frombuffer(frame[IpcAddress.BYTES :], dtype="<i8")
            rooms = peers[peer].rooms(cupy, told, kinds)
            parts = [part for message in rooms.values() for part in message if len(part)]
            if parts:
                base = self._arena.remote(peer, IpcAddress.unpacked(frame[: IpcAddress.BYTES]))
                for part, place in zip(parts, _places(parts)[:-1], strict=True):
                    cupy.cuda.runtime.memcpyAsync(part.data.ptr, base + place, part.nbytes, _ON_DEVICE, stream.ptr)
            found |= rooms
        return found

    def _room(self, peer: int, size: int) -> IpcAddress:
        """The outbox for a peer whose turn it is, with room for so many bytes."""
        boxes = self._boxes.setdefault(peer, [_Outbox(), _Outbox()])
        boxes.reverse()
        box = boxes[0]
        if box.address is None or box.size < size:
            if box.address is not None:
                self._arena.release(box.address, box.size)
            box.size = max(SMALLEST, 2 * size)
            box.address = self._arena.allocate(box.size)
        return box.address


def _places(parts: Sequence[Any]) -> list[int]:
    """Begins of arrays that lie one after the other, and their end."""
    return list(accumulate((-(-part.nbytes // ALIGNMENT) * ALIGNMENT for part in parts), initial=0))
