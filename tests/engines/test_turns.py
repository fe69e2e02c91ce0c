"""Turns of threads on one GPU."""

from __future__ import annotations

from contextlib import nullcontext
from threading import Event, RLock, Thread

import pytest

from dsolver.engines.transport.base import Alone
from tests.support.waiting import eventually

pytestmark = pytest.mark.gpu


def test_what_breaks_off_a_turn_waits_for_copies_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that numbers were on their way to was another solve's when they came."""
    from dsolver.engines.eager import cuda_graph

    recorder = cuda_graph.GraphRecorder(Alone())
    waited: list[bool] = []
    monkeypatch.setattr(recorder, "stream", Stream(waited))
    with recorder.turn():
        assert not waited
    with pytest.raises(KeyboardInterrupt), recorder.turn():
        raise KeyboardInterrupt
    assert waited == [True]


def test_ctrl_c_as_a_turn_begins_leaves_the_device_to_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsolver.engines.eager import cuda_graph

    class Struck:
        """A lock whose acquisition Ctrl-C follows."""

        def __init__(self) -> None:
            self.lock = RLock()
            self.release = self.lock.release

        def acquire(self, **_: float) -> bool:
            self.lock.acquire()
            raise KeyboardInterrupt

    recorder, struck = cuda_graph.GraphRecorder(Alone()), Struck()
    monkeypatch.setattr(recorder, "_turn", struck)
    with pytest.raises(KeyboardInterrupt), recorder.turn():
        pass
    free: list[bool] = []
    other = Thread(target=lambda: free.append(struck.lock.acquire(blocking=False)))
    other.start()
    other.join(10)
    assert free == [True]


class Stream(nullcontext[None]):
    """A stream that tells when it is waited for."""

    def __init__(self, waited: list[bool]) -> None:
        super().__init__()
        self._waited = waited

    def synchronize(self) -> None:
        self._waited.append(True)


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
