"""How ranks reach each other: halo values and partial sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, final
from weakref import ref

import numpy as np

from dsolver.engines.mesh import Mesh, PeerError, sent
from dsolver.kernels import Backend
from dsolver.kernels.layout import HaloLayout


class Channel(ABC):
    """One halo of the owned chunks, and the way in which it is filled.

    Attributes:
        vectors: the halo vector of each owned chunk.
    """

    vectors: dict[int, Any]

    def lane(self) -> AbstractContextManager[Any]:
        """What `pack` is to run in; on a device it may be beside the current stream's next work."""
        return nullcontext()

    def behind(self, work: Callable[[], None]) -> bool:
        """Run work in the lane of an exchange that was started, once the halo vectors are full.

        Returns:
            Whether that was possible. Then who waits for the halo vectors waits for the work, too.
        """
        return False

    @abstractmethod
    def pack(self, x: Mapping[int, Any]) -> None:
        """Take what the neighbors read from the owned chunks' x. Called in a new lane, before each start."""

    @abstractmethod
    def start(self) -> Callable[[], None]:
        """Start to send what was packed, where it is not on its way yet, and to fill the halo vectors.

        Returns:
            What waits until the halo vectors are full. It has to run before the next pack, and until it has, the
            vectors may not be touched. Several channels may be under way; they may be waited for in any order.
        """


