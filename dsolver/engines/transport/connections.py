"""Connections between the ranks of a program, over which they send frames of bytes.

A raw socket carries 128 KiB and back in 32 µs where a Dask message takes 0.8 ms.
Frames arrive in the order in which they were sent, and every rank makes the same calls in the same order, so a frame
needs no name: a kind and a length. A rank that fails sends its reason to every peer before it closes; a peer that waits
for it raises that.

The listening socket lives until all ranks are connected; see `transport.handshake`.
"""

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final

import numpy as np

from dsolver.engines.transport.base import PeerError
from dsolver.engines.transport.handshake import Acceptor, Address, Connection, Connector, Encryption
from dsolver.errors import RankError

_HEADER = struct.Struct("<cQ")
_DATA, _ERROR = b"d", b"e"
REASON_BYTES: Final = 4096
"""Longest reason that is sent or accepted: whatever a broken peer announces, nothing larger is allocated."""
_SMALL: Final = 16_000
"""Bytes of a frame that is copied together: one call of the system and one TLS record (of 16 KiB at most), not two."""
_FAREWELL: Final = 1.0  # seconds that peers get to take the reason of an abort
_DONE: Final[Future[None]] = Future()
_DONE.set_result(None)


class Connections:
    """Two sockets to each other rank that this one talks to, one for each direction.

    One thread, the rank's, connects, sends, receives and closes. `abort` alone may be called from any thread.

    `host`: the address on which the other ranks can reach this one. `timeout`: seconds of silence after which a peer
    that is waited for counts as lost.
    """

    def __init__(self, rank: int, host: str, timeout: float, encryption: Encryption | None = None) -> None:
        self.rank = rank
        self._timeout = timeout
        self._encryption = encryption
        self._reason: str | None = None
        self._listener = socket.create_server((host, 0))
        self.address: Address = (host, self._listener.getsockname()[1])
        self._connections: dict[int, Connection] = {}
        self._first_bytes: dict[int, bytes] = {}  # by peer, of a frame that `check` has seen
        self._senders: dict[int, ThreadPoolExecutor] = {}
        self._newest: dict[int, Future[None]] = {}  # by peer, of what its thread was given last
        self._order = threading.RLock()  # of what a peer is given: an abort is not to come between two parts of a frame

    @property
    def peers(self) -> tuple[int, ...]:
        """The ranks that are connected with this one, ascending."""
        return tuple(sorted(self._connections))

    def connect(self, addresses: Sequence[Address], token: bytes, peers: Iterable[int] | None = None) -> None:
        """Connect to lower ranks and accept higher ones; all ranks do so at the same time.

        Args:
            token: `handshake.TOKEN_BYTES` secret bytes that only this program's ranks know.
            peers: the ranks to connect with, each of which connects with this one; by default all others.

        Raises:
            RankError: a rank did not come within the timeout.
            PeerError: this rank was told to stop.
        """
        connector = Connector(
            rank=self.rank, token=token, timeout=self._timeout, encryption=self._encryption, check=self.raise_if_aborted
        )
        peers = sorted(set(range(len(addresses)) if peers is None else peers) - {self.rank})
        higher = [peer for peer in peers if peer > self.rank]
        acceptor = Acceptor(self._listener, higher, token, self._timeout, self._encryption)
        try:
            for peer in peers[: len(peers) - len(higher)]:  # upwards: so no two ranks can wait for each other's answer
                self._add(peer, connector.connect(addresses[peer]))
            for peer, link in acceptor.accept(self.raise_if_aborted).items():
                self._add(peer, link)
        except OSError as error:
            raise RankError(f"rank {self.rank} could not connect to the other ranks: {error}") from error
        finally:
            self._listener.close()

    def send(self, peer: int, parts: Iterable[memoryview]) -> Future[None]:
        """Start to send the parts as one frame. They must not change until the future is done.

        The system takes a small frame at once as a rule, from this thread, which spares the hand-over to another one:
        between two ranks of two cores, conjugate gradients with Jacobi took 0.7 to 0.8 of the processor seconds.
        """
        parts = list(parts)
        length = sum(map(len, parts))
        with self._order:
            if length > _SMALL or self._encryption is not None or not self._newest[peer].done():
                return self._queued(peer, self._send_now, peer, parts, length)
            return self._sent_at_once(peer, b"".join([_HEADER.pack(_DATA, length), *parts]))

    def _sent_at_once(self, peer: int, frame: bytes) -> Future[None]:
        """Send what the system takes of a frame, and let the peer's thread send the rest."""
        try:
            taken = os.write(self._connections[peer].out.fileno(), frame)  # waits for nothing: sockets have timeouts
        except BlockingIOError:
            taken = 0
        except OSError as error:
            failed: Future[None] = Future()
            failed.set_exception(self._lost(peer, error))  # told by `sent`: a reason that has arrived says more
            return failed
        return _DONE if taken == len(frame) else self._queued(peer, self._send_rest, peer, frame[taken:])

    def _queued(self, peer: int, send: Callable[..., None], *args: Any) -> Future[None]:
        """Let the peer's thread send something, after all that it has been given before. The order is held."""
        self._newest[peer] = future = self._senders[peer].submit(send, *args)
        return future

    def receive(self, peer: int, parts: Sequence[memoryview]) -> None:
        """Fill the parts with a peer's next frame; PeerError where it failed, closed, or was silent for too long."""
        link, expected = self._connections[peer].into, sum(map(len, parts))
        try:
            begun = self._first_bytes.pop(peer, b"")
            kind, length = _HEADER.unpack(begun + _exactly(link, _HEADER.size - len(begun)))
            if kind == _ERROR and length <= REASON_BYTES:
                raise PeerError(_exactly(link, length).decode(errors="replace"))
            if kind != _DATA or length != expected:
                raise PeerError(f"rank {self.rank} expected {expected} bytes of rank {peer}, not {kind!r} of {length}")
            for part in parts:
                _fill(link, part)
        except OSError as error:
            raise self._lost(peer, error) from error

    def raise_if_aborted(self) -> None:
        """Raise PeerError with the reason of an `abort`, if there was one; costs nothing."""
        if self._reason is not None:
            raise PeerError(self._reason)

    def check(self) -> None:
        """Raise PeerError if a peer failed or this rank was told to stop; only when no data frame can be under way."""
        self.raise_if_aborted()
        for peer, link in self._connections.items():
            if peer not in self._first_bytes:
                link.into.setblocking(False)
                try:
                    self._first_bytes[peer] = link.into.recv(1)
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue
                except OSError as error:
                    raise self._lost(peer, error) from error
                finally:
                    link.into.settimeout(self._timeout)
            if self._first_bytes[peer] != _DATA:
                self.receive(peer, [])

    def abort(self, reason: str) -> None:
        """Tell every peer why this rank stops, and wake its own thread wherever it waits. `close` still has to follow.

        A peer that is in the middle of a frame which it does not take is cut off without the reason.
        """
        if self._reason is not None:
            return
        self._reason = reason
        message = reason.encode()[:REASON_BYTES]
        frame = _HEADER.pack(_ERROR, len(message)) + message
        links = dict(self._connections)
        told: list[Future[None]] = []
        with suppress(RuntimeError), self._order:  # closed meanwhile
            # Through the senders' queues, for a reason must not end up inside a data frame.
            told += [self._queued(peer, _tell, link.out, frame) for peer, link in links.items()]
        wait(told, _FAREWELL)
        for link in links.values():
            link.cut()

    def close(self) -> None:
        """Close every connection. Only when no other thread uses them: the number of a closed socket is reused."""
        self._listener.close()
        for link in self._connections.values():
            link.cut()  # wakes a sender whose peer takes nothing any more
        for sender in self._senders.values():
            sender.shutdown(wait=True, cancel_futures=True)
        for link in self._connections.values():
            link.close()

    def _add(self, peer: int, link: Connection) -> None:
        # A thread for each peer: with one for all, two ranks could wait for each other behind a third's full buffer.
        self._senders[peer] = ThreadPoolExecutor(1, f"dsolver-send-{peer}")
        self._newest[peer] = _DONE
        self._connections[peer] = link

    def _send_rest(self, peer: int, rest: bytes) -> None:
        try:
            self._connections[peer].out.sendall(rest)
        except OSError as error:
            raise self._lost(peer, error) from error

    def _send_now(self, peer: int, parts: list[memoryview], length: int) -> None:
        link, header = self._connections[peer].out, _HEADER.pack(_DATA, length)
        try:
            if length <= _SMALL:
                link.sendall(b"".join([header, *parts]))
                return
            link.sendall(header)
            for part in parts:
                link.sendall(part)
        except OSError as error:
            raise self._lost(peer, error) from error

    def _lost(self, peer: int, error: OSError) -> PeerError:
        """The error that a failed connection means: an abort of this rank, silence, or the peer's end."""
        if self._reason is not None:
            return PeerError(self._reason)
        if isinstance(error, TimeoutError):
            return PeerError(f"rank {self.rank} heard nothing of rank {peer} for {self._timeout:g} s")
        return PeerError(f"rank {self.rank} lost rank {peer}: {error}")


