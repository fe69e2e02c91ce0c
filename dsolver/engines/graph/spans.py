"""Spans from Dask's own record of tasks. Knows nothing of Dask but the shape of that record."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dsolver.monitor.spans import HALO, Kind, Span

_KINDS: Final[Mapping[str, Kind]] = {
    "boundary": "boundary",
    "coarsest": "coarse",
    "halo-pack": "pack",
    "halo-exchanges": "exchange",
    "dot-reduce": "reduce",
}
"""Kinds by the beginning of a task's name; all others are inner work."""


def spans_of(records: Iterable[Mapping[str, Any]], name: str, serials: range, owners: Sequence[str]) -> list[Span]:
    """The spans of the tasks of one engine.

    A task is a span on the lane of its worker thread; what was sent to it is an exchange on the halo lane. A time in
    which no task ran on a worker, between its first and its last, is a wait: for values, or for
    Dask's next message. It bears the level of the task that ended it.

    `name`: the end of the first part of the engine's keys. `serials`: the second part of the keys that are wanted.
    """
    ranks = {worker: rank for rank, worker in enumerate(dict.fromkeys(owners))}
    threads: dict[str, dict[Any, str]] = defaultdict(dict)
    found: dict[int, list[Span]] = defaultdict(list)
    for record in records:
        key, worker = record["key"], record["worker"]
        if not _wanted(key, name, serials) or worker not in ranks:
            continue
        lanes = threads[worker]
        lane = lanes.setdefault(record["thread"], f"thread-{len(lanes)}")
        found[ranks[worker]] += _of_task(record, key, name, ranks[worker], lane)
    in_turn = {rank: _in_turn(spans) for rank, spans in sorted(found.items())}
    return [span for rank, spans in in_turn.items() for span in (*spans, *_waits(spans, rank))]


def _wanted(key: Any, name: str, serials: range) -> bool:
    return isinstance(key, tuple) and len(key) == 3 and str(key[0]).endswith(f"-{name}") and key[1] in serials


def _of_task(record: Mapping[str, Any], key: tuple[str, int, int], name: str, rank: int, lane: str) -> list[Span]:
    label, level = _parsed(key[0].removesuffix(f"-{name}"))
    spans = []
    for interval in record["startstops"]:
        transfer = interval["action"] == "transfer"
        if not transfer and interval["action"] != "compute":
            continue
        spans.append(
            Span(
                kind="exchange" if transfer else _kind(label),
                name=f"to-{label}" if transfer else label,
                level=level,
                chunk=key[2],
                rank=rank,
                lane=HALO if transfer else lane,
                start=interval["start"],
                stop=interval["stop"],
                bytes=interval.get("nbytes") if transfer else None,
            )
        )
    return spans


def _in_turn(spans: Sequence[Span]) -> list[Span]:
    """The spans with no overlap on a thread's lane, by start.

    Workers report times on the scheduler's clock, and correct their offset from it with each heartbeat: a task may seem
    to begin before the one that its thread ran before has ended, and anything to end before it began.
    """
    turns = []
    free: dict[str, float] = {}
    for span in sorted(spans, key=lambda span: span.start):
        start = span.start if span.beside else max(span.start, free.get(span.lane, span.start))
        span = replace(span, start=start, stop=max(span.stop, start))
        free[span.lane] = span.stop
        turns.append(span)
    return turns


def _parsed(group: str) -> tuple[str, int | None]:
    """The label and the level of "inner-spmv-L0"."""
    label, _, last = group.rpartition("-L")
    return (label, int(last)) if label and last.isdigit() else (group, None)


def _kind(label: str) -> Kind:
    return next((kind for begin, kind in _KINDS.items() if label.startswith(begin)), "inner")


def _waits(spans: Sequence[Span], rank: int) -> list[Span]:
    waits = []
    until: float | None = None
    for span in sorted((span for span in spans if not span.beside), key=lambda span: span.start):
        if until is not None and span.start > until:
            waits.append(
                Span(
                    kind="wait",
                    name=f"for-{span.name}",
                    level=span.level,
                    chunk=span.chunk,
                    rank=rank,
                    lane=span.lane,
                    start=until,
                    stop=span.start,
                )
            )
        until = max(span.stop, until or span.stop)
    return waits