class Transport(ABC):
    """What one rank needs of the others. Every rank makes the same calls in the same order."""

    name: ClassVar[str]
    """For people: what carries the values."""

    @abstractmethod
    def channel(self, plans: Mapping[int, HaloLayout], backend: Backend) -> Channel:
        """Room for a halo with these plans of the owned chunks. Made at set-up, by every rank."""

    @abstractmethod
    def total(self, own: Any, everyone: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        """out = the sum of all ranks' parts.

        Args:
            own: the parts of this rank's chunks at their places, zero elsewhere.
            everyone: work space for the parts of all.
            out: (1,) array.
            add: add(parts, out) adds them in the fixed tree.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise the reason if this rank was told to stop; called between iterations and while the device is awaited.

        A transport whose waits cannot notice by themselves that a peer failed looks for that too.
        """

    @abstractmethod
    def abort(self, reason: str) -> None:
        """Make this rank and every one that waits for it raise the reason. May be called from any thread."""

    @abstractmethod
    def close(self) -> None:
        """End all connections; called by the rank's own thread."""


class PackedTransport(Transport):
    """One that moves buffers in which a kernel has packed what the neighbors read."""

    def lane(self) -> AbstractContextManager[Any]:
        """What the packing before an exchange runs in: on a device, beside the current stream's next work."""
        return nullcontext()

    @abstractmethod
    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        """Start to send the packed buffers of the owned chunks and to fill their halo vectors.

        Returns:
            What waits until the halo vectors are full. Until it has run, neither they nor the buffers may be touched.
            Several exchanges may be under way; they may be waited for in any order.
        """

    @abstractmethod
    def gather(self, own: Any, everyone: Any) -> None:
        """everyone = the own parts of all ranks; each rank's are at its chunks' places and zero elsewhere."""

    def channel(self, plans: Mapping[int, HaloLayout], backend: Backend) -> Channel:
        return PackedChannel(plans, backend, self)

    def total(self, own: Any, everyone: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        self.gather(own, everyone)
        add(everyone, out)


@final
class PackedChannel(Channel):
    """Halo vectors and the buffers that are packed for them."""

    def __init__(self, plans: Mapping[int, HaloLayout], backend: Backend, transport: PackedTransport) -> None:
        self.vectors = {number: backend.zeros(plan.size) for number, plan in plans.items()}
        self.buffers = {number: backend.zeros(len(plan.send_rows)) for number, plan in plans.items()}
        self.plans = plans
        self._pack = backend.kernel("pack")
        self._transport = transport

    def lane(self) -> AbstractContextManager[Any]:
        return self._transport.lane()

    def pack(self, x: Mapping[int, Any]) -> None:
        for number, plan in self.plans.items():
            self._pack(plan, x[number], self.buffers[number])

    def start(self) -> Callable[[], None]:
        return self._transport.exchange(self.plans, self.buffers, self.vectors)


@final
class Alone(PackedTransport):
    """One rank that owns every chunk."""

    name = "this process alone"

    def __init__(self) -> None:
        self._reason: str | None = None

    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        deliver(plans, buffers, halos)
        return lambda: None

    def gather(self, own: Any, everyone: Any) -> None:
        everyone[:] = own

    def check(self) -> None:
        if self._reason is not None:
            raise PeerError(self._reason)

    def abort(self, reason: str) -> None:
        self._reason = reason

    def close(self) -> None:
        """Nothing is open."""


@final
class SocketTransport(PackedTransport):
    """Ranks on CPUs: halo values go straight from the packed buffer to a socket and from there into the halo vector.

    Args:
        mesh: the connections.
        owner_ranks: the rank that owns each chunk.
    """

    name = "sockets"

    def __init__(self, mesh: Mesh, owner_ranks: Sequence[int]) -> None:
        self._mesh = mesh
        self._routes = Routes(owner_ranks)
        owners = np.asarray(owner_ranks)
        self._places = {rank: np.flatnonzero(owners == rank) for rank in (*mesh.peers, mesh.rank)}
        self._arriving: deque[Callable[[], None]] = deque()
        self._started = self._arrived = 0

    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        routes = self._routes.of(plans)
        sending = [
            self._mesh.send(peer, [_bytes(buffers[r.own][r.first : r.last]) for r in route.sends])
            for peer, route in routes.items()
        ]
        deliver(plans, buffers, halos)

        def arrive() -> None:
            for peer, route in routes.items():
                self._mesh.receive(peer, [_bytes(halos[r.own][r.first : r.last]) for r in route.receives])
            sent(sending)

        self._arriving.append(arrive)
        self._started += 1
        return partial(self._arrive_until, self._started)

    def gather(self, own: Any, everyone: Any) -> None:
        self._arrive_until(self._started)
        everyone[:] = own
        mine = _bytes(own[self._places[self._mesh.rank]])
        sending = [self._mesh.send(peer, [mine]) for peer in self._mesh.peers]
        for peer in self._mesh.peers:
            theirs = np.empty(len(self._places[peer]))
            self._mesh.receive(peer, [_bytes(theirs)])
            everyone[self._places[peer]] = theirs
        sent(sending)

    def check(self) -> None:
        self._mesh.alive()

    def abort(self, reason: str) -> None:
        self._mesh.abort(reason)

    def close(self) -> None:
        self._mesh.close()

    def _arrive_until(self, number: int) -> None:
        """Take what arrives up to an exchange: frames bear no names, so the earlier ones have to be taken first."""
        while self._arrived < number:
            self._arrived += 1
            self._arriving.popleft()()


@final
@dataclass(frozen=True)
class Piece:
    """Items [first, last) of an own chunk's buffer or halo vector."""

    own: int
    first: int
    last: int


@final
@dataclass(frozen=True)
class Route:
    """What goes to and comes from one peer, in an order that both sides derive: by sender, then by receiver."""

    sends: tuple[Piece, ...]
    receives: tuple[Piece, ...]


@final
class Routes:
    """The routes of each halo, worked out once.

    Args:
        owner_ranks: the rank that owns each chunk.
    """

    def __init__(self, owner_ranks: Sequence[int]) -> None:
        self._owners = tuple(owner_ranks)
        # By the id of a halo's first layout, for as long as that lives: plans hold memory of a device, which a
        # system that was replaced must give back.
        self._known: dict[int, tuple[ref[HaloLayout], dict[int, Route]]] = {}

    def of(self, plans: Mapping[int, HaloLayout]) -> dict[int, Route]:
        """The routes of the halo with these plans of the owned chunks, which were made together."""
        first = next(iter(plans.values()))
        key = id(first)
        if key not in self._known:
            gone = ref(first, lambda _: self._known.pop(key, None))
            self._known[key] = gone, routes_of(plans, self._owners)
        return self._known[key][1]


def routes_of(plans: Mapping[int, HaloLayout], owners: Sequence[int]) -> dict[int, Route]:
    """The routes to each peer, ascending, for the plans of the owned chunks and the rank of every chunk.

    Chunks that exchange nothing, though their plans name each other, have none: a coarse level's chunk may be empty.
    """
    sends: dict[int, list[tuple[int, int, Piece]]] = {}
    receives: dict[int, list[tuple[int, int, Piece]]] = {}
    for own, plan in plans.items():
        for neighbor, first, last in plan.sends:
            if neighbor not in plans and first < last:
                sends.setdefault(owners[neighbor], []).append((own, neighbor, Piece(own, first, last)))
        for neighbor, first, last in plan.receives:
            if neighbor not in plans and first < last:
                receives.setdefault(owners[neighbor], []).append((neighbor, own, Piece(own, first, last)))
    return {
        peer: Route(sends=_in_order(sends.get(peer, [])), receives=_in_order(receives.get(peer, [])))
        for peer in sorted(sends.keys() | receives.keys())
    }


def deliver(plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> None:
    """Copy between chunks of the same rank: from each packed buffer to the neighbors' halo vectors."""
    for number, plan in plans.items():
        for neighbor, first, last in plan.sends:
            if neighbor in plans:
                to, end = slots_of(plans[neighbor], number)
                halos[neighbor][to:end] = buffers[number][first:last]


def slots_of(plan: HaloLayout, sender: int) -> tuple[int, int]:
    """Which slots of a halo vector a sender fills."""
    return next((first, last) for number, first, last in plan.receives if number == sender)


def _in_order(pieces: list[tuple[int, int, Piece]]) -> tuple[Piece, ...]:
    return tuple(piece for _, _, piece in sorted(pieces, key=lambda entry: entry[:2]))


def _bytes(values: Any) -> memoryview:
    return memoryview(values).cast("B")
