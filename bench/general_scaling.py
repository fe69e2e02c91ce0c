"""Iterations of conjugate gradients with a matrix of finite elements on one GPU and on several, through Dask.

    python bench/general_scaling.py [--points 271] [--workers 1 2] [--iterations 400] [--M chebyshev]

Linear elements of `bench/amg_csr.py`, points³ rows, made on a GPU and brought to the host, from where each worker gets
a chunk of consecutive rows. Each count of workers has a solve of so many iterations, its best of three, and one that is
measured: what communication leaves exposed of an iteration.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import cupy
import numpy as np
from amg_csr import linear

import dsolver
from dsolver.cluster.local import ClusterOptions, open_client


def on_host(points: int) -> Any:
    """The matrix in SciPy's compressed rows; the GPU's memory is given back."""
    matrix = linear(cupy, points + 1).rows.get()
    cupy.get_default_memory_pool().free_all_blocks()
    return matrix


def measured(matrix: Any, b: Any, workers: int, options: argparse.Namespace) -> float:
    """Seconds of an iteration on so many workers, of which it is told."""
    began = time.perf_counter()
    solves: dict[str, Any] = {"rtol": 1e-14, "maxiter": options.iterations}
    spans: list[Any] = []
    with (
        open_client(ClusterOptions(workers=workers, device="cuda")) as client,
        dsolver.Solver(dsolver.matrix(matrix), M=options.M, client=client, device="cuda") as solver,
    ):
        found = [solver.solve(b, **solves) for _ in range(3)]
        told = solver.solve(b, spans=spans.append, **solves)
        formats = solver.formats
    each = min(one.timings["solve"] / one.iterations for one in found)
    print(
        f"{workers} workers: {1e3 * each:.3f} ms an iteration of {found[0].iterations}, {1.0 / each:.0f} a second; "
        f"exposed {told.exposed_ms or 0.0:.3f} ms, {told.exposed_percent or 0.0:.1f} %; residual "
        f"{found[0].residuals[-1]:.17g}; {time.perf_counter() - began:.0f} s in all\n  {told.exposure}\n  {formats}",
        flush=True,
    )
    return each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=271)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--M", default="chebyshev")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # solves end at --iterations
    matrix = on_host(options.points)
    print(f"{matrix.shape[0]} rows, {matrix.nnz} entries, M={options.M!r}", flush=True)
    b = np.random.default_rng(0).standard_normal(matrix.shape[0])
    each = [measured(matrix, b, workers, options) for workers in options.workers]
    for workers, seconds in zip(options.workers[1:], each[1:], strict=True):
        print(f"{workers} workers: {each[0] / seconds:.3f} times as fast as {options.workers[0]}")


if __name__ == "__main__":
    main()
