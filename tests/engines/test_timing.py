"""Measurements of engines: the same operations on every one, in order, without a change to a bit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from distributed import Client, LocalCluster

import dsolver
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.cluster.runtime import Runtime, connect
from dsolver.engines.graph.spans import spans_of
from dsolver.monitor.spans import MAIN, Span, exposure
from dsolver.program.solve import Solve
from dsolver.program.spec import SolveSpec
from tests.support.programs import advance, start

GRID, CHUNKS = (32, 16, 16), (2, 1, 1)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def measured(runtime: Runtime, measure: bool = True) -> tuple[list[Span], list[Any]]:
    """The spans of the fourth iteration, and the residuals of all four."""
    spec = SolveSpec.plan(dsolver.problems.hpcg(GRID), CHUNKS, m=Hpcg())
    with runtime.launch(Solve, spec, spec.partition) as job:
        job.call(Solve.fill, "x", 1.0)
        job.call(Solve.b_from_x)
        job.call(Solve.fill, "x", 0.0)
        job.call(start)
        residuals = job.call(advance, 1)
        assert job.spans() == []
        residuals += job.call(advance, 3, measure)
        spans = job.spans()
        assert job.spans() == []
    return spans, residuals


def kinds_by_level(spans: list[Span]) -> set[tuple[str, int | None]]:
    return {(span.kind, span.level) for span in spans}


LEVELS = {(kind, level) for level in range(3) for kind in ("inner", "boundary", "pack", "exchange")}


def check_lanes(spans: list[Span]) -> None:
    """Each main lane does one thing at a time; every span has a length."""
    assert all(span.stop >= span.start > 1e9 for span in spans)
    lanes: dict[tuple[int, str], list[Span]] = {}
    for span in spans:
        lanes.setdefault((span.rank, span.lane), []).append(span)
    for (_, lane), found in lanes.items():
        if lane == MAIN or lane.startswith("thread"):
            found.sort(key=lambda span: span.start)
            assert all(a.stop <= b.start + 1e-9 for a, b in pairwise(found))


@pytest.mark.parametrize("engine", ["reference", "resident"])
def test_one_process_measures_every_operation(engine: Any) -> None:
    runtime = connect(engine=engine, device="cpu")
    spans, residuals = measured(runtime)
    check_lanes(spans)
    assert kinds_by_level(spans) >= LEVELS | {("coarse", 3)}
    assert {span.rank for span in spans} == {0}
    assert {span.chunk for span in spans if span.kind == "inner" and span.level is not None} == {0, 1}
    assert sum(span.name == "presmooth" for span in spans) == 3 * 2
    assert measured(runtime, measure=False) == ([], residuals)


def test_ranks_measure_their_chunks_and_what_they_wait_for(client: Client) -> None:
    runtime = connect(client, device="cpu")
    spans, residuals = measured(runtime)
    check_lanes(spans)
    for rank in (0, 1):
        own = [span for span in spans if span.rank == rank]
        assert kinds_by_level(own) >= LEVELS | {("coarse", 3), ("wait", 0), ("wait", 2), ("reduce", None)}
        assert {span.chunk for span in own if span.kind == "inner" and span.level is not None} == {rank}
        assert {(span.kind, span.level) for span in own if span.beside} == {("exchange", n) for n in range(3)}
    # A face of 16 x 16 points on the finest level, 8 bytes each; rank 1's coarse points there are rank 0's correction,
    # and rank 0 has none for rank 1.
    brought = {(span.rank, span.bytes) for span in spans if span.beside and span.level == 0}
    assert brought == {(0, 16 * 16 * 8), (0, 8 * 8 * 8), (1, 16 * 16 * 8), (1, 0)}
    found = exposure(spans)
    assert found is not None
    assert 0 < found.total.ms < found.iteration_ms
    assert set(found.levels) == {"0", "1", "2", "sums"}
    assert measured(runtime, measure=False) == ([], residuals)


def test_the_graph_engine_tells_what_dask_recorded(client: Client) -> None:
    runtime = connect(client, engine="graph", device="cpu")
    spans, residuals = measured(runtime)
    check_lanes(spans)
    assert kinds_by_level(spans) >= LEVELS | {("coarse", 3), ("reduce", None)}
    assert {span.rank for span in spans} == {0, 1}
    assert {span.chunk for span in spans if span.name == "presmooth"} == {0, 1}
    assert sum(span.name == "presmooth" for span in spans) == 3 * 2
    found = exposure(spans)
    assert found is not None
    assert 0 < found.total.ms < found.iteration_ms
    assert measured(runtime, measure=False) == ([], residuals)
    assert measured(connect(client, device="cpu"))[1] == residuals


def test_a_clock_that_a_heartbeat_sets_back_makes_no_thread_do_two_things_at_once() -> None:
    def record(chunk: int, start: float, stop: float, action: str = "compute") -> dict[str, Any]:
        ran = {"action": action, "start": 2e9 + start, "stop": 2e9 + stop}
        return {"key": ("inner-spmv-L0-me", 5, chunk), "worker": "a", "thread": 1, "startstops": [ran]}

    # Each took 3 s, after the one before; the clock went back by 2 s in the second, and by 4 s before the fourth.
    records = [record(0, 0, 3), record(1, 3, 4), record(2, 4, 7), record(3, 3, 6)]
    spans = spans_of(records, "me", range(6), ["a"] * 4)
    check_lanes(spans)
    assert [(span.start - 2e9, span.stop - 2e9) for span in spans] == [(0, 3), (3, 4), (4, 6), (6, 7)]
    (sent,) = spans_of([record(0, 3, 2, "transfer")], "me", range(6), ["a"])
    assert (sent.beside, sent.seconds) == (True, 0.0)


def test_a_preconditioner_in_float32_is_measured_too() -> None:  # it runs on a view of the engine
    spec = SolveSpec.plan(dsolver.problems.hpcg(GRID), CHUNKS, m=Hpcg(), precond_dtype="float32")
    with connect(device="cpu").launch(Solve, spec, spec.partition) as job:
        job.call(Solve.fill, "b", 1.0)
        job.call(start)
        job.call(advance, 2, True)
        assert kinds_by_level(job.spans()) >= LEVELS | {("coarse", 3)}
