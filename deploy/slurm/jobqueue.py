"""A cluster of SLURM's from Python with dask-jobqueue: SLURM starts the workers, this process keeps the scheduler.

    pip install dask-jobqueue
    python jobqueue.py --workers 4 --walltime 00:30:00                     CPU workers
    python jobqueue.py --workers 4 --gpus-per-worker 1 --walltime 00:30:00   one GPU each

Run it where SLURM's commands work and from where the nodes can be reached, as on a login node, or inside a small job.
"""

from __future__ import annotations

import argparse
from typing import Any

import dask.array as da
from dask_jobqueue import SLURMCluster
from distributed import Client

import dsolver


def cluster_of(options: argparse.Namespace) -> Any:
    """Workers that suit the solver: one task thread each, no memory limit that would kill, a whole GPU each."""
    gpu: dict[str, Any] = {}
    if options.gpus_per_worker:
        gpu = {
            "worker_command": "dask_cuda.cli",
            "worker_extra_args": ["--device-memory-limit", "0"],
            "job_extra_directives": [f"--gpus={options.gpus_per_worker}"],
        }
    return SLURMCluster(
        queue=options.queue,
        walltime=options.walltime,
        cores=1,
        processes=1,
        memory=options.memory,
        job_directives_skip=["--mem"] if options.memory_unmanaged else [],
        scheduler_options={"dashboard_address": ":0"},
        **gpu,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--gpus-per-worker", type=int, default=0)
    options.add_argument("--queue")
    options.add_argument("--walltime", default="00:30:00")
    options.add_argument("--memory", default="4GB", help="of a worker, as SLURM accounts it")
    options.add_argument("--memory-unmanaged", action="store_true", help="where SLURM does not manage memory")
    options.add_argument("--grid", type=int, nargs=3, default=(64, 64, 64))
    chosen = options.parse_args()
    with cluster_of(chosen) as cluster, Client(cluster) as client:
        cluster.scale(jobs=chosen.workers)
        client.wait_for_workers(chosen.workers, timeout=600)
        problem = dsolver.problems.hpcg(tuple(chosen.grid))
        solution = dsolver.solve(problem, da.ones(problem.grid), client=client)
        print(solution)
        assert solution.converged, solution.status.advice


if __name__ == "__main__":
    main()
