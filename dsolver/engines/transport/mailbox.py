"""Messages between GPUs of one host: each rank fetches its own out of the other's memory.

A rank lays the arrays for a peer into an outbox, and the peer copies them into arrays of its own. Between the two all
streams meet, and no host waits for them. A rank that has come there has fetched what was in the outbox before the last
one, so two take turns. One frame tells a peer which outbox it is and how long the arrays are; where both sides know
lengths there is none, unless the outbox of that turn has become too small, which both know, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Final, Self

import cupy
import numpy as np

from dsolver.engines.transport.connections import Connections, received, sent
from dsolver.engines.transport.messages import Delivered, Known, Outgoing, PeerMessages
from dsolver.engines.transport.peer_memory import Arena, IpcAddress
from dsolver.kernels.cuda.peer.moves import move

ALIGNMENT: Final = 256  # bytes, of a multiple of which each array begins
SMALLEST: Final = 1 << 16  # bytes of an outbox, at least


@dataclass(frozen=True, kw_only=True)
class Outbox:
    """Room for messages to a peer."""

    BYTES: ClassVar[int] = IpcAddress.BYTES + 8  # size of one that is packed
    address: IpcAddress
    size: int  # bytes

    def packed(self) -> bytes:
        """The outbox as `BYTES` bytes."""
        return self.address.packed() + self.size.to_bytes(8, "little")

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """The outbox that was packed."""
        address, size = data[: IpcAddress.BYTES], data[IpcAddress.BYTES :]
        return cls(address=IpcAddress.unpacked(address), size=int.from_bytes(size, "little"))


class Turns:
    """Two outboxes that take turns, as their owner has them and as it has told the peer of them."""

    def __init__(self) -> None:
        self._last: Outbox | None = None
        self._next: Outbox | None = None

    def turn(self) -> Outbox | None:
        """The outbox whose turn it is now."""
        self._last, self._next = self._next, self._last
        return self._last

    def replace(self, box: Outbox) -> None:
        """Have another outbox in place of the one whose turn it is."""
        self._last = box


class Mailbox:
    """Outboxes of this rank for each peer, and what it fetches from theirs.

    `meet`: lets the current stream wait until those of all ranks have come there.
    """

    def __init__(self, connections: Connections, arena: Arena, meet: Callable[[], None]) -> None:
        self._connections, self._arena, self._meet = connections, arena, meet
        self._own: defaultdict[int, Turns] = defaultdict(Turns)
        self._theirs: defaultdict[int, Turns] = defaultdict(Turns)

    def deliver(
        self, outgoing: Outgoing, peers: Mapping[int, PeerMessages], kinds: Sequence[str], known: Known = None
    ) -> Delivered:
        """As of `Transport.deliver`; peers: the messages by peer. Frames are under way while arrays are copied."""
        sending: list[Any] = []
        leaving: list[tuple[Any, int]] = []
        for peer, messages in peers.items():
            parts = [cupy.ascontiguousarray(part) for part in messages.parts(outgoing)]
            before = self._own[peer].turn()
            box = self._roomy(peer, before, _places(parts)[-1])
            leaving += zip(parts, _addresses(parts, self._arena.local(box.address)), strict=True)
            if known is None or box is not before:
                lengths = messages.lengths(outgoing, kinds).tobytes() if known is None else b""
                sending.append(self._connections.send(peer, [memoryview(box.packed() + lengths)]))
        move(leaving)
        self._meet()
        found = self._fetched(peers, kinds, known)
        sent(sending)
        return found

    def _fetched(self, peers: Mapping[int, PeerMessages], kinds: Sequence[str], known: Known) -> Delivered:
        """The messages in the peers' outboxes."""
        boxes = {peer: self._theirs[peer].turn() for peer in peers}
        told = {peer: messages.told(kinds, known) for peer, messages in peers.items()}
        rooms: dict[int, Delivered] = {}
        sizes = {peer: Outbox.BYTES + lengths.nbytes for peer, lengths in told.items()}
        if known is not None:
            rooms = {peer: messages.rooms(cupy, told[peer], kinds) for peer, messages in peers.items()}
            sizes = {
                peer: Outbox.BYTES for peer, room in rooms.items() if not _fits(boxes[peer], _places(_items(room))[-1])
            }
        for peer, frame in received(self._connections, sizes).items():
            boxes[peer] = box = Outbox.unpacked(frame[: Outbox.BYTES])
            self._theirs[peer].replace(box)
            if known is None:
                rooms[peer] = peers[peer].rooms(cupy, np.frombuffer(frame[Outbox.BYTES :], dtype="<i8"), kinds)
        found: Delivered = {}
        coming: list[tuple[Any, int]] = []
        for peer, room in rooms.items():
            if parts := _items(room):
                there = boxes[peer]
                assert there is not None
                coming += zip(parts, _addresses(parts, self._arena.remote(peer, there.address)), strict=True)
            found |= room
        move(coming, back=True)
        return found

    def _roomy(self, peer: int, box: Outbox | None, size: int) -> Outbox:
        """The outbox for a peer whose turn it is, or another one in its place with room for so many bytes."""
        if box is not None and _fits(box, size):
            return box
        if box is not None:
            self._arena.release(box.address, box.size)
        room = max(SMALLEST, 2 * size)
        made = Outbox(address=self._arena.allocate(room), size=room)
        self._own[peer].replace(made)
        return made


def _fits(box: Outbox | None, size: int) -> bool:
    return box is not None and size <= box.size


def _items(messages: Delivered) -> list[Any]:
    """The arrays of messages that have any items."""
    return [part for message in messages.values() for part in message if len(part)]


def _places(parts: Sequence[Any]) -> list[int]:
    """Begins of arrays that lie one after the other, and their end."""
    return list(accumulate((-(-part.nbytes // ALIGNMENT) * ALIGNMENT for part in parts), initial=0))


def _addresses(parts: Sequence[Any], base: int) -> list[int]:
    """The addresses of arrays that lie one after the other behind another one."""
    return [base + place for place in _places(parts)[:-1]]
