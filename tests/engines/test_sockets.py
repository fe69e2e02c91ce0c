"""Sockets between ranks, here threads of one process; in clear and in TLS."""

from __future__ import annotations

import errno
import os
import secrets
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.security import Security

from dsolver.engines.transport import handshake
from dsolver.engines.transport.base import PeerError
from dsolver.engines.transport.connections import REASON_BYTES, Connections, sent
from dsolver.engines.transport.handshake import TOKEN_BYTES, Acceptor, Encryption
from dsolver.errors import RankError
from tests.support.certificates import certificates
from tests.support.waiting import PATIENCE, eventually

TOKEN = secrets.token_bytes(TOKEN_BYTES)
ConnectionsOf = Callable[..., Any]


def encryption_of(folder: Path) -> Encryption:
    """Settings with certificates of an authority that is made there."""
    paths = certificates(folder)
    security = Security(
        tls_ca_file=paths["ca-file"], tls_worker_cert=paths["worker.cert"], tls_worker_key=paths["worker.key"]
    )
    calling, answering = security.get_connection_args("worker"), security.get_listen_args("worker")
    return Encryption(client=calling["ssl_context"], server=answering["ssl_context"])


@pytest.fixture(autouse=True)
def long_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that tell a reason are not cut off because the machine is busy."""
    monkeypatch.setattr("dsolver.engines.transport.connections._FAREWELL", PATIENCE)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Encryption:
    return encryption_of(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["clear", "tls"])
def spoken(request: pytest.FixtureRequest, tls: Encryption) -> Encryption | None:
    return tls if request.param == "tls" else None


@pytest.fixture
def connections_of(spoken: Encryption | None) -> ConnectionsOf:
    """Connected connections_of, which speak TLS or not: a context manager for so many ranks."""

    @contextmanager
    def connected(count: int) -> Iterator[list[Connections]]:
        made = [Connections(rank, "127.0.0.1", PATIENCE, spoken) for rank in range(count)]
        try:
            on_each(made, lambda connections: connections.connect([other.address for other in made], TOKEN))
            yield made
        finally:
            for connections in made:
                connections.close()

    return connected


def on_each(made: list[Connections], function: Callable[[Connections], Any]) -> list[Any]:
    """The function on every rank at once; the first exception is raised."""
    with ThreadPoolExecutor(len(made)) as threads:
        return list(threads.map(function, made))


def view(values: Any) -> memoryview:
    return memoryview(values).cast("B")


def frame(kind: bytes, length: int, data: bytes = b"") -> bytes:
    return struct.pack("<cQ", kind, length) + data


def greeting(rank: int, *, sends: bool = True, token: bytes = TOKEN) -> bytes:
    return token + struct.pack("<I?", rank, sends)


@pytest.fixture
def pair() -> Iterator[tuple[Connections, socket.socket, socket.socket]]:
    """Rank 0 of 2, and the connections of a rank 1 that can misbehave: on which it sends and on which it receives."""
    connections = Connections(0, "127.0.0.1", PATIENCE)
    with (
        socket.create_connection(connections.address, PATIENCE) as out,
        socket.create_connection(connections.address, PATIENCE) as into,
    ):
        out.sendall(greeting(1, sends=True))
        into.sendall(greeting(1, sends=False))
        connections.connect([connections.address, ("", 0)], TOKEN)
        yield connections, out, into
        connections.close()


def test_parts_arrive_in_order_and_at_their_places(connections_of: ConnectionsOf) -> None:
    with connections_of(2) as (a, b):
        sending = [a.send(1, [view(np.arange(3.0)), view(np.arange(2.0))]), a.send(1, [view(np.array([7.0]))])]
        first, second, third = np.empty(4), np.empty(1), np.empty(1)
        b.receive(0, [view(first), view(second)])
        b.receive(0, [view(third)])
        sent(sending)
        assert [*first, *second, *third] == [0, 1, 2, 0, 1, 7]


def test_small_frames_that_nobody_takes_yet_arrive_in_order(connections_of: ConnectionsOf) -> None:
    """Until the system's buffers are full, a rank sends them itself, and the rest by the peer's thread."""
    with connections_of(2) as (a, b):
        numbers = [np.full(1000, number) for number in range(3000)]  # 24 MB
        sending = [a.send(1, [view(values)]) for values in numbers]
        assert not all(future.done() for future in sending)
        got = np.empty(1000, dtype=numbers[0].dtype)
        for values in numbers:
            b.receive(0, [view(got)])
            assert (got == values).all()
        sent(sending)


def test_a_frame_to_a_peer_that_is_gone_fails_when_it_is_asked_after(connections_of: ConnectionsOf) -> None:
    """And not at once, since the peer's reason, which may have arrived, says more."""
    with connections_of(2) as (a, b):
        b.close()

        def fails() -> bool:
            future = a.send(1, [view(np.zeros(2))])
            with suppress(PeerError):
                sent([future])
                return False
            return True

        eventually(fails)


