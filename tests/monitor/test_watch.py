"""A solve that is watched."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster, get_task_stream

import dsolver
from dsolver.cluster.devices import present
from dsolver.monitor import events, watch
from dsolver.monitor.dashboard import NAME, Dashboard, attach, record
from dsolver.monitor.spans import Kind, Span, exposure, from_columns, read_jsonl, to_columns
from dsolver.problems import poisson7
from tests.support.exposure import check_that_numbers_agree
from tests.support.waiting import PATIENCE, eventually

GRID = (32, 16, 16)
B = np.random.default_rng(0).standard_normal(GRID)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def all_messages_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones of a solve are waited for, however busy the machine is."""
    monkeypatch.setattr(events, "FLUSH_SECONDS", PATIENCE)


@pytest.fixture
def heard() -> Iterator[list[events.Message]]:
    messages: list[events.Message] = []
    unsubscribe = events.subscribe(messages.append)
    yield messages
    unsubscribe()


def test_a_short_solve_is_not_measured_unasked(monkeypatch: pytest.MonkeyPatch, heard: list[events.Message]) -> None:
    monkeypatch.setattr(watch, "MEASURE_AFTER", 1e9)
    solution = dsolver.solve(poisson7(GRID), B)
    assert (solution.spans, solution.exposure, solution.exposed_ms, solution.exposed_percent) == ((), None, None, None)
    assert [m["event"] for m in heard if m["event"] != "state"] == ["start", "end"]


def test_a_longer_one_is(monkeypatch: pytest.MonkeyPatch, heard: list[events.Message]) -> None:
    monkeypatch.setattr(watch, "MEASURE_AFTER", 0.0)
    solution = dsolver.solve(poisson7(GRID), B, device="cpu")
    plain = dsolver.solve(poisson7(GRID), B, device="cpu")
    assert solution.residuals == plain.residuals
    first = [m for m in heard if m["solve"] == heard[0]["solve"]]
    assert [m["event"] for m in first if m["event"] in ("start", "end")] == ["start", "end"]
    assert (first[0]["grid"], first[0]["engine"], first[0]["workers"], first[0]["owners"]) == (
        [32, 16, 16],
        "resident",
        [],
        [0],
    )
    assert (first[-1]["status"], first[-1]["iteration"]) == (str(solution.status), solution.iterations)
    states = [m["iteration"] for m in first if m["event"] == "state"]
    assert states == sorted(states)
    assert 1 <= states[0] <= states[-1] <= solution.iterations
    measured = [m for m in first if m["event"] == "spans"]
    assert measured
    assert tuple(s for m in measured for s in from_columns(m["spans"])) == solution.spans
    assert solution.exposure == exposure(solution.spans)
    assert solution.exposure is not None
    assert measured[-1]["exposure"] == solution.exposure.to_dict(), "what the page shows at the end is what is returned"


def test_a_callback_does_not_make_every_iteration_told_and_measured(
    monkeypatch: pytest.MonkeyPatch, heard: list[events.Message]
) -> None:
    monkeypatch.setattr(watch, "MEASURE_AFTER", 0.0)
    monkeypatch.setattr(watch, "MEASURE_EVERY", 1e9)
    monkeypatch.setattr(watch, "PUBLISH_EVERY", 1e9)
    solution = dsolver.solve(poisson7(GRID), B, device="cpu", callback=lambda _: None)
    assert solution.iterations > 3
    assert [m["event"] for m in heard] == ["start", "state", "spans", "end"]


def test_spans_go_to_a_file_or_a_function(tmp_path: Path, client: Client) -> None:
    problem = poisson7(GRID, chunks=(2, 1, 1))
    told: list[Span] = []
    solution = dsolver.solve(problem, B, client=client, device="cpu", spans=told.extend)
    assert tuple(told) == solution.spans
    assert {span.rank for span in told} == {0, 1}
    assert min(span.iteration for span in told) > 1  # the first superstep, of one iteration, is not measured
    assert solution.exposure is not None
    assert solution.exposed_percent is not None
    assert 0 < solution.exposed_percent < 100
    check_that_numbers_agree(solution.exposure)
    (tmp_path / "spans.jsonl").write_text("of an earlier solve\n")
    solution = dsolver.solve(problem, B, client=client, device="cpu", spans=tmp_path / "spans.jsonl")
    assert tuple(read_jsonl(tmp_path / "spans.jsonl")) == solution.spans


def test_levels_of_a_task_graph_add_up_to_its_exposed_communication(client: Client) -> None:
    """Each level's largest over the workers once made 120 % of an iteration."""
    told: list[Span] = []
    solution = dsolver.solve(
        poisson7(GRID, chunks=(2, 1, 1)), B, client=client, device="cpu", engine="graph", spans=told.extend, maxiter=4
    )
    assert {span.rank for span in told} == {0, 1}
    assert solution.exposure is not None
    check_that_numbers_agree(solution.exposure)


