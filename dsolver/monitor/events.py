"""Events of a solve while it runs, published to subscribers in this process and on the cluster.

Every solve has an id and publishes, in this order: one `start`, any number of `state` and `spans`, one `end`. On a
cluster the first solve of a set-up starts with it: as long as there is no `state`, the system is set up. A message
is a dict of plain values (msgpack and JSON can carry it) with

=============================  =================  ======================================================================
key                            in                 what
=============================  =================  ======================================================================
`solve`                        all                the id, unique: several solves at once can be told apart
`event`                        all                "start", "state", "spans" or "end"
`time`                         all                seconds since 1970, by the clock of the process that solves
`what`                         start              "solve", "eigenvalues", "least squares" or "hpcg"
`grid`, `chunks`               start              points and chunks along x, y, z
`problem`                      start              the stencil in words, such as "27-point"
`engine`, `device`, `kernels`  start              as in `dsolver.cluster.runtime.Runtime`
`workers`                      start              the worker address of each rank, in rank order; empty without a
                                                  cluster
`owners`                       start              the rank of each chunk
`iteration_bytes`              start              bytes that an iteration must move, on all devices together
                                                  (`cost.traffic`), or null
`copy_bandwidth`               start              bytes a second that copies on all devices at once read and write, or
                                                  null where not known
`phase`                        state              what it does: "CG", "LOBPCG", "LSMR", "CGLS", or a phase of the
                                                  benchmark
`iteration`                    state, spans, end  iterations made so far; for spans, the one that was measured
`residual`                     state, end         ‖b - A x‖ by the recursion, at the end the true one; of "hpcg" as a
                                                  part of the first
`limit`                        state              the residual at which the solve is finished, or null
`most`                         state              iterations at most
`rate`                         state              iterations a second since the last state, or null
`spans`                        spans              of all ranks: a list for each field of `dsolver.monitor.spans.Span`
                                                  (`from_columns` undoes it)
`exposure`                     spans              `Exposure.to_dict()` of all measured so far: exposed communication in
                                                  total and by level
`status`                       end                a `Status` as text; of "hpcg" "valid", "invalid" or "done"; "failed"
                                                  after an exception, "interrupted" after Ctrl-C, "closed" of a
                                                  `Solver` that was set up and solved nothing
`error`                        end                why, when it failed; else null
`seconds`                      end                since the start
=============================  =================  ======================================================================

In this process `subscribe` a function. On a cluster every message is also logged under the topic "dsolver": a client
sees it with `client.subscribe_topic("dsolver", handler)`, a `SchedulerPlugin` in its `log_event(topic, msg)`, and later
`client.get_events("dsolver")` has the newest. To watch must never hold up or fail a solve: messages to the cluster are
sent in the background, and what a subscriber raises is logged.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final
from weakref import WeakKeyDictionary

from dsolver.dask_types import Client
from dsolver.monitor.job import JobProgress
from dsolver.monitor.spans import Exposure, Span, exposure, to_columns

logger = logging.getLogger(__name__)

TOPIC: Final = "dsolver"
FLUSH_SECONDS: Final = 5.0
"""Most seconds that the last message to a cluster may take."""

Message = dict[str, Any]
Subscriber = Callable[[Message], None]

_SUBSCRIBERS: list[Subscriber] = []
_IN_ORDER: WeakKeyDictionary[Client, asyncio.Lock] = WeakKeyDictionary()
"""Locks of clients, under which messages of all their solves follow each other."""


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Call the subscriber with every message of this process's solves, in the solving thread.

    Returns:
        A function that ends the subscription.
    """
    _SUBSCRIBERS.append(subscriber)

    def unsubscribe() -> None:
        if subscriber in _SUBSCRIBERS:
            _SUBSCRIBERS.remove(subscriber)

    return unsubscribe


def has_subscribers() -> bool:
    """Whether there is a subscriber in this process."""
    return bool(_SUBSCRIBERS)


class SolveEvents:
    """Publisher of the messages of one solve, here and to the cluster of a client."""

    def __init__(self, client: Client | None = None) -> None:
        self.id = uuid.uuid4().hex[:12]
        self._client = client
        self._in_order = asyncio.Lock() if client is None else _IN_ORDER.setdefault(client, asyncio.Lock())
        self._last: Future[None] | None = None
        self._began = time.monotonic()  # a clock that is set meanwhile changes no duration
        self._state_at: tuple[int, float] | None = None
        self._phase = ""
        self._job = JobProgress.of_process()

    def start(self, *, what: str, problem: str, **about: Any) -> None:
        """Publish the start of the solve; `about` has the other keys of the table above."""
        about = {"workers": [], "owners": [], "iteration_bytes": None, "copy_bandwidth": None} | about
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in about.items()}
        self._publish("start", what=what, problem=problem, **plain)

    def state(self, iteration: int, residual: float, limit: float | None, most: int, phase: str = "CG") -> None:
        """Publish the state after more iterations."""
        now = time.monotonic()
        rate = None
        if self._state_at is not None and phase == self._phase and iteration > self._state_at[0]:
            rate = (iteration - self._state_at[0]) / max(now - self._state_at[1], 1e-9)
        self._state_at, self._phase = (iteration, now), phase
        self._publish("state", iteration=iteration, residual=residual, limit=limit, most=most, phase=phase, rate=rate)

    def spans(self, spans: Sequence[Span], exposed: Exposure | None = None) -> None:
        """Publish the spans of a measured iteration; exposed: of all that were measured, by default of this one."""
        found = exposed or exposure(spans)
        if found is not None:
            iteration = spans[0].iteration
            self._publish("spans", iteration=iteration, spans=to_columns(spans), exposure=found.to_dict())

    def end(self, status: str, iteration: int, residual: float | None, error: str | None = None) -> None:
        """Publish the end of the solve."""
        seconds = time.monotonic() - self._began
        self._publish("end", status=status, iteration=iteration, residual=residual, error=error, seconds=seconds)

    def flush(self) -> None:
        """Wait until the cluster has all messages, for at most `FLUSH_SECONDS`."""
        if self._last is not None:
            try:
                self._last.result(FLUSH_SECONDS)
            except Exception as problem:  # of the connection, or too late: the solve is worth more than the message
                logger.debug("the last message of solve %s did not reach the cluster: %r", self.id, problem)
            self._last = None

    def _publish(self, event: str, **content: Any) -> None:
        message: Message = {"solve": self.id, "event": event, "time": time.time(), **content}
        for subscriber in tuple(_SUBSCRIBERS):
            try:
                subscriber(message)
            except Exception:
                logger.exception("a subscriber failed at the %s of solve %s", event, self.id)
        progress = None if self._job is None else self._job.take(message)
        if self._client is not None and self._client.status == "running":
            loop: Any = self._client.loop
            sent = self._log(self._client, message, progress)
            self._last = asyncio.run_coroutine_threadsafe(sent, loop.asyncio_loop)

    async def _log(self, client: Client, message: Message, progress: dict[str, Any] | None) -> None:
        """Send a message after the one before it: each would take a connection of its own and could overtake."""
        async with self._in_order:
            scheduler: Any = client.scheduler
            try:
                await scheduler.log_event(topic=TOPIC, msg=message)
                if progress is not None and self._job is not None:
                    await scheduler.set_metadata(keys=self._job.place, value=progress)
            except Exception as problem:
                logger.debug("a message of solve %s did not reach the cluster: %r", self.id, problem)
