"""Transport between GPUs of one host: kernels write straight into the other GPUs' memory, over NVLink or PCIe.

NCCL's send and receive cost about 12 us in a CUDA graph, beside the events that bring them onto a stream of their own
and back. Here an exchange is two short launches, and a sum over ranks is one (kernels/cuda/mail.cu, which also says why
nothing is overwritten before it was read).
"""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final, final

import cupy
import numpy as np

from dsolver.engines.inbox import Inbox, at_home, outgoing_of
from dsolver.engines.mesh import Mesh, PeerError, sent
from dsolver.engines.peer_memory import PLACE_BYTES, Arena, Place
from dsolver.engines.transport import Channel, Piece, Route, Routes, Transport
from dsolver.kernels import Backend
from dsolver.kernels.cuda.mail import WORD, Mail, Parcel, SumOfAll, sum_area
from dsolver.kernels.layout import HaloLayout

logger = logging.getLogger(__name__)

SWITCH: Final = "DSOLVER_GPU_LINK"
"""Environment variable of a worker: "nccl" leaves the GPUs' memory to themselves."""
BESIDE: Final = 4096
"""Items, sent and received, from which on an exchange runs on a stream of its own, beside the current stream's next
work. Below, the two events cost more than they hide."""
_MARK: Final = 8  # bytes that a rank writes into every other's memory to see whether it can
_CHECK: Final = 0.2  # seconds between looks at the other ranks


@final
class PeerTransport(Transport):
    """Ranks on GPUs that reach each other's memory. Every call only enqueues, so calls can be captured in a CUDA graph.

    Args:
        mesh: sockets to the same ranks; they carry addresses and errors, never data.
        owner_ranks: the rank that owns each chunk.
        arena: this rank's memory for the others.
        sums: the address of this rank's words for sums and then of the peers'.
    """

    name = "peer GPU memory"

    def __init__(self, mesh: Mesh, owner_ranks: Sequence[int], arena: Arena, sums: Sequence[int]) -> None:
        self._mesh = mesh
        self._arena = arena
        self._routes = Routes(owner_ranks)
        # The highest priority: a halo that waits behind inner blocks is a halo that is seen.
        self._side = cupy.cuda.Stream(non_blocking=True, priority=-5)
        self._memory = cupy.cuda.alloc_pinned_memory(8)
        self._alarm = np.frombuffer(self._memory, np.uint32, 1)
        self._alarm[0] = 0
        self._sum = SumOfAll([owner == mesh.rank for owner in owner_ranks], sums, self._memory.ptr)

    def channel(self, plans: Mapping[int, HaloLayout], backend: Backend) -> Channel:
        routes, alarm = self._routes.of(plans), self._memory.ptr
        return _PeerChannel(plans, backend, routes, self._mesh, self._arena, self._side, alarm)

    def total(self, own: Any, everyone: Any, out: Any, add: Callable[[Any, Any], None]) -> None:
        self._sum(own, everyone, out)

    def check(self) -> None:
        self._mesh.check()

    def abort(self, reason: str) -> None:
        self._alarm[0] = 1
        self._mesh.abort(reason)

    def close(self) -> None:
        self._settle()
        with suppress(PeerError):
            _agreed(self._mesh, True)  # nobody writes into the memory of another any more
        self._arena.close()
        self._mesh.close()

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
                self._mesh.check()
            except PeerError:
                self._alarm[0] = 1


@final
class _PeerChannel(Channel):
    """One halo: its letters are written once, when every rank makes it."""

    def __init__(
        self,
        plans: Mapping[int, HaloLayout],
        backend: Backend,
        routes: Mapping[int, Route],
        mesh: Mesh,
        arena: Arena,
        side: Any,
        alarm: int,
    ) -> None:
        self._under_way = True  # whether others may write without this rank waiting for it
        self.vectors = {number: backend.zeros(plan.size) for number, plan in plans.items()}
        itemsize = next(iter(self.vectors.values())).itemsize
        inbox = Inbox(plans, routes, WORD * itemsize)
        place = arena.take(inbox.size)
        self._arena, self._place, self._size = arena, place, inbox.size
        told = _told(mesh, routes, place, inbox)
        self._plans = plans  # the letters tell where their rows are
        self._order = {number: index for index, number in enumerate(plans)}
        base = arena.own(place)
        outgoing = [
            self._parcel(plans, piece, base + inbox.at(neighbor, to), inbox.slot)
            for piece, neighbor, to in at_home(plans)
        ]
        for peer, route in routes.items():
            where, slot, offsets = told[peer]
            begin = arena.of(peer, where)
            outgoing += [
                self._parcel(plans, piece, begin + offset, slot)
                for piece, offset in zip(outgoing_of(route), offsets, strict=True)
            ]
        incoming = [
            Parcel(
                source=base + inbox.at(number, first),
                target=self.vectors[number].data.ptr + first * itemsize,
                slot=inbox.slot,
                count=last - first,
            )
            for number, plan in plans.items()
            for _, first, last in plan.receives
        ]
        incoming += [
            Parcel(source=base + inbox.token(peer), target=0, slot=inbox.slot, count=1) for peer in inbox.tokens
        ]
        self._mail = Mail(outgoing, incoming, itemsize, alarm)
        self._beside = sum(parcel.count for parcel in (*outgoing, *incoming)) >= BESIDE
        self._side = side
        self._begun, self._arrived = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self._under_way = False

    def __del__(self) -> None:
        if not self._under_way:  # every word that was sent here has been waited for
            self._arena.give(self._place, self._size)

    def lane(self) -> AbstractContextManager[Any]:
        if not self._beside:
            return nullcontext()
        self._begun.record(cupy.cuda.get_current_stream())
        self._side.wait_event(self._begun)
        side: AbstractContextManager[Any] = self._side
        return side

    def pack(self, x: Mapping[int, Any]) -> None:
        self._mail.post([x[number] for number in self._order])

    def start(self) -> Callable[[], None]:
        self._under_way = True
        if self._beside:
            with self._side:
                self._mail.collect()
            self._arrived.record(self._side)
        return self._arrive

    def behind(self, work: Callable[[], None]) -> bool:
        if self._beside:
            with self._side:
                work()
            self._arrived.record(self._side)
        return self._beside

    def _arrive(self) -> None:
        if self._beside:
            cupy.cuda.get_current_stream().wait_event(self._arrived)
        else:
            self._mail.collect()
        self._under_way = False

    def _parcel(self, plans: Mapping[int, HaloLayout], piece: Piece | None, to: int, slot: int) -> Parcel:
        """A piece of an own chunk's rows, or a token, to the words at an address."""
        if piece is None:
            return Parcel(source=0, target=to, slot=slot, count=1)
        rows = plans[piece.own].send_rows
        return Parcel(
            source=rows.data.ptr + piece.first * rows.itemsize,
            target=to,
            slot=slot,
            count=piece.last - piece.first,
            chunk=self._order[piece.own],
        )


