"""How ranks reach each other: halo values and partial sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dsolver.engines.mesh import Mesh, sent
from dsolver.kernels.layout import HaloLayout


class Transport(ABC):
    """What one rank needs of the others. Every rank makes the same calls in the same order."""

    @abstractmethod
    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        """Start to send the packed buffers of the owned chunks and to fill their halo vectors.

        Returns:
            What waits until the halo vectors are full. Until it has run, neither they nor the buffers may be touched.
        """

    @abstractmethod
    def gather(self, own: Any, everyone: Any) -> None:
        """everyone = the own parts of all ranks; each rank's are at its chunks' places and zero elsewhere."""

    def check(self) -> None:  # noqa: B027  # needed only where a wait cannot notice by itself
        """Raise what another rank has failed with, if one has; called while the host waits for the device."""

    @abstractmethod
    def abort(self, reason: str) -> None:
        """Make every rank that waits for this one raise the reason, and end."""

    @abstractmethod
    def close(self) -> None:
        """End all connections."""


@final
class Alone(Transport):
    """One rank that owns every chunk."""

    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        deliver(plans, buffers, halos)
        return lambda: None

    def gather(self, own: Any, everyone: Any) -> None:
        everyone[:] = own

    def abort(self, reason: str) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is open."""


@final
class SocketTransport(Transport):
    """Ranks on CPUs: halo values go straight from the packed buffer to a socket and from there into the halo vector.

    Args:
        mesh: the connections.
        owner_ranks: the rank that owns each chunk.
    """

    def __init__(self, mesh: Mesh, owner_ranks: Sequence[int]) -> None:
        self._mesh = mesh
        self._owners = np.asarray(owner_ranks)

    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
        routes = routes_of(plans, self._owners)
        sending = [
            self._mesh.send(peer, [_bytes(buffers[r.own][r.first : r.last]) for r in route.sends])
            for peer, route in routes.items()
        ]
        deliver(plans, buffers, halos)

        def finish() -> None:
            for peer, route in routes.items():
                self._mesh.receive(peer, [_bytes(halos[r.own][r.first : r.last]) for r in route.receives])
            sent(sending)

        return finish

    def gather(self, own: Any, everyone: Any) -> None:
        everyone[:] = own
        mine = _bytes(own[self._owners == self._mesh.rank])
        sending = [self._mesh.send(peer, [mine]) for peer in self._mesh.peers]
        for peer in self._mesh.peers:
            theirs = np.empty(int(np.count_nonzero(self._owners == peer)))
            self._mesh.receive(peer, [_bytes(theirs)])
            everyone[self._owners == peer] = theirs
        sent(sending)

    def abort(self, reason: str) -> None:
        self._mesh.abort(reason)

    def close(self) -> None:
        self._mesh.close()


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


def routes_of(plans: Mapping[int, HaloLayout], owners: Any) -> dict[int, Route]:
    """The routes to each peer, ascending, for the plans of the owned chunks and the rank of every chunk."""
    sends: dict[int, list[tuple[int, int, Piece]]] = {}
    receives: dict[int, list[tuple[int, int, Piece]]] = {}
    for own, plan in plans.items():
        for neighbor, first, last in plan.sends:
            if neighbor not in plans:
                sends.setdefault(int(owners[neighbor]), []).append((own, neighbor, Piece(own, first, last)))
        for neighbor, first, last in plan.receives:
            if neighbor not in plans:
                receives.setdefault(int(owners[neighbor]), []).append((neighbor, own, Piece(own, first, last)))
    return {
        peer: Route(sends=_in_order(sends.get(peer, [])), receives=_in_order(receives.get(peer, [])))
        for peer in sorted(sends.keys() | receives.keys())
    }


def deliver(plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> None:
    """Copy between chunks of the same rank: from each packed buffer to the neighbors' halo vectors."""
    for number, plan in plans.items():
        for neighbor, first, last in plan.sends:
            if neighbor in plans:
                to, end = _slots(plans[neighbor], number)
                halos[neighbor][to:end] = buffers[number][first:last]


def _slots(plan: HaloLayout, sender: int) -> tuple[int, int]:
    """Which slots of a halo vector a sender fills."""
    return next((first, last) for number, first, last in plan.receives if number == sender)


def _in_order(pieces: list[tuple[int, int, Piece]]) -> tuple[Piece, ...]:
    return tuple(piece for _, _, piece in sorted(pieces, key=lambda entry: entry[:2]))


def _bytes(values: Any) -> memoryview:
    return memoryview(values).cast("B")