@pytest.mark.parametrize("sink", [3, "no/such/folder/spans.jsonl", "."])
def test_spans_to_nowhere_are_refused(sink: Any) -> None:
    with pytest.raises(dsolver.InputError, match="spans"):
        dsolver.solve(poisson7(GRID), B, spans=sink)


def test_a_file_that_cannot_be_written_costs_the_spans_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    solution = dsolver.solve(
        poisson7(GRID), B, device="cpu", spans=folder / "spans.jsonl", callback=lambda _: _removed(folder)
    )
    assert solution.converged
    assert "no more spans" in caplog.text


def _removed(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@pytest.mark.parametrize(("kind", "status"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")])
def test_a_failure_is_told(heard: list[events.Message], kind: type[BaseException], status: str) -> None:
    def broken(_: Any) -> None:
        raise kind("of the callback")

    with pytest.raises(kind, match="of the callback"):
        dsolver.solve(poisson7(GRID), B, callback=broken)
    assert heard[-1]["event"] == "end"
    assert (heard[-1]["status"], heard[-1]["error"]) == (status, f"{kind.__name__}: of the callback")


def test_ranks_get_rows_in_dasks_task_stream(client: Client) -> None:
    assert attach(client)
    problem = poisson7(GRID, chunks=(2, 1, 1))
    with get_task_stream(client) as stream:
        solution = dsolver.solve(problem, B, client=client, device="cpu", spans=lambda _: None)
    records = [record for record in stream.data if str(record["thread"]).startswith("cpu")]
    assert len(records) == len(solution.spans)
    assert {record["worker"] for record in records} == set(present(client))
    assert len({(record["worker"], record["thread"][:4]) for record in records}) == 2  # a worker a rank
    assert {record["thread"] for record in records} == {"cpu0-inner", "cpu0-halo", "cpu1-inner", "cpu1-halo"}
    works = {record["thread"] for record in records if record["startstops"][0]["action"] == "compute"}
    assert works == {"cpu0-inner", "cpu1-inner"}


def test_names_in_the_task_stream_are_whole() -> None:
    from dask.utils import key_split

    start = {"solve": "abcdefabcdef", "workers": ["tcp://a"], "device": "cuda", "engine": "resident"}
    lanes: tuple[tuple[Kind, str, str], ...] = (
        ("inner", "spmv_dot", "spmv-dot"),
        ("boundary", "residual_halo", "residual-halo"),
        ("exchange", "halo", "exchange-halo"),
        ("wait", "halo", "wait-halo"),
        ("pack", "pack", "pack"),
        ("reduce", "gather", "reduce-gather"),
    )
    for kind, name, expected in lanes:
        made = record(Span(kind=kind, name=name, level=0, start=1.0, stop=2.0), start)
        assert key_split(made["key"]) == expected
    assert (made["thread"], made["worker"]) == ("gpu0-halo", "tcp://a")


def test_a_plugin_that_starts_late_shows_spans_of_the_newest_solve_alone() -> None:
    span = to_columns([Span(kind="inner", name="spmv", level=0, start=1.0, stop=2.0)])
    about = {"time": 0.0, "workers": ["tcp://a"], "device": "cpu", "engine": "resident"}
    logged: list[Any] = ["of another program"]
    for solve in ("older", "newest"):
        logged += [{"solve": solve, "event": "start", **about}, {"solve": solve, "event": "spans", "spans": span}]
    stream = SimpleNamespace(buffer=[], index=0)
    scheduler: Any = SimpleNamespace(
        get_events=lambda _: [(0.0, message) for message in logged], plugins={"task-stream": stream}
    )
    made = Dashboard()
    asyncio.run(made.start(scheduler))
    assert [row["key"].rpartition("-")[2] for row in stream.buffer] == ["newest"]
    assert list(made.history.solves) == ["older", "newest"]


def test_the_plugin_comes_with_a_solve() -> None:
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
        dsolver.solve(poisson7(GRID), B, client=client, device="cpu")
        assert eventually(lambda: NAME in cluster.scheduler.plugins)


def test_a_page_that_a_scheduler_refused_is_brought_again() -> None:
    class Refusing:
        asked = 0

        def register_plugin(self, *_: Any, **__: Any) -> None:
            self.asked += 1
            if self.asked == 1:
                raise ModuleNotFoundError("No module named 'dsolver'")

    client: Any = Refusing()
    for _ in range(3):
        watch.open_page(client)
        for thread in threading.enumerate():
            if thread.name == "dsolver-watch":
                thread.join()
    assert client.asked == 2
