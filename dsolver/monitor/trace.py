"""A trace of spans, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

A rank is a process, and each of its lanes a thread. The format: "Trace Event Format", complete events ("ph": "X") with
times in microseconds.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dsolver.monitor.spans import MAIN, Span


def to_trace(spans: Iterable[Span]) -> dict[str, Any]:
    """The trace of spans, as plain dicts and lists; its time begins with the first of them."""
    spans = sorted(spans, key=lambda span: span.start)
    begin = spans[0].start if spans else 0.0
    lanes = sorted({(span.rank, span.lane) for span in spans}, key=lambda lane: (lane[0], lane[1] != MAIN, lane[1]))
    threads = {lane: number for number, lane in enumerate(lanes)}
    events = [_named("process_name", rank, 0, f"rank {rank}") for rank in dict.fromkeys(r for r, _ in lanes)]
    events += [_named("thread_name", rank, thread, lane) for (rank, lane), thread in threads.items()]
    events += [_event(span, threads[span.rank, span.lane], begin) for span in spans]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_trace(spans: Iterable[Span], path: Path) -> None:
    """Write `to_trace` as a JSON file."""
    path.write_text(json.dumps(to_trace(spans)), encoding="utf-8")


def _event(span: Span, thread: int, begin: float) -> dict[str, Any]:
    level = "" if span.level is None else f" L{span.level}"
    about = {"level": span.level, "chunk": span.chunk, "bytes": span.bytes, "iteration": span.iteration}
    return {
        "name": span.name + level,
        "cat": span.kind,
        "ph": "X",
        "ts": 1e6 * (span.start - begin),
        "dur": 1e6 * span.seconds,
        "pid": span.rank,
        "tid": thread,
        "args": {name: value for name, value in about.items() if value is not None},
    }


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
