"""What goes with a solve that is watched: which iterations are measured, who is told, what is kept."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

from dsolver.errors import InputError
from dsolver.monitor.events import Feed
from dsolver.monitor.spans import Exposure, Span, exposure, to_jsonl

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

QUIET: Final = 0.5
"""Seconds of a solve before it is measured unasked. On a GPU that needs a second graph, which takes 4 ms to make."""
PAUSE: Final = 0.25
"""Seconds between two iterations that are measured unasked: supersteps are short where a callback is called."""
BREATH: Final = 0.05
"""Seconds between two states that are told, for the same reason."""
KEPT: Final = 50
"""Measured iterations whose spans are kept: the newest."""

Sink = str | os.PathLike[str] | Callable[[Sequence[Span]], Any]
"""Where the spans of each measured iteration go: a file of JSON lines, or a function that is called with them."""


def check_sink(sink: Any) -> None:
    """Refuse what spans cannot go to.

    Raises:
        InputError: it is neither a file in a folder that exists nor a function.
    """
    if sink is None or callable(sink):
        return
    if not isinstance(sink, str | os.PathLike):
        raise InputError(f"spans must be the name of a file, or a function of spans, not {sink!r}")
    path = Path(sink)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"spans cannot be written to {path}: name a file in a folder that exists")


@final
class Watch:
    """One solve, watched. Use it in a ``with`` statement, around what may fail and what follows the end.

    Args:
        client: the cluster that is told, or None.
        sink: where spans go; if it is None, a short solve is not measured.
    """

    def __init__(self, client: Client | None = None, sink: Sink | None = None) -> None:
        check_sink(sink)
        self.feed = Feed(client)
        self._client = client
        self._sink = sink
        self._written = False
        self._began = time.monotonic()
        self._supersteps = 0
        self._measured_at = self._told_at = -math.inf
        self._phase = ""
        self._attaching = False
        self._ended = False
        self._newest: tuple[int, float] = (0, float("nan"))
        self._kept: deque[tuple[Span, ...]] = deque(maxlen=KEPT)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Of the newest measured iterations, at most `KEPT`."""
        return tuple(span for spans in self._kept for span in spans)

    @property
    def exposure(self) -> Exposure | None:
        """Exposed communication of those iterations: medians."""
        return exposure(self.spans)

    @property
    def keen(self) -> bool:
        """Whether each superstep is to be measured."""
        return self._sink is not None

    @property
    def measures(self) -> bool:
        """Whether the last iteration of the next superstep is to be measured: not in the first, which compiles."""
        rested = time.monotonic() - self._measured_at > PAUSE
        return self._supersteps > 0 and (self._sink is not None or (self._lasts and rested))

    def advanced(self, iteration: int, residual: float, limit: float | None, most: int, phase: str = "CG") -> None:
        """A superstep has ended."""
        self._supersteps += 1
        self._newest = iteration, residual
        if self._lasts:
            self._attach()
        if phase != self._phase or time.monotonic() - self._told_at > BREATH:
            self._phase, self._told_at = phase, time.monotonic()
            self.feed.state(iteration, residual, limit, most, phase)

    def measured(self, spans: Sequence[Span], iteration: int) -> None:
        """An iteration was measured; without spans it was not."""
        if not spans:
            return
        self._measured_at = time.monotonic()
        stamped = tuple(replace(span, iteration=iteration) for span in spans)
        self._kept.append(stamped)
        self.feed.spans(stamped)
        if callable(self._sink):
            self._sink(stamped)
        elif self._sink is not None:
            self._write(Path(self._sink), to_jsonl(stamped))

    def _write(self, path: Path, text: str) -> None:
        """Add to the file. A full disk costs the spans, not the solve."""
        try:
            with path.open("a" if self._written else "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            logger.warning("no more spans are written to %s: %s", path, error)
            self._sink = None
        self._written = True

    def end(self, status: str, iteration: int, residual: float) -> None:
        """The solve has ended."""
        self._ended = True
        self.feed.end(status, iteration, residual)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and not self._ended:
            self.feed.end("failed", self._newest[0], None, f"{type(error).__name__}: {error}")
        self.feed.part()

    @property
    def _lasts(self) -> bool:
        return time.monotonic() - self._began > QUIET

    def _attach(self) -> None:
        """Bring the page and the rows of the task stream to the cluster, beside the solve; they catch up."""
        if self._client is None or self._attaching:
            return
        self._attaching = True
        threading.Thread(target=_attach, args=(self._client,), name="dsolver-watch", daemon=True).start()


def _attach(client: Client) -> None:
    from dsolver.monitor.attaching import attach
    from dsolver.monitor.dashboard import Dashboard
    from dsolver.monitor.taskstream import TaskStreamRows

    attach(client, TaskStreamRows)
    attach(client, Dashboard)
