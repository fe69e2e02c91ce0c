"""What a solve tells while it runs, to subscribers in this process and on the cluster.

Every solve has an id and tells, in this order: one `start`, any number of `state` and `spans`, one `end`. A message is
a dict of plain values (msgpack and JSON can carry it) with

| key | in | what |
|---|---|---|
| `solve` | all | the id, unique: several solves at once can be told apart |
| `event` | all | "start", "state", "spans" or "end" |
| `time` | all | seconds since 1970, by the clock of the process that solves |
| `what` | start | "solve" or "hpcg" |
| `grid`, `chunks` | start | points and chunks along x, y, z |
| `problem` | start | the stencil in words, such as "27-point" |
| `engine`, `device`, `kernels` | start | as in `dsolver.runtime.Runtime` |
| `workers` | start | the worker address of each rank, in rank order; empty without a cluster |
| `owners` | start | the rank of each chunk |
| `iteration_bytes` | start | bytes that an iteration must move, on all devices together (`dsolver.traffic`), or null |
| `copy_bandwidth` | start | bytes a second that copies on all devices at once read and write, or null where not known |
| `phase` | state | what it does: "CG", or a phase of the benchmark |
| `iteration` | state, spans, end | iterations made so far; for spans, the one that was measured |
| `residual` | state, end | ‖b - A x‖ by the recursion, at the end the true one; of "hpcg" as a part of the first |
| `limit` | state | the residual at which the solve is finished, or null |
| `most` | state | iterations at most |
| `rate` | state | iterations a second since the last state, or null |
| `spans` | spans | of all ranks: a list for each field of `dsolver.monitor.spans.Span` (`from_columns` undoes it) |
| `exposure` | spans | `Exposure.to_dict()`: exposed communication in total and by level |
| `status` | end | a `Status` as text; of "hpcg" "valid", "invalid" or "done"; "failed" after an exception |
| `error` | end | why, when it failed; else null |
| `seconds` | end | since the start |

In this process `subscribe` a function. On a cluster every message is also logged under the topic "dsolver": a client
sees it with `client.subscribe_topic("dsolver", handler)`, a `SchedulerPlugin` in its `log_event(topic, msg)`, and later
`client.get_events("dsolver")` has the newest. To watch must never hold up or fail a solve: messages to the cluster are
sent in the background, and what a subscriber raises is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, final

from dsolver.monitor.spans import Exposure, Span, exposure, to_columns

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

TOPIC: Final = "dsolver"
PARTING: Final = 2.0
"""Seconds that the last message to a cluster may take."""

Message = dict[str, Any]
Subscriber = Callable[[Message], None]

_SUBSCRIBERS: list[Subscriber] = []


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Call the subscriber with every message of this process's solves, in the solving thread.

    Returns:
        What ends that.
    """
    _SUBSCRIBERS.append(subscriber)

    def unsubscribe() -> None:
        if subscriber in _SUBSCRIBERS:
            _SUBSCRIBERS.remove(subscriber)

    return unsubscribe


def listened() -> bool:
    """Whether there is a subscriber in this process."""
    return bool(_SUBSCRIBERS)


@final
class Feed:
    """The messages of one solve.

    Args:
        client: the cluster that is told too.
    """

    def __init__(self, client: Client | None = None) -> None:
        self.id = uuid.uuid4().hex[:12]
        self._client = client
        self._in_order = asyncio.Lock()
        self._last: Future[None] | None = None
        self._began = time.time()
        self._state_at: tuple[int, float] | None = None
        self._phase = ""

    def start(
        self,
        *,
        what: str,
        problem: str,
        grid: Sequence[int],
        chunks: Sequence[int],
        engine: str,
        device: str,
        kernels: str,
        workers: Sequence[str] = (),
        owners: Sequence[int] = (),
        iteration_bytes: int | None = None,
        copy_bandwidth: float | None = None,
    ) -> None:
        """The solve begins."""
        self._tell(
            "start",
            what=what,
            problem=problem,
            grid=list(grid),
            chunks=list(chunks),
            engine=engine,
            device=device,
            kernels=kernels,
            workers=list(workers),
            owners=list(owners),
            iteration_bytes=iteration_bytes,
            copy_bandwidth=copy_bandwidth,
        )

    def state(self, iteration: int, residual: float, limit: float | None, most: int, phase: str = "CG") -> None:
        """Iterations were made."""
        now = time.time()
        rate = None
        if self._state_at is not None and phase == self._phase and iteration > self._state_at[0]:
            rate = (iteration - self._state_at[0]) / max(now - self._state_at[1], 1e-9)
        self._state_at, self._phase = (iteration, now), phase
        self._tell("state", iteration=iteration, residual=residual, limit=limit, most=most, phase=phase, rate=rate)

    def spans(self, spans: Sequence[Span]) -> Exposure | None:
        """An iteration was measured. Returns its exposure."""
        found = exposure(spans)
        if found is not None:
            iteration = spans[0].iteration
            self._tell("spans", iteration=iteration, spans=to_columns(spans), exposure=found.to_dict())
        return found

    def end(self, status: str, iteration: int, residual: float | None, error: str | None = None) -> None:
        """The solve has ended."""
        seconds = time.time() - self._began
        self._tell("end", status=status, iteration=iteration, residual=residual, error=error, seconds=seconds)

    def part(self) -> None:
        """Wait a moment until the cluster knows all that was told."""
        if self._last is not None:
            try:
                self._last.result(PARTING)
            except Exception as problem:  # of the connection, or too late: the solve is worth more than the message
                logger.debug("the cluster was not told of the end of solve %s: %r", self.id, problem)

    def _tell(self, event: str, **content: Any) -> None:
        message: Message = {"solve": self.id, "event": event, "time": time.time(), **content}
        for subscriber in tuple(_SUBSCRIBERS):
            try:
                subscriber(message)
            except Exception:
                logger.exception("a subscriber failed at the %s of solve %s", event, self.id)
        if self._client is not None and self._client.status == "running":
            loop: Any = self._client.loop
            self._last = asyncio.run_coroutine_threadsafe(self._log(self._client, message), loop.asyncio_loop)

    async def _log(self, client: Client, message: Message) -> None:
        """Messages wait for one another, for each would take a connection of its own and could overtake."""
        async with self._in_order:
            scheduler: Any = client.scheduler
            try:
                await scheduler.log_event(topic=TOPIC, msg=message)
            except Exception as problem:
                logger.debug("the cluster was not told of solve %s: %r", self.id, problem)
