"""Reach of chunks: whom each may hear of, as all ranks know without asking."""

from __future__ import annotations

from dsolver.distributed.setup_exchange import reach_of

LINE = [(1,), (0, 2), (1, 3), (2, 4), (3,)]


def test_steps_reach_neighbors_of_neighbors() -> None:
    assert reach_of(LINE) == LINE
    assert reach_of(LINE, LINE) == [(1, 2), (0, 2, 3), (0, 1, 3, 4), (1, 2, 4), (2, 3)]
    assert reach_of(LINE, LINE, LINE, LINE) == [tuple(n for n in range(5) if n != own) for own in range(5)]
    assert reach_of([()], [()]) == [()]


def test_who_reaches_a_chunk_is_reached_by_it() -> None:
    assert reach_of([(1,), (2,), ()], [(), (2,), (0,)]) == [(1, 2), (0, 2), (0, 1)]
