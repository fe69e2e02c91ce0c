"""Costs of a program for the client, the scheduler and the workers as its ranks grow: kernels that only wait.

    python bench/many_ranks.py [--ranks 8 16 32 64 128 256 512] [--mesh]

Four processes of this machine: client, scheduler, one that holds all workers but one, in one event loop, and that one,
which is killed. A rank's work is a sleep, so what is measured is control alone. Ranks are connected as GPUs of many
hosts are; with --mesh each with every other one, as CPUs are. One row a number of ranks: seconds to start the program,
for a call of all ranks (the least of some), to close it, and from the kill of a worker during a call to the error that
says so; then, of the start and of a call, milliseconds of CPU time of the client, of the scheduler and of all workers,
which other programs of the machine change less than seconds. On a cluster each worker has a core of its own, so theirs
divided by the number of ranks is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import dask
import psutil
from distributed import Client, Scheduler, Worker

from dsolver.engines.base import Engine
from dsolver.engines.spmd.client import SpmdProgram
from dsolver.engines.spmd.rank_spec import RankSpec
from dsolver.errors import DsolverError
from dsolver.grid.partition import Partition

CALLS = 5
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.spill": False,
}
"""Settings of Dask without the looks that each worker takes at itself: a hundred in a process could not afford them."""
ABSENT = 300
"""Iterations of a tenth of a second in the call during which a worker is killed: threads of one process share a lock,
and hundreds that wake each millisecond would be all that is measured."""


class Waiting:
    """A program whose kernels only wait."""

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds

    def step(self, times: int) -> None:
        """So many iterations, between which a rank looks whether it shall stop."""
        self._engine.repeat(self._wait, times, ())

    def _wait(self) -> None:
        time.sleep(self._seconds)


def scheduler_process(pipe: Connection) -> None:
    """A scheduler, until a message comes; its address goes first."""

    async def run() -> None:
        async with Scheduler(dashboard=False, port=0, host="127.0.0.1") as scheduler:
            pipe.send(scheduler.address)
            await asyncio.to_thread(pipe.recv)

    logging.getLogger("distributed").setLevel(logging.ERROR)
    asyncio.run(run())


def workers_process(pipe: Connection, scheduler: str, count: int, mesh: bool) -> None:
    """So many workers in one event loop, until a message comes; their addresses go first."""
    dask.config.set(QUIET)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    RankSpec.meshed = mesh  # type: ignore[assignment, method-assign]

    async def run() -> None:
        workers = [Worker(scheduler, nthreads=1, dashboard=False, memory_limit=0, nanny=None) for _ in range(count)]
        for first in range(0, count, 16):  # a listener's queue is short
            await asyncio.gather(*(worker.start() for worker in workers[first : first + 16]))
        pipe.send([worker.address for worker in workers])
        await asyncio.to_thread(pipe.recv)
        await asyncio.gather(*(worker.close() for worker in workers))

    asyncio.run(run())


def begun(target: Callable[..., None], *arguments: object) -> tuple[BaseProcess, Connection, Any]:
    """A process, this end of its pipe, and what it has said first."""
    start = multiprocessing.get_context("spawn")
    near, far = start.Pipe()
    process = start.Process(target=target, args=(far, *arguments), daemon=True)
    process.start()
    return process, near, near.recv()


def measured(ranks: int, mesh: bool) -> dict[str, Any]:
    """One row."""
    scheduler, ends_scheduler, address = begun(scheduler_process)
    crew, ends_crew, owners = begun(workers_process, address, ranks - 1, mesh)
    victim, held, last = begun(workers_process, address, 1, mesh)
    owners += last
    watched = [psutil.Process(), *(psutil.Process(process.pid) for process in (scheduler, crew))]

    def cpu() -> list[float]:
        return [1e3 * sum(process.cpu_times()[:2]) for process in watched]

    with Client(address) as client:
        partition = Partition((ranks, 1, 1), (ranks, 1, 1))
        before, began = cpu(), time.perf_counter()
        program = SpmdProgram(client, partition, owners, "numpy", Waiting, 0.001)
        took = {"start": time.perf_counter() - began}
        of_start = [b - a for a, b in zip(before, cpu(), strict=True)]
        calls, before = [], cpu()
        for _ in range(CALLS):
            began = time.perf_counter()
            program.call(Waiting.step, 1)
            calls.append(time.perf_counter() - began)
        of_call = [(b - a) / CALLS for a, b in zip(before, cpu(), strict=True)]
        took["call"] = min(calls)
        began = time.perf_counter()
        program.close()
        took["close"] = time.perf_counter() - began
        took["loss"] = lost(SpmdProgram(client, partition, owners, "numpy", Waiting, 0.1), victim)
    held.close()
    for pipe, process in ((ends_crew, crew), (ends_scheduler, scheduler)):
        pipe.send(None)
        process.join(10.0)
        process.kill()
    return {"ranks": ranks, **took, "of start": of_start, "of call": of_call}


def lost(program: SpmdProgram[Waiting], victim: BaseProcess) -> float:
    """Seconds from a worker's end, in a call, to the error."""
    ended: list[float] = []

    def kill() -> None:
        ended.append(time.perf_counter())
        victim.kill()

    threading.Timer(1.0, kill).start()
    try:
        program.call(Waiting.step, ABSENT)
    except DsolverError:
        return time.perf_counter() - ended[0]
    raise SystemExit("a worker went away unnoticed")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512])
    options.add_argument("--mesh", action="store_true", help="connect all ranks with each other")
    arguments = options.parse_args()
    print("ranks   start    call   close    loss   CPU ms of start, of a call: client scheduler workers")
    for ranks in arguments.ranks:
        row = measured(ranks, arguments.mesh)
        seconds = " ".join(f"{row[name]:7.3f}" for name in ("start", "call", "close", "loss"))
        parts = "   ".join(" ".join(f"{ms:7.0f}" for ms in row[name]) for name in ("of start", "of call"))
        print(f"{ranks:5d} {seconds}   {parts}", flush=True)


if __name__ == "__main__":
    main()
