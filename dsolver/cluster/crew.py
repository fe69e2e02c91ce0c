"""Crew of a cluster after a loss: the workers that answer, with those that have come in the place of lost ones."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from dsolver.cluster import devices
from dsolver.dask_types import Client
from dsolver.engines.dask.health import ask_each, ping
from dsolver.errors import WorkerLostError

ATTEMPTS: Final = 5  # losses that one solve bears, and the choice of workers before it
RETURN: Final = 6.0  # seconds that a lost worker's nanny, or its job's scheduler, has to bring another one
ANSWER: Final = 3.0  # seconds in which a worker that is to go on must answer
POLL: Final = 0.5

T = TypeVar("T")


def answering(client: Client, wanted: int) -> tuple[list[str], list[str]]:
    """The workers that answer, once so many do or `RETURN` is over, and the others. OSError: no scheduler answers."""
    until = time.monotonic() + RETURN
    heard: set[str] = set()  # also of those that are late for once
    while True:
        there = devices.present(client)
        heard.update(ask_each(client, ping, there, ANSWER).answers)
        alive, silent = ([w for w in there if (w in heard) == answered] for answered in (True, False))
        if len(alive) >= wanted or time.monotonic() > until:
            return alive, silent
        time.sleep(POLL)


def chosen(client: Client, choose: Callable[[tuple[str, ...]], T]) -> T:
    """The choice of `choose` among the workers, asked again where one is lost. ClusterError: there are no workers."""
    workers = devices.workers_of(client)
    wanted = len(workers)
    for _ in range(ATTEMPTS):
        try:
            return choose(workers)
        except WorkerLostError as error:
            try:
                alive, _ = answering(client, wanted)
            except OSError as problem:
                raise error from problem
            if not alive:
                raise
            workers = tuple(alive)
    return choose(workers)
