"""Every halo value and every token has a place of its own, and both sides mean the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.engines.inbox import Inbox, at_home, outgoing_of
from dsolver.engines.transport import Alone, routes_of
from dsolver.kernels.layout import HaloLayout
from dsolver.partition import DIRECTIONS, HaloPlan, Partition

GUARD, WORD = 32, 16


def layout(plan: HaloPlan) -> HaloLayout:
    """Without any backend: rows are their own storage positions."""
    sends, receives, first, slot = [], [], 0, GUARD
    for chunk, rows in plan.sends:
        sends.append((chunk, first, first + len(rows)))
        first += len(rows)
    for chunk, count in plan.receives:
        receives.append((chunk, slot, slot + count))
        slot += count
    packed = [np.empty(0, dtype=np.int64), *(rows for _, rows in plan.sends)]
    return HaloLayout(send_rows=np.concatenate(packed), sends=tuple(sends), receives=tuple(receives), size=slot + GUARD)


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize("chunks", [(2, 1, 1), (1, 1, 4), (2, 2, 2), (3, 2, 1)])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_what_is_written_at_told_places_is_the_halo(chunks: tuple[int, int, int], ranks: int, correction: bool) -> None:
    partition = Partition((4 * chunks[0], 6 * chunks[1], 4 * chunks[2]), chunks)
    make = partition.coarse_halo_plan if correction else partition.halo_plan
    plans = {number: layout(make(number, DIRECTIONS)) for number in range(len(partition))}
    owners = [number * min(ranks, len(plans)) // len(plans) for number in plans]
    mine = [{n: plan for n, plan in plans.items() if owners[n] == rank} for rank in range(max(owners) + 1)]
    routes = [routes_of(own, owners) for own in mine]
    inboxes = [Inbox(own, route, WORD) for own, route in zip(mine, routes, strict=True)]
    buffers = {n: 1000.0 * n + plan.send_rows for n, plan in plans.items()}
    memory = [np.zeros(inbox.slot // WORD) for inbox in inboxes]
    written = [np.zeros(len(words), dtype=int) for words in memory]

    def write(rank: int, offset: int, values: Any) -> None:
        assert offset % WORD == 0
        place = slice(offset // WORD, offset // WORD + len(values))
        memory[rank][place] = values
        written[rank][place] += 1

    for rank, (own, inbox) in enumerate(zip(mine, inboxes, strict=True)):
        for piece, neighbor, to in at_home(own):
            write(rank, inbox.at(neighbor, to), buffers[piece.own][piece.first : piece.last])
        for peer, route in routes[rank].items():
            offsets = inboxes[peer].offsets(rank, routes[peer][rank])
            for sent, offset in zip(outgoing_of(route), offsets, strict=True):
                values = [-1.0] if sent is None else buffers[sent.own][sent.first : sent.last]
                write(peer, offset, values)

    expected = {n: np.zeros(plan.size) for n, plan in plans.items()}
    Alone().exchange(plans, buffers, expected)()
    for rank, inbox in enumerate(inboxes):
        assert written[rank].max(initial=0) <= 1
        assert all(memory[rank][inbox.token(peer) // WORD] == -1.0 for peer in inbox.tokens)
        # Whoever is sent to is heard of: that is what makes two slots enough.
        assert all(route.receives or peer in inbox.tokens for peer, route in routes[rank].items())
        for number, plan in mine[rank].items():
            words = memory[rank][inbox.at(number, 0) // WORD :][: plan.size]
            np.testing.assert_array_equal(words, expected[number])
        assert inbox.size == 2 * inbox.slot


def test_who_sends_nothing_though_its_plan_names_the_other_sends_a_token() -> None:
    # A coarse level is gathered, and the first rank's chunk has no points there.
    nothing, all_rows = np.empty(0, dtype=np.int64), np.arange(5)
    first = HaloLayout(send_rows=nothing, sends=((1, 0, 0),), receives=((1, GUARD, GUARD + 5),), size=5 + 2 * GUARD)
    second = HaloLayout(send_rows=all_rows, sends=((0, 0, 5),), receives=((0, GUARD, GUARD),), size=2 * GUARD)
    routes = [routes_of({0: first}, (0, 1)), routes_of({1: second}, (0, 1))]
    inboxes = [Inbox({0: first}, routes[0], WORD), Inbox({1: second}, routes[1], WORD)]
    assert outgoing_of(routes[0][1]) == (None,)
    assert [piece.last for piece in outgoing_of(routes[1][0]) if piece is not None] == [5]
    assert not inboxes[0].tokens
    assert list(inboxes[1].tokens) == [0]
    assert inboxes[1].offsets(0, routes[1][0]) == [inboxes[1].token(0)]


def test_chunks_without_any_values_for_each_other_have_no_route() -> None:
    empty = HaloLayout(
        send_rows=np.empty(0, dtype=np.int64), sends=((1, 0, 0),), receives=((1, GUARD, GUARD),), size=2 * GUARD
    )
    assert routes_of({0: empty}, (0, 1)) == {}
