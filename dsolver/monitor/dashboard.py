"""The page /dsolver on a cluster's dashboard, and how plugins come to the scheduler, also to one started by others."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, final
from weakref import WeakKeyDictionary

from distributed.diagnostics.plugin import SchedulerPlugin

from dsolver.monitor.events import TOPIC
from dsolver.monitor.gpu_memory import GPU_MEMORY
from dsolver.monitor.history import SolveHistory, WorkerMemory

if TYPE_CHECKING:
    from distributed import Client, Scheduler

logger = logging.getLogger(__name__)

NAME: Final = "dsolver-dashboard"
PATH: Final = "/dsolver"

_ATTACHED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Names of the plugins that each client has registered."""


class Plugin(Protocol):
    """A `SchedulerPlugin` that is made without arguments; the first that any client registers stays."""

    name: str
    idempotent: bool

    def __init__(self) -> None: ...


def attach(client: Client, plugin: type[Plugin]) -> bool:
    """Register a plugin with the client's scheduler, if it has none of that name. Returns whether it has one then.

    A scheduler without this package goes without: a solve does not depend on it.
    """
    attached = _ATTACHED.setdefault(client, set())
    if plugin.name in attached:
        return True
    try:
        made: Any = plugin()
        client.register_plugin(made, name=plugin.name)
    except Exception as error:  # whatever the scheduler makes of a class that it cannot import
        logger.info("the cluster goes without %s: %r", plugin.name, error)
        return False
    attached.add(plugin.name)
    return True


@final
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
        for topic, message in _past(scheduler):
            self.log_event(topic, message)
        prefix = _prefix(self._scheduler)
        if prefix is not None:
            _serve(self._scheduler, prefix, self.history, self._memory)

    def log_event(self, topic: str, msg: Any) -> None:
        """Add a message to the history, if it is of a solve."""
        if topic == TOPIC and isinstance(msg, dict):
            try:
                self.history.add(msg)
            except (KeyError, TypeError):  # of another version of this package, or of another program
                logger.debug("a message that is none of ours: %r", msg)

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:  # noqa: ARG002  # distributed's
        """Note that a worker has left."""
        self.history.worker_left(worker)

    def _memory(self) -> dict[str, list[WorkerMemory]]:
        return {address: memory_of(worker) for address, worker in self._scheduler.workers.items()}


def memory_of(worker: Any) -> list[WorkerMemory]:
    """The memory of a worker's process, and of its GPU if it reports one, as the scheduler knows it."""
    found = [WorkerMemory("host", int(worker.metrics.get("memory", 0)), int(worker.memory_limit or 0))]
    if gpu := worker.metrics.get(GPU_MEMORY):
        found.append(WorkerMemory("GPU", *gpu))
    return found


def _past(scheduler: Any) -> list[tuple[str, Any]]:
    """The (topic, message) pairs that were logged before the plugin was there."""
    return [(TOPIC, message) for _, message in scheduler.get_events(TOPIC)]


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
                shown[key]["memory"] = {
                    worker: used[worker] for worker in solve.start.get("workers", ()) if worker in used
                }
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
