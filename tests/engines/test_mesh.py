"""Sockets between ranks, here threads of one process."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dsolver.engines.mesh import REASON_BYTES, TOKEN_BYTES, Mesh, PeerError, sent
from dsolver.errors import RankError

TOKEN = secrets.token_bytes(TOKEN_BYTES)


@contextmanager
def meshes(count: int, timeout: float = 20.0) -> Iterator[list[Mesh]]:
    made = [Mesh(rank, "127.0.0.1", timeout) for rank in range(count)]
    try:
        on_each(made, lambda mesh: mesh.connect([other.address for other in made], TOKEN))
        yield made
    finally:
        for mesh in made:
            mesh.close()


def on_each(made: list[Mesh], function: Callable[[Mesh], Any]) -> list[Any]:
    """The function on every rank at once; the first exception is raised."""
    with ThreadPoolExecutor(len(made)) as threads:
        return list(threads.map(function, made))


def view(values: Any) -> memoryview:
    return memoryview(values).cast("B")


def frame(kind: bytes, length: int, data: bytes = b"") -> bytes:
    return struct.pack("<cQ", kind, length) + data


def raw_peer(mesh: Mesh) -> socket.socket:
    """A connection that shows the token as rank 1 and can then misbehave; the mesh is rank 0 of 2."""
    link = socket.create_connection(mesh.address, 5)
    link.sendall(TOKEN + struct.pack("<I", 1))
    mesh.connect([mesh.address, ("", 0)], TOKEN)
    return link


@pytest.fixture
def pair() -> Iterator[tuple[Mesh, socket.socket]]:
    mesh = Mesh(0, "127.0.0.1", 2.0)
    link = raw_peer(mesh)
    yield mesh, link
    link.close()
    mesh.close()


def test_parts_arrive_in_order_and_at_their_places() -> None:
    with meshes(2) as (a, b):
        sending = [a.send(1, [view(np.arange(3.0)), view(np.arange(2.0))]), a.send(1, [view(np.array([7.0]))])]
        first, second, third = np.empty(4), np.empty(1), np.empty(1)
        b.receive(0, [view(first), view(second)])
        b.receive(0, [view(third)])
        sent(sending)
        assert [*first, *second, *third] == [0, 1, 2, 0, 1, 7]


def test_frames_larger_than_all_buffers_cross_between_all_pairs() -> None:
    size = 2_000_000  # 16 MB, several times what two sockets buffer

    def everything(mesh: Mesh) -> bool:
        out = {peer: np.full(size, mesh.rank * 10.0 + peer) for peer in mesh.peers}
        sending = [mesh.send(peer, [view(values)]) for peer, values in out.items()]
        into = np.empty(size)
        for peer in reversed(mesh.peers):
            mesh.receive(peer, [view(into)])
            assert (into == peer * 10.0 + mesh.rank).all()
        sent(sending)
        return True

    with meshes(4) as made:
        assert on_each(made, everything) == [True] * 4


def test_a_silent_stranger_and_a_wrong_token_hold_up_nobody() -> None:
    mesh, other = (Mesh(rank, "127.0.0.1", 20.0) for rank in range(2))
    strangers = [socket.create_connection(mesh.address) for _ in range(4)]
    strangers[1].sendall(secrets.token_bytes(TOKEN_BYTES) + struct.pack("<I", 1))
    strangers[2].sendall(TOKEN[:5])  # and not a byte more
    strangers[3].close()
    began = time.monotonic()
    on_each([mesh, other], lambda m: m.connect([mesh.address, other.address], TOKEN))
    assert time.monotonic() - began < 2
    assert mesh.peers == (1,)
    for stranger in strangers[:3]:
        stranger.settimeout(2)
        assert gone(stranger)
        stranger.close()
    mesh.close()
    other.close()


def gone(link: socket.socket) -> bool:
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("rank", [0, 2, 7])
def test_a_rank_that_cannot_be_is_a_stranger_even_with_the_token(rank: int) -> None:
    mesh = Mesh(0, "127.0.0.1", 0.5)
    with socket.create_connection(mesh.address) as link:
        link.sendall(TOKEN + struct.pack("<I", rank))
        with pytest.raises(RankError, match=r"ranks \[1\] did not come"):
            mesh.connect([mesh.address, ("", 0)], TOKEN)
    mesh.close()


def test_a_rank_is_accepted_once() -> None:
    mesh = Mesh(0, "127.0.0.1", 0.5)
    links = [socket.create_connection(mesh.address) for _ in range(2)]
    for link in links:
        link.sendall(TOKEN + struct.pack("<I", 1))
    with pytest.raises(RankError, match=r"ranks \[2\] did not come"):
        mesh.connect([mesh.address] * 3, TOKEN)
    mesh.close()
    for link in links:
        link.close()


def test_it_listens_only_until_it_is_connected_and_only_where_it_was_told() -> None:
    with meshes(2) as made:
        for mesh in made:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(mesh.address, 2)
    mesh = Mesh(0, "127.0.0.1", 1.0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", mesh.address[1]), 2)
    mesh.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(mesh.address, 2)


def test_the_reason_of_an_abort_reaches_who_waits() -> None:
    with meshes(3) as made:
        threading.Timer(0.2, made[1].abort, ["rank 1 has had enough"]).start()

        def waits(mesh: Mesh) -> None:
            with pytest.raises(PeerError, match="rank 1 has had enough"):
                mesh.receive(1 if mesh.rank != 1 else 0, [view(np.empty(1))])
            if mesh.rank != 1:
                return
            with pytest.raises(PeerError, match="rank 1 has had enough"):
                mesh.alive()

        on_each(made, waits)


def test_an_abort_behind_a_frame_that_nobody_takes_does_not_hang() -> None:
    with meshes(2) as (a, b):
        sending = a.send(1, [view(np.empty(4_000_000))])
        began = time.monotonic()
        a.abort("no more")
        with pytest.raises(PeerError, match="no more"):
            sent([sending])
        assert time.monotonic() - began < 5
        with pytest.raises(PeerError, match="lost rank 0"):
            b.receive(0, [view(np.empty(4_000_000))])


def test_an_abort_ends_the_waiting_for_connections() -> None:
    mesh = Mesh(0, "127.0.0.1", 60.0)
    threading.Timer(0.2, mesh.abort, ["the user left"]).start()
    began = time.monotonic()
    with pytest.raises(PeerError, match="the user left"):
        mesh.connect([mesh.address, ("", 0)], TOKEN)
    assert time.monotonic() - began < 5
    mesh.close()


def test_a_peer_that_closes_is_noticed_at_once() -> None:
    with meshes(2) as (a, b):
        threading.Timer(0.2, a.close).start()
        began = time.monotonic()
        with pytest.raises(PeerError, match="rank 1 lost rank 0"):
            b.receive(0, [view(np.empty(1))])
        assert time.monotonic() - began < 2


def test_silence_beyond_the_timeout_raises() -> None:
    with meshes(2, timeout=0.3) as (a, _), pytest.raises(PeerError, match=r"heard nothing of rank 1 for 0\.3 s"):
        a.receive(1, [view(np.empty(1))])


def test_check_is_quiet_while_all_is_well_and_tells_the_reason_after() -> None:
    with meshes(3) as (a, b, c):
        a.check()
        data = np.ones(1)
        sent([b.send(0, [view(data)])])
        time.sleep(0.1)
        a.check()
        a.receive(1, [view(data)])
        c.abort("out of memory")
        time.sleep(0.1)
        with pytest.raises(PeerError, match="out of memory"):
            a.check()


def test_a_frame_of_another_length_is_refused(pair: tuple[Mesh, socket.socket]) -> None:
    mesh, link = pair
    link.sendall(frame(b"d", 1 << 40))
    with pytest.raises(PeerError, match="expected 8 bytes"):
        mesh.receive(1, [view(np.empty(1))])


@pytest.mark.parametrize("kind", [b"e", b"x"])
def test_a_huge_reason_is_neither_believed_nor_waited_for(pair: tuple[Mesh, socket.socket], kind: bytes) -> None:
    mesh, link = pair
    link.sendall(frame(kind, 1 << 40, b"all your memory"))
    with pytest.raises(PeerError, match="expected 8 bytes"):
        mesh.receive(1, [view(np.empty(1))])


def test_a_reason_that_is_no_text_is_still_a_reason(pair: tuple[Mesh, socket.socket]) -> None:
    mesh, link = pair
    link.sendall(frame(b"e", 3, b"a\xffb"))
    with pytest.raises(PeerError, match=r"a.b"):
        mesh.receive(1, [view(np.empty(1))])


def test_a_long_reason_is_cut(pair: tuple[Mesh, socket.socket]) -> None:
    mesh, link = pair
    mesh.abort("ä" * 100_000)
    link.settimeout(2)
    received = b"".join(iter(lambda: link.recv(65536), b""))
    assert len(received) == struct.calcsize("<cQ") + REASON_BYTES


def test_nothing_is_left_open() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with meshes(3) as made:
        links = [link for mesh in made for link in mesh._peers.values()]
    assert len(links) == 6
    assert all(link.fileno() == -1 for link in links)
    left = [t.name for t in threading.enumerate() if t.ident not in before and t.name.startswith("dsolver")]
    assert not left
