"""The spans of resident ranks as rows of Dask's own task stream, beside the tasks.

The rows are called "gpu0-inner" (what the rank's main lane works on) and "gpu0-halo" (what is under way meanwhile, and
what the main lane waits for), with cpu in the place of gpu where there is none. They are on the dashboard's task
stream, in `distributed.get_task_stream` and in `distributed.performance_report`. The graph engine's tasks are anyway.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, final

from distributed.diagnostics.plugin import SchedulerPlugin

from dsolver.monitor.events import TOPIC
from dsolver.monitor.spans import WORK, Span, from_columns

if TYPE_CHECKING:
    from distributed import Scheduler

NAME: Final = "dsolver-task-stream"
STARTS: Final = 100
"""Most solves whose beginning is remembered."""


@final
class TaskStreamRows(SchedulerPlugin):
    """The plugin that adds spans to the scheduler's task stream, if that is shown. Made by a client."""

    name = NAME
    idempotent = True  # each client brings one; the first stays

    def __init__(self) -> None:
        self._starts: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def start(self, scheduler: Scheduler) -> None:
        """Take note of the solves that have begun, and of what the newest has measured."""
        self._scheduler: Any = scheduler
        told = [message for _, message in self._scheduler.get_events(TOPIC) if isinstance(message, dict)]
        newest = [message["solve"] for message in told if message.get("event") == "start"][-1:]
        for message in told:
            if message.get("event") == "start" or (message.get("event") == "spans" and message["solve"] in newest):
                self.log_event(TOPIC, message)

    def log_event(self, topic: str, msg: Any) -> None:
        """Add the spans of a message, if it has any."""
        if topic != TOPIC or not isinstance(msg, dict):
            return
        if msg.get("event") == "start":
            self._starts[msg["solve"]] = msg
            while len(self._starts) > STARTS:
                self._starts.popitem(last=False)
        elif msg.get("event") == "spans" and msg["solve"] in self._starts:
            self._show(self._starts[msg["solve"]], from_columns(msg["spans"]))

    def _show(self, start: dict[str, Any], spans: list[Span]) -> None:
        stream = self._scheduler.plugins.get("task-stream")
        if stream is None or start["engine"] != "resident":
            return
        for span in sorted(spans, key=lambda span: span.stop):
            stream.buffer.append(record(span, start))
            stream.index += 1


def record(span: Span, start: dict[str, Any]) -> dict[str, Any]:
    """A span in the form in which the task stream keeps tasks.

    Names are what Dask makes of a key up to the first word that is not of letters alone. Of its five actions two fit:
    "compute" has a color by name, "transfer" is red.
    """
    works = span.kind in WORK
    words = [span.name.replace("_", "-")] if works else [span.kind, *([] if span.name == span.kind else [span.name])]
    level = "" if span.level is None else f"L{span.level}-"
    workers = start["workers"]
    device = "gpu" if start["device"] == "cuda" else "cpu"
    return {
        "key": f"{'-'.join(words)}-{level}{span.iteration}-{0 if span.chunk is None else span.chunk}-{start['solve']}",
        "status": "OK",
        "worker": workers[span.rank] if span.rank < len(workers) else "this-process",
        "thread": f"{device}{span.rank}-{'inner' if works and not span.beside else 'halo'}",
        "startstops": [{"action": "compute" if works else "transfer", "start": span.start, "stop": span.stop}],
        "nbytes": span.bytes or 0,
        "type": b"",
        "typename": "dsolver.monitor.spans.Span",
        "metadata": {},
    }
