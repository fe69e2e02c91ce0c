"""Handshakes of the ranks of a program, which open their connections, in TLS where the cluster uses it.

Between two ranks there are two connections, each of which carries data one way: OpenSSL allows one thread at a time on
a connection, and a rank sends and receives in different threads.

A rank that connects must show the program's secret token, which travels through Dask; with TLS also a certificate of
the cluster's authority, as the cluster's workers do, before a byte of the token is sent.
"""

import errno
import hmac
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

Address = tuple[str, int]

TOKEN_BYTES: Final = 32
_GREETING = struct.Struct("<32sI?")
_POLL: Final = 0.2  # seconds between looks whether this rank was told to stop, while peers are waited for
STRANGERS: Final = 64  # connections that may be silent at a time, besides those of the peers that are awaited


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """TLS contexts of connections, for the side that connects and the side that listens."""

    client: ssl.SSLContext
    server: ssl.SSLContext

    def __post_init__(self) -> None:
        # A ticket to resume a session, which never is, would lie unread on a connection that only sends: closing it
        # would then throw away what was sent last.
        self.server.num_tickets = 0


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Two sockets to one peer, one for each direction."""

    out: socket.socket
    into: socket.socket

    def cut(self) -> None:
        """End both, and wake the threads that wait in them. They still have to be closed."""
        for side in (self.out, self.into):
            with suppress(OSError):
                # Not SSLSocket's: it forgets the encryption first, and another thread's next words would be in clear.
                socket.socket.shutdown(side, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close both."""
        self.out.close()
        self.into.close()


@dataclass(frozen=True, kw_only=True)
class Connector:
    """Connects to the lower ranks, which have to accept at the same time."""

    rank: int
    token: bytes
    timeout: float  # seconds in which a rank must have accepted, and that a connection may then be silent
    encryption: Encryption | None
    check: Callable[[], None]

    def connect(self, address: Address) -> Connection:
        """The connections to a lower rank; OSError where that failed."""
        out = self._side(address, sends=True)
        try:
            return Connection(out=out, into=self._side(address, sends=False))
        except BaseException:
            out.close()
            raise

    def _side(self, address: Address, *, sends: bool) -> socket.socket:
        self.check()
        link = socket.create_connection(address, self.timeout)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.encryption is not None:
                link = self.encryption.client.wrap_socket(link, do_handshake_on_connect=False)
                self._shake_hands(link)
            link.settimeout(self.timeout)
            link.sendall(_GREETING.pack(self.token, self.rank, sends))
        except BaseException:
            link.close()
            raise
        return link

    def _shake_hands(self, link: ssl.SSLSocket) -> None:
        """The other side may hang, and this rank be told to stop meanwhile."""
        deadline = time.monotonic() + self.timeout
        link.settimeout(_POLL)
        while True:
            try:
                link.do_handshake()
            except TimeoutError:
                self.check()
                if time.monotonic() > deadline:
                    raise
            else:
                return


class Acceptor:
    """Accepts higher ranks. Greetings are read as they come, so a rank that is silent cannot hold up others.

    Where many are silent, the one that came first is hung up on: they would take all the files that a process can open.
    """

    def __init__(
        self,
        listener: socket.socket,
        awaited: Iterable[int],
        token: bytes,
        timeout: float,  # seconds in which all must have come, and that a connection may then be silent
        encryption: Encryption | None,
    ) -> None:
        self._listener = listener
        self._awaited = frozenset(awaited)
        self._token = token
        self._timeout = timeout
        self._encryption = encryption
        self._sides: dict[tuple[int, bool], socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    def accept(self, check: Callable[[], None]) -> dict[int, Connection]:
        """Connections to those awaited, or TimeoutError; `check` raises when this rank was told to stop."""
        self._listener.setblocking(False)
        with self._selector:
            self._selector.register(self._listener, selectors.EVENT_READ)
            try:
                self._await_all(check)
            except BaseException:
                for side in self._sides.values():
                    side.close()
                raise
            finally:
                self._hang_up()
        return {peer: Connection(out=self._sides[peer, False], into=self._sides[peer, True]) for peer in self._awaited}

    def _await_all(self, check: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._timeout
        while missing := [peer for peer in self._awaited if not self._whole(peer)]:
            check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"ranks {sorted(missing)} did not come")
            for key, _ in self._selector.select(_POLL):
                if key.data is None:
                    self._accept()
                else:
                    self._greet(key)

    def _whole(self, peer: int) -> bool:
        return (peer, True) in self._sides and (peer, False) in self._sides

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE) and not self._hang_up(1):
                time.sleep(_POLL)  # until a file is closed elsewhere: the selector would not wait
            return  # or the other side has gone again
        link.setblocking(False)
        if self._encryption is not None:
            link = self._encryption.server.wrap_socket(link, server_side=True, do_handshake_on_connect=False)
        self._selector.register(link, selectors.EVENT_READ, bytearray())
        if len(self._selector.get_map()) > 1 + 2 * len(self._awaited) + STRANGERS:
            self._hang_up(1)

    def _greet(self, key: selectors.SelectorKey) -> None:
        """Go on with a handshake and a greeting. A greeting that is whole is a peer's, or is refused."""
        link = key.fileobj
        assert isinstance(link, socket.socket)
        try:
            if isinstance(link, ssl.SSLSocket):
                link.do_handshake()  # does nothing once it is done
            while len(key.data) < _GREETING.size:
                some = link.recv(_GREETING.size - len(key.data))
                if not some:
                    raise ConnectionResetError("the other side has gone again")
                key.data.extend(some)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except ssl.SSLWantWriteError:
            self._selector.modify(link, selectors.EVENT_READ | selectors.EVENT_WRITE, key.data)
            return
        except OSError:
            self._selector.unregister(link)
            link.close()
            return
        self._selector.unregister(link)
        token, peer, sends = _GREETING.unpack(key.data)
        if hmac.compare_digest(token, self._token) and peer in self._awaited and (peer, sends) not in self._sides:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.settimeout(self._timeout)
            self._sides[peer, sends] = link
        else:
            link.close()

    def _hang_up(self, most: int | None = None) -> int:
        """Close so many connections that have not finished their greeting, first those that came first; how many."""
        silent = [key.fileobj for key in self._selector.get_map().values() if key.data is not None][:most]
        for link in silent:
            assert isinstance(link, socket.socket)
            self._selector.unregister(link)
            link.close()
        return len(silent)
