"""Transport between GPUs of one host: kernels write straight into the other GPUs' memory, over NVLink or PCIe.

NCCL's send and receive cost about 12 us in a CUDA graph, beside the events that bring them onto a stream of their own
and back. Here an exchange is two short launches, and a sum over ranks is one. kernels/cuda/peer/writes.cu also says why
nothing is overwritten before it was read.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, final

import cupy
import numpy as np

from dsolver.engines.base import Message
from dsolver.engines.transport.base import Channel, PeerError, Transport
from dsolver.engines.transport.connections import Connections, exchanged, known_numbers
from dsolver.engines.transport.mailbox import Mailbox
from dsolver.engines.transport.messages import Messages, Pair, by_peer
from dsolver.engines.transport.peer_memory import Arena, IpcAddress, ReceiveLayout, sent_segments
from dsolver.engines.transport.segments import PeerSegments, Segment, SegmentCache, local_segments
from dsolver.kernels import Backend
from dsolver.kernels.cuda.peer.writes import WORD, PeerCopy, PeerHalo, PeerSum, sum_bytes
from dsolver.kernels.formats.layout import HaloLayout

logger = logging.getLogger(__name__)

SWITCH: Final = "DSOLVER_GPU_LINK"
"""Environment variable of a worker: "nccl" turns this transport off."""
BESIDE: Final = 4096
"""Items, sent and received, from which on an exchange runs on a stream of its own, beside the current stream's next
work. Below, the two events cost more than they hide."""
_MARK: Final = 8  # bytes that a rank writes into every other's memory to see whether it can
_CHECK: Final = 0.2  # seconds between looks at the other ranks


@final
class PeerTransport(Transport):
    """The transport of GPUs that reach each other's memory. Every call only enqueues, so a CUDA graph can capture it.

    Args:
        connections: to the same ranks; they carry addresses and errors, never data.
        owner_ranks: the rank that owns each chunk.
        arena: this rank's memory for the others.
        sums: pointers to the words for sums, this rank's and then the peers'.
    """

    name = "peer GPU memory"

    def __init__(self, connections: Connections, owner_ranks: Sequence[int], arena: Arena, sums: Sequence[int]) -> None:
        self._connections = connections
        self._arena = arena
        self._owners = tuple(owner_ranks)
        self._segments = SegmentCache(owner_ranks)
        self._mailbox = Mailbox(connections, arena)
        # The highest priority: a halo that waits behind inner blocks is a halo that is seen.
        self._side = cupy.cuda.Stream(non_blocking=True, priority=-5)
        self._memory = cupy.cuda.alloc_pinned_memory(8)
        self._alarm = np.frombuffer(self._memory, np.uint32, 1)
        self._alarm[0] = 0
        self._sum = PeerSum([owner == connections.rank for owner in owner_ranks], sums, self._memory.ptr)

    def channel(self, plans: Mapping[int, HaloLayout], backend: Backend) -> Channel:
        peers, alarm = self._segments.by_peer(plans), self._memory.ptr
        return _PeerChannel(plans, backend, peers, self._connections, self._arena, self._side, alarm)

    def total(self, own: Any, gathered: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        self._sum(own, gathered, out)

    def deliver(self, outgoing: Mapping[Pair, Message], expected: Sequence[Pair], kinds: Sequence[str]) -> Messages:
        return self._mailbox.deliver(outgoing, by_peer(outgoing, expected, self._owners), kinds)

    def known(self, own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        return known_numbers(self._connections, self._owners, own)

    def check(self) -> None:
        self._connections.check()

    def abort(self, reason: str) -> None:
        self._alarm[0] = 1
        self._connections.abort(reason)

    def close(self) -> None:
        self._settle()
        with suppress(PeerError):
            _all_agree(self._connections, True)  # nobody writes into the memory of another any more
        self._arena.close()
        self._connections.close()

    def _settle(self) -> None:
        """Wait for the device; if a peer is gone meanwhile, tell the kernels that wait for it."""
        device = cupy.cuda.Device()

        def synchronize() -> None:
            with device, suppress(cupy.cuda.runtime.CUDARuntimeError):
                device.synchronize()

        waiting = threading.Thread(target=synchronize, name="dsolver-settle", daemon=True)
        waiting.start()
        while True:
            waiting.join(_CHECK)
            if not waiting.is_alive():
                return
            try:
                self._connections.check()
            except PeerError:
                self._alarm[0] = 1


@final
class _PeerChannel(Channel):
    """A halo whose copies are listed once, when every rank makes it."""

    def __init__(
        self,
        plans: Mapping[int, HaloLayout],
        backend: Backend,
        peers: Mapping[int, PeerSegments],
        connections: Connections,
        arena: Arena,
        side: Any,
        alarm: int,
    ) -> None:
        self._under_way = True  # whether others may write without this rank waiting for it
        self.vectors = {number: backend.zeros(plan.size) for number, plan in plans.items()}
        itemsize = next(iter(self.vectors.values())).itemsize
        layout = ReceiveLayout(plans, peers, WORD * itemsize)
        address = arena.allocate(layout.size)
        self._arena, self._address, self._size = arena, address, layout.size
        targets = _exchange_targets(connections, peers, address, layout)
        self._plans = plans  # the copies point to their rows
        self._order = {number: index for index, number in enumerate(plans)}
        base = arena.local(address)
        outgoing = [
            self._copy(plans, segment, base + layout.offset(neighbor, to), layout.slot)
            for segment, neighbor, to in local_segments(plans)
        ]
        for peer, segments in peers.items():
            remote, slot, offsets = targets[peer]
            begin = arena.remote(peer, remote)
            outgoing += [
                self._copy(plans, segment, begin + offset, slot)
                for segment, offset in zip(sent_segments(segments), offsets, strict=True)
            ]
        incoming = [
            PeerCopy(
                source=base + layout.offset(number, first),
                target=self.vectors[number].data.ptr + first * itemsize,
                slot=layout.slot,
                count=last - first,
            )
            for number, plan in plans.items()
            for _, first, last in plan.receives
        ]
        incoming += [
            PeerCopy(source=base + layout.flag(peer), target=0, slot=layout.slot, count=1) for peer in layout.flags
        ]
        self._halo = PeerHalo(outgoing, incoming, itemsize, alarm)
        self._beside = sum(copy.count for copy in (*outgoing, *incoming)) >= BESIDE
        self._side = side
        self._begun, self._arrived = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self._under_way = False

    def __del__(self) -> None:
        if not self._under_way:  # every word that was sent here has been waited for
            self._arena.release(self._address, self._size)

    def send_context(self) -> AbstractContextManager[Any]:
        if not self._beside:
            return nullcontext()
        self._begun.record(cupy.cuda.get_current_stream())
        self._side.wait_event(self._begun)
        side: AbstractContextManager[Any] = self._side
        return side

    def send(self, x: Mapping[int, Any]) -> None:
        self._halo.send([x[number] for number in self._order])

    def receive(self) -> Callable[[], None]:
        self._under_way = True
        if self._beside:
            with self._side:
                self._halo.receive()
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
            self._halo.receive()
        self._under_way = False

    def _copy(self, plans: Mapping[int, HaloLayout], segment: Segment | None, to: int, slot: int) -> PeerCopy:
        """A copy of a segment of an own chunk's rows, or of a flag, to the words at a pointer."""
        if segment is None:
            return PeerCopy(source=0, target=to, slot=slot, count=1)
        rows = plans[segment.own].send_rows
        return PeerCopy(
            source=rows.data.ptr + segment.first * rows.itemsize,
            target=to,
            slot=slot,
            count=segment.last - segment.first,
            chunk=self._order[segment.own],
        )


