"""Chunks that have something to do with each other, as each rank sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsolver import kernels
from dsolver.engines.eager.engine import EagerEngine
from dsolver.errors import RankError
from dsolver.grid.partition import Partition

CIRCLE = [(1, 4), (0, 2), (1, 3), (2, 4), (0, 3)]


def rank_of(*owned: int) -> EagerEngine:
    return EagerEngine(Partition((5, 5, 5), (1, 1, 5)), kernels.load("cpu"), owned=owned)


def near(_: Any, number: int) -> tuple[int, ...]:
    return CIRCLE[number]


def test_a_rank_knows_the_partners_of_its_own_chunks_and_what_these_tell_of_others() -> None:
    assert [*map(tuple, CIRCLE)] == (every := rank_of(0, 1, 2, 3, 4)).partners(every.per_chunk(near))
    assert (one := rank_of(1)).partners(one.per_chunk(near)) == [(1,), (0, 2), (1,), (), ()]
    assert (two := rank_of(0, 4)).partners(two.per_chunk(near)) == [(1, 4), (0,), (), (4,), (0, 3)]


def test_the_only_chunk_has_no_partners() -> None:
    engine = EagerEngine(Partition((4, 4, 4)), kernels.load("cpu"))
    assert engine.partners(engine.per_chunk(lambda *_: ())) == [()]


def test_a_message_that_no_chunk_expects_is_an_error() -> None:
    engine = rank_of(0, 1, 2, 3, 4)

    def sent(_: Any, number: int) -> dict[int, Any]:
        return {to: (np.arange(number),) for to in CIRCLE[number]}

    found = engine.deliver(engine.per_chunk(sent), [(*CIRCLE[n], n) for n in range(5)], ("int64",))
    assert engine.fetch(engine.per_chunk(lambda _, __, came: tuple(came), found)) == dict(enumerate(CIRCLE))
    with pytest.raises(RankError, match=r"expect none of them: \[\(4, 3\)\]"):
        engine.deliver(engine.per_chunk(sent), [*CIRCLE[:3], (2,), CIRCLE[4]], ("int64",))