def test_frames_larger_than_all_buffers_cross_between_all_pairs(connections_of: ConnectionsOf) -> None:
    size = 2_000_000  # 16 MB, several times what two sockets buffer

    def everything(connections: Connections) -> bool:
        out = {peer: np.full(size, connections.rank * 10.0 + peer) for peer in connections.peers}
        sending = [connections.send(peer, [view(values)]) for peer, values in out.items()]
        into = np.empty(size)
        for peer in reversed(connections.peers):
            connections.receive(peer, [view(into)])
            assert (into == peer * 10.0 + connections.rank).all()
        sent(sending)
        return True

    with connections_of(4) as made:
        assert on_each(made, everything) == [True] * 4


def test_a_silent_stranger_and_a_wrong_token_hold_up_nobody(spoken: Encryption | None) -> None:
    connections, other = (Connections(rank, "127.0.0.1", PATIENCE, spoken) for rank in range(2))
    strangers = [socket.create_connection(connections.address) for _ in range(4)]
    strangers[1].sendall(greeting(1, token=secrets.token_bytes(TOKEN_BYTES)))
    strangers[2].sendall(TOKEN[:5])  # and not a byte more
    strangers[3].close()
    on_each([connections, other], lambda m: m.connect([connections.address, other.address], TOKEN))
    assert connections.peers == (1,)
    for stranger in strangers[:3]:
        stranger.settimeout(PATIENCE)
        while not gone(stranger):  # TLS may have complained first
            pass
        stranger.close()
    connections.close()
    other.close()


def test_many_silent_strangers_take_few_files_of_a_rank(
    spoken: Encryption | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "STRANGERS", 3)
    connections, other = (Connections(rank, "127.0.0.1", PATIENCE, spoken) for rank in range(2))
    with ThreadPoolExecutor() as threads, ExitStack() as stack:
        accepted = threads.submit(connections.connect, [connections.address, other.address], TOKEN)
        strangers = [stack.enter_context(socket.create_connection(connections.address)) for _ in range(9)]
        for stranger in strangers[:4]:  # five may be there: the three, and as many as the peer's connections are
            stranger.settimeout(PATIENCE)
            assert gone(stranger)
        other.connect([connections.address, other.address], TOKEN)
        accepted.result(PATIENCE)
    assert connections.peers == (1,)
    connections.close()
    other.close()


def test_a_process_that_can_open_no_more_files_hangs_up_on_who_is_silent_and_does_not_spin() -> None:
    calls: list[None] = []

    class Full(socket.socket):
        def accept(self) -> Any:
            calls.append(None)
            if len(calls) > 1:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    with Full() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        strangers = [stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(2)]
        with pytest.raises(TimeoutError, match=r"ranks \[1\] did not come"):
            Acceptor(listener, [1], TOKEN, 3 * handshake._POLL, None).accept(lambda: None)
        strangers[0].settimeout(PATIENCE)
        assert gone(strangers[0])
    assert 2 < len(calls) < 10


def gone(link: socket.socket) -> bool:
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("rank", [0, 2, 7])
def test_a_rank_that_cannot_be_is_a_stranger_even_with_the_token(rank: int) -> None:
    connections = Connections(0, "127.0.0.1", 0.5)
    with socket.create_connection(connections.address) as link:
        link.sendall(greeting(rank))
        with pytest.raises(RankError, match=r"ranks \[1\] did not come"):
            connections.connect([connections.address, ("", 0)], TOKEN)
    connections.close()


@pytest.mark.parametrize("sides", [(True, True), (False, False), (True,)])
def test_a_rank_is_accepted_once_and_needs_both_directions(sides: tuple[bool, ...]) -> None:
    connections = Connections(0, "127.0.0.1", 0.5)
    with ExitStack() as stack:
        for sends in sides:
            link = stack.enter_context(socket.create_connection(connections.address))
            link.sendall(greeting(1, sends=sends))
        with pytest.raises(RankError, match=r"ranks \[1\] did not come"):
            connections.connect([connections.address] * 2, TOKEN)
    connections.close()


