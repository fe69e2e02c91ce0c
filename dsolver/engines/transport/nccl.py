"""Transport between GPUs by NCCL, on a stream of its own, so that exchanges run beside the inner kernels."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, final

import cupy
from cupy.cuda import nccl

from dsolver.engines.transport.base import PackedTransport, PeerError, copy_local
from dsolver.engines.transport.connections import Connections
from dsolver.engines.transport.segments import SegmentCache
from dsolver.kernels.formats.layout import HaloLayout

_TYPES: Final = {"float64": nccl.NCCL_FLOAT64, "float32": nccl.NCCL_FLOAT32}

logger = logging.getLogger(__name__)

_FAREWELL: Final = 5.0
"""Seconds in which an aborted communicator should have ended."""


def unique_id() -> bytes:
    """The id of a new communicator: one rank makes it, and every rank needs it to join."""
    made: bytes = nccl.get_unique_id()
    return made


@final
class NcclTransport(PackedTransport):
    """The transport of GPUs. Every call only enqueues: nothing waits on the host, so a CUDA graph can capture it.

    Args:
        connections: to the same ranks; they carry errors, never data.
        owner_ranks: the rank that owns each chunk.
        unique: made by `unique_id` on one of the ranks.
    """

    name = "NCCL"

    def __init__(self, connections: Connections, owner_ranks: Sequence[int], unique: bytes) -> None:
        self._connections = connections
        self._segments = SegmentCache(owner_ranks)
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

    def exchange(
        self, plans: Mapping[int, HaloLayout], buffers: Mapping[int, Any], halos: Mapping[int, Any]
    ) -> Callable[[], None]:
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
        if self._under_way is not None:  # calls of one communicator must not run beside each other
            self._arrive(self._under_way)
        pointer, count, kind = _range(own, 0, len(own))
        stream = cupy.cuda.get_current_stream().ptr
        self._comm.allReduce(pointer, gathered.data.ptr, count, kind, nccl.NCCL_SUM, stream)

    def check(self) -> None:
        """Raise what a peer has failed with, if one has.

        Raises:
            PeerError: a peer failed or closed, or NCCL reports an asynchronous error.
        """
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
