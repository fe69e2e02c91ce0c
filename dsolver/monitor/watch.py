"""Watching of a solve: which iterations are measured, which events are published, which spans are kept."""

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakSet

from dsolver.dask_types import Client
from dsolver.errors import InputError, check_path, in_a_line
from dsolver.monitor.events import SolveEvents
from dsolver.monitor.spans import Exposure, Span, exposure, to_jsonl, typical

logger = logging.getLogger(__name__)

_OPENED: WeakSet[Any] = WeakSet()  # clients that bring the plugin, or have: a thread takes 1 ms to start
MEASURE_AFTER: Final = 0.5
"""Seconds of a solve before it is measured by itself. On a GPU that needs a second graph, which takes 4 ms to make."""
MEASURE_EVERY: Final = 0.25
"""Seconds between two iterations that are measured so: supersteps are short where a callback is called."""
PUBLISH_EVERY: Final = 0.05  # seconds between two states that are published, for the same reason
KEPT: Final = 50  # most measured iterations whose spans are kept; the newest are

Sink = str | os.PathLike[str] | Callable[[Sequence[Span]], Any]
"""Destination of the spans of each measured iteration: a file of JSON lines, or a function that is called with them."""


def check_sink(sink: Any) -> None:
    """Refuse a sink that is neither a file in a folder that exists nor a function; raises InputError."""
    if sink is None or callable(sink):
        return
    if not isinstance(sink, str | os.PathLike):
        raise InputError(f"spans must be the name of a file, or a function of spans, not {in_a_line(sink)}")
    path = Path(sink)
    check_path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"spans cannot be written to {path}: name a file in a folder that exists")


class Watch:
    """Watch over one solve, in a ``with`` statement; sink: of spans; None: short solves are not measured."""

    def __init__(
        self, client: Client | None = None, sink: Sink | None = None, events: SolveEvents | None = None
    ) -> None:
        check_sink(sink)
        self.events = events or SolveEvents(client)
        self._sink = sink
        self._written = False
        self._began = time.monotonic()
        self._supersteps = 0
        self._measured_at = self._published_at = -math.inf
        self._phase = ""
        self._ended = False
        self._newest: tuple[int, float] = (0, float("nan"))
        self._kept: deque[tuple[Span, ...]] = deque(maxlen=KEPT)
        self._exposures: deque[Exposure] = deque(maxlen=KEPT)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Spans of the newest measured iterations, at most `KEPT`."""
        return tuple(span for spans in self._kept for span in spans)

    @property
    def exposure(self) -> Exposure | None:
        """Exposed communication of those iterations."""
        return typical(self._exposures)

    @property
    def asked(self) -> bool:
        """Whether each superstep is to be measured, since the user gets the spans."""
        return self._sink is not None

    @property
    def measures(self) -> bool:
        """Whether the last iteration of the next superstep is to be measured: not in the first, which compiles."""
        now = time.monotonic()
        due = now - self._began > MEASURE_AFTER and now - self._measured_at > MEASURE_EVERY
        return self._supersteps > 0 and (self._sink is not None or due)

    def advance(self, iteration: int, residual: float, limit: float | None, most: int, phase: str = "CG") -> None:
        """Take note of a superstep and publish the state, not too often."""
        self._supersteps += 1
        self._newest = iteration, residual
        if phase != self._phase or time.monotonic() - self._published_at > PUBLISH_EVERY:
            self._phase, self._published_at = phase, time.monotonic()
            self.events.state(iteration, residual, limit, most, phase)

    def record(self, spans: Sequence[Span], iteration: int) -> None:
        """Record the spans of a measured iteration, if there are any."""
        if not spans:
            return
        self._measured_at = time.monotonic()
        stamped = tuple(replace(span, iteration=iteration) for span in spans)
        self._kept.append(stamped)
        found = exposure(stamped)
        assert found is not None
        self._exposures.append(found)
        self.events.spans(stamped, self.exposure)
        if callable(self._sink):
            self._sink(stamped)
        elif self._sink is not None:
            self._write(Path(self._sink), to_jsonl(stamped))

    def show(self, spans: Sequence[Span], iteration: int) -> None:
        """Publish the spans of a measured iteration for those who watch, without keeping them."""
        if spans:
            self.events.spans(tuple(replace(span, iteration=iteration) for span in spans))

    def _write(self, path: Path, text: str) -> None:
        """Add to the file of spans. A full disk costs the spans, not the solve."""
        try:
            with path.open("a" if self._written else "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            logger.warning("no more spans are written to %s: %s", path, error)
            self._sink = None
        self._written = True

    def end(self, status: str, iteration: int, residual: float) -> None:
        """Publish the end of the solve."""
        self._ended = True
        self.events.end(status, iteration, residual)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and not self._ended:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self.events.end(status, self._newest[0], None, f"{type(error).__name__}: {error}")
            self.events.flush()


def open_page(client: Client | None) -> None:
    """Bring the plugin of the dashboard to the cluster of a client, beside the set-up that begins; None for none."""
    if client is not None and client not in _OPENED:
        _OPENED.add(client)
        threading.Thread(target=_attach, args=(client,), name="dsolver-watch", daemon=True).start()


def _attach(client: Client) -> None:
    from dsolver.monitor.dashboard import attach

    if not attach(client):
        _OPENED.discard(client)  # the next set-up tries again