def test_a_second_connection_of_a_rank_that_has_come_is_hung_up_on() -> None:
    """The first connection stays."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(1) as threads,
        socket.create_connection(listener.getsockname()) as first,
        ExitStack() as stack,
    ):
        acceptor = Acceptor(listener, [1], TOKEN, PATIENCE, None)
        accepting = threads.submit(acceptor.accept, lambda: None)
        first.sendall(greeting(1, sends=True))
        eventually(lambda: (1, True) in acceptor._sides)
        second, back = (stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(2))
        second.sendall(greeting(1, sends=True))
        ended, _, _ = select.select([first, second], [], [], 10.0)
        back.sendall(greeting(1, sends=False))
        accepting.result(PATIENCE)[1].close()
        assert ended == [second], "while the other direction is still awaited"


# -- what TLS is for --------------------------------------------------------------------------------------------------


class Relay:
    """Stands between a rank and those that connect to it, and takes down what passes."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()[:2]
        self.seen = bytearray()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for _ in range(2):
            near, _ = self._listener.accept()
            far = socket.create_connection(self._target)
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(a, b), daemon=True).start()
        self._listener.close()

    def _pass(self, a: socket.socket, b: socket.socket) -> None:
        while some := a.recv(65536):
            self.seen += some
            b.sendall(some)
        b.shutdown(socket.SHUT_WR)


def test_whoever_listens_on_the_wire_reads_neither_token_nor_data(spoken: Encryption | None) -> None:
    first, second = made = [Connections(rank, "127.0.0.1", PATIENCE, spoken) for rank in range(2)]
    relay = Relay(first.address)
    on_each(made, lambda connections: connections.connect([relay.address, second.address], TOKEN))
    secret, into = np.frombuffer(secrets.token_bytes(800)).copy(), np.empty(100)
    for a, b in ((first, second), (second, first)):
        sending = a.send(b.rank, [view(secret)])
        b.receive(a.rank, [view(into)])
        sent([sending])
        assert into.tobytes() == secret.tobytes()
    second.abort("the reason why")
    with pytest.raises(PeerError, match="the reason why"):
        first.receive(1, [view(into)])
    for connections in made:
        connections.close()
    for words in (TOKEN, secret.tobytes(), b"the reason why"):
        assert (words in relay.seen) == (spoken is None)


def test_a_certificate_of_another_authority_is_no_use_even_with_the_token(tls: Encryption, tmp_path: Path) -> None:
    foreign = encryption_of(tmp_path)
    connections = Connections(0, "127.0.0.1", 1.0, tls)
    foreign.client.verify_mode = ssl.CERT_NONE

    def intrude() -> None:
        for sends in (True, False):
            with (
                suppress(OSError),  # TLS 1.3 tells the caller late, and in many ways, that it is not wanted
                socket.create_connection(connections.address) as raw,
                foreign.client.wrap_socket(raw) as link,
            ):
                link.sendall(greeting(1, sends=sends))
                link.recv(1)

    with ThreadPoolExecutor(1) as thread:
        intruder = thread.submit(intrude)
        with pytest.raises(RankError, match=r"ranks \[1\] did not come"):
            connections.connect([connections.address, ("", 0)], TOKEN)
        intruder.result()
    connections.close()


def test_the_token_is_not_shown_to_who_has_no_certificate(tls: Encryption, tmp_path: Path) -> None:
    foreign = encryption_of(tmp_path)
    foreign.server.verify_mode = ssl.CERT_NONE
    heard: list[object] = []

    def pretend(listener: socket.socket) -> None:
        raw, _ = listener.accept()
        try:
            with foreign.server.wrap_socket(raw, server_side=True) as link:
                heard.append(link.recv(100))
        except ssl.SSLError as error:
            heard.append(error)

    connections = Connections(1, "127.0.0.1", PATIENCE, tls)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        impostor = thread.submit(pretend, listener)
        with pytest.raises(RankError, match=r"could not connect to the other ranks: .*certificate"):
            connections.connect([listener.getsockname()[:2], connections.address], TOKEN)
        impostor.result()
    connections.close()
    assert isinstance(heard[0], ssl.SSLError)


