"""The default client: the one that Dask takes where none is named."""

import sys
import threading
from typing import Any, Final

from dsolver.dask_types import Client

OF_A_CLUSTER: Final = (None, "dask.distributed", "distributed")
"""Values of Dask's option `scheduler` with which it computes on the cluster of a client."""


def meant(client: Any) -> Client | None:
    """The client that a call means by its `client=`: that one, by default the open one, or None for this process."""
    return open_client() if client is None else client or None


def open_client() -> Client | None:
    """The client on whose cluster Dask would compute a collection in this thread now; None where it would do so here.

    In a task it is none: the one that the worker has is for tasks that ask for it.
    """
    distributed: Any = sys.modules.get("distributed")
    if distributed is None:  # a client has imported it
        return None
    try:
        client: Client = distributed.default_client()
    except ValueError:
        return None
    import dask

    if dask.config.get("scheduler", None) not in OF_A_CLUSTER or _in_a_task(distributed):
        return None
    return None if client.asynchronous or client.status != "running" or left_by_fork(client) else client


def left_by_fork(client: Client) -> bool:
    """Whether the client is that of the process that this one was forked from: no thread here would bring answers."""
    loop: Any = getattr(client.loop, "asyncio_loop", None)
    thread = getattr(loop, "_thread_id", None)  # of asyncio's loops; a fork copies the number, but not the thread
    return thread is not None and all(thread != here.ident for here in threading.enumerate())


def _in_a_task(distributed: Any) -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True
