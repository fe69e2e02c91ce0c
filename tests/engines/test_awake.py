"""Silence of workers, as a process counts it that was stopped itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dsolver.engines.dask import connection
from dsolver.engines.dask.connection import Awake, wait_for
from dsolver.engines.dask.health import Heartbeat


class Clock:
    """One that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_time_of_a_stop_does_not_count(clock: Clock) -> None:
    awake, read = Awake(3.0), []
    for seconds in (0.0, 2.0, 3600.0, 1.0):
        clock.now += seconds
        read.append(awake.read())
    assert read == [0.0, 2.0, 5.0, 6.0]


def test_workers_are_silent_only_while_the_client_listens(clock: Clock) -> None:
    async def looks() -> None:
        answer = asyncio.Event()

        async def run(_: object, workers: list[str]) -> None:
            await (answer.wait() if workers == ["b"] else asyncio.sleep(0.0))

        client: Any = SimpleNamespace(run=run)
        heartbeat = Heartbeat(client, ["a", "b"], 10.0)
        found = []
        for seconds in (0.0, 2.0, 60.0, 2.0, 2.0, 2.0, 2.0):
            clock.now += seconds
            found.append(heartbeat.silent())
            await asyncio.sleep(0.0)
        assert found == [[], [], [], [], [], ["b"], ["b"]]
        answer.set()
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        assert heartbeat.silent() == [], "it has answered"
        heartbeat.stop()

    asyncio.run(looks())


def test_a_request_that_was_answered_during_a_stop_has_an_answer(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "POLL", 0.001)
    client = SimpleNamespace(status="running")

    async def asked() -> str:
        for _ in range(3):
            await asyncio.sleep(0.01)
            clock.now += 3600.0
        return "here"

    async def never() -> None:
        while True:
            clock.now += 0.001
            await asyncio.sleep(0.0)

    assert asyncio.run(wait_for(client, asked(), 20.0)) == "here"  # type: ignore[arg-type]
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        asyncio.run(wait_for(client, never(), 0.1))  # type: ignore[arg-type]
