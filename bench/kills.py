"""Kills of workers in set-ups and in the middle of solves: is every answer right, and how long does it take?

    python bench/kills.py [--when iterations cold warm] [--engines resident graph] [--kills 20] [--workers 3]
                          [--device cpu] [--seconds 120]

A cluster of this machine (with `--device cuda` of its GPUs, one worker each) solves with a finite element matrix of
tetrahedra. In every solve one worker is ended by SIGKILL: at an iteration, or during the set-up of workers that are new
(cold: they have not even imported this package) or have solved before (warm). The number of the kill chooses worker and
moment. Answers are compared with that of an undisturbed solve; a solve that takes longer than `--seconds` ends the run.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from lib.matrices import banded_order, tetrahedra_p1
from scipy import sparse

import dsolver

BACK = 120.0
"""Seconds in which nannies have to bring other workers."""
RIGHT = 1e-7
"""Error of a right answer at most, of the largest value of x."""


def cluster_of(device: str, workers: int) -> Any:
    if device == "cuda":
        from dask_cuda import LocalCUDACluster

        return LocalCUDACluster(n_workers=workers, memory_limit=None)
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=None,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )


def definite(points: int) -> Any:
    """A Laplacian of linear elements on tetrahedra, with a positive diagonal added: (rows, rows)."""
    a = banded_order(tetrahedra_p1(points))
    return sparse.csr_matrix(a + 1e-3 * a.diagonal().mean() * sparse.eye_array(a.shape[0]))


class Kill:
    """The end of a worker, once: `strike` by a callback at an iteration, or by a timer."""

    def __init__(self, victim: int, iteration: int = 0) -> None:
        self._victim, self._iteration, self.at = victim, iteration, 0.0

    def __call__(self, state: Any) -> None:
        if not self.at and state.iteration >= self._iteration:
            self.strike()

    def strike(self) -> None:
        self.at = time.monotonic()
        os.kill(self._victim, signal.SIGKILL)


class Round:
    """Kills of one kind, with one engine.

    Args:
        opened: a new cluster, and its client.
        solve: solves with a client, and with a callback or None.
        truth: the undisturbed solution.
        workers: of the cluster.
        limit: seconds of a solve, after which this process ends with the stacks of its threads.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Any]],
        solve: Callable[[Any, Any], Any],
        truth: Any,
        workers: int,
        limit: float,
    ) -> None:
        self._opened, self._solve, self._truth = opened, solve, truth
        self._workers, self._limit = workers, limit
        self._victim = 0
        self.right = self.same = 0
        self.times: list[float] = []

    def run(self, when: str, kills: int) -> None:
        if when == "cold":
            with self._opened() as client:
                began = time.monotonic()
                solution = self._solve(client, None)
                setup = time.monotonic() - began - solution.timings["solve"]
            print(f"  an undisturbed set-up takes {setup:.2f} s", flush=True)
            for number in range(kills):
                with self._opened() as client:
                    self._kill(client, when, number, setup)
            return
        with self._opened() as client:
            setup = min(float(self._solve(client, None).timings["setup"]) for _ in range(3))
            print(f"  an undisturbed set-up takes {setup:.2f} s", flush=True)
            for number in range(kills):
                self._kill(client, when, number, setup)

    def _kill(self, client: Any, when: str, number: int, setup: float) -> None:
        chosen = np.random.default_rng(number)
        delay = chosen.uniform(0.0, setup)
        pids = self._all_there(client)
        self._victim = victim = pids[str(chosen.choice(sorted(pids)))]
        if when == "iterations":
            kill = Kill(victim, int(chosen.integers(1, self._truth.iterations)))
            words = self._tried(client, kill, kill)
        else:
            kill = Kill(victim)
            timer = threading.Timer(delay, kill.strike)
            timer.start()
            words = self._tried(client, kill, None)
            timer.join()
        if when != "cold":
            self._all_there(client)
            self.same += bool(self._solve(client, None).residuals == self._truth.residuals)
        print(f"{when} {number + 1:3}: {words}", flush=True)

    def _all_there(self, client: Any) -> dict[str, int]:
        """Processes of the workers by address, once they are as many as at first and all of them answer."""
        until = time.monotonic() + BACK
        while True:
            pids: dict[str, int] = client.run(os.getpid, on_error="ignore")
            if len(pids) == self._workers and self._victim not in pids.values():
                return pids
            if time.monotonic() > until:
                raise TimeoutError(f"a worker did not come back within {BACK:g} s")
            time.sleep(0.1)

    def _tried(self, client: Any, kill: Kill, callback: Any) -> str:
        faulthandler.dump_traceback_later(self._limit, exit=True)
        began = time.monotonic()
        try:
            found = self._solve(client, callback)
        except dsolver.errors.DsolverError as error:
            return f"after {time.monotonic() - began:.1f} s {type(error).__name__}: {error}"
        finally:
            faulthandler.cancel_dump_traceback_later()
            over = time.monotonic() - (kill.at or began)
            self.times.append(over)
        error = np.abs(found.x - self._truth.x).max() / np.abs(self._truth.x).max()
        self.right += bool(found.converged and error < RIGHT)
        return f"error {error:.1e}, over {over:.1f} s after the kill, {found.timings.get('lost', 0.0):.1f} s lost"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--when", nargs="+", choices=("iterations", "cold", "warm"), default=["iterations"])
    parser.add_argument("--engines", nargs="+", choices=("resident", "graph"), default=["resident"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--points", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    matrix = definite(options.points)
    b = np.random.default_rng(0).standard_normal(matrix.shape[0])
    print(f"{matrix.shape[0]} rows, {matrix.nnz} entries, {options.workers} workers")
    problem = dsolver.matrix(matrix, chunks=options.workers)

    @contextmanager
    def opened() -> Iterator[Any]:
        with cluster_of(options.device, options.workers) as cluster, cluster.get_client() as client:
            yield client

    for engine in options.engines:

        def solve(client: Any, callback: Any, engine: Any = engine) -> Any:
            how = {"client": client, "rtol": 1e-9, "M": "jacobi", "device": options.device}
            return dsolver.solve(problem, b, callback=callback, engine=engine, **how)

        with opened() as client:
            truth = solve(client, None)
        print(f"{engine}, undisturbed: {truth}")
        for when in options.when:
            done = Round(opened, solve, truth, options.workers, options.seconds)
            done.run(when, options.kills)
            bits = "" if when == "cold" else f"; {done.same} solves afterwards with the same bits"
            print(
                f"{engine}, {when}: {done.right} of {options.kills} right, over {min(done.times):.1f} to "
                f"{max(done.times):.1f} s after the kill{bits}",
                flush=True,
            )


if __name__ == "__main__":
    main()