def tree(rank: int, size: int) -> list[int]:
    """The ranks next to one in a tree of all: log2(size) at most, and as many steps at most from rank 0 to any."""
    near = [rank & (rank - 1)] if rank else []
    step = 1
    while rank + step < size and not rank & step:
        near.append(rank + step)
        step *= 2
    return near


def sent(futures: Iterable[Future[None]]) -> None:
    """Wait until all frames have been handed to the system; PeerError where a peer could not take its own."""
    for future in futures:
        try:
            future.result()
        except CancelledError as error:
            raise PeerError("the connections were closed while a frame was sent") from error


def exchanged(links: Connections, frames: Mapping[int, bytes], sizes: Mapping[int, int] | int) -> dict[int, bytes]:
    """Frames sent to some peers, and one received of each that has a size; the same for all who are sent one."""
    sending = [links.send(peer, [memoryview(frame)]) for peer, frame in frames.items()]
    found = received(links, dict.fromkeys(frames, sizes) if isinstance(sizes, int) else sizes)
    sent(sending)
    return found


def received(links: Connections, sizes: Mapping[int, int]) -> dict[int, bytes]:
    """A frame of each peer that has a size."""
    found = {}
    for peer, size in sizes.items():
        data = bytearray(size)
        links.receive(peer, [memoryview(data)])
        found[peer] = bytes(data)
    return found


