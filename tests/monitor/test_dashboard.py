from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import dsolver
from dsolver.monitor import events
from dsolver.monitor.dashboard import attach, memory_of
from dsolver.monitor.events import SolveEvents
from dsolver.monitor.gpu_memory import GPU_MEMORY
from dsolver.monitor.history import SolveRecord
from dsolver.monitor.pages.page import facts
from dsolver.problems import poisson7
from tests.support.solve_events import begun
from tests.support.waiting import PATIENCE, eventually

PREFIX: dict[str, str] = {}
"""The path below which each scheduler has its dashboard."""


@pytest.fixture(autouse=True)
def all_messages_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones of a solve are waited for, however busy the machine is."""
    monkeypatch.setattr(events, "FLUSH_SECONDS", PATIENCE)


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
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def started(client: Client) -> SolveEvents:
    return begun(SolveEvents(client))


def board(client: Client) -> Any:
    return json.loads(get(f"{base(client)}/dsolver.json"))


def test_the_page_appears_on_a_running_cluster_and_in_its_menu(client: Client) -> None:
    first = started(client)  # before anyone listens
    first.state(1, 0.5, None, 10)
    first.end("converged", 2, 0.25)
    first.flush()
    assert attach(client)
    assert attach(client)
    assert '"dsolver"' in get(f"{base(client)}/status").replace("'", '"')
    assert "Bokeh" in get(f"{base(client)}/dsolver")
    assert board(client)[first.id]["residuals"] == [0.5, 0.25]


def test_a_second_client_and_two_solves_at_once(client: Client) -> None:
    attach(client)
    with Client(client.cluster, set_as_default=False) as other:
        assert attach(other)
        assert get(f"{base(client)}/status").count('href="dsolver"') == 1
        mine, theirs = started(client), started(other)
        mine.state(3, 0.5, None, 10)
        theirs.end("failed", 0, None, "it broke")
        mine.end("converged", 4, 0.1)
        mine.flush()
        theirs.flush()
        shown = board(client)
        assert shown[mine.id]["end"]["status"] == "converged"
        assert shown[theirs.id]["end"]["error"] == "it broke"
        assert shown[mine.id]["iterations"] == [3, 4]


def test_a_scheduler_without_dashboard_goes_without_the_page() -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        assert attach(client)
        feed = started(client)
        feed.end("converged", 1, 0.1)
        feed.flush()


def test_memory_of_a_gpu_stands_beside_its_process() -> None:
    worker = SimpleNamespace(metrics={"memory": 5, GPU_MEMORY: [7, 9]}, memory_limit=None)
    assert memory_of(worker) == [("host", 5, 0), ("GPU", 7, 9)]
    assert memory_of(SimpleNamespace(metrics={GPU_MEMORY: None}, memory_limit=3)) == [("host", 0, 3)]


def test_the_data_tell_memory_of_a_solves_workers(client: Client) -> None:
    attach(client)
    workers = list(client.nthreads())
    feed = begun(SolveEvents(client), workers=[*workers, "tcp://gone:1"], iteration_bytes=10, copy_bandwidth=1e9)
    feed.end("converged", 1, 0.1)
    feed.flush()
    shown = board(client)[feed.id]
    assert list(shown["memory"]) == workers
    (where, used, _) = shown["memory"][workers[0]][0]
    assert (where, used > 1e6) == ("host", True)
    assert (shown["start"]["iteration_bytes"], shown["start"]["copy_bandwidth"]) == (10, 1e9)


def test_messages_of_others_do_no_harm(client: Client) -> None:
    attach(client)
    for message in ({"solve": "x"}, "text", {"solve": "y", "event": "state", "time": 0.0}):
        client.log_event("dsolver", message)
    feed = started(client)
    feed.end("converged", 1, 0.1)
    feed.flush()
    assert board(client)[feed.id]["end"]["status"] == "converged"


def test_the_page_is_there_while_the_first_system_is_set_up(client: Client) -> None:
    """A page that was not found until a solve had lasted for half a second."""
    known = {message["solve"] for _, message in client.get_events("dsolver") if isinstance(message, dict)}

    def new() -> list[Any]:
        return [shown for key, shown in board(client).items() if key not in known]

    with dsolver.Solver(poisson7((4, 4, 4)), client=client, device="cpu", M="jacobi"):
        eventually(lambda: "dsolver-dashboard" in client.run_on_scheduler(plugins))
        (shown,) = eventually(new)
        assert shown["state"] is None
        assert shown["end"] is None
        assert "set-up" in facts(SolveRecord(start=shown["start"]))
    assert new()[0]["end"]["status"] == "closed"
    with dsolver.Solver(poisson7((4, 4, 4)), client=client, device="cpu", M="jacobi") as solver:
        solver.solve(np.ones((4, 4, 4)))
        solver.solve(np.ones((4, 4, 4)))
    assert [shown["end"]["status"] for shown in new()] == ["closed", "converged", "converged"]


def plugins(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.plugins)
