"""Thousands of small solves on one cluster: do memory, file handles, threads and sockets stay what they are?

    nice -n 19 python bench/soak.py --solves 2000

A scheduler and two workers, each a process of its own below a nanny, serve one client. Solves take turns: grids with
multigrid and the graph engine, diffusion, general matrices, unsymmetric ones, several right-hand sides, solves that a
callback stops, ones whose callback raises, and ones in the client's own process. Now and then a worker is ended by
SIGKILL in the middle of a solve. After every tenth of the solves the processes are looked at. The exit status is 1
where one has grown in the second half by more than the bounds below.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp
from distributed import Client

import dsolver
from dsolver.problems import diffusion, poisson7

WORKERS = 2
MIB_PER_THOUSAND = {"client": 8.0, "scheduler": 40.0, "worker": 40.0}
"""Most MiB that a process may grow by in a thousand solves. What Dask keeps grows: task groups in the spans of
the scheduler, and log records of workers until there are 10,000. docs/performance.md has what was measured."""
HISTORY = {"DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__TASKS__TASK_STREAM_LENGTH": "1000"}
"""The scheduler's history of tasks is full after 1,000, not 100,000: it would grow for 1,800 solves, to 120 MiB."""
MORE = 4
"""Most additional file handles, threads or sockets of a process: a reconnection may be under way."""


class Halt(Exception):  # noqa: N818  # a user's way out
    """Exception that a callback raises."""


@dataclass(frozen=True)
class Look:
    """Resources of a process: resident memory in MiB, file handles, threads, TCP sockets."""

    mib: float
    handles: int
    threads: int
    sockets: int

    @classmethod
    def at(cls, pid: int) -> Look:
        process = psutil.Process(pid)
        return cls(
            process.memory_info().rss / 2**20,
            process.num_fds(),
            process.num_threads(),
            len(process.net_connections("tcp")),
        )

    def __str__(self) -> str:
        return f"{self.mib:6.0f} {self.handles:4} {self.threads:4} {self.sockets:4}"


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[Client, int]]:
    """A client of a scheduler and workers in processes of their own, and the scheduler's process."""
    known = folder / "scheduler.json"
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", "--scheduler-file", known, "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        env={**os.environ, **HISTORY},
        **quiet,
    )
    worker = [*dask, "worker", "--scheduler-file", known, "--nthreads", "1", "--nworkers", str(WORKERS)]
    workers = subprocess.Popen([*worker, "--memory-limit", "0", "--no-dashboard"], **quiet)
    try:
        with Client(scheduler_file=str(known), timeout=60) as client:
            client.wait_for_workers(WORKERS, timeout=120)
            yield client, scheduler.pid
    finally:
        for process in (workers, scheduler):
            process.send_signal(signal.SIGINT)
        for process in (workers, scheduler):
            process.wait(60)


def lattice(n: int, wind: float = 0.0) -> Any:
    """A two-dimensional Laplacian, unsymmetric where there is wind: (n², n²)."""
    line = sp.diags_array(
        [np.full(n - 1, -1.0 - wind), np.full(n, 2.0), np.full(n - 1, -1.0 + wind)], offsets=[-1, 0, 1]
    )
    return (sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line)).tocsr()


def kinds(client: Client) -> list[Callable[[int], None]]:
    """Solves that take turns; each is called with its number and looks at its result."""
    grid = (12, 8, 8)
    here: dict[str, Any] = {"client": client, "device": "cpu"}
    points, cells = (
        poisson7(grid),
        diffusion(
            grid,
            lambda x, y, z: np.exp(np.sin(x) + 0.0 * y * z),
            bc={"x": "periodic", "y": "dirichlet", "z": "dirichlet"},
        ),
    )
    symmetric, windy = lattice(30), lattice(20, wind=0.3)

    def right(shape: Any, number: int) -> Any:
        return np.random.default_rng(number).standard_normal(shape)

    def converged(problem: Any, shape: Any, number: int, **how: Any) -> None:
        assert dsolver.solve(problem, right(shape, number), **how).converged

    def several(number: int) -> None:
        with dsolver.Solver(points, **here) as solver:
            assert solver.solve(right((*grid, 3), number)).converged

    def stopped(number: int) -> None:
        found = dsolver.solve(points, right(grid, number), callback=lambda state: state.iteration >= 2, **here)
        assert found.status is dsolver.Status.STOPPED

    def raised(number: int) -> None:
        def halt(_: dsolver.State) -> None:
            raise Halt

        with contextlib.suppress(Halt):
            dsolver.solve(cells, right(grid, number), callback=halt, **here)

    return [
        lambda number: converged(points, grid, number, **here),
        lambda number: converged(cells, grid, number, **here),
        lambda number: converged(symmetric, 900, number, **here),
        several,
        lambda number: converged(windy, 400, number, **here),
        stopped,
        lambda number: converged(cells, grid, number, device="cpu"),
        lambda number: converged(points, grid, number, engine="graph", **here) if number % 8 else raised(number),
    ]


def killed(client: Client, number: int) -> None:
    """A solve that loses a worker, and is right all the same."""
    pids = client.run(os.getpid)
    victim = pids[sorted(pids)[number % len(pids)]]
    grid = (16, 16, 16)

    def kill(state: dsolver.State) -> None:
        if state.iteration == 5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    b = np.random.default_rng(number).standard_normal(grid)
    assert dsolver.solve(poisson7(grid), b, M="jacobi", client=client, device="cpu", callback=kill).converged
    client.wait_for_workers(WORKERS, timeout=120)


def looks(client: Client, scheduler: int) -> dict[str, Look]:
    """Each process by role; of the workers the one with most of each."""
    gc.collect()
    client.run(gc.collect)
    each = [Look.at(pid) for pid in client.run(os.getpid).values()]
    most = Look(*(max(getattr(look, name) for look in each) for name in ("mib", "handles", "threads", "sockets")))
    return {"client": Look.at(os.getpid()), "scheduler": Look.at(scheduler), "worker": most}


def grown(first: Look, last: Look, thousands: float, bound: float) -> bool:
    """Whether a process has more at the end than the bounds allow."""
    more = max(last.handles - first.handles, last.threads - first.threads, last.sockets - first.sockets)
    return more > MORE or last.mib - first.mib > bound * max(thousands, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solves", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=5, help="of workers, spread over the first half")
    options = parser.parse_args()
    part = max(1, options.solves // 10)
    deaths = {(2 * kill + 1) * options.solves // (4 * options.kills) for kill in range(options.kills)}
    print("solves  seconds | client: MiB, handles, threads, sockets | scheduler | worker")
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as (client, scheduler):
        take = kinds(client)
        table: dict[int, dict[str, Look]] = {}
        began = time.monotonic()
        for number in range(options.solves + 1):
            if number % part == 0:
                table[number] = looks(client, scheduler)
                shown = " | ".join(str(look) for look in table[number].values())
                print(f"{number:6} {time.monotonic() - began:8.0f} | {shown}", flush=True)
            killed(client, number) if number in deaths else take[number % len(take)](number)
        client.shutdown()
    half = min(number for number in table if number >= options.solves // 2)
    first, last = table[half], table[max(table)]
    thousands = (max(table) - half) / 1000
    bad = [role for role, bound in MIB_PER_THOUSAND.items() if grown(first[role], last[role], thousands, bound)]
    print(f"since {half} solves: {', '.join(bad) + ' grew' if bad else 'nothing grew beyond its bounds'}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
