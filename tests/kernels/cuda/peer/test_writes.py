"""Values between two ranks that share one GPU here: each has its stream, and its memory is the other's to write."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from dsolver.kernels.reductions import tree_sum

pytestmark = pytest.mark.gpu

GUARD, SENT, LENGTH = 32, 1700, 5000


class Side:
    """One rank: a stream, an alarm, a vector with rows that the other reads, a halo and the words that fill it."""

    def __init__(self, seed: int, dtype: str) -> None:
        import cupy

        random = np.random.default_rng(seed)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pinned = cupy.cuda.alloc_pinned_memory(8)
        self.alarm = np.frombuffer(self.pinned, np.uint32, 1)
        self.alarm[0] = 0
        self.x = cupy.zeros(LENGTH, dtype)
        self.rows = cupy.asarray(random.choice(LENGTH, SENT, replace=False).astype(np.int32))
        self.halo = cupy.zeros(SENT + 2 * GUARD, dtype)
        self.slot = 2 * self.x.itemsize * (SENT + 2 * GUARD)
        self.words = cupy.zeros(2 * self.slot, np.uint8)

    def exchange(self, other: Side, *, both: bool = True, first: bool = True) -> Any:
        """Items that this side sends and receives: rows both ways, or from the first to the second and a flag back."""
        from dsolver.kernels.cuda.peer.writes import HaloCopies, PeerCopy, peer_halos

        size = self.x.itemsize
        rows = PeerCopy(
            source=self.rows.data.ptr, target=other.words.data.ptr + GUARD * 2 * size, slot=other.slot, count=SENT
        )
        flag = PeerCopy(source=0, target=other.words.data.ptr, slot=other.slot, count=1)
        values = PeerCopy(
            source=self.words.data.ptr + GUARD * 2 * size,
            target=self.halo.data.ptr + GUARD * size,
            slot=self.slot,
            count=SENT,
        )
        silence = PeerCopy(source=self.words.data.ptr, target=0, slot=self.slot, count=1)
        with self.stream:
            outgoing, incoming = [rows if both or first else flag], [values if both or not first else silence]
            copies = HaloCopies(outgoing=outgoing, incoming=incoming, itemsize=size)
            (made,) = peer_halos([copies], self.pinned.ptr)
            self.stream.synchronize()
        return made


def both_sides(dtype: str) -> tuple[Side, Side]:
    return Side(1, dtype), Side(2, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("both", [True, False])
def test_what_one_side_sends_the_other_receives(dtype: str, both: bool) -> None:
    import cupy

    a, b = both_sides(dtype)
    exchanges = a.exchange(b, both=both, first=True), b.exchange(a, both=both, first=False)
    cupy.cuda.Device().synchronize()
    for number in range(1, 6):
        for side, exchange in zip((a, b), exchanges, strict=True):
            with side.stream:
                side.x[:] = cupy.arange(LENGTH) + 10 * number + 0.5
                exchange.send([side.x])
        for side, exchange in zip((b, a), reversed(exchanges), strict=True):
            with side.stream:
                exchange.receive()
        cupy.cuda.Device().synchronize()
        for here, there, receives in ((a, b, both), (b, a, True)):
            expected = np.zeros(SENT + 2 * GUARD, dtype)
            if receives:
                expected[GUARD:-GUARD] = cupy.asnumpy(there.x)[cupy.asnumpy(there.rows)]
            np.testing.assert_array_equal(cupy.asnumpy(here.halo), expected)


@pytest.mark.parametrize("kind", ["float64", "int64", "int8"])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("below", [0, 700, SENT])
def test_ghosts_come_to_their_places_in_a_window(kind: str, both: bool, below: int) -> None:
    """In both slots. Who is sent nothing waits for a flag, and sees own values alone."""
    import cupy

    a, b = both_sides("float64")
    exchanges = a.exchange(b, both=both, first=True), b.exchange(a, both=both, first=False)
    cupy.cuda.Device().synchronize()
    for number in range(1, 6):
        own = [cupy.asarray((np.arange(LENGTH) * step + number) % 100).astype(kind) for step in (3, 7)]
        cupy.cuda.Device().synchronize()
        for side, exchange, values in zip((a, b), exchanges, own, strict=True):
            with side.stream:
                exchange.send([values])
        found = []
        for side, exchange, values, receives in zip((b, a), reversed(exchanges), own[::-1], (True, both), strict=True):
            ghosts = SENT if receives else 0
            words, flags = (side.words.data.ptr + GUARD * 16, side.slot), (side.words.data.ptr, int(not receives))
            with side.stream:
                found.append(exchange.around(values, LENGTH, min(below, ghosts), ghosts, words, flags))
        cupy.cuda.Device().synchronize()
        for there, here, window, receives in zip((a, b), own[::-1], found, (True, both), strict=True):
            sent = cupy.asnumpy(own[0] if there is a else own[1])[cupy.asnumpy(there.rows)] if receives else []
            expected = np.concatenate([sent[:below], cupy.asnumpy(here), sent[below:]]).astype(kind)
            np.testing.assert_array_equal(cupy.asnumpy(window), expected)


def test_a_receive_before_the_send_waits_for_it() -> None:
    import cupy

    a, b = both_sides("float64")
    first, second = a.exchange(b), b.exchange(a)
    a.x[:], b.x[:] = 1.0, 2.0
    cupy.cuda.Device().synchronize()
    with a.stream:
        first.send([a.x])
        first.receive()
        early = cupy.cuda.Event()
        early.record(a.stream)
    time.sleep(0.2)
    assert not early.done
    with b.stream:
        second.send([b.x])
    a.stream.synchronize()
    assert set(cupy.asnumpy(a.halo[GUARD:-GUARD])) == {2.0}


def test_the_alarm_ends_all_waiting() -> None:
    import cupy

    from dsolver.kernels.cuda.peer.writes import PeerSum, sum_bytes

    a, b = both_sides("float64")
    exchange = a.exchange(b)
    sums = [cupy.zeros(sum_bytes(2), np.uint8) for _ in range(2)]
    total = PeerSum([True, False], [area.data.ptr for area in sums], a.pinned.ptr)
    cupy.cuda.Device().synchronize()
    with a.stream:
        exchange.send([a.x])
        exchange.receive()
        total(cupy.zeros(2), cupy.zeros(2), cupy.zeros(1))
        end = cupy.cuda.Event()
        end.record(a.stream)
    time.sleep(0.1)
    assert not end.done
    a.alarm[0] = 1
    until = time.monotonic() + 5.0
    while not end.done:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("chunks", [2, 9, 700])
def test_sums_of_all_are_the_trees(chunks: int) -> None:
    import cupy

    from dsolver.kernels.cuda.peer.writes import PeerSum, sum_bytes

    mine = np.arange(chunks) % 3 == 0
    sides = both_sides("float64")
    areas = [cupy.zeros(sum_bytes(chunks), np.uint8) for _ in sides]
    totals = [
        PeerSum(list(owned), [area.data.ptr for area in order], side.pinned.ptr)
        for side, owned, order in ((sides[0], mine, areas), (sides[1], ~mine, areas[::-1]))
    ]
    random, outs = np.random.default_rng(0), [cupy.zeros(1) for _ in sides]
    for _ in range(5):
        parts = random.standard_normal(chunks)
        own = [cupy.asarray(np.where(owned, parts, 0.0)) for owned in (mine, ~mine)]
        cupy.cuda.Device().synchronize()
        for side, total, part, out in zip(sides, totals, own, outs, strict=True):
            with side.stream:
                total(part, cupy.zeros(chunks), out)
        cupy.cuda.Device().synchronize()
        assert [float(out[0]) for out in outs] == [tree_sum(list(parts))] * 2