def connect(connections: Connections, owner_ranks: Sequence[int]) -> PeerTransport | None:
    """The transport if every rank reaches every other one's memory; None, on all of them, if any does not.

    Raises:
        PeerError: a peer failed.
    """
    arena, reason = Arena(), ""
    ranks = len(connections.peers) + 1
    marks = IpcAddress(handle=b"", block=0, offset=0)
    if os.environ.get(SWITCH, "").lower() == "nccl":
        reason = f"{SWITCH} says so"
    try:
        marks = arena.allocate(_MARK * ranks)
        sums = arena.allocate(sum_bytes(len(owner_ranks)))
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = reason or str(error)
        sums = marks
    own = _host() + sums.packed()
    received = exchanged(connections, dict.fromkeys(connections.peers, own), len(own))
    if not reason and any(data[:_HOST_BYTES] != _host() for data in received.values()):
        reason = "they are on several hosts"
    if _all_agree(connections, not reason):
        remote = {peer: IpcAddress.unpacked(data[_HOST_BYTES:]) for peer, data in received.items()}
        pointers: list[int] = []
        try:
            pointers = [arena.local(sums), *(arena.remote(peer, address) for peer, address in remote.items())]
            for peer, address in remote.items():
                mark = replace(address, offset=marks.offset + _MARK * connections.rank)
                cupy.cuda.runtime.memset(arena.remote(peer, mark), 1 + connections.rank % 255, _MARK)
            cupy.cuda.Device().synchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            reason = str(error)
        if _all_agree(connections, not reason) and _all_agree(connections, _marked(arena.local(marks), connections)):
            return PeerTransport(connections, owner_ranks, arena, pointers)
        reason = reason or "what was written did not arrive everywhere"
    arena.close()
    logger.info("rank %d does not write into other GPUs' memory: %s", connections.rank, reason or "another rank cannot")
    return None


def _marked(pointer: int, connections: Connections) -> bool:
    """Whether every peer's mark has arrived."""
    size = _MARK * (len(connections.peers) + 1)
    found = np.empty(size, dtype=np.uint8)
    cupy.cuda.runtime.memcpy(found.ctypes.data, pointer, size, cupy.cuda.runtime.memcpyDeviceToHost)
    return all((found[_MARK * peer : _MARK * (peer + 1)] == 1 + peer % 255).all() for peer in connections.peers)


def _exchange_targets(
    connections: Connections, peers: Mapping[int, PeerSegments], address: IpcAddress, layout: ReceiveLayout
) -> dict[int, tuple[IpcAddress, int, list[int]]]:
    """Tell each peer where to write, and learn where to write there: address, bytes of a slot, offsets of segments."""
    frames = {}
    for peer, segments in peers.items():
        numbers = [layout.slot, *layout.offsets(peer, segments)]
        frames[peer] = address.packed() + np.array(numbers, dtype="<i8").tobytes()
    sizes = {peer: IpcAddress.BYTES + 8 * (1 + len(sent_segments(segments))) for peer, segments in peers.items()}
    targets = {}
    for peer, data in exchanged(connections, frames, sizes).items():
        slot, *offsets = np.frombuffer(data[IpcAddress.BYTES :], dtype="<i8").tolist()
        targets[peer] = (IpcAddress.unpacked(data[: IpcAddress.BYTES]), slot, offsets)
    return targets


def _all_agree(connections: Connections, well: bool) -> bool:
    """Whether all is well on every rank; also a barrier."""
    replies = exchanged(connections, dict.fromkeys(connections.peers, bytes([well])), 1)
    return well and all(data[0] for data in replies.values())


_HOST_BYTES: Final = 64


def _host() -> bytes:
    """An identifier of this machine, since it was started; `_HOST_BYTES` bytes."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        name = platform.node()
    return name.encode()[:_HOST_BYTES].ljust(_HOST_BYTES)
