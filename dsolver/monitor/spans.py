"""Spans: what ran when in a measured iteration, and how much communication it leaves exposed.

A span is one operation on one chunk, or a wait. Every engine measures a sample of its iterations (one a superstep, not
each) and gives the same kind of spans; see `Span`. As a file they are JSON lines, one span a line with the fields of
`Span` as keys, or a trace, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, get_args

Kind = Literal["inner", "boundary", "coarse", "pack", "exchange", "reduce", "wait"]
"""inner: work that reads no halo. boundary: rows that read the halo. coarse: the solve on the coarsest level.
pack: collecting what neighbors read. exchange: halo values under way. reduce: sums over chunks and ranks.
wait: a lane with nothing to do until something has arrived."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
WORK: Final = frozenset({"inner", "boundary", "coarse"})
"""Kinds that compute rows; the others move numbers or wait for them."""

MAIN: Final = "main"
HALO: Final = "halo"
"""The lane of what runs beside the main lane: on a GPU the stream of the exchanges. All other lanes are main lanes."""

SUMS: Final = "sums"
"""The key, in the place of a level, of reductions, which belong to none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A measured interval.

    Attributes:
        kind: what it was spent on.
        level: the multigrid level, 0 the finest; None for what belongs to none.
        chunk: the chunk's number; None for what a rank does for all its chunks.
        rank: who ran it: the rank's number, in the graph engine the place of the worker among the chunks' owners.
        lane: "main", "halo", or a worker thread of the graph engine. Only on the halo lane may spans overlap.
        start, stop: seconds since 1970 on a clock that the ranks of one machine share.
        bytes: what an exchange brings from other ranks; None where not known.
        iteration: of the solve, from 1.
    """

    kind: Kind
    name: str
    level: int | None = None
    chunk: int | None = None
    rank: int = 0
    lane: str = MAIN
    start: float
    stop: float
    bytes: int | None = None
    iteration: int = 0

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.stop - self.start

    @property
    def beside(self) -> bool:
        """Whether it ran beside the main lane, and so delayed nothing by itself."""
        return self.lane == HALO


# -- files and messages -----------------------------------------------------------------------------------------------


def to_jsonl(spans: Iterable[Span]) -> str:
    """Spans as JSON lines: one object a line."""
    return "".join(json.dumps(asdict(span)) + "\n" for span in spans)


def write_jsonl(spans: Iterable[Span], path: Path) -> None:
    """Write spans to a file of JSON lines."""
    path.write_text(to_jsonl(spans), encoding="utf-8")


def read_jsonl(path: Path) -> list[Span]:
    """The spans of a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        return [Span(**json.loads(line)) for line in file if line.strip()]


def to_columns(spans: Sequence[Span]) -> dict[str, list[Any]]:
    """Spans as columns, a list for each field: short as a message, and the form that plots need."""
    return {field.name: [getattr(span, field.name) for span in spans] for field in fields(Span)}


def from_columns(columns: dict[str, list[Any]]) -> list[Span]:
    """The spans of columns; the inverse of `to_columns`."""
    return [Span(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


# -- exposed communication --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposed:
    """Time in which ranks packed, exchanged, summed or waited and did no work on rows; see `exposure`.

    Attributes:
        ms: milliseconds of the iteration, on the rank whose total is largest.
        percent: 100 ms / (milliseconds of the iteration).
    """

    ms: float
    mean_ms: float
    percent: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposure:
    """The exposed communication of one iteration, which may stand for several.

    Attributes:
        total: of everything.
        levels: by level, "0" the finest, and `SUMS`: the parts of the total, so they add up to it.
        iteration_ms: how long the iteration took, on the slowest rank. Measuring makes it a little longer.
        iterations: how many it stands for; see `typical`.
    """

    total: Exposed
    levels: dict[str, Exposed]
    iteration_ms: float
    iterations: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and dicts."""
        return {
            "exposed_ms": self.total.ms,
            "exposed_percent": self.total.percent,
            "exposed_mean_ms": self.total.mean_ms,
            "iteration_ms": self.iteration_ms,
            "iterations": self.iterations,
            "levels": {name: asdict(level) for name, level in self.levels.items()},
        }


def exposure(spans: Iterable[Span]) -> Exposure | None:
    """The exposed communication of spans of one or several iterations; None if there are none.

    Exposed is the time in which a main lane of a rank packed, exchanged, summed or waited, and no main lane of that
    rank worked on rows. What two such spans share counts for the one that began first. The rank with most of it stands
    for the iteration, with its levels, and an iteration in the middle for several (`typical`): so parts add up to the
    total, and the total is its percentage of the iteration's time.
    """
    by_iteration: dict[int, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        by_iteration[span.iteration][span.rank].append(span)
    each = [_of_iteration(list(ranks.values())) for ranks in by_iteration.values()]
    return typical(each)


def exposed_text(exposure: Mapping[str, Any]) -> str:
    """A line for people, from `Exposure.to_dict`."""
    share, ms, took = (exposure[name] for name in ("exposed_percent", "exposed_ms", "iteration_ms"))
    return f"exposed communication {share:.1f} % ({ms:.3f} ms of {took:.3f} ms)"


def typical(each: Iterable[Exposure]) -> Exposure | None:
    """The exposure of the iteration with the median percentage (the lower of two); None if there are none."""
    found = sorted(each, key=lambda one: one.total.percent)
    return replace(found[(len(found) - 1) // 2], iterations=len(found)) if found else None


def _of_iteration(ranks: list[list[Span]]) -> Exposure:
    took = 1e3 * max(max(s.stop for s in spans) - min(s.start for s in spans) for spans in ranks)
    found = [_of_rank(spans) for spans in ranks]
    totals = [sum(rank.values()) for rank in found]
    most = found[totals.index(max(totals))]
    names = sorted({name for rank in found for name in rank})

    def part(ms: float, each: list[float]) -> Exposed:
        return Exposed(ms=ms, mean_ms=fmean(each), percent=100.0 * ms / took if took else 0.0)

    return Exposure(
        total=part(max(totals), totals),
        levels={name: part(most.get(name, 0.0), [rank.get(name, 0.0) for rank in found]) for name in names},
        iteration_ms=took,
    )


def _of_rank(spans: list[Span]) -> dict[str, float]:
    """Exposed milliseconds of one rank by level."""
    exposed: dict[str, float] = defaultdict(float)
    for seconds, active in _intervals([span for span in spans if not span.beside]):
        if active and not any(span.kind in WORK for span in active):
            first = min(active, key=lambda span: span.start)
            exposed[SUMS if first.level is None else str(first.level)] += 1e3 * seconds
    return exposed


def _intervals(spans: list[Span]) -> Iterator[tuple[float, list[Span]]]:
    """The lengths of the intervals between beginnings and ends, with the spans that are active in each."""
    spans = [span for span in spans if span.stop > span.start]  # a wait for what has come is over as it begins
    edges = sorted(
        [(span.start, True, i) for i, span in enumerate(spans)]
        + [(span.stop, False, i) for i, span in enumerate(spans)]
    )
    active: set[int] = set()
    last = edges[0][0] if edges else 0.0
    for time, begins, i in edges:
        if time > last:
            yield time - last, [spans[k] for k in active]
            last = time
        if begins:
            active.add(i)
        else:
            active.discard(i)


def to_trace(spans: Iterable[Span]) -> dict[str, Any]:
    """The trace of spans, as plain dicts and lists; its time begins with the first of them.

    A rank is a process, and each of its lanes a thread. The format: "Trace Event Format", complete events ("ph": "X")
    with times in microseconds.
    """
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