def test_a_rank_that_does_not_answer_a_handshake_does_not_hold_up_an_abort(tls: Encryption) -> None:
    connections = Connections(1, "127.0.0.1", PATIENCE, tls)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        threading.Timer(0.3, connections.abort, ["the user left"]).start()
        with pytest.raises(PeerError, match="the user left"):
            connections.connect([silent.getsockname()[:2], connections.address], TOKEN)
    connections.close()


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_it_listens_only_until_it_is_connected_and_only_where_it_was_told(connections_of: ConnectionsOf) -> None:
    with connections_of(2) as made:
        for connections in made:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(connections.address, 2)
    connections = Connections(0, "127.0.0.1", 1.0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", connections.address[1]), 2)
    connections.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(connections.address, 2)


def test_the_reason_of_an_abort_reaches_who_waits(connections_of: ConnectionsOf) -> None:
    with connections_of(3) as made:
        threading.Timer(0.2, made[1].abort, ["rank 1 has had enough"]).start()

        def waits(connections: Connections) -> None:
            with pytest.raises(PeerError, match="rank 1 has had enough"):
                connections.receive(1 if connections.rank != 1 else 0, [view(np.empty(1))])
            if connections.rank != 1:
                return
            with pytest.raises(PeerError, match="rank 1 has had enough"):
                connections.raise_if_aborted()

        on_each(made, waits)


def test_the_reason_of_an_abort_does_not_come_between_two_parts_of_a_small_frame(
    pair: tuple[Connections, socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    connections, _, link = pair
    aborting, write = threading.Thread(target=connections.abort, args=["no more"]), os.write

    def half(to: int, data: bytes) -> int:
        taken = write(to, data[: len(data) // 2])
        aborting.start()
        aborting.join(0.2)  # it would be told by now if it did not wait for the rest
        return taken

    monkeypatch.setattr(os, "write", half)
    connections.send(1, [view(np.arange(100.0))])
    arrived = frame(b"d", 800, np.arange(100.0).tobytes()) + frame(b"e", 7, b"no more")
    assert link.makefile("rb").read(len(arrived)) == arrived
    aborting.join()


def test_an_abort_behind_a_frame_that_nobody_takes_does_not_hang(
    connections_of: ConnectionsOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsolver.engines.transport.connections._FAREWELL", 0.1)
    with connections_of(2) as (a, b):
        sending = a.send(1, [view(np.empty(4_000_000))])
        a.abort("no more")
        with pytest.raises(PeerError, match="no more"):
            sent([sending])
        with pytest.raises(PeerError, match="lost rank 0"):
            b.receive(0, [view(np.empty(4_000_000))])


def test_an_abort_ends_the_waiting_for_connections() -> None:
    connections = Connections(0, "127.0.0.1", PATIENCE)
    threading.Timer(0.2, connections.abort, ["the user left"]).start()
    with pytest.raises(PeerError, match="the user left"):
        connections.connect([connections.address, ("", 0)], TOKEN)
    connections.close()


def test_a_peer_that_closes_is_noticed_at_once(connections_of: ConnectionsOf) -> None:
    with connections_of(2) as (a, b):
        threading.Timer(0.2, a.close).start()
        with pytest.raises(PeerError, match="rank 1 lost rank 0"):
            b.receive(0, [view(np.empty(1))])


def test_silence_beyond_the_timeout_raises(connections_of: ConnectionsOf) -> None:
    with connections_of(2) as (a, _):
        a._timeout = 0.3
        a.check()  # which sets it
        with pytest.raises(PeerError, match=r"heard nothing of rank 1 for 0\.3 s"):
            a.receive(1, [view(np.empty(1))])


def test_check_is_quiet_while_all_is_well_and_tells_the_reason_after(connections_of: ConnectionsOf) -> None:
    with connections_of(3) as (a, b, c):
        a.check()
        data = np.ones(1)
        sent([b.send(0, [view(data)])])

        def seen() -> bool:
            a.check()
            return 1 in a._first_bytes

        assert eventually(seen)
        a.receive(1, [view(data)])
        c.abort("out of memory")

        def raises() -> str:
            try:
                a.check()
            except PeerError as error:
                return str(error)
            return ""

        assert "out of memory" in eventually(raises)


def test_a_frame_of_another_length_is_refused(pair: tuple[Connections, socket.socket, socket.socket]) -> None:
    connections, link, _ = pair
    link.sendall(frame(b"d", 1 << 40))
    with pytest.raises(PeerError, match="expected 8 bytes"):
        connections.receive(1, [view(np.empty(1))])


@pytest.mark.parametrize("kind", [b"e", b"x"])
def test_a_huge_reason_is_neither_believed_nor_waited_for(
    pair: tuple[Connections, socket.socket, socket.socket], kind: bytes
) -> None:
    connections, link, _ = pair
    link.sendall(frame(kind, 1 << 40, b"all your memory"))
    with pytest.raises(PeerError, match="expected 8 bytes"):
        connections.receive(1, [view(np.empty(1))])


def test_a_reason_that_is_no_text_is_still_a_reason(pair: tuple[Connections, socket.socket, socket.socket]) -> None:
    connections, link, _ = pair
    link.sendall(frame(b"e", 3, b"a\xffb"))
    with pytest.raises(PeerError, match=r"a.b"):
        connections.receive(1, [view(np.empty(1))])


def test_a_long_reason_is_cut(pair: tuple[Connections, socket.socket, socket.socket]) -> None:
    connections, _, link = pair
    connections.abort("ä" * 100_000)
    link.settimeout(PATIENCE)
    received = b"".join(iter(lambda: link.recv(65536), b""))
    assert len(received) == struct.calcsize("<cQ") + REASON_BYTES


def test_nothing_is_left_open(connections_of: ConnectionsOf) -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with connections_of(3) as made:
        links = [link for connections in made for link in connections._connections.values()]
        sides = [side for link in links for side in (link.out, link.into)]
    assert len(sides) == 12
    assert all(side.fileno() == -1 for side in sides)
    left = [t.name for t in threading.enumerate() if t.ident not in before and t.name.startswith("dsolver")]
    assert not left
