"""Every halo value and every flag has a place of its own, and both sides mean the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver.benchmarks.hpcg.levels import coarse_halo_plan
from dsolver.engines.transport.base import Alone
from dsolver.engines.transport.peer_memory import ReceiveLayout, sent_segments
from dsolver.engines.transport.segments import local_segments, segments_by_peer
from dsolver.grid.box import DIRECTIONS
from dsolver.grid.halo import HaloPlan
from dsolver.grid.partition import Partition
from dsolver.kernels.formats.layout import HaloLayout

GUARD, WORD = 32, 16


def halo_layout(plan: HaloPlan) -> HaloLayout:
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
    make = coarse_halo_plan if correction else Partition.halo_plan
    plans = {number: halo_layout(make(partition, number, DIRECTIONS)) for number in range(len(partition))}
    owners = [number * min(ranks, len(plans)) // len(plans) for number in plans]
    mine = [{n: plan for n, plan in plans.items() if owners[n] == rank} for rank in range(max(owners) + 1)]
    peers = [segments_by_peer(own, owners) for own in mine]
    layouts = [ReceiveLayout(own, segments, WORD) for own, segments in zip(mine, peers, strict=True)]
    buffers = {n: 1000.0 * n + plan.send_rows for n, plan in plans.items()}
    memory = [np.zeros(received.slot // WORD) for received in layouts]
    written = [np.zeros(len(words), dtype=int) for words in memory]

    def write(rank: int, offset: int, values: Any) -> None:
        assert offset % WORD == 0
        place = slice(offset // WORD, offset // WORD + len(values))
        memory[rank][place] = values
        written[rank][place] += 1

    for rank, (own, received) in enumerate(zip(mine, layouts, strict=True)):
        for segment, neighbor, to in local_segments(own):
            write(rank, received.offset(neighbor, to), buffers[segment.own][segment.first : segment.last])
        for peer, segments in peers[rank].items():
            offsets = layouts[peer].offsets(rank, peers[peer][rank])
            for sent, offset in zip(sent_segments(segments), offsets, strict=True):
                values = [-1.0] if sent is None else buffers[sent.own][sent.first : sent.last]
                write(peer, offset, values)

    expected = {n: np.zeros(plan.size) for n, plan in plans.items()}
    Alone().exchange(plans, buffers, expected)()
    for rank, received in enumerate(layouts):
        assert written[rank].max(initial=0) <= 1
        assert all(memory[rank][received.flag(peer) // WORD] == -1.0 for peer in received.flags)
        # A rank hears of each one that it sends to: so two slots are enough.
        assert all(segments.receives or peer in received.flags for peer, segments in peers[rank].items())
        for number, plan in mine[rank].items():
            words = memory[rank][received.offset(number, 0) // WORD :][: plan.size]
            np.testing.assert_array_equal(words, expected[number])
        assert received.size == 2 * received.slot


def test_who_sends_nothing_though_its_plan_names_the_other_sends_a_flag() -> None:
    # A coarse level is gathered, and the first rank's chunk has no points there.
    nothing, all_rows = np.empty(0, dtype=np.int64), np.arange(5)
    first = HaloLayout(send_rows=nothing, sends=((1, 0, 0),), receives=((1, GUARD, GUARD + 5),), size=5 + 2 * GUARD)
    second = HaloLayout(send_rows=all_rows, sends=((0, 0, 5),), receives=((0, GUARD, GUARD),), size=2 * GUARD)
    peers = [segments_by_peer({0: first}, (0, 1)), segments_by_peer({1: second}, (0, 1))]
    layouts = [ReceiveLayout({0: first}, peers[0], WORD), ReceiveLayout({1: second}, peers[1], WORD)]
    assert sent_segments(peers[0][1]) == (None,)
    assert [segment.last for segment in sent_segments(peers[1][0]) if segment is not None] == [5]
    assert not layouts[0].flags
    assert list(layouts[1].flags) == [0]
    assert layouts[1].offsets(0, peers[1][0]) == [layouts[1].flag(0)]


def test_chunks_without_any_values_for_each_other_have_no_segments() -> None:
    empty = HaloLayout(
        send_rows=np.empty(0, dtype=np.int64), sends=((1, 0, 0),), receives=((1, GUARD, GUARD),), size=2 * GUARD
    )
    assert segments_by_peer({0: empty}, (0, 1)) == {}
