"""Reach of chunks: whom each may hear of, as all ranks know without asking."""

from __future__ import annotations

import time

import numpy as np

from dsolver import kernels
from dsolver.distributed.halo import gather_layout, gather_senders
from dsolver.distributed.setup_exchange import Senders, reach_of, receivers_of, senders_of
from dsolver.engines.eager.engine import EagerEngine
from dsolver.grid.partition import Partition

LINE = [(1,), (0, 2), (1, 3), (2, 4), (3,)]


def test_steps_reach_neighbors_of_neighbors() -> None:
    assert reach_of(LINE) == LINE
    assert reach_of(LINE, LINE) == [(1, 2), (0, 2, 3), (0, 1, 3, 4), (1, 2, 4), (2, 3)]
    assert reach_of(LINE, LINE, LINE, LINE) == [tuple(n for n in range(5) if n != own) for own in range(5)]
    assert reach_of([()], [()]) == [()]


def test_who_reaches_a_chunk_is_reached_by_it() -> None:
    assert reach_of([(1,), (2,), ()], [(), (2,), (0,)]) == [(1, 2), (0, 2), (0, 1)]


def test_every_rank_knows_whom_chunks_have_named() -> None:
    """More chunks than flags fit into a word."""
    rng, count = np.random.default_rng(3), 120
    engine = EagerEngine(Partition((count, 1, 1), (count, 1, 1)), kernels.load("numpy"))
    named: Senders = [tuple(sorted({*rng.integers(0, count, 7).tolist()} - {n})) for n in range(count)]
    assert senders_of(engine, engine.place(dict(enumerate(named)))) == named
    assert receivers_of(named) == [tuple(n for n in range(count) if c in named[n]) for c in range(count)]


def test_tables_of_an_exchange_with_all_chunks_grow_with_its_messages() -> None:
    """Four times as many messages of twice as many chunks; eight times the time were 512 s of 4096."""

    def seconds(chunks: int) -> float:
        hosts, began = tuple(range(chunks)), time.process_time()
        assert gather_senders(hosts, chunks)[1][:2] == [0, 2]
        layout = gather_layout(kernels.load("numpy"), 1, hosts=hosts, sizes=[1] * chunks)
        assert len(layout.receives) == chunks - 1
        return time.process_time() - began

    assert seconds(2000) < 7.0 * min(seconds(1000) for _ in range(3)) + 0.02
