"""Dask clusters of this machine's CPUs, for one test or module."""

from __future__ import annotations

import functools
import importlib
import logging
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from tests.support.waiting import PATIENCE, eventually


@functools.cache
def fork_server() -> str:
    """The way in which worker processes begin: forks of one that has imported what they need, as in Dask's own tests.

    Each would otherwise spend two seconds of a core on it. Those of examples and of the pages in docs/ begin as users'
    do.
    """
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # it sets a list of its own, once
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["distributed", "tests.support.worker_process"])
    forkserver.ensure_running()  # with a socket where temporary files are now
    first = server.Process(target=int)  # it has its turn after the imports: a nanny would give up what waits for them
    first.start()
    first.join()
    return "forkserver"


def forked() -> AbstractContextManager[Any]:
    """Also worker processes that begin in it without `cluster`, as a command's own, are forked."""
    return dask.config.set({"distributed.worker.multiprocessing-method": fork_server()})


@contextmanager
def process_of(command: str, *arguments: str) -> Iterator[BaseProcess]:
    """A command of Dask's, the name of its module, as a forked process that ends with this. It says nothing."""
    fork_server()
    process = multiprocessing.get_context("forkserver").Process(
        target=_run, args=(command, arguments, dict(os.environ)), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _run(command: str, arguments: Sequence[str], environment: dict[str, str]) -> None:
    os.environ |= environment
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    importlib.import_module(command).main(arguments)


def ended(process: BaseProcess) -> bool:
    """Whether it ends by itself."""
    process.join(PATIENCE)
    return process.exitcode is not None


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
        forked() if processes else nullcontext(),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=processes,
            dashboard_address=":0" if dashboard else None,
            memory_limit=None,
            silence_logs=logging.CRITICAL if quiet else logging.WARNING,
            **({"env": dict(os.environ)} if processes else {}),  # not as it was when the first of them began
        ) as made,
        Client(made) as client,
    ):
        yield client


breakable = partial(cluster, processes=True, dashboard=True, quiet=True)
"""One whose workers may be killed: a nanny brings another."""


@contextmanager
def workers_without_nanny(count: int) -> Iterator[tuple[Client, list[BaseProcess]]]:
    """A client of workers, each a process without a nanny, and these processes."""
    with ExitStack() as stack:
        made = stack.enter_context(LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0"))
        command = ["distributed.cli.dask_worker", made.scheduler_address, "--no-nanny", "--nthreads", "1"]
        started = [stack.enter_context(process_of(*command, "--no-dashboard")) for _ in range(count)]
        client = stack.enter_context(Client(made))
        client.wait_for_workers(count, timeout=PATIENCE)
        yield client, started


@contextmanager
def scheduler_in_a_process(file: Path, *options: str) -> Iterator[BaseProcess]:
    """A scheduler as a process of its own, which has written its address to a file."""
    where = ["--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file)]
    with process_of("distributed.cli.dask_scheduler", *where, *options) as process:
        eventually(lambda: file.exists() and file.stat().st_size)  # who finds it empty looks again, but not for long
        yield process
