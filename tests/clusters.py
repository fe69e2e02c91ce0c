"""Dask clusters of this machine's CPUs, for one test or module."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import dask
from distributed import Client, LocalCluster


@contextmanager
def cluster(
    workers: int, *, processes: bool = False, threads: int = 1, dashboard: bool = False, quiet: bool = False
) -> Iterator[Client]:
    """A client of a cluster that ends with it.

    No memory limit: a worker may not be stopped because the machine that runs the tests is busy with something else.

    Args:
        workers: how many.
        processes: whether each is a process, or threads of this one.
        threads: of each worker, for tasks.
        dashboard: whether the scheduler has one, at any free port.
        quiet: whether Dask says nothing of the workers that it loses.
    """
    with (
        # Dask would give up the nanny of a worker that takes longer to come back: on busy cores many do.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=processes,
            dashboard_address=":0" if dashboard else None,
            memory_limit=None,
            silence_logs=logging.CRITICAL if quiet else logging.WARNING,
        ) as made,
        Client(made) as client,
    ):
        yield client


breakable = partial(cluster, processes=True, dashboard=True, quiet=True)
"""One whose workers may be killed: a nanny brings another."""
