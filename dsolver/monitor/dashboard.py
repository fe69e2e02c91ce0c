"""Brings the page /dsolver to a cluster's dashboard, on schedulers that this project did not start, too."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakSet

from distributed.diagnostics.plugin import SchedulerPlugin

from dsolver.monitor.board import Board
from dsolver.monitor.events import TOPIC

if TYPE_CHECKING:
    from distributed import Client, Scheduler

logger = logging.getLogger(__name__)

NAME: Final = "dsolver-dashboard"
PATH: Final = "/dsolver"

_ATTACHED: WeakSet[Any] = WeakSet()


def attach(client: Client) -> bool:
    """See to it that the client's cluster has the page. Returns whether it has.

    A scheduler without dashboard, or without this package, goes without the page: a solve does not depend on it.
    """
    if client in _ATTACHED:
        return True
    try:
        client.register_plugin(Dashboard(), name=NAME)
    except Exception as error:  # whatever the scheduler makes of a class that it cannot import
        logger.info("the cluster's dashboard goes without the page %s: %r", PATH, error)
        return False
    _ATTACHED.add(client)
    return True


@final
class Dashboard(SchedulerPlugin):
    """Listens to the solves of a cluster, and shows them. Made by a client, started on the scheduler."""

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

    def _memory(self) -> dict[str, tuple[int, int]]:
        return {
            address: (int(worker.metrics.get("memory", 0)), int(worker.memory_limit or 0))
            for address, worker in self._scheduler.workers.items()
        }


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
            self.write(json.dumps(board.to_dict()))

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
