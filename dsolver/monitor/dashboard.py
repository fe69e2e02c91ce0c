"""The page /dsolver on a cluster's dashboard."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from distributed.diagnostics.plugin import SchedulerPlugin

from dsolver.engines.gauge import GPU_MEMORY
from dsolver.monitor.board import Board, Memory
from dsolver.monitor.events import TOPIC

if TYPE_CHECKING:
    from distributed import Scheduler

logger = logging.getLogger(__name__)

NAME: Final = "dsolver-dashboard"
PATH: Final = "/dsolver"


@final
class Dashboard(SchedulerPlugin):
    """Listens to the solves of a cluster, and shows them. Made by a client, started on the scheduler.

    A scheduler without a dashboard goes without the page.
    """

    name = NAME
    idempotent = True  # each client brings one; the first stays

    def __init__(self) -> None:
        self.board = Board()

    async def start(self, scheduler: Scheduler) -> None:
        """Add the page, its JSON and its entry in the menu, if the scheduler has a dashboard."""
        self._scheduler: Any = scheduler
        for topic, message in _past(scheduler):
            self.log_event(topic, message)
        prefix = _prefix(self._scheduler)
        if prefix is not None:
            _serve(self._scheduler, prefix, self.board, self._memory)

    def log_event(self, topic: str, msg: Any) -> None:
        """A message on the cluster."""
        if topic == TOPIC and isinstance(msg, dict):
            try:
                self.board.take(msg)
            except (KeyError, TypeError):  # of another version of this package, or of somebody else
                logger.debug("a message that is none of ours: %r", msg)

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:  # noqa: ARG002  # distributed's
        """A worker has left."""
        self.board.lose(worker)

    def _memory(self) -> dict[str, list[Memory]]:
        return {address: memory_of(worker) for address, worker in self._scheduler.workers.items()}


def memory_of(worker: Any) -> list[Memory]:
    """The memory of a worker's process, and of its GPU if it tells of one, as the scheduler knows it."""
    found = [Memory("host", int(worker.metrics.get("memory", 0)), int(worker.memory_limit or 0))]
    if gpu := worker.metrics.get(GPU_MEMORY):
        found.append(Memory("GPU", *gpu))
    return found


def _past(scheduler: Any) -> list[tuple[str, Any]]:
    """What was logged before anyone listened."""
    return [(TOPIC, message) for _, message in scheduler.get_events(TOPIC)]


def _prefix(scheduler: Any) -> str | None:
    """The path below which the scheduler's dashboard lies; None if it has none."""
    for application in getattr(getattr(scheduler, "http_application", None), "applications", ()):
        if hasattr(application, "prefix"):
            return str(application.prefix).rstrip("/")
    return None


def _serve(scheduler: Any, prefix: str, board: Board, memory: Callable[[], Any]) -> None:
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop
    from tornado.web import RequestHandler

    from dsolver.monitor.page import document

    class Data(RequestHandler):
        """What the page shows, as JSON."""

        def get(self) -> None:
            self.set_header("Content-Type", "application/json")
            shown = board.to_dict()
            used = memory()
            for key, solve in board.solves.items():
                shown[key]["memory"] = {
                    worker: used[worker] for worker in solve.start.get("workers", ()) if worker in used
                }
            self.write(json.dumps(shown))

    def show(_: Any, extra: dict[str, Any], doc: Any) -> None:
        document(board, memory, doc)
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
