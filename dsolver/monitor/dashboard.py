"""The page /dsolver on a cluster's dashboard, and rows of resident ranks in Dask's own task stream, by one plugin.

The rows are called "gpu0-inner" (what the rank's main lane works on) and "gpu0-halo" (what is under way meanwhile, and
what the main lane waits for), with cpu in the place of gpu where there is none. They are on the dashboard's task
stream, in `distributed.get_task_stream` and in `distributed.performance_report`. The graph engine's tasks are anyway.
"""

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from distributed.diagnostics.plugin import SchedulerPlugin

from dsolver.dask_types import Client, Scheduler
from dsolver.monitor.events import TOPIC
from dsolver.monitor.gpu_memory import GPU_MEMORY
from dsolver.monitor.history import SolveHistory, WorkerMemory
from dsolver.monitor.spans import WORK, Span, from_columns

logger = logging.getLogger(__name__)

NAME: Final = "dsolver-dashboard"
PATH: Final = "/dsolver"


def attach(client: Client) -> bool:
    """Register the plugin with the client's scheduler, if it has none yet. Returns whether it has one then.

    A scheduler without this package goes without: a solve does not depend on it.
    """
    try:
        client.register_plugin(Dashboard(), name=NAME)
    except Exception as error:  # whatever the scheduler makes of a class that it cannot import
        logger.info("the cluster goes without %s: %r", NAME, error)
        return False
    return True


class Dashboard(SchedulerPlugin):
    """The plugin that follows the solves of a cluster and shows them. Made by a client, started on the scheduler.

    A scheduler without a dashboard goes without the page.
    """

    name = NAME
    idempotent = True  # each client brings one; the first stays

    def __init__(self) -> None:
        self.history = SolveHistory()

    async def start(self, scheduler: Scheduler) -> None:
        """Add the page, its JSON and its entry in the menu, if the scheduler has a dashboard."""
        self._scheduler: Any = scheduler
        logged = [message for _, message in self._scheduler.get_events(TOPIC)]  # before the plugin was there
        newest = [message["solve"] for message in logged if _is(message, "start")][-1:]
        for message in logged:
            self._follow(message, shown=_is(message, "spans") and message["solve"] in newest)
        prefix = _prefix(self._scheduler)
        if prefix is not None:
            _serve(self._scheduler, prefix, self.history, self._memory)

    def log_event(self, topic: str, msg: Any) -> None:
        """Add a message to the history, and its spans to the task stream, if it is of a solve."""
        if topic == TOPIC:
            self._follow(msg, shown=_is(msg, "spans"))

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:  # noqa: ARG002  # distributed's
        """Note that a worker has left."""
        self.history.worker_left(worker)

    def _follow(self, message: Any, *, shown: bool) -> None:
        """Add a message to the history; shown: whether its spans go to the task stream, too."""
        try:
            self.history.add(message)
            if shown:
                self._stream(self.history.solves[message["solve"]].start, message["spans"])
        except (KeyError, TypeError):  # of another version of this package, or of another program
            logger.debug("a message that is none of ours: %r", message)

    def _stream(self, start: dict[str, Any], spans: dict[str, list[Any]]) -> None:
        """Add spans, in columns, to the task stream, if that is shown."""
        stream = self._scheduler.plugins.get("task-stream")
        if stream is not None and start.get("engine") == "resident":
            for span in sorted(from_columns(spans), key=lambda span: span.stop):
                stream.buffer.append(record(span, start))
                stream.index += 1

    def _memory(self) -> dict[str, list[WorkerMemory]]:
        return {address: memory_of(worker) for address, worker in self._scheduler.workers.items()}


def record(span: Span, start: dict[str, Any]) -> dict[str, Any]:
    """A span in the form in which the task stream keeps tasks, with what it reads of it.

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
    }


def _is(message: Any, event: str) -> bool:
    """Whether it is a message of this kind of event."""
    return isinstance(message, dict) and "solve" in message and message.get("event") == event


def memory_of(worker: Any) -> list[WorkerMemory]:
    """The memory of a worker's process, and of its GPU if it reports one, as the scheduler knows it."""
    found = [WorkerMemory("host", int(worker.metrics.get("memory", 0)), int(worker.memory_limit or 0))]
    if gpu := worker.metrics.get(GPU_MEMORY):
        found.append(WorkerMemory("GPU", *gpu))
    return found


def _prefix(scheduler: Any) -> str | None:
    """The path below which the scheduler's dashboard lies; None if it has none."""
    for application in getattr(getattr(scheduler, "http_application", None), "applications", ()):
        if hasattr(application, "prefix"):
            return str(application.prefix).rstrip("/")
    return None


def _serve(scheduler: Any, prefix: str, history: SolveHistory, memory: Callable[[], Any]) -> None:
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop
    from tornado.web import RequestHandler

    from dsolver.monitor.pages.page import document

    class Data(RequestHandler):
        """Handler of the page's data, as JSON."""

        def get(self) -> None:
            self.set_header("Content-Type", "application/json")
            shown = history.to_dict()
            used = memory()
            for key, solve in history.solves.items():
                shown[key]["memory"] = {w: used[w] for w in solve.start.get("workers", ()) if w in used}
            self.write(json.dumps(shown))

    def show(_: Any, extra: dict[str, Any], doc: Any) -> None:
        document(history, memory, doc)
        doc.template = env.get_template("simple.html")
        doc.template_variables.update(extra)
        doc.theme = BOKEH_THEME

    variables = template_variables(scheduler)
    page = PATH.strip("/")
    if page not in variables["pages"]:  # the list is the one that every page of the dashboard shows
        variables["pages"].append(page)
    made = BokehApplication({PATH: show}, scheduler, prefix=prefix, template_variables=variables)
    scheduler.http_application.add_application(made)
    made.initialize(IOLoop.current())
    made.add_handlers(r".*", [(rf"{prefix}{PATH}\.json", Data)])
    made.start()
