"""Weak and strong scaling over the GPUs (or CPU workers) of one machine, through Dask.

    python bench/scaling.py --workers 1 2 4 --local 256 256 256
    python bench/scaling.py --workers 1 2 4 --grid 512 512 512
    python bench/scaling.py --workers 1 2 4 --grid 256 256 256 --chunks 2 2 2      (and compare the bits)
    python bench/scaling.py --workers 1 --grid 256 256 256 --embedded              (what Dask costs)

One row a count of workers: HPCG's flops of so many iterations over their time, the efficiency against the first row
that has a cluster, seconds from the start of the ranks to the last iteration (set-up and recording included), and the
last residual. With --chunks the partition is the same in every row, and so must be every bit of the residuals.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dsolver.benchmarks import hpcg
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.cluster.runtime import connect
from dsolver.grid.cut import cut_for


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, nargs="+", default=(1, 2))
    size = options.add_mutually_exclusive_group(required=True)
    size.add_argument("--local", type=int, nargs=3, help="points of each worker's chunk: weak scaling")
    size.add_argument("--grid", type=int, nargs=3, help="points of the whole grid: strong scaling")
    options.add_argument("--chunks", type=int, nargs=3, help="the same partition for every count of workers")
    options.add_argument("--iterations", type=int, default=200)
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options.add_argument("--embedded", action="store_true", help="also run without a cluster, first")
    options.add_argument("--json", type=Path)
    arguments = options.parse_args()
    rows: list[dict[str, Any]] = []
    for workers in [*([0] if arguments.embedded else []), *arguments.workers]:
        rows.append(measured(arguments, workers))
        print(described(rows), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


def measured(arguments: argparse.Namespace, workers: int) -> dict[str, Any]:
    """One run; no workers means no cluster."""
    grid, chunks = shape(arguments, workers)
    with open_client(ClusterOptions(workers=workers or None, device=arguments.device)) as client:
        runtime = connect(client, device=arguments.device)
        run = hpcg.HpcgOptions(grid=grid, chunks=chunks, iterations=arguments.iterations)
        result = hpcg.run(runtime, run)
    seconds = {name: took for name, took in result.seconds.items() if took is not None}
    return {
        "workers": workers,
        "grid": grid,
        "raw": result.gflops.raw,
        "ms": 1e3 * seconds["sets"] / arguments.iterations,
        "solve": seconds["setup"] + seconds["sets"],
        "residuals": result.residuals,
    }


def shape(arguments: argparse.Namespace, workers: int) -> tuple[Any, Any]:
    """The grid and its chunks for a number of workers."""
    count = max(1, workers)
    if arguments.grid:
        return tuple(arguments.grid), tuple(arguments.chunks) if arguments.chunks else None
    cut = cut_for((1 << 12,) * 3, count, 8)  # as near to a cube as can be
    return tuple(n * p for n, p in zip(arguments.local, cut, strict=True)), cut


def described(rows: list[dict[str, Any]]) -> str:
    last = rows[-1]
    first = next((row for row in rows if row["workers"]), last)
    speedup = last["raw"] / first["raw"]
    efficiency = speedup / (max(1, last["workers"]) / max(1, first["workers"]))
    return (
        f"{last['workers']:3d} workers {'x'.join(map(str, last['grid'])):>15s} {last['raw']:9.1f} GF/s raw "
        f"{last['ms']:8.4f} ms {speedup:6.2f}x {100 * efficiency:6.1f} % {last['solve']:8.3f} s "
        f"{last['residuals'][-1]:.12e} {'same bits' if last['residuals'] == rows[0]['residuals'] else ''}"
    )


if __name__ == "__main__":
    main()
