from __future__ import annotations

import json
from typing import Any

import pytest

from dsolver.monitor.history import POINTS, SOLVES, SolveHistory, WorkerMemory
from dsolver.monitor.pages.lanes import COLORS, rectangles
from dsolver.monitor.pages.page import Page, facts
from dsolver.monitor.spans import Span, exposure, to_columns


def told(solve: str, event: str, **content: Any) -> dict[str, Any]:
    return {"solve": solve, "event": event, "time": 0.0, **content}


def start(solve: str = "a", **content: Any) -> dict[str, Any]:
    about = {"what": "solve", "grid": [8, 8, 8], "problem": "7-point", "workers": ["tcp://w:1", "tcp://w:2"]}
    return told(solve, "start", **about, **content)


def state(solve: str, iteration: int, residual: float | None = 1.0, **content: Any) -> dict[str, Any]:
    return told(solve, "state", iteration=iteration, residual=residual, limit=1e-8, rate=None, phase="CG", **content)


def end(solve: str, **content: Any) -> dict[str, Any]:
    about = {"iteration": 9, "residual": 1e-9, "status": "converged", "seconds": 1.5, "error": None}
    return told(solve, "end", **(about | content))


def measured(solve: str = "a") -> dict[str, Any]:
    spans = [
        Span(kind="inner", name="spmv", level=0, chunk=0, start=10.0, stop=10.002, iteration=3),
        Span(kind="exchange", name="exchange", level=0, chunk=0, lane="halo", start=10.0, stop=10.001, iteration=3),
        Span(kind="wait", name="wait", level=0, rank=1, start=10.0, stop=10.001, iteration=3),
        Span(kind="reduce", name="total", rank=1, start=10.001, stop=10.002, iteration=3),
    ]
    found = exposure(spans)
    assert found is not None
    return told(solve, "spans", iteration=3, spans=to_columns(spans), exposure=found.to_dict())


def history_of(*messages: dict[str, Any]) -> SolveHistory:
    history = SolveHistory()
    for message in messages:
        history.add(message)
    return history


def test_a_curve_grows_and_begins_anew_with_a_phase() -> None:
    history = history_of(start(), state("a", 0, 8.0), state("a", 2, 4.0), state("a", 2, 3.0))
    assert (history.solves["a"].iterations, history.solves["a"].residuals) == ([0, 2], [8.0, 3.0])
    history.add(state("a", 1, 7.0))
    assert history.solves["a"].iterations == [1]
    history.add(state("a", 3, None))
    assert history.solves["a"].iterations == [1]


def test_long_curves_are_thinned() -> None:
    history = history_of(start(), *(state("a", i) for i in range(POINTS + 10)))
    iterations = history.solves["a"].iterations
    assert POINTS // 2 <= len(iterations) <= POINTS
    assert (iterations[0], iterations[-1]) == (0, POINTS + 9)


def test_several_solves_are_told_apart_and_the_oldest_forgotten() -> None:
    history = history_of(start("a"), start("b"), state("a", 1, 0.5), end("b"))
    assert history.solves["b"].iterations == [9]
    chosen = history.select(None)
    assert chosen is not None
    assert chosen.id == "a"  # the one that runs
    chosen = history.select("b")
    assert chosen is not None
    assert "converged" in chosen.title
    for number in range(SOLVES):
        history.add(start(f"c{number}"))
    assert list(history.solves) == [f"c{number}" for number in range(SOLVES)]


def test_a_solve_that_began_before_anyone_listened() -> None:
    history = history_of(state("late", 5, 0.1))
    assert "iteration 5" in facts(history.solves["late"])
    assert history.solves["late"].running


def test_a_lost_worker_is_told() -> None:
    history = history_of(start("a"), start("b"), end("b"))
    history.worker_left("tcp://w:2")
    assert "worker tcp://w:2 has left" in facts(history.solves["a"])
    assert "has left" not in facts(history.solves["b"])


def test_a_board_is_json() -> None:
    history = history_of(start(), state("a", 1), measured(), end("a"))
    assert json.loads(json.dumps(history.to_dict()))["a"]["end"]["status"] == "converged"


def test_facts_in_words() -> None:
    assert "exposed communication 100.0 % (2.000 ms of 2.000 ms)" in facts(history_of(start(), measured()).solves["a"])
    fast = start(copy_bandwidth=4e12, iteration_bytes=2e9)
    text = facts(history_of(fast, state("a", 4, 1e-3) | {"rate": 1000.0}).solves["a"])
    assert "1000.0 iterations/s (CG)" in text
    assert "2000 GB/s, 50 % of the copy bandwidth" in text
    failed = facts(history_of(start(), end("a", status="failed", error="<worker> lost")).solves["a"])
    assert "<b>failed</b>" in failed
    assert "&lt;worker&gt; lost" in failed


def test_a_lane_for_each_rank_and_stream_inner_above_halo() -> None:
    drawn = rectangles(history_of(measured()).solves["a"])
    assert drawn["lane"] == ["rank 0 main", "rank 0 halo", "rank 1 main", "rank 1 main"]
    assert drawn["left"] == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=1e-3)
    assert drawn["color"] == [COLORS[kind] for kind in ("inner", "exchange", "wait", "reduce")]
    assert drawn["what"] == ["spmv, level 0, chunk 0", "exchange, level 0, chunk 0", "wait, level 0", "total"]


def test_a_page_follows_the_board() -> None:
    history = SolveHistory()
    page = Page(history)
    page.update({})
    assert "No solve" in page.facts.text
    for message in (start(), state("a", 1, 0.5), measured()):
        history.add(message)
    page.update({"tcp://w:1": [WorkerMemory("host", 2**30, 0), WorkerMemory("GPU", 2**31, 2**32)]})
    assert page.curve.data["residual"] == [0.5]
    assert page.limit.data["residual"] == [1e-8, 1e-8]
    assert len(page.lanes.data["lane"]) == 4
    assert page.levels.data["level"] == ["level 0", "sums"]
    assert page.memory.data == {"worker": ["w:1 host", "w:1 GPU"], "gib": [1.0, 2.0]}
    history.add(start("b"))
    page.update({})
    assert page.curve.data["residual"] == []  # the newest that runs
    page.choice.value = "a"
    page.update({})
    assert page.curve.data["residual"] == [0.5]
