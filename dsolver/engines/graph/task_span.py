"""The span of Dask that has all tasks of engines."""

from typing import Any, Final

from distributed import Client

from dsolver.engines.dask.connection import wait_for

GRACE: Final = 5.0  # seconds in which the scheduler should read a graph that is to be taken back, and tidy up
SPAN: Final = {"name": ("dsolver",), "ids": ("dsolver",)}
"""Annotation that puts all tasks into one span of Dask. Without it each graph is a span of its own, about which workers
and scheduler keep a hundred numbers a solve for as long as they live."""


async def forget_groups(client: Client) -> None:
    """Let the span forget task groups of earlier engines, which it would keep as long as it lives."""
    (span_id,) = SPAN["ids"]

    def forget(dask_scheduler: Any) -> None:
        spans = dask_scheduler.extensions.get("spans")
        span = spans.spans.get(span_id) if spans is not None else None
        if span is not None and span.groups:
            newest = max(span.groups, key=lambda group: group.stop)  # Dask asks for the end of the last one
            span.groups.intersection_update({newest, *dask_scheduler.task_groups.values()})

    await wait_for(client, client.run_on_scheduler(forget), GRACE)
