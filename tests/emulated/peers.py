"""Ranks of several emulated GPUs as threads of one process, which open each other's memory by its address.

The emulator runs one kernel at a time and knows no assembly, so what `kernels/cuda/peer/writes.cu` does, words that
bear their own number and the waiting for them, is done in Python.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.emulated import compiler

T = TypeVar("T")


@contextmanager
def ranks(owners: Sequence[int], patience: float) -> Iterator[Callable[[Callable[[Any, int], T]], list[T]]]:
    """A function that runs another one, of a `PeerTransport` and a rank's number, on every rank at once."""
    from dsolver.engines.transport import peer
    from dsolver.engines.transport.connections import Connections
    from dsolver.engines.transport.handshake import TOKEN_BYTES
    from dsolver.kernels.cuda.peer.writes import PeerHalo, PeerSum

    one_at_a_time, run = threading.RLock(), compiler.Kernel.run

    def locked(self: compiler.Kernel, *arguments: Any) -> Any:
        with one_at_a_time:
            return run(self, *arguments)

    count = max(owners) + 1
    connections_of = [Connections(rank, "127.0.0.1", patience) for rank in range(count)]
    token = secrets.token_bytes(TOKEN_BYTES)

    def connected(connections: Connections) -> Any:
        connections.connect([each.address for each in connections_of], token)
        return peer.connect(connections, owners)

    def attempted(function: Callable[[Any, int], T], transport: Any, rank: int) -> T:
        try:
            return function(transport, rank)
        except BaseException as error:  # the others wait for this one
            transport.abort(repr(error))
            raise

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(count) as threads:
        patch.setattr(compiler.Kernel, "run", locked)
        patch.setattr(PeerHalo, "send", _launched(_send))
        patch.setattr(PeerHalo, "receive", _launched(_receive))
        patch.setattr(PeerHalo, "around", _around)
        patch.setattr(PeerSum, "__call__", _launched(_total))
        transports = list(threads.map(connected, connections_of))
        try:
            yield lambda function: list(threads.map(partial(attempted, function), transports, range(count)))
        finally:
            list(threads.map(lambda transport: transport.close(), transports))


def _launched(kernel: Callable[..., None]) -> Callable[..., None]:
    """A kernel as it is called: done at once, or recorded in a graph."""

    def launch(*arguments: Any, **options: Any) -> None:
        from cupy import arrays

        work = arrays.work()
        if work is None:
            kernel(*arguments, **options)
        else:
            work.append(lambda: kernel(*arguments, **options))

    return launch


def _send(self: Any, vectors: Sequence[Any]) -> None:
    self._number.host[0] += 1
    number = int(self._number.host[0])
    for copy in _copies(self._outgoing):
        items = np.zeros(copy["count"], dtype=vectors[0].dtype)
        if copy["from"]:
            items = vectors[copy["chunk"]].host[_at(copy["from"], np.int32, copy["count"])]
        if items.itemsize == 1:
            items = items.astype(np.uint64)
        _put(int(copy["to"]) + number % 2 * int(copy["slot"]), items, number)


def _receive(self: Any) -> None:
    number = int(self._number.host[0])
    for copy in _copies(self._incoming):
        size = 4 if self._receive.name.endswith("4") else 8
        where = int(copy["from"]) + number % 2 * int(copy["slot"])
        items = _awaited(where, size, int(copy["count"]), number, int(self._alarm))
        if copy["to"]:
            _at(copy["to"], items.dtype, len(items))[:] = items


def _around(
    self: Any, own: Any, rows: int, below: int, ghosts: int, words: tuple[int, int], flags: tuple[int, int]
) -> Any:
    import cupy

    number, alarm, out = int(self._number.host[0]), int(self._alarm), cupy.empty(rows + ghosts, dtype=own.dtype)
    slot = number % 2 * words[1]
    _awaited(flags[0] + slot, 8, flags[1], number, alarm)
    found = _awaited(words[0] + slot, 8, ghosts, number, alarm)
    found = found.view(own.dtype) if own.itemsize == 8 else found.view(np.uint64).astype(own.dtype)
    out.host[:] = np.concatenate([found[:below], own.host, found[below:]])
    return out


def _total(self: Any, own: Any, gathered: Any, out: Any, *, fenced: bool = False) -> None:
    from dsolver.kernels.reductions import tree_sum

    self._number.host[0] += 1
    number, areas, parts = int(self._number.host[0]), self._areas.host, []
    slot = number % 2 * 16 * len(self._mine.host)
    for chunk in np.flatnonzero(self._mine.host).tolist():
        for area in areas[1:]:
            _put(int(area) + slot + 16 * chunk, own.host[chunk : chunk + 1], number)
    for chunk, mine in enumerate(self._mine.host):
        where = int(areas[0]) + slot + 16 * chunk
        parts.append(float(own.host[chunk] if mine else _awaited(where, 8, 1, number, int(self._alarm))[0]))
    out.host[0] = tree_sum(parts)


def _copies(table: Any) -> Any:
    from dsolver.kernels.cuda.peer.writes import _COPY

    return table.host.view(_COPY)


def _at(address: Any, dtype: Any, count: Any) -> Any:
    kind = np.ctypeslib.as_ctypes_type(np.dtype(dtype))
    return np.ctypeslib.as_array((kind * int(count)).from_address(int(address)))


def _put(where: int, items: Any, number: int) -> None:
    """Write items as words, their data before their number."""
    halves = items.itemsize // 4
    words = _at(where, np.uint32, 2 * halves * len(items)).reshape(-1, 2 * halves)
    words[:, ::2] = np.ascontiguousarray(items).view(np.uint32).reshape(-1, halves)
    words[:, 1::2] = number


def _awaited(where: int, size: int, count: int, number: int, alarm: int) -> Any:
    """Items of so many bytes, once all of their words have this number or the alarm is set."""
    halves = size // 4
    words = _at(where, np.uint32, 2 * halves * count).reshape(-1, 2 * halves)
    while (words[:, 1::2] != number).any() and not _at(alarm, np.uint32, 1)[0]:
        time.sleep(0)
    return np.ascontiguousarray(words[:, ::2]).view(np.float64 if size == 8 else np.float32).reshape(-1)