def known_numbers(
    connections: Connections, owners: Sequence[int], own: Mapping[int, Sequence[float]]
) -> list[tuple[float, ...]]:
    """Equally many numbers of all chunks, in the order of the chunks; every rank is connected with every other one."""
    chunks = {rank: [n for n, owner in enumerate(owners) if owner == rank] for rank in set(owners)}
    count = len(next(iter(own.values())))
    mine = np.array([own[number] for number in chunks[connections.rank]], dtype="<f8").tobytes()
    sizes = {peer: 8 * count * len(chunks[peer]) for peer in connections.peers}
    found = exchanged(connections, dict.fromkeys(connections.peers, mine), sizes) | {connections.rank: mine}
    known: dict[int, list[float]] = {}
    for rank, data in found.items():
        known |= dict(zip(chunks[rank], np.frombuffer(data, dtype="<f8").reshape(-1, count).tolist(), strict=True))
    return [tuple(known[number]) for number in range(len(owners))]


def _tell(link: socket.socket, frame: bytes) -> None:
    with suppress(OSError):
        link.sendall(frame)


def _exactly(link: socket.socket, length: int) -> bytes:
    data = bytearray(length)
    _fill(link, memoryview(data))
    return bytes(data)


def _fill(link: socket.socket, part: memoryview) -> None:
    done = 0
    while done < len(part):
        count = link.recv_into(part[done:])
        if count == 0:
            raise ConnectionResetError("the connection was closed")
        done += count
