"""Sockets between all ranks of one job.

A raw socket carries 128 KiB and back in 32 µs where a Dask message takes 0.8 ms (docs/decisions.md). Frames arrive in
the order in which they were sent, and every rank makes the same calls in the same order, so a frame needs no name: a
kind and a length. A rank that fails sends its reason to every peer before it closes; whoever waits for it raises that.

The listening socket lives from the making of the mesh until its ranks are connected. What connects must show the job's
secret token, which travels through Dask. Neither the greeting nor the data is encrypted.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final, final

from dsolver.errors import RankError

Address = tuple[str, int]

_HEADER = struct.Struct("<cQ")
_GREETING = struct.Struct("<32sI")
_DATA, _ERROR = b"d", b"e"
TOKEN_BYTES = 32
REASON_BYTES: Final = 4096
"""Longest reason that is sent or believed: whatever a broken peer announces, nothing larger is allocated."""
_LOOK: Final = 0.2
"""Seconds between looks, while peers are waited for, whether this rank was told to stop."""
_FAREWELL: Final = 1.0
"""Seconds that peers get to take the reason of an abort."""


class PeerError(RankError):
    """Another rank failed, or this one was told to stop; the message is the reason."""


@final
class Mesh:
    """One socket to every other rank.

    One thread, the rank's, connects, sends, receives and closes. `abort` alone may be called from any thread.

    Args:
        rank: this rank.
        host: the address on which the other ranks can reach this one.
        timeout: seconds of silence after which a peer that is waited for counts as lost.
    """

    def __init__(self, rank: int, host: str, timeout: float) -> None:
        self.rank = rank
        self._timeout = timeout
        self._reason: str | None = None
        self._listener = socket.create_server((host, 0))
        self.address: Address = (host, self._listener.getsockname()[1])
        self._peers: dict[int, socket.socket] = {}
        self._senders: dict[int, ThreadPoolExecutor] = {}

    @property
    def peers(self) -> tuple[int, ...]:
        """The other ranks, ascending."""
        return tuple(sorted(self._peers))

    def connect(self, addresses: Sequence[Address], token: bytes) -> None:
        """Connect to the lower ranks and accept the higher ones; all ranks do so at the same time.

        Args:
            addresses: of every rank.
            token: `TOKEN_BYTES` secret bytes that only this job's ranks know.

        Raises:
            RankError: a rank did not come within the timeout.
            PeerError: this rank was told to stop.
        """
        try:
            for peer in range(self.rank):
                self.alive()
                link = socket.create_connection(addresses[peer], self._timeout)
                self._add(peer, link)
                link.sendall(_GREETING.pack(token, self.rank))
            self._accept_all(token, len(addresses))
        except OSError as error:
            raise RankError(f"rank {self.rank} could not connect to the other ranks: {error}") from error
        finally:
            self._listener.close()

    def send(self, peer: int, parts: Iterable[memoryview]) -> Future[None]:
        """Start to send the parts as one frame. They must not change until the future is done."""
        return self._senders[peer].submit(self._send_now, peer, list(parts))

    def receive(self, peer: int, parts: Sequence[memoryview]) -> None:
        """Wait for the next frame of a peer and fill the parts with it.

        Raises:
            PeerError: the peer failed, closed, or stayed silent for longer than the timeout.
        """
        link, expected = self._peers[peer], sum(map(len, parts))
        try:
            kind, length = _HEADER.unpack(_exactly(link, _HEADER.size))
            if kind == _ERROR and length <= REASON_BYTES:
                raise PeerError(_exactly(link, length).decode(errors="replace"))
            if kind != _DATA or length != expected:
                raise PeerError(f"rank {self.rank} expected {expected} bytes of rank {peer}, not {kind!r} of {length}")
            for part in parts:
                _fill(link, part)
        except OSError as error:
            raise self._lost(peer, error) from error

    def alive(self) -> None:
        """Raise the reason of an `abort`, if there was one; costs nothing.

        Raises:
            PeerError: this rank was told to stop.
        """
        if self._reason is not None:
            raise PeerError(self._reason)

    def check(self) -> None:
        """Raise what a peer has failed with, if one has; only when no data frame can be under way.

        Raises:
            PeerError: a peer failed or closed, or this rank was told to stop.
        """
        self.alive()
        for peer, link in self._peers.items():
            link.setblocking(False)
            try:
                waiting = link.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._lost(peer, error) from error
            finally:
                link.settimeout(self._timeout)
            if waiting != _DATA:
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
        links = dict(self._peers)
        with suppress(RuntimeError):  # closed meanwhile
            # Through the senders' queues, for a reason must not end up inside a data frame.
            wait([self._senders[peer].submit(_tell, link, frame) for peer, link in links.items()], _FAREWELL)
        for link in links.values():
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every connection. Only when no other thread uses the mesh: a number of a closed socket is reused."""
        self._listener.close()
        for link in self._peers.values():
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # wakes a sender whose peer takes nothing any more
        for sender in self._senders.values():
            sender.shutdown(wait=True, cancel_futures=True)
        for link in self._peers.values():
            link.close()

    def _accept_all(self, token: bytes, size: int) -> None:
        """Accept the higher ranks. Greetings are read as they come, so that nobody who is silent can hold up others."""
        deadline = time.monotonic() + self._timeout
        self._listener.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                while len(self._peers) < size - 1:
                    self.alive()
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"ranks {sorted({*range(size)} - {*self._peers, self.rank})} did not come")
                    for key, _ in selector.select(_LOOK):
                        if key.data is None:
                            _answer(self._listener, selector)
                        else:
                            self._greeted(key, selector, token, size)
            finally:
                _hang_up(selector)

    def _greeted(self, key: selectors.SelectorKey, selector: selectors.BaseSelector, token: bytes, size: int) -> None:
        """Read more of a greeting; when it is whole, the caller is a peer or a stranger, who is ignored."""
        link = key.fileobj
        assert isinstance(link, socket.socket)
        try:
            some = link.recv(_GREETING.size - len(key.data))
        except OSError:
            some = b""
        key.data.extend(some)
        if some and len(key.data) < _GREETING.size:
            return
        selector.unregister(link)
        if some:
            found, peer = _GREETING.unpack(key.data)
            if hmac.compare_digest(found, token) and self.rank < peer < size and peer not in self._peers:
                self._add(peer, link)
                return
        link.close()

    def _add(self, peer: int, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.settimeout(self._timeout)
        # A thread for each peer: with one for all, two ranks could wait for each other behind a third's full buffer.
        self._senders[peer] = ThreadPoolExecutor(1, f"dsolver-send-{peer}")
        self._peers[peer] = link

    def _send_now(self, peer: int, parts: list[memoryview]) -> None:
        link = self._peers[peer]
        try:
            link.sendall(_HEADER.pack(_DATA, sum(map(len, parts))))
            for part in parts:
                link.sendall(part)
        except OSError as error:
            raise self._lost(peer, error) from error

    def _lost(self, peer: int, error: OSError) -> PeerError:
        """What a failed connection means: the own abort, silence, or the peer's end."""
        if self._reason is not None:
            return PeerError(self._reason)
        if isinstance(error, TimeoutError):
            return PeerError(f"rank {self.rank} heard nothing of rank {peer} for {self._timeout:g} s")
        return PeerError(f"rank {self.rank} lost rank {peer}: {error}")


def sent(futures: Iterable[Future[None]]) -> None:
    """Wait until all frames have been handed to the system.

    Raises:
        PeerError: a peer could not take its frame.
    """
    for future in futures:
        try:
            future.result()
        except CancelledError as error:
            raise PeerError("the connections were closed while a frame was sent") from error


def _answer(listener: socket.socket, selector: selectors.BaseSelector) -> None:
    """Accept a connection and wait for its greeting."""
    try:
        link, _ = listener.accept()
    except OSError:  # who called has gone again
        return
    link.setblocking(False)
    selector.register(link, selectors.EVENT_READ, bytearray())


def _hang_up(selector: selectors.BaseSelector) -> None:
    """Close the connections that never finished their greeting."""
    for key in list(selector.get_map().values()):
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.close()


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
