"""Transport between CPUs: halo values and partial sums over sockets."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np

from dsolver.engines.transport.base import PackedTransport, copy_local
from dsolver.engines.transport.connections import Connections, known_numbers, sent
from dsolver.engines.transport.messages import Delivered, Known, Outgoing, Pairs, by_peer
from dsolver.engines.transport.segments import Plans, SegmentCache


class SocketTransport(PackedTransport):
    """The transport of CPUs: halo values go from the packed buffer to a socket and from there into the halo vector."""

    name = "sockets"

    def __init__(self, connections: Connections, owner_ranks: Sequence[int]) -> None:
        self._connections = connections
        self._segments = SegmentCache(owner_ranks)
        self._owners = tuple(owner_ranks)
        owners = np.asarray(owner_ranks)
        self._places = {rank: np.flatnonzero(owners == rank) for rank in (*connections.peers, connections.rank)}
        self._arriving: deque[Callable[[], None]] = deque()
        self._started = self._arrived = 0

    def exchange(self, plans: Plans, buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> Callable[[], None]:
        peers = self._segments.by_peer(plans)
        sending = [
            self._connections.send(peer, [_bytes(buffers[s.own][s.first : s.last]) for s in segments.sends])
            for peer, segments in peers.items()
        ]
        copy_local(plans, buffers, halos)

        def arrive() -> None:
            for peer, segments in peers.items():
                self._connections.receive(peer, [_bytes(halos[s.own][s.first : s.last]) for s in segments.receives])
            sent(sending)

        self._arriving.append(arrive)
        self._started += 1
        return partial(self._arrive_until, self._started)

    def gather(self, own: Any, gathered: Any) -> None:
        self._arrive_until(self._started)
        gathered[:] = own
        mine = _bytes(own[self._places[self._connections.rank]])
        sending = [self._connections.send(peer, [mine]) for peer in self._connections.peers]
        for peer in self._connections.peers:
            theirs = np.empty(len(self._places[peer]))
            self._connections.receive(peer, [_bytes(theirs)])
            gathered[self._places[peer]] = theirs
        sent(sending)

    def deliver(self, outgoing: Outgoing, expected: Pairs, kinds: Sequence[str], known: Known = None) -> Delivered:
        self._arrive_until(self._started)
        peers = by_peer(outgoing, expected, self._owners)
        sending: list[Future[None]] = []
        found: Delivered = {}
        for peer, messages in peers.items():
            if messages.sends:
                parts = [_bytes(np.ascontiguousarray(part)) for part in messages.parts(outgoing)]
                if known is None:
                    sending.append(self._connections.send(peer, [_bytes(messages.lengths(outgoing, kinds))]))
                if parts:
                    sending.append(self._connections.send(peer, parts))
        for peer, messages in peers.items():
            if messages.receives:
                told = messages.told(kinds, known)
                if known is None:
                    self._connections.receive(peer, [_bytes(told)])
                rooms = messages.rooms(np, told, kinds)
                parts = [_bytes(part) for message in rooms.values() for part in message if len(part)]
                if parts:
                    self._connections.receive(peer, parts)
                found |= rooms
        sent(sending)
        return found

    def known(self, own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        self._arrive_until(self._started)
        return known_numbers(self._connections, self._owners, own)

    def check(self) -> None:
        self._connections.raise_if_aborted()

    def abort(self, reason: str) -> None:
        self._connections.abort(reason)

    def close(self) -> None:
        self._connections.close()

    def _arrive_until(self, number: int) -> None:
        """Receive up to an exchange: frames bear no names, so the earlier ones have to be received first."""
        while self._arrived < number:
            self._arrived += 1
            self._arriving.popleft()()


def _bytes(values: Any) -> memoryview:
    return memoryview(values).cast("B")
