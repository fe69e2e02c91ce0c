"""Workers that this process calls itself: by way of the scheduler a call takes a new connection, and twice the hops."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final
from weakref import WeakKeyDictionary

from dsolver.dask_types import Client, Worker

TIMEOUT: Final = 3.0
"""Seconds in which workers have to answer this process directly; else calls and blocks travel by the scheduler."""

_reached: Final[WeakKeyDictionary[Client | Worker, set[str]]] = WeakKeyDictionary()
"""Workers that have answered each client, the last time that they were called."""


def reached(client: Client, workers: Collection[str]) -> bool:
    """Whether this process is known to reach all of these workers."""
    if client.direct_to_workers is not None:
        return bool(client.direct_to_workers)
    return _reached.get(client, set()).issuperset(workers)


async def reaches(client: Client, workers: Collection[str]) -> bool:
    """Whether this process reaches all of these workers, of which those that have not answered before are asked."""
    if client.direct_to_workers is not None:
        return bool(client.direct_to_workers)
    known = _reached.setdefault(client, set())
    try:
        asked = asyncio.gather(*(client.rpc(worker).identity() for worker in workers if worker not in known))
        await asyncio.wait_for(asked, TIMEOUT)
    except Exception:  # whatever is in the way
        return False
    known.update(workers)
    return True


async def run_on(caller: Client | Worker, worker: str, function: Callable[..., Any], *args: Any) -> Any:
    """Result of the function on a worker, called from this process; raises what it raised, or OSError."""
    from distributed.core import clean_exception  # not at the top: commands that run nothing load this module
    from distributed.protocol import pickle

    rpc: Any = caller.rpc(worker)
    try:
        message = await rpc.run(function=pickle.dumps(function), args=pickle.dumps(args), wait=True)
    except OSError:  # of the connection: the scheduler may have another one
        _reached.get(caller, set()).discard(worker)
        raise
    if message["status"] == "OK":
        return message["result"]
    _, error, trace = clean_exception(**message)
    raise RuntimeError(f"{message}") if error is None else error.with_traceback(trace)


async def tell_each(client: Client, workers: Collection[str], function: Callable[..., Any], *args: Any) -> None:
    """Run the function on each of some workers, whatever becomes of it there."""
    if reached(client, workers):
        await asyncio.gather(*(run_on(client, worker, function, *args) for worker in workers), return_exceptions=True)
    else:
        running: Any = client.run(function, *args, workers=list(workers), on_error="ignore")
        await running