def connected(mesh: Mesh, owner_ranks: Sequence[int]) -> PeerTransport | None:
    """The transport if every rank reaches every other one's memory; None, on all of them, if any does not.

    Raises:
        PeerError: a peer failed.
    """
    arena, reason = Arena(), ""
    words, ranks = sum_area(len(owner_ranks)), len(mesh.peers) + 1
    places: dict[int, Place] = {}
    marks = Place(handle=b"", block=0, offset=0)
    if os.environ.get(SWITCH, "").lower() == "nccl":
        reason = f"{SWITCH} says so"
    try:
        marks = arena.take(_MARK * ranks)
        sums = arena.take(words)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = reason or str(error)
        sums = marks
    own = _host() + sums.packed()
    told = _exchanged(mesh, dict.fromkeys(mesh.peers, own), len(own))
    if not reason and any(data[:_HOST_BYTES] != _host() for data in told.values()):
        reason = "they are on several hosts"
    addresses: list[int] = []
    if _agreed(mesh, not reason):
        places = {peer: Place.unpacked(data[_HOST_BYTES:]) for peer, data in told.items()}
        try:
            addresses = [arena.own(sums), *(arena.of(peer, place) for peer, place in places.items())]
            for peer, place in places.items():
                mark = Place(handle=place.handle, block=place.block, offset=marks.offset + _MARK * mesh.rank)
                cupy.cuda.runtime.memset(arena.of(peer, mark), 1 + mesh.rank % 255, _MARK)
            cupy.cuda.Device().synchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            reason = str(error)
        if _agreed(mesh, not reason) and _agreed(mesh, _marked(arena.own(marks), mesh)):
            return PeerTransport(mesh, owner_ranks, arena, addresses)
        reason = reason or "what was written did not arrive everywhere"
    arena.close()
    logger.info("rank %d does not write into other GPUs' memory: %s", mesh.rank, reason or "another rank cannot")
    return None


def _marked(address: int, mesh: Mesh) -> bool:
    """Whether every peer's mark has arrived."""
    size = _MARK * (len(mesh.peers) + 1)
    found = np.empty(size, dtype=np.uint8)
    cupy.cuda.runtime.memcpy(found.ctypes.data, address, size, cupy.cuda.runtime.memcpyDeviceToHost)
    return all((found[_MARK * peer : _MARK * (peer + 1)] == 1 + peer % 255).all() for peer in mesh.peers)


def _told(
    mesh: Mesh, routes: Mapping[int, Route], place: Place, inbox: Inbox
) -> dict[int, tuple[Place, int, list[int]]]:
    """Tell each peer where its pieces go, and learn where this rank's go: the place, its slot, an offset a piece."""
    frames = {}
    for peer, route in routes.items():
        numbers = [inbox.slot, *inbox.offsets(peer, route)]
        frames[peer] = place.packed() + np.array(numbers, dtype="<i8").tobytes()
    sizes = {peer: PLACE_BYTES + 8 * (1 + len(outgoing_of(route))) for peer, route in routes.items()}
    told = {}
    for peer, data in _exchanged(mesh, frames, sizes).items():
        slot, *offsets = np.frombuffer(data[PLACE_BYTES:], dtype="<i8").tolist()
        told[peer] = (Place.unpacked(data[:PLACE_BYTES]), slot, offsets)
    return told


def _agreed(mesh: Mesh, well: bool) -> bool:
    """Whether all is well on every rank. All ranks have come here when this returns."""
    told = _exchanged(mesh, dict.fromkeys(mesh.peers, bytes([well])), 1)
    return well and all(data[0] for data in told.values())


def _exchanged(mesh: Mesh, frames: Mapping[int, bytes], sizes: Mapping[int, int] | int) -> dict[int, bytes]:
    """Send a frame to some peers and receive one of each of them, of known size."""
    sending = [mesh.send(peer, [memoryview(frame)]) for peer, frame in frames.items()]
    found = {}
    for peer in frames:
        data = bytearray(sizes if isinstance(sizes, int) else sizes[peer])
        mesh.receive(peer, [memoryview(data)])
        found[peer] = bytes(data)
    sent(sending)
    return found


_HOST_BYTES: Final = 64


def _host() -> bytes:
    """What tells this machine, since it was started, from any other."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        name = platform.node()
    return name.encode()[:_HOST_BYTES].ljust(_HOST_BYTES)
