"""Halos between GPUs of one host: who writes where, agreed on for many of them at once.

A rank that makes a halo only notes it. Before the first exchange of any of them all that were made until then are
linked: one frame to each peer tells where it writes, and the lists of copies come to the device together. Every rank
makes the same halos and exchanges in the same order, so all link the same ones.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import cupy
import numpy as np

from dsolver.engines.transport.base import Channel
from dsolver.engines.transport.connections import Connections, exchanged
from dsolver.engines.transport.peer_memory import Arena, IpcAddress, ReceiveLayout, sent_segments
from dsolver.engines.transport.segments import PeerSegments, Plans, Segment, SegmentCache, local_segments
from dsolver.kernels import Backend
from dsolver.kernels.cuda.launch.foresight import settle
from dsolver.kernels.cuda.peer.writes import WORD, HaloCopies, PeerCopy, PeerHalo, peer_halos

BESIDE: Final = 4096
"""Items, sent and received, from which on an exchange runs on a stream of its own, beside the current stream's next
work. Below, the two events cost more than they hide."""
_NUMBER: Final = 8  # bytes of a number in a frame


class PeerHalos:
    """Halos of a rank, linked with the peers' before they are exchanged.

    `alarm`: address of a uint32 that ends all waiting once it is not 0. `side`: the stream of exchanges that run beside
    the current stream's next work.
    """

    def __init__(
        self, connections: Connections, owner_ranks: Sequence[int], arena: Arena, alarm: int, side: Any
    ) -> None:
        self._connections, self._arena, self._alarm, self._side = connections, arena, alarm, side
        self._segments = SegmentCache(owner_ranks)
        self._unlinked: list[_PeerChannel] = []

    def channel(self, plans: Plans, backend: Backend) -> Channel:
        """As of `Transport.channel`."""
        made = _PeerChannel(plans, backend, self._segments.by_peer(plans), self._side, self._link)
        self._unlinked.append(made)
        return made

    def _link(self) -> None:
        """Link all halos that are not."""
        channels, self._unlinked = self._unlinked, []
        places = self._arena.allocate_zeros([channel.room.size for channel in channels])
        settle()  # kernels read plans before they wait for earlier launches
        told = self._targets(channels, places)
        copies = [
            channel.copies(self._arena, place, targets)
            for channel, place, targets in zip(channels, places, told, strict=True)
        ]
        for channel, place, halo in zip(channels, places, peer_halos(copies, self._alarm), strict=True):
            channel.link(halo, self._arena, place)

    def _targets(
        self, channels: "Sequence[_PeerChannel]", places: Sequence[IpcAddress]
    ) -> list[dict[int, tuple[int, int, list[int]]]]:
        """Exchange with peers where to write: by channel and peer a room's pointer, a slot's bytes, parts' offsets."""
        frames: dict[int, bytes] = {}
        sizes: dict[int, int] = {}
        for channel, place in zip(channels, places, strict=True):
            for peer, segments in channel.peers.items():
                numbers = [channel.room.slot, *channel.room.offsets(peer, segments)]
                frames[peer] = frames.get(peer, b"") + place.packed() + np.array(numbers, dtype="<i8").tobytes()
                sizes[peer] = sizes.get(peer, 0) + _told_bytes(segments)
        frames = {peer: frames[peer] for peer in sorted(frames)}
        data = exchanged(self._connections, frames, sizes)
        found: list[dict[int, tuple[int, int, list[int]]]] = []
        for channel in channels:
            targets = {}
            for peer, segments in channel.peers.items():
                own, data[peer] = data[peer][: _told_bytes(segments)], data[peer][_told_bytes(segments) :]
                address = IpcAddress.unpacked(own[: IpcAddress.BYTES])
                slot, *offsets = np.frombuffer(own[IpcAddress.BYTES :], dtype="<i8").tolist()
                targets[peer] = self._arena.remote(peer, address), slot, offsets
            found.append(targets)
        return found


def _told_bytes(segments: PeerSegments) -> int:
    """Bytes by which a peer tells where it is written to."""
    return IpcAddress.BYTES + _NUMBER * (1 + len(sent_segments(segments)))


