"""The task slot of a solve that is itself a task."""

from __future__ import annotations

from contextlib import suppress


def vacate() -> None:
    """Give back the slot that this thread's task has on its worker, if it is one that has.

    For whoever is about to wait for other tasks: those that may run on this worker alone would wait for the slot, and
    the wait would never end. Dask's own `Client.get` does the same; `Future.result` does not.
    """
    from distributed import secede

    with suppress(ValueError, AttributeError, KeyError):  # in no task; in a thread of no executor; given back already
        secede()
