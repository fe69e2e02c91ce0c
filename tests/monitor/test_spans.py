"""Spans, their files, and exposed communication."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsolver.monitor.spans import (
    HALO,
    SUMS,
    Kind,
    Span,
    exposed_text,
    exposure,
    from_columns,
    read_jsonl,
    to_columns,
    to_jsonl,
    to_trace,
)
from tests.support.exposure import check_that_numbers_agree

MS = 1e-3


def span(
    kind: Kind,
    start: float,
    stop: float,
    *,
    level: int | None = 0,
    rank: int = 0,
    lane: str = "main",
    iteration: int = 1,
) -> Span:
    """A span from so many milliseconds on to so many."""
    return Span(
        kind=kind, name=kind, level=level, rank=rank, lane=lane, start=start * MS, stop=stop * MS, iteration=iteration
    )


#: One rank: an exchange beside inner work that outlasts it by 2 ms, and a sum of 1 ms in an iteration of 10 ms.
ONE = [
    span("pack", 0, 1, lane=HALO),
    span("inner", 0, 5),
    span("exchange", 1, 7, lane=HALO),
    span("wait", 5, 7),
    span("boundary", 7, 8),
    span("reduce", 8, 9, level=None),
    span("inner", 9, 10),
]


def test_exposed_is_what_the_main_lane_waits_for_and_sums() -> None:
    found = exposure(ONE)
    assert found is not None
    assert found.total.ms == pytest.approx(3.0)
    assert found.total.percent == pytest.approx(30.0)
    assert found.iteration_ms == pytest.approx(10.0)
    assert {name: level.ms for name, level in found.levels.items()} == pytest.approx({"0": 2.0, SUMS: 1.0})


def test_the_rank_with_most_decides_and_the_mean_is_told() -> None:
    found = exposure([*ONE, span("inner", 0, 9, rank=1), span("wait", 9, 10, level=1, rank=1)])
    assert found is not None
    assert (found.total.ms, found.total.mean_ms) == pytest.approx((3.0, 2.0))
    assert (found.levels["1"].ms, found.levels["1"].mean_ms) == pytest.approx((0.0, 0.5))
    assert (found.levels["0"].ms, found.levels["0"].mean_ms) == pytest.approx((2.0, 1.0))


def test_levels_add_up_to_the_total_and_the_total_is_its_percentage_of_the_time() -> None:
    """Three numbers of three iterations, or levels of two ranks, do not: 10 ms of 46 ms once were 16 %."""
    measured = {  # milliseconds of an iteration, and of the waits of rank 0 and rank 1 by level
        1: (10.0, {0: 6.0, 1: 1.0}, {0: 4.0}),
        2: (50.0, {0: 5.0, 1: 5.0}, {0: 30.0, 1: 15.0}),
        3: (20.0, {0: 1.0, 1: 8.0}, {0: 19.0}),
    }
    spans = []
    for iteration, (took, *waits) in measured.items():
        for rank, by_level in enumerate(waits):
            start = 0.0
            for level, ms in by_level.items():
                spans.append(span("wait", start, start + ms, level=level, rank=rank, iteration=iteration))
                start += ms
            spans.append(span("inner", start, took, rank=rank, iteration=iteration))
    found = exposure(spans)
    assert found is not None
    assert found.iterations == 3
    check_that_numbers_agree(found)
    share = exposed_text(found.to_dict())
    assert share == "exposed communication 90.0 % (45.000 ms of 50.000 ms)"


def test_work_on_another_lane_hides_communication() -> None:
    threads = [
        span("inner", 0, 4, lane="thread-0"),
        span("exchange", 1, 6, lane="thread-1"),
        span("wait", 5, 8, lane="thread-0", level=1),
        span("inner", 8, 9, lane="thread-0"),
    ]
    found = exposure(threads)
    assert found is not None
    # 4 to 6 is the exchange's, which began first; 6 to 8 the wait's.
    assert {name: level.ms for name, level in found.levels.items()} == pytest.approx({"0": 2.0, "1": 2.0})


def test_a_wait_for_what_has_come_is_none() -> None:
    found = exposure([span("inner", 0, 5), span("wait", 5, 5), span("inner", 6, 9, level=1), span("wait", 9, 10)])
    assert found is not None
    assert {name: level.ms for name, level in found.levels.items()} == pytest.approx({"0": 1.0})


def test_several_iterations_give_medians() -> None:
    waits = [span("inner", 0, 10, iteration=i) for i in (1, 2, 3)]
    waits += [span("wait", 10, 10 + i, iteration=i) for i in (1, 2, 3)]
    found = exposure(waits)
    assert found is not None
    assert (found.iterations, found.total.ms, found.iteration_ms) == pytest.approx((3, 2.0, 12.0))


def test_no_spans_no_exposure() -> None:
    assert exposure([]) is None


def test_spans_survive_files_and_messages(tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_text(to_jsonl(ONE))
    assert read_jsonl(tmp_path / "spans.jsonl") == ONE
    assert len(to_jsonl(ONE).splitlines()) == len(ONE)
    assert from_columns(json.loads(json.dumps(to_columns(ONE)))) == ONE


def test_a_trace_has_a_process_for_each_rank_and_a_thread_for_each_lane() -> None:
    spans = [*ONE, span("inner", 1, 2, rank=1)]
    trace = json.loads(json.dumps(to_trace(spans)))
    names = [(e["name"], e["pid"], e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M"]
    assert names == [
        ("process_name", 0, "rank 0"),
        ("process_name", 1, "rank 1"),
        ("thread_name", 0, "main"),
        ("thread_name", 0, "halo"),
        ("thread_name", 1, "main"),
    ]
    timed = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(timed) == len(spans)
    assert min(e["ts"] for e in timed) == 0
    wait = next(e for e in timed if e["cat"] == "wait")
    assert (wait["name"], wait["ts"], wait["dur"]) == ("wait L0", pytest.approx(5000.0), pytest.approx(2000.0))
