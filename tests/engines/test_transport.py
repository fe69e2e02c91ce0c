"""Segments that ranks exchange, and the same halos whatever carries them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsolver.engines.transport.base import Alone, PeerError
from dsolver.engines.transport.connections import Connections
from dsolver.engines.transport.handshake import TOKEN_BYTES
from dsolver.engines.transport.messages import PeerMessages
from dsolver.engines.transport.segments import SegmentCache, segments_by_peer
from dsolver.engines.transport.sockets import SocketTransport
from dsolver.grid.box import DIRECTIONS
from dsolver.grid.partition import Partition
from dsolver.kernels.formats.layout import HaloLayout
from tests.support.waiting import PATIENCE

GUARD = 2


def plans_of(partition: Partition) -> dict[int, HaloLayout]:
    """Layouts without any backend: rows are their own storage positions."""
    return {number: layout(partition, number) for number in range(len(partition))}


def layout(partition: Partition, number: int) -> HaloLayout:
    plan = partition.halo_plan(number, DIRECTIONS)
    rows = [rows for _, rows in plan.sends]
    return HaloLayout(
        send_rows=np.concatenate([np.empty(0, dtype=np.int64), *rows]),
        sends=ranges([(chunk, len(r)) for chunk, r in plan.sends], 0),
        receives=ranges(plan.receives, GUARD),
        size=plan.slots + 2 * GUARD,
    )


def ranges(counts: Sequence[tuple[int, int]], first: int) -> tuple[tuple[int, int, int], ...]:
    ends = np.cumsum([first, *(count for _, count in counts)])
    return tuple((chunk, int(a), int(b)) for (chunk, _), a, b in zip(counts, ends[:-1], ends[1:], strict=True))


@st.composite
def placements(draw: st.DrawFn) -> tuple[Partition, tuple[int, ...]]:
    """A partition of up to 27 chunks and an owner for each; every rank has a chunk, in any pattern."""
    counts = draw(st.tuples(*[st.integers(1, 3)] * 3))
    chunks = counts[0] * counts[1] * counts[2]
    size = draw(st.integers(1, min(chunks, 4)))
    rest = draw(st.lists(st.integers(0, size - 1), min_size=chunks - size, max_size=chunks - size))
    owners = draw(st.permutations([*range(size), *rest]))
    grid = (2 * counts[0], 3 * counts[1], counts[2])
    return Partition(grid, counts), tuple(owners)


@settings(deadline=None)
@given(placements())
def test_both_sides_of_an_exchange_name_the_same_segments_in_the_same_order(
    placement: tuple[Partition, tuple[int, ...]],
) -> None:
    partition, owners = placement
    plans = plans_of(partition)
    mine = [{n: plan for n, plan in plans.items() if owners[n] == rank} for rank in range(max(owners) + 1)]
    peers = [segments_by_peer(own, owners) for own in mine]
    for a, b in product(range(len(peers)), repeat=2):
        assert (b in peers[a]) == (a in peers[b])
        if b not in peers[a]:
            continue
        sends, receives = peers[a][b].sends, peers[b][a].receives
        assert [p.last - p.first for p in sends] == [p.last - p.first for p in receives]
        sent = [(p.own, n) for p in sends for n, first, _ in plans[p.own].sends if first == p.first]
        received = [(n, p.own) for p in receives for n, first, _ in plans[p.own].receives if first == p.first]
        assert sent == received


def test_segments_are_worked_out_once_and_keep_no_plan_alive() -> None:
    known = SegmentCache((0, 1))
    for _ in range(3):
        plans = {0: plans_of(Partition((4, 4, 4), (2, 1, 1)))[0]}
        peers = known.by_peer(plans)
        assert known.by_peer(dict(plans)) is peers
        assert len(known._known) == 1
        del plans
        assert not known._known


@contextmanager
def transports(owners: Sequence[int]) -> Iterator[list[SocketTransport]]:
    connections_of = [Connections(rank, "127.0.0.1", PATIENCE) for rank in range(max(owners) + 1)]
    token = secrets.token_bytes(TOKEN_BYTES)
    try:
        on_each(connections_of, lambda connections: connections.connect([m.address for m in connections_of], token))
        yield [SocketTransport(connections, owners) for connections in connections_of]
    finally:
        for connections in connections_of:
            connections.close()


def on_each(ranks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(ranks)) as threads:
        return list(threads.map(function, ranks))


class Halos:
    """Packed buffers of the owned chunks, filled with recognizable numbers, and room for what they receive."""

    def __init__(self, plans: dict[int, HaloLayout], owned: Sequence[int]) -> None:
        self.plans = {n: plans[n] for n in owned}
        self.buffers = {n: np.zeros(len(plans[n].send_rows)) for n in owned}
        self.halos = {n: np.zeros(plans[n].size) for n in owned}

    def pack(self, offset: float) -> tuple[Any, Any, Any]:
        for n, plan in self.plans.items():
            self.buffers[n][:] = offset + 1000 * n + plan.send_rows
        return self.plans, self.buffers, self.halos


def alone(partition: Partition, offset: float) -> dict[int, Any]:
    every = Halos(plans_of(partition), range(len(partition)))
    Alone().exchange(*every.pack(offset))()
    return every.halos


@settings(max_examples=15, deadline=None)
@given(placements())
def test_sockets_deliver_the_halos_that_one_rank_gets(placement: tuple[Partition, tuple[int, ...]]) -> None:
    partition, owners = placement
    plans, expected = plans_of(partition), alone(partition, 0.5)

    def exchange(transport: SocketTransport) -> dict[int, Any]:
        own = Halos(plans, [n for n, owner in enumerate(owners) if owner == transport._connections.rank])
        transport.exchange(*own.pack(0.5))()
        return own.halos

    with transports(owners) as ranks:
        for halos in on_each(ranks, exchange):
            for number, halo in halos.items():
                np.testing.assert_array_equal(halo, expected[number])
                assert not halo[:GUARD].any()
                assert not halo[len(halo) - GUARD :].any()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_exchanges_under_way_together_are_waited_for_in_any_order(order: tuple[int, ...]) -> None:
    partition, owners = Partition((4, 4, 4), (2, 2, 2)), (0, 1, 0, 1, 1, 0, 1, 0)
    plans = plans_of(partition)

    def exchange(transport: SocketTransport) -> None:
        own = [n for n, owner in enumerate(owners) if owner == transport._connections.rank]
        several = [Halos(plans, own) for _ in range(3)]
        waits = [transport.exchange(*halos.pack(1e6 * i)) for i, halos in enumerate(several)]
        for i in order:
            waits[i]()
            for number, halo in several[i].halos.items():
                np.testing.assert_array_equal(halo, alone(partition, 1e6 * i)[number])

    with transports(owners) as ranks:
        on_each(ranks, exchange)


@settings(max_examples=15, deadline=None)
@given(placements())
def test_gather_puts_parts_at_their_places_also_while_an_exchange_is_under_way(
    placement: tuple[Partition, tuple[int, ...]],
) -> None:
    partition, owners = placement
    plans = plans_of(partition)

    def gather(transport: SocketTransport) -> Any:
        owned = np.array(owners) == transport._connections.rank
        halos = Halos(plans, [int(n) for n in np.flatnonzero(owned)])
        wait = transport.exchange(*halos.pack(0.0))
        gathered = np.full(len(owners), -1.0)
        transport.gather(np.where(owned, np.arange(len(owners)) + 0.25, 0.0), gathered)
        wait()
        for number, halo in halos.halos.items():
            np.testing.assert_array_equal(halo, alone(partition, 0.0)[number])
        return gathered

    with transports(owners) as ranks:
        for gathered in on_each(ranks, gather):
            np.testing.assert_array_equal(gathered, np.arange(len(owners)) + 0.25)


KINDS = ("int64", "float32", "uint8")


def message(pair: tuple[int, int], turn: int) -> tuple[Any, ...]:
    """A message: arrays of lengths that only the sender knows, some of them empty."""
    sender, to = pair
    lengths = (sender * to + turn) % 4, 5000 * sender + to, (sender + turn) % 2
    return tuple(np.arange(length).astype(kind) + 1 for length, kind in zip(lengths, KINDS, strict=True))


@settings(max_examples=15, deadline=None)
@given(placements(), st.data())
def test_messages_reach_the_chunks_that_name_their_senders(
    placement: tuple[Partition, tuple[int, ...]], data: st.DataObject
) -> None:
    _, owners = placement
    every = [(s, r) for s, r in product(range(len(owners)), repeat=2) if owners[s] != owners[r]]
    pairs = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    silent = set(data.draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else set()

    def deliver(transport: SocketTransport) -> list[dict[Any, Any]]:
        rank = transport._connections.rank
        leaving, expected = ([pair for pair in pairs if owners[pair[end]] == rank] for end in (0, 1))
        return [
            transport.deliver(
                {pair: None if pair in silent else message(pair, turn) for pair in leaving}, expected, KINDS
            )
            for turn in range(3)
        ]

    with transports(owners) as ranks:
        for rank, turns in enumerate(on_each(ranks, deliver)):
            for turn, found in enumerate(turns):
                assert sorted(found) == sorted(pair for pair in pairs if owners[pair[1]] == rank and pair not in silent)
                for pair, arrived in found.items():
                    for one, other in zip(arrived, message(pair, turn), strict=True):
                        assert one.dtype == other.dtype
                        np.testing.assert_array_equal(one, other)


@settings(max_examples=15, deadline=None)
@given(placements())
def test_lengths_that_both_sides_know_are_not_told(placement: tuple[Partition, tuple[int, ...]]) -> None:
    _, owners = placement
    lengths = {(s, r): 7 * s + r for s, r in product(range(len(owners)), repeat=2) if owners[s] != owners[r]}

    def deliver(transport: SocketTransport) -> Any:
        rank = transport._connections.rank
        leaving, expected = ([pair for pair in lengths if owners[pair[end]] == rank] for end in (0, 1))
        sent = {pair: tuple(np.full(lengths[pair], sum(pair), kind) for kind in KINDS) for pair in leaving}
        return transport.deliver(sent, expected, KINDS, {pair: lengths[pair] for pair in expected})

    with transports(owners) as ranks, pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeerMessages, "lengths", None)
        for rank, found in enumerate(on_each(ranks, deliver)):
            assert sorted(found) == [pair for pair in lengths if owners[pair[1]] == rank]
            for (sender, to), arrived in found.items():
                for kind, values in zip(KINDS, arrived, strict=True):
                    assert values.dtype == kind
                    assert values.tolist() == [sender + to] * lengths[sender, to]


@settings(max_examples=15, deadline=None)
@given(placements())
def test_numbers_of_all_chunks_are_known_to_every_rank(placement: tuple[Partition, tuple[int, ...]]) -> None:
    partition, owners = placement
    plans, expected = plans_of(partition), [(float(n), n / 3) for n in range(len(owners))]

    def ask(transport: SocketTransport) -> Any:
        own = [n for n, owner in enumerate(owners) if owner == transport._connections.rank]
        halos = Halos(plans, own)
        wait = transport.exchange(*halos.pack(0.0))
        found = transport.known({n: expected[n] for n in own})
        wait()
        return found

    with transports(owners) as ranks:
        assert all(found == expected for found in on_each(ranks, ask))


def test_one_rank_gathers_its_own_parts() -> None:
    gathered = np.zeros(3)
    Alone().gather(np.arange(3.0), gathered)
    assert [*gathered] == [0, 1, 2]


def test_who_is_told_to_stop_raises_the_reason_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsolver.engines.transport.connections._FAREWELL", PATIENCE)
    one = Alone()
    one.check()
    one.abort("enough")
    with pytest.raises(PeerError, match="enough"):
        one.check()
    with transports((0, 1)) as (a, b):
        a.check()
        a.abort("enough")
        for stopped in (a.check, lambda: b.gather(np.zeros(2), np.zeros(2))):
            with pytest.raises(PeerError, match="enough"):
                stopped()


def test_a_rank_that_never_comes_is_given_up() -> None:
    with transports((0, 1)) as (a, _):
        a._connections._timeout = 0.3
        a._connections.check()  # which sets it
        with pytest.raises(PeerError, match="heard nothing of rank 1"):
            a.gather(np.zeros(2), np.zeros(2))
