"""Events that a solve tells its subscribers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from distributed import Client, LocalCluster

from dsolver.monitor import events
from dsolver.monitor.spans import Span, from_columns
from tests.support.solve_events import begun
from tests.support.waiting import PATIENCE, eventually

STEP = Span(kind="inner", name="spmv", level=0, chunk=0, start=1.0, stop=2.0, iteration=7)
WAIT = Span(kind="wait", name="wait", level=0, start=2.0, stop=2.5, iteration=7)


@pytest.fixture(autouse=True)
def all_messages_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones of a solve are waited for, however busy the machine is."""
    monkeypatch.setattr(events, "FLUSH_SECONDS", PATIENCE)


def tell_all(feed: events.SolveEvents) -> None:
    begun(feed)
    feed.state(1, 0.5, 1e-8, 100)
    feed.state(7, 0.1, 1e-8, 100)
    feed.spans([STEP, WAIT])
    feed.end("converged", 7, 0.1)
    feed.flush()


def test_messages_come_in_order_and_bear_the_id() -> None:
    heard: list[events.Message] = []
    unsubscribe = events.subscribe(heard.append)
    try:
        first, second = events.SolveEvents(), events.SolveEvents()
        tell_all(first)
        tell_all(second)
    finally:
        unsubscribe()
    tell_all(events.SolveEvents())
    assert [m["event"] for m in heard] == ["start", "state", "state", "spans", "end"] * 2
    assert {m["solve"] for m in heard} == {first.id, second.id}
    assert first.id != second.id
    assert heard[1]["rate"] is None
    assert heard[2]["rate"] > 0
    assert from_columns(heard[3]["spans"]) == [STEP, WAIT]
    assert heard[3]["exposure"]["exposed_ms"] == pytest.approx(500.0)


def test_every_documented_key_is_told_and_no_other() -> None:
    heard: list[events.Message] = []
    unsubscribe = events.subscribe(heard.append)
    try:
        tell_all(events.SolveEvents())
    finally:
        unsubscribe()
    rows = re.findall(r"^(`.*?`) {2,}(\w.*?) {2,}", events.__doc__ or "", re.MULTILINE)
    documented: dict[str, set[str]] = {event: set() for event in ("start", "state", "spans", "end")}
    for names, where in rows:
        for event in documented:
            if where.strip() == "all" or event in where.replace(",", " ").split():
                documented[event] |= {name.strip(" `") for name in names.split(",")}
    for message in heard:
        assert set(message) == documented[message["event"]]


def test_a_subscriber_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[events.Message] = []

    def broken(_message: events.Message) -> None:
        raise RuntimeError("broken")

    off = [events.subscribe(broken), events.subscribe(heard.append)]
    try:
        tell_all(events.SolveEvents())
    finally:
        for unsubscribe in off:
            unsubscribe()
    assert len(heard) == 5
    assert "a subscriber failed" in caplog.text


def test_a_cluster_hears_the_same() -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
        Client(cluster) as other,
    ):
        heard: list[Any] = []
        other.subscribe_topic(events.TOPIC, heard.append)

        def listens() -> bool:  # a subscription takes a moment to arrive
            client.log_event(events.TOPIC, {"event": "test", "solve": ""})
            return bool(heard)

        eventually(listens)
        feed = events.SolveEvents(client)
        tell_all(feed)
        kept = [message for _, message in client.get_events(events.TOPIC) if message["solve"] == feed.id]
        assert [m["event"] for m in kept] == ["start", "state", "state", "spans", "end"]
        eventually(lambda: heard[-1][1]["event"] == "end")
        assert [m for _, m in heard if m["solve"] == feed.id] == kept
    tell_all(events.SolveEvents(client))  # a closed client is no reason to fail
