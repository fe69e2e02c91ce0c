"""Transport between GPUs of one host: kernels write straight into the other GPUs' memory, over NVLink or PCIe.

NCCL's send and receive cost about 12 us in a CUDA graph, beside the events that bring them onto a stream of their own
and back. Here an exchange is two short launches, and a sum over ranks is one. kernels/cuda/peer/writes.cu also says why
nothing is overwritten before it was read.
"""

import logging
import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import cupy
import numpy as np

from dsolver.engines.transport.base import Channel, PeerError, Transport, TransportLink
from dsolver.engines.transport.connections import Connections, exchanged, known_numbers
from dsolver.engines.transport.mailbox import Mailbox
from dsolver.engines.transport.messages import Delivered, Known, Outgoing, Pairs, by_peer
from dsolver.engines.transport.peer_halos import PeerHalos
from dsolver.engines.transport.peer_memory import Arena, IpcAddress, PeerMemory
from dsolver.engines.transport.segments import Plans
from dsolver.kernels import Backend
from dsolver.kernels.cuda.peer.writes import PeerSum, sum_bytes

logger = logging.getLogger(__name__)

SWITCH: Final = "DSOLVER_GPU_LINK"  # environment variable of a worker: "nccl" turns this transport off
_MARK: Final = 8  # bytes that a rank writes into every other's memory to see whether it can
_CHECK: Final = 0.2  # seconds between looks at the other ranks


MOST_KEPT: Final = 1 << 30  # bytes of peer memory that outlive a program, at most


class PeerLink(TransportLink):
    """Connections between GPUs, and what each may write to of the others.

    Args:
        arena: this rank's memory for the others, with what all programs use taken.
        sums: pointers to the words for sums, this rank's and then the peers'.

    Attributes:
        begin: what is free of it, as of `Arena`.
        alarm: uint32 (1,), page-locked; kernels end their waiting once it is not 0.
        address: of the alarm.
        side: the stream of exchanges that run beside the current stream's next work.
    """

    def __init__(self, connections: Connections, owner_ranks: Sequence[int], arena: Arena, sums: Sequence[int]) -> None:
        self.connections, self.owners = connections, tuple(owner_ranks)
        self.memory, self.begin = arena.memory, arena.begin
        self._pinned = cupy.cuda.alloc_pinned_memory(8)
        self.alarm, self.address = np.frombuffer(self._pinned, np.uint32, 1), int(self._pinned.ptr)
        self.alarm[0] = 0
        self.sum = PeerSum([owner == connections.rank for owner in owner_ranks], sums, self.address)
        # The highest priority: a halo that waits behind inner blocks is a halo that is seen.
        self.side = cupy.cuda.Stream(non_blocking=True, priority=-5)

    def transport(self) -> "PeerTransport":
        return PeerTransport(self)

    def close(self) -> None:
        self.memory.close()
        self.connections.close()


class PeerTransport(Transport):
    """Transport of GPUs that reach each other's memory. Every call only enqueues, so a CUDA graph can capture it."""

    name = "peer GPU memory"

    def __init__(self, link: PeerLink) -> None:
        self._link, self._connections = link, link.connections
        arena = Arena(link.memory, link.begin)
        self._mailbox = Mailbox(link.connections, arena, link.sum.meet)
        self._halos = PeerHalos(link.connections, link.owners, arena, link.address, link.side)

    def channel(self, plans: Plans, backend: Backend) -> Channel:
        return self._halos.channel(plans, backend)

    def total(self, own: Any, gathered: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        self._link.sum(own, gathered, out)

    def deliver(self, outgoing: Outgoing, expected: Pairs, kinds: Sequence[str], known: Known = None) -> Delivered:
        return self._mailbox.deliver(outgoing, by_peer(outgoing, expected, self._link.owners), kinds, known)

    def known(self, own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        return known_numbers(self._connections, self._link.owners, own)

    def check(self) -> None:
        self._connections.check()

    def abort(self, reason: str) -> None:
        self._link.alarm[0] = 1
        self._connections.abort(reason)

    def detached(self) -> PeerLink | None:
        self._settle()
        well = not self._link.alarm[0] and sum(self._link.memory.sizes) <= MOST_KEPT
        with suppress(PeerError):
            if not _all_agree(self._connections, well):
                return None
            self._link.memory.wipe(self._link.begin)  # no rank writes into the memory of another any more
            if _all_agree(self._connections, True):  # or does so again before all are done
                return self._link
        return None

    def close(self) -> None:
        self._settle()
        with suppress(PeerError):
            _all_agree(self._connections, True)  # as above
        self._link.close()

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
                self._link.alarm[0] = 1


def connect(connections: Connections, owner_ranks: Sequence[int]) -> PeerTransport | None:
    """The transport if every rank reaches every other's memory; None, on all, if not; PeerError where a peer failed."""
    arena, reason = Arena(PeerMemory()), ""
    ranks = len(connections.peers) + 1
    marks = IpcAddress(handle=b"", block=0, offset=0)
    if os.environ.get(SWITCH, "").lower() == "nccl":
        reason = f"{SWITCH} says so"
    try:
        marks, sums = arena.allocate_zeros((_MARK * ranks, sum_bytes(len(owner_ranks))))
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = reason or str(error)
        sums = marks
    own = bytes([not reason]) + _host() + sums.packed()
    received = exchanged(connections, dict.fromkeys(connections.peers, own), len(own))
    if not reason and any(data[1:_HEAD] != _host() for data in received.values()):
        reason = "they are on several hosts"
    if not reason and all(data[0] for data in received.values()):  # on all ranks, or on none
        remote = {peer: IpcAddress.unpacked(data[_HEAD:]) for peer, data in received.items()}
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
            return PeerTransport(PeerLink(connections, owner_ranks, arena, pointers))
        reason = reason or "what was written did not arrive everywhere"
    arena.memory.close()
    logger.info("rank %d does not write into other GPUs' memory: %s", connections.rank, reason or "another rank cannot")
    return None


def _marked(pointer: int, connections: Connections) -> bool:
    """Whether every peer's mark has arrived."""
    size = _MARK * (len(connections.peers) + 1)
    found = np.empty(size, dtype=np.uint8)
    cupy.cuda.runtime.memcpy(found.ctypes.data, pointer, size, cupy.cuda.runtime.memcpyDeviceToHost)
    return all((found[_MARK * peer : _MARK * (peer + 1)] == 1 + peer % 255).all() for peer in connections.peers)


def _all_agree(connections: Connections, well: bool) -> bool:
    """Whether all is well on every rank; also a barrier."""
    replies = exchanged(connections, dict.fromkeys(connections.peers, bytes([well])), 1)
    return well and all(data[0] for data in replies.values())


_HOST_BYTES: Final = 64
_HEAD: Final = 1 + _HOST_BYTES  # bytes before the address of the sums: whether a rank can, and its host


def _host() -> bytes:
    """An identifier of this machine, since it was started; `_HOST_BYTES` bytes."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        name = platform.node()
    return name.encode()[:_HOST_BYTES].ljust(_HOST_BYTES)
