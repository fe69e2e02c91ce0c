"""Turns of threads on one GPU."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from dsolver.engines.transport.base import Alone
from tests.support.waiting import eventually

pytestmark = pytest.mark.gpu


def test_a_solve_that_waits_for_its_turn_says_for_what(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A function in one solve that waits for another one is a lock without end, and without a word."""
    from dsolver.engines.eager import cuda_graph

    monkeypatch.setattr(cuda_graph, "_PATIENCE", 0.05)
    first, second = cuda_graph.GraphRecorder(Alone()), cuda_graph.GraphRecorder(Alone())
    done = Event()

    def solve() -> None:
        with second.turn():
            done.set()

    with first.turn():
        other = Thread(target=solve)
        other.start()
        eventually(lambda: "neither ends" in caplog.text)
        assert not done.is_set()
    other.join(10)
    assert done.is_set()
