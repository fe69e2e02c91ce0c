from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster

from dsolver.monitor import dashboard
from dsolver.monitor.events import Feed

PREFIX: dict[str, str] = {}
"""Of each scheduler, the path below which its dashboard lies."""


@pytest.fixture(scope="module", params=["", "/some/path"], ids=["at the root", "behind a prefix"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            scheduler_kwargs={"http_prefix": request.param},
        ) as cluster,
        Client(cluster) as client,
    ):
        PREFIX[cluster.scheduler_address] = request.param
        yield client


def base(client: Client) -> str:
    link: str = client.dashboard_link.removesuffix("/status")
    scheduler: Any = client.scheduler
    return link + PREFIX[scheduler.address]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
        return str(answer.read().decode())


def started(client: Client) -> Feed:
    feed = Feed(client)
    feed.start(
        what="solve", problem="7-point", grid=(8, 8, 8), chunks=(1, 1, 1), engine="graph", device="cpu", kernels="cpu"
    )
    return feed


def board(client: Client) -> Any:
    return json.loads(get(f"{base(client)}/dsolver.json"))


def test_the_page_appears_on_a_running_cluster_and_in_its_menu(client: Client) -> None:
    first = started(client)  # before anyone listens
    first.state(1, 0.5, None, 10)
    first.end("converged", 2, 0.25)
    assert dashboard.attach(client)
    assert dashboard.attach(client)
    assert '"dsolver"' in get(f"{base(client)}/status").replace("'", '"')
    assert "Bokeh" in get(f"{base(client)}/dsolver")
    assert board(client)[first.id]["residuals"] == [0.5, 0.25]


def test_a_second_client_and_two_solves_at_once(client: Client) -> None:
    dashboard.attach(client)
    with Client(client.cluster, set_as_default=False) as other:
        assert dashboard.attach(other)
        assert get(f"{base(client)}/status").count('href="dsolver"') == 1
        mine, theirs = started(client), started(other)
        mine.state(3, 0.5, None, 10)
        theirs.end("failed", 0, None, "it broke")
        mine.end("converged", 4, 0.1)
        limit = time.monotonic() + 10
        while mine.id not in (shown := board(client)) or shown[mine.id]["end"] is None:
            assert time.monotonic() < limit
            time.sleep(0.05)
        assert shown[theirs.id]["end"]["error"] == "it broke"
        assert shown[mine.id]["iterations"] == [3, 4]


def test_a_scheduler_without_dashboard_goes_without_the_page() -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        assert dashboard.attach(client)
        feed = started(client)
        feed.end("converged", 1, 0.1)


def test_messages_of_others_do_no_harm(client: Client) -> None:
    dashboard.attach(client)
    for message in ({"solve": "x"}, "text", {"solve": "y", "event": "state", "time": 0.0}):
        client.log_event("dsolver", message)
    feed = started(client)
    feed.end("converged", 1, 0.1)
    assert board(client)[feed.id]["end"]["status"] == "converged"