class _PeerChannel(Channel):
    """A halo whose copies are listed once, when `link` links it among others; values arrive in the `room`."""

    def __init__(
        self, plans: Plans, backend: Backend, peers: Mapping[int, PeerSegments], side: Any, link: Callable[[], None]
    ) -> None:
        self._halo: PeerHalo | None = None
        self._release: Callable[[], None] = lambda: None
        self._under_way = False  # whether others may write without this rank waiting for it
        self.vectors = {number: backend.zeros(plan.size) for number, plan in plans.items()}
        self._plans, self.peers = plans, peers  # the copies point to the plans' rows
        self._order = {number: index for index, number in enumerate(plans)}
        self._itemsize = next(iter(self.vectors.values())).itemsize
        self.room = ReceiveLayout(plans, peers, WORD * self._itemsize)
        ranges = [part for plan in plans.values() for part in (*plan.sends, *plan.receives)]
        self._beside = sum(last - first for _, first, last in ranges) >= BESIDE
        self._side, self._link = side, link

    def copies(self, arena: Arena, place: IpcAddress, targets: Mapping[int, tuple[int, int, list[int]]]) -> HaloCopies:
        """The copies of an exchange; targets: by peer its room's pointer, bytes of a slot, offsets of segments."""
        room, base = self.room, arena.local(place)
        outgoing = [
            self._copy(segment, base + room.offset(neighbor, to), room.slot)
            for segment, neighbor, to in local_segments(self._plans)
        ]
        for peer, segments in self.peers.items():
            begin, slot, offsets = targets[peer]
            outgoing += [
                self._copy(segment, begin + offset, slot)
                for segment, offset in zip(sent_segments(segments), offsets, strict=True)
            ]
        incoming = [
            PeerCopy(
                source=base + room.offset(number, first),
                target=self.vectors[number].data.ptr + first * self._itemsize,
                slot=room.slot,
                count=last - first,
            )
            for number, plan in self._plans.items()
            for _, first, last in plan.receives
        ]
        incoming += [PeerCopy(source=base + room.flag(peer), target=0, slot=room.slot, count=1) for peer in room.flags]
        return HaloCopies(outgoing=outgoing, incoming=incoming, itemsize=self._itemsize)

    def link(self, halo: PeerHalo, arena: Arena, place: IpcAddress) -> None:
        """Take what exchanges it, and its room, which goes back to the arena with this channel."""
        self._halo, self._begin = halo, arena.local(place)
        self._flags = self._begin + self.room.first_flag, len(self.room.flags)
        self._begun, self._arrived = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        size = self.room.size
        self._release = lambda: arena.release(place, size)

    def __del__(self) -> None:
        if not self._under_way:  # every word that was sent here has been waited for
            self._release()

    def send_context(self) -> AbstractContextManager[Any]:
        if self._halo is None:
            self._link()
        if not self._beside:
            return nullcontext()
        self._begun.record(cupy.cuda.get_current_stream())
        self._side.wait_event(self._begun)
        side: AbstractContextManager[Any] = self._side
        return side

    def send(self, x: Mapping[int, Any]) -> None:
        assert self._halo is not None
        self._halo.send([x[number] for number in self._order])

    def around(self, own: Mapping[int, Any], rows: Mapping[int, Any]) -> dict[int, Any]:
        if self._halo is None:
            self._link()
        halo, self._under_way, found = self._halo, True, {}
        assert halo is not None
        halo.send([own[number] for number in self._order])
        for number, plan in self._plans.items():
            window, first = rows[number].window, plan.receives[0][1] if plan.receives else 0
            words = self._begin + self.room.offset(number, first), self.room.slot
            found[number] = halo.around(own[number], window.rows, window.below, len(window.ghosts), words, self._flags)
        self._under_way = False
        return found

    def receive(self) -> Callable[[], None]:
        self._under_way = True
        if self._beside:
            with self._side:
                self._receive()
            self._arrived.record(self._side)
        return self._arrive

    def run_after(self, work: Callable[[], None]) -> bool:
        if self._beside:
            with self._side:
                work()
            self._arrived.record(self._side)
        return self._beside

    def _arrive(self) -> None:
        if self._beside:
            cupy.cuda.get_current_stream().wait_event(self._arrived)
        else:
            self._receive()
        self._under_way = False

    def _receive(self) -> None:
        assert self._halo is not None
        self._halo.receive()

    def _copy(self, segment: Segment | None, to: int, slot: int) -> PeerCopy:
        """A copy of a segment of an own chunk's rows, or of a flag, to the words at a pointer."""
        if segment is None:
            return PeerCopy(source=0, target=to, slot=slot, count=1)
        rows = self._plans[segment.own].send_rows
        return PeerCopy(
            source=rows.data.ptr + segment.first * rows.itemsize,
            target=to,
            slot=slot,
            count=segment.last - segment.first,
            chunk=self._order[segment.own],
        )
