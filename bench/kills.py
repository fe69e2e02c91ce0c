"""Kills of workers in the middle of solves with a general matrix: is every answer right, to the bit, and who is back?

    python bench/kills.py [--kills 20] [--workers 3] [--device cpu]

A cluster of this machine (with `--device cuda` of its GPUs, one worker each) solves with a finite element matrix of
tetrahedra. In every solve one worker is ended by SIGKILL at an iteration that the number of the kill chooses.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from typing import Any

import numpy as np
from matrices import banded_order, tetrahedra_p1
from scipy import sparse

import dsolver


def cluster_of(device: str, workers: int) -> Any:
    if device == "cuda":
        from dask_cuda import LocalCUDACluster

        return LocalCUDACluster(n_workers=workers, memory_limit=None)
    from distributed import LocalCluster

    return LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=None, dashboard_address=None)


def definite(points: int) -> Any:
    """A Laplacian of linear elements on tetrahedra, with a positive diagonal added: (rows, rows)."""
    a = banded_order(tetrahedra_p1(points))
    return sparse.csr_matrix(a + 1e-3 * a.diagonal().mean() * sparse.eye_array(a.shape[0]))


class Kill:
    """A callback that ends a worker once, at an iteration."""

    def __init__(self, victim: int, iteration: int) -> None:
        self._victim, self._iteration, self.at = victim, iteration, 0.0

    def __call__(self, state: Any) -> None:
        if not self.at and state.iteration >= self._iteration:
            self.at = time.monotonic()
            os.kill(self._victim, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--points", type=int, default=20000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    matrix = definite(options.points)
    b = np.random.default_rng(0).standard_normal(matrix.shape[0])
    print(f"{matrix.shape[0]} rows, {matrix.nnz} entries, {options.workers} workers")
    with cluster_of(options.device, options.workers) as cluster, cluster.get_client() as client:
        problem = dsolver.matrix(matrix, chunks=options.workers)
        how = {"client": client, "rtol": 1e-9, "M": "jacobi", "device": options.device}
        truth = dsolver.solve(problem, b, **how)
        print(f"undisturbed: {truth}")
        right = bits = back = 0
        for number in range(options.kills):
            choice = np.random.default_rng(number)
            pids = client.run(os.getpid)
            kill = Kill(pids[str(choice.choice(sorted(pids)))], int(choice.integers(1, truth.iterations)))
            found = dsolver.solve(problem, b, callback=kill, **how)
            over = time.monotonic() - kill.at
            error = np.abs(found.x - truth.x).max() / np.abs(truth.x).max()
            right += bool(found.converged and error < 1e-7)
            try:
                client.wait_for_workers(options.workers, timeout=60)
                back += 1
            except TimeoutError:
                print("  the worker did not come back within 60 s")
            after = dsolver.solve(problem, b, **how)
            bits += bool(after.residuals == truth.residuals)
            print(f"{number + 1:3}: error {error:.1e}, over {over:.1f} s after the kill", flush=True)
        print(f"of {options.kills}: {right} right, {back} workers back, {bits} solves afterwards with the same bits")


if __name__ == "__main__":
    main()
