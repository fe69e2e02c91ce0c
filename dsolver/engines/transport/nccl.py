"""Transport between GPUs by NCCL, on a stream of its own, so that exchanges run beside the inner kernels."""

from __future__ import annotations

import logging
import threading
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import cupy
import numpy as np
from cupy.cuda import nccl

from dsolver.engines.transport.base import PackedTransport, PeerError, copy_local
from dsolver.engines.transport.connections import Connections, sent
from dsolver.engines.transport.messages import Delivered, Known, Outgoing, Pairs, by_peer
from dsolver.engines.transport.segments import Plans, SegmentCache

_TYPES: Final = {"float64": nccl.NCCL_FLOAT64, "float32": nccl.NCCL_FLOAT32}

logger = logging.getLogger(__name__)

_LENGTH: Final = 8  # bytes that tell how long an id is

_FAREWELL: Final = 5.0  # seconds in which an aborted communicator should have ended


def unique_id() -> bytes:
    """The id of a new communicator: one rank makes it, and every rank needs it to join."""
    made: bytes = nccl.get_unique_id()
    return made


def told_id(connections: Connections) -> bytes:
    """`unique_id` of rank 0, which tells every other rank; they are connected each with each."""
    size = bytearray(_LENGTH)
    if connections.rank == 0:
        made = unique_id()
        data = bytearray(repr(made).encode())
        size[:] = len(data).to_bytes(_LENGTH, "little")
        sent([connections.send(peer, [memoryview(part)]) for peer in connections.peers for part in (size, data)])
        return made
    connections.receive(0, [memoryview(size)])
    data = bytearray(int.from_bytes(size, "little"))
    connections.receive(0, [memoryview(data)])
    told: bytes = literal_eval(data.decode())  # of some versions of CuPy it is a tuple
    return told


class NcclTransport(PackedTransport):
    """The transport of GPUs. Every call only enqueues: nothing waits on the host, so a CUDA graph can capture it."""

    name = "NCCL"

    def __init__(self, connections: Connections, owner_ranks: Sequence[int], unique: bytes) -> None:
        self._connections = connections
        self._segments = SegmentCache(owner_ranks)
        self._owners = tuple(owner_ranks)
        self._comm = nccl.NcclCommunicator(max(owner_ranks) + 1, unique, connections.rank)
        # The highest priority: a halo that waits behind inner blocks is a halo that is seen.
        self._stream = cupy.cuda.Stream(non_blocking=True, priority=-5)
        self._ready = cupy.cuda.Event(disable_timing=True)
        self._aborting: threading.Thread | None = None
        self._under_way: Any = None  # the event after the newest exchange, until it has been waited for

    def send_context(self) -> AbstractContextManager[Any]:
        self._fork()
        stream: AbstractContextManager[Any] = self._stream
        return stream

    def exchange(self, plans: Plans, buffers: Mapping[int, Any], halos: Mapping[int, Any]) -> Callable[[], None]:
        with self._stream:
            copy_local(plans, buffers, halos)
        nccl.groupStart()
        for peer, segments in self._segments.by_peer(plans).items():
            for s in segments.sends:
                self._comm.send(*_range(buffers[s.own], s.first, s.last), peer, self._stream.ptr)
            for s in segments.receives:
                self._comm.recv(*_range(halos[s.own], s.first, s.last), peer, self._stream.ptr)
        nccl.groupEnd()
        arrived = cupy.cuda.Event(disable_timing=True)
        arrived.record(self._stream)
        self._under_way = arrived
        return partial(self._arrive, arrived)

    def gather(self, own: Any, gathered: Any) -> None:
        """Gather by a sum over ranks in which every number has one non-zero term: exact, whatever the order."""
        self._settle()
        pointer, count, kind = _range(own, 0, len(own))
        stream = cupy.cuda.get_current_stream().ptr
        self._comm.allReduce(pointer, gathered.data.ptr, count, kind, nccl.NCCL_SUM, stream)

    def deliver(self, outgoing: Outgoing, expected: Pairs, kinds: Sequence[str], known: Known = None) -> Delivered:
        self._settle()
        peers = by_peer(outgoing, expected, self._owners)
        told = {peer: messages.told(kinds, known) for peer, messages in peers.items()}
        if known is None:
            lengths = {peer: [cupy.asarray(messages.lengths(outgoing, kinds))] for peer, messages in peers.items()}
            asked = {peer: [cupy.asarray(sizes)] for peer, sizes in told.items()}
            self._carry(lengths, asked)
            told = {peer: sizes.get() for peer, (sizes,) in asked.items()}
        rooms = {peer: messages.rooms(cupy, told[peer], kinds) for peer, messages in peers.items()}
        self._carry(
            {peer: [cupy.ascontiguousarray(part) for part in m.parts(outgoing)] for peer, m in peers.items()},
            {peer: [part for message in made.values() for part in message] for peer, made in rooms.items()},
        )
        return {pair: message for made in rooms.values() for pair, message in made.items()}

    def known(self, own: Mapping[int, Sequence[float]]) -> list[tuple[float, ...]]:
        count = len(next(iter(own.values())))
        mine = np.zeros((len(self._owners), count))
        for number, values in own.items():
            mine[number] = values
        on_device = cupy.asarray(mine.ravel())
        gathered = cupy.empty_like(on_device)
        self.gather(on_device, gathered)
        return [tuple(row) for row in gathered.get().reshape(mine.shape).tolist()]

    def _carry(self, sends: Mapping[int, Sequence[Any]], receives: Mapping[int, Sequence[Any]]) -> None:
        """Bytes of arrays to and from each peer, one array after the other, on the current stream."""
        stream = cupy.cuda.get_current_stream().ptr
        nccl.groupStart()
        for peer, arrays in sends.items():
            for array in filter(len, arrays):
                self._comm.send(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream)
        for peer, arrays in receives.items():
            for array in filter(len, arrays):
                self._comm.recv(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, stream)
        nccl.groupEnd()

    def _settle(self) -> None:
        """Let the current stream wait for what is under way: calls of one communicator must not run side by side."""
        if self._under_way is not None:
            self._arrive(self._under_way)

    def check(self) -> None:
        """Raise what a peer has failed with (PeerError), or an asynchronous error of NCCL."""
        self._connections.check()
        try:
            self._comm.check_async_error()
        except nccl.NcclError as error:
            raise PeerError(f"rank {self._connections.rank}: NCCL failed: {error}") from error

    def abort(self, reason: str) -> None:
        self._connections.abort(reason)
        # NCCL ends its kernels at once, but returns only when no recorded graph holds the communicator any more.
        self._aborting = threading.Thread(target=self._comm.abort, name="dsolver-nccl-abort", daemon=True)
        self._aborting.start()

    def close(self) -> None:
        if self._aborting is None:
            self._stream.synchronize()
            self._comm.destroy()
        else:
            self._aborting.join(_FAREWELL)
            if self._aborting.is_alive():
                logger.warning("rank %d leaves an NCCL communicator behind that does not end", self._connections.rank)
        self._connections.close()

    def _arrive(self, arrived: Any) -> None:
        cupy.cuda.get_current_stream().wait_event(arrived)
        if self._under_way is arrived:
            self._under_way = None

    def _fork(self) -> None:
        """Let the halo stream wait for what the current stream holds."""
        self._ready.record(cupy.cuda.get_current_stream())
        self._stream.wait_event(self._ready)


def _range(values: Any, first: int, last: int) -> tuple[int, int, int]:
    """Pointer, count and NCCL type of items [first, last)."""
    return values.data.ptr + first * values.itemsize, last - first, _TYPES[values.dtype.name]
