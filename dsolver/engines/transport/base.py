"""The interface of transports, which carry halo values and partial sums between ranks, and that of one rank alone."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from dsolver.engines.transport.messages import Delivered, Known, Outgoing, Pairs
from dsolver.engines.transport.segments import Plans, local_segments
from dsolver.errors import RankError
from dsolver.kernels import Backend


class PeerError(RankError):
    """Another rank failed, or this one was told to stop; the message is the reason."""


class Channel(ABC):
    """The halo vectors of the owned chunks, with what fills them."""

    vectors: dict[int, Any]

    def send_context(self) -> AbstractContextManager[Any]:
        """Context in which `send` runs; on a device it may be beside the current stream's next work."""
        return nullcontext()

    def run_after(self, work: Callable[[], None]) -> bool:
        """Run work beside the stream once a begun exchange has filled the halo vectors; waits for them wait for it."""
        return False

    @abstractmethod
    def send(self, x: Mapping[int, Any]) -> None:
        """Write what neighbors read of own x to them, or pack it for `receive`; called in a new `send_context`."""

    def around(self, own: Mapping[int, Any], rows: Mapping[int, Any]) -> Mapping[int, Any] | None:
        """As of `Engine.around`, where values need not come to halo vectors first; None where they do."""
        return None

    @abstractmethod
    def receive(self) -> Callable[[], None]:
        """Begin to fill the halo vectors, and send what is only packed. Called after each `send`.

        Returns:
            A function that waits until the halo vectors are full. It has to run before the next `send`; until it has,
            the vectors may not be touched. Several channels may be under way; they may be waited for in any order.
        """


class TransportLink(ABC):
    """Connections of ranks between two programs, while nothing is under way."""

    @abstractmethod
    def transport(self) -> "Transport":
        """The transport of another program on them. Every rank asks for it."""

    @abstractmethod
    def close(self) -> None:
        """End all connections, whatever the other ranks do."""


class Transport(ABC):
    """Exchanges and sums with the other ranks. Every rank makes the same calls in the same order."""

    name: ClassVar[str]
    """The carrier of the values, for people."""

    @abstractmethod
    def channel(self, plans: Plans, backend: Backend) -> Channel:
        """A channel for a halo with these plans of the owned chunks. Made at set-up, by every rank."""

    @abstractmethod
    def total(self, own: Any, gathered: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        """out = the sum of all ranks' parts, by add(parts, out), which has the order of the fixed tree.

        `own`: the parts of this rank's chunks at their places, zero elsewhere. `gathered`: work space for the parts of
        all.
        """

    @abstractmethod
    def deliver(self, outgoing: Outgoing, expected: Pairs, kinds: Sequence[str], known: Known = None) -> Delivered:
        """Messages to and from chunks of other ranks: of those expected what has come, as only their senders know.

        known: the items of each array of those expected where both sides know them.
        """

    @abstractmethod
    def known(self, own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        """Numbers of all chunks, equally many of each, in their order; own: those of this rank's chunks."""

    @abstractmethod
    def check(self) -> None:
        """Raise the reason if this rank was told to stop; called between iterations and while the device is awaited.

        A transport whose waits cannot notice by themselves that a peer failed looks for that too.
        """

    @abstractmethod
    def abort(self, reason: str) -> None:
        """Make this rank and every one that waits for it raise the reason. May be called from any thread."""

    def detached(self) -> TransportLink | None:
        """The connections, for another program; None where they are closed with this one, which is still to be done.

        Called by every rank at the end of a program, when nothing refers to this any more.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """End all connections; called by the rank's own thread."""


class PackedTransport(Transport):
    """A transport that moves buffers in which a kernel has packed what the neighbors read."""

    at_once: ClassVar[bool] = False
    """Whether halo vectors are full, in the order of a stream, as soon as an exchange has begun."""

    def send_context(self) -> AbstractContextManager[Any]:
        """Context in which buffers are packed: on a device, beside the current stream's next work."""
        return nullcontext()

    @abstractmethod
    def exchange(self, plans: Plans, buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> Callable[[], None]:
        """Start to send the packed buffers of the owned chunks and to fill their halo vectors.

        Returns:
            A function that waits until the halo vectors are full. Until it has run, neither they nor the buffers may be
            touched. Several exchanges may be under way; they may be waited for in any order.
        """

    @abstractmethod
    def gather(self, own: Any, gathered: Any) -> None:
        """gathered = the own parts of all ranks; each rank's are at its chunks' places and zero elsewhere."""

    def channel(self, plans: Plans, backend: Backend) -> Channel:
        return PackedChannel(plans, backend, self)

    def total(self, own: Any, gathered: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        self.gather(own, gathered)
        add(gathered, out)


class PackedChannel(Channel):
    """Halo vectors, and the buffers that are packed for the neighbors."""

    def __init__(self, plans: Plans, backend: Backend, transport: PackedTransport) -> None:
        self.vectors = {number: backend.zeros(plan.size) for number, plan in plans.items()}
        self.buffers = {number: backend.zeros(len(plan.send_rows)) for number, plan in plans.items()}
        self.plans = plans
        if any(plan.sends or plan.receives for plan in plans.values()):
            backend.synchronize()  # kernels read plans before they wait for earlier launches
        self._pack = backend.kernel("pack")
        self._transport = transport

    def send_context(self) -> AbstractContextManager[Any]:
        return self._transport.send_context()

    def send(self, x: Mapping[int, Any]) -> None:
        for number, plan in self.plans.items():
            self._pack(plan, x[number], self.buffers[number])

    def receive(self) -> Callable[[], None]:
        return self._transport.exchange(self.plans, self.buffers, self.vectors)

    def run_after(self, work: Callable[[], None]) -> bool:
        if self._transport.at_once:  # put off, it would be left where a recording breaks off, and be in the next one
            work()
        return self._transport.at_once


class Alone(PackedTransport):
    """The transport of one rank that owns every chunk."""

    name, at_once = "this process alone", True

    def __init__(self) -> None:
        self._reason: str | None = None

    def exchange(self, plans: Plans, buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> Callable[[], None]:
        copy_local(plans, buffers, halos)
        return lambda: None

    def gather(self, own: Any, gathered: Any) -> None:
        gathered[:] = own

    def deliver(self, outgoing: Outgoing, expected: Pairs, kinds: Sequence[str], known: Known = None) -> Delivered:
        return {}

    def known(self, own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        return [tuple(own[number]) for number in sorted(own)]

    def check(self) -> None:
        if self._reason is not None:
            raise PeerError(self._reason)

    def abort(self, reason: str) -> None:
        self._reason = reason

    def close(self) -> None:
        """Nothing is open."""


def copy_local(plans: Plans, buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> None:
    """Copy between chunks of this rank: from each packed buffer to the neighbors' halo vectors."""
    for segment, neighbor, to in local_segments(plans):
        count = segment.last - segment.first
        halos[neighbor][to : to + count] = buffers[segment.own][segment.first : segment.last]
