"""Sockets between all ranks of one job.

A raw socket carries 128 KiB and back in 32 µs where a Dask message takes 0.8 ms (docs/decisions.md). Frames arrive in
the order in which they were sent, and every rank makes the same calls in the same order, so a frame needs no name: a
kind and a length. A rank that fails sends its reason to every peer before it closes; whoever waits for it raises that.
"""

from __future__ import annotations

import hmac
import socket
import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import final

from dsolver.errors import RankError

Address = tuple[str, int]

_HEADER = struct.Struct("<cQ")
_GREETING = struct.Struct("<32sI")
_DATA, _ERROR = b"d", b"e"
TOKEN_BYTES = 32


class PeerError(RankError):
    """Another rank failed; the message is its reason."""


@final
class Mesh:
    """One socket to every other rank.

    Args:
        rank: this rank.
        host: the address on which the other ranks can reach this one.
        timeout: seconds of silence after which a peer that is waited for counts as lost.
    """

    def __init__(self, rank: int, host: str, timeout: float) -> None:
        self.rank = rank
        self._timeout = timeout
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
        """
        try:
            for peer in range(self.rank):
                link = socket.create_connection(addresses[peer], self._timeout)
                link.sendall(_GREETING.pack(token, self.rank))
                self._add(peer, link)
            self._listener.settimeout(self._timeout)
            while len(self._peers) < len(addresses) - 1:
                self._accept(token, len(addresses))
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
        link = self._peers[peer]
        try:
            kind, length = _HEADER.unpack(self._exactly(link, _HEADER.size))
            if kind == _ERROR:
                raise PeerError(self._exactly(link, length).decode())
            if length != sum(len(part) for part in parts):
                raise PeerError(f"rank {self.rank} expected {sum(map(len, parts))} bytes of rank {peer}, not {length}")
            for part in parts:
                _fill(link, part)
        except OSError as error:
            raise PeerError(f"rank {self.rank} lost rank {peer}: {error}") from error

    def check(self) -> None:
        """Raise what a peer has failed with, if one has; only when no data frame can be under way.

        Raises:
            PeerError: a peer failed or closed.
        """
        for peer, link in self._peers.items():
            link.setblocking(False)
            try:
                waiting = link.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise PeerError(f"rank {self.rank} lost rank {peer}: {error}") from error
            finally:
                link.settimeout(self._timeout)
            if waiting != _DATA:
                self.receive(peer, [])

    def abort(self, reason: str) -> None:
        """Tell every peer why this rank fails, then close."""
        message = reason.encode()
        frame = memoryview(_HEADER.pack(_ERROR, len(message)) + message)
        for link in self._peers.values():
            with suppress(OSError):
                link.settimeout(1.0)
                link.sendall(frame)
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._listener.close()
        for link in self._peers.values():
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        for sender in self._senders.values():
            sender.shutdown(wait=False, cancel_futures=True)

    def _accept(self, token: bytes, size: int) -> None:
        link, _ = self._listener.accept()
        link.settimeout(self._timeout)
        try:
            found, peer = _GREETING.unpack(self._exactly(link, _GREETING.size))
        except OSError:
            link.close()
            return
        if not hmac.compare_digest(found, token) or not self.rank < peer < size or peer in self._peers:
            link.close()  # a stranger: ignore it
            return
        self._add(peer, link)

    def _add(self, peer: int, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.settimeout(self._timeout)
        self._peers[peer] = link
        # A thread for each peer: with one for all, two ranks could wait for each other behind a third's full buffer.
        self._senders[peer] = ThreadPoolExecutor(1, f"dsolver-send-{peer}")

    def _send_now(self, peer: int, parts: list[memoryview]) -> None:
        link = self._peers[peer]
        try:
            link.sendall(_HEADER.pack(_DATA, sum(map(len, parts))))
            for part in parts:
                link.sendall(part)
        except OSError as error:
            raise PeerError(f"rank {self.rank} lost rank {peer}: {error}") from error

    @staticmethod
    def _exactly(link: socket.socket, length: int) -> bytes:
        data = bytearray(length)
        _fill(link, memoryview(data))
        return bytes(data)


def sent(futures: Iterable[Future[None]]) -> None:
    """Wait until all frames have been handed to the system.

    Raises:
        PeerError: a peer could not take its frame.
    """
    done, _ = wait(list(futures))
    for future in done:
        future.result()


def _fill(link: socket.socket, part: memoryview) -> None:
    done = 0
    while done < len(part):
        count = link.recv_into(part[done:])
        if count == 0:
            raise ConnectionResetError("the connection was closed")
        done += count
