"""Set-up in several chunks and on several workers, against one.

    python bench/distributed_setup.py --chunks 1 2 4 8 --size 64
    python bench/distributed_setup.py --workers 1 2 --grid 256 256 512 --M amg mg --csr 160
    python bench/distributed_setup.py --workers 1 2 --weak 256 256 256 --M amg --elements 271

With --chunks: processor seconds of set-up of M="amg" for compressed rows of 7 points on size³ cells, cut into so many
chunks, in this process; ratios to the first count. With --workers: through Dask on GPUs, κ a function (smooth, or of
jumps by --kappa rough) and b a NumPy array on --grid, or on --weak cells for each worker; compressed rows of SciPy on
csr³ cells from the client; and rows of linear elements between elements³ nodes that lie on the workers, b with them, a
block on each. Seconds of set-up, of the first solve with all that comes before it, and of a later one. The best of
--runs, each set up anew; the kernels are compiled before. All to a relative residual of 1e-8.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import dsolver
from dsolver.cluster.local import ClusterOptions, open_client


def seven_points(n: int) -> Any:
    """The Laplacian of n³ cells as compressed rows."""
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    parts = (sp.kron(sp.kron(line, eye), eye), sp.kron(sp.kron(eye, line), eye), sp.kron(sp.kron(eye, eye), line))
    return sum(parts[1:], parts[0]).tocsr()


def smooth(x: Any, y: Any, z: Any) -> Any:
    """κ."""
    return 1.0 + x * y + z * z


def rough(x: Any, y: Any, z: Any) -> Any:
    """κ with jumps over four decades between blocks of 1/32 of an edge, as if drawn."""
    drawn = np.sin(12.9898 * np.floor(32 * x) + 78.233 * np.floor(32 * y) + 37.719 * np.floor(32 * z)) * 43758.5453
    return 10.0 ** (4.0 * (drawn - np.floor(drawn)))


KAPPA = {"smooth": smooth, "rough": rough}


def processor_seconds(make: Callable[[], Any], runs: int) -> float:
    """Processor seconds of the best of some runs, the first of which is not counted."""
    found = []
    for _ in range(1 + runs):
        began = time.process_time()
        with make():
            found.append(time.process_time() - began)
    return min(found[1:])


def in_chunks(counts: list[int], size: int, runs: int) -> None:
    a, first = seven_points(size), None
    for count in counts:
        matrix = dsolver.matrix(a, chunks=count)

        def make(matrix: Any = matrix) -> Any:
            return dsolver.Solver(matrix, M="amg", device="cpu")

        took = processor_seconds(make, runs)
        first = first or took
        print(f"{count:3} chunks: {took:.3f} s of a processor, {took / first:.2f}", flush=True)


def on_workers(workers: int, what: str, make: Callable[[], Any], m: str, b: Any, runs: int) -> None:
    with open_client(ClusterOptions(workers=workers, device="cuda")) as client:
        solved_anew(client, f"{what} {m}, {workers} workers", make, m, b, runs)


def from_blocks(workers: int, points: int, runs: int) -> None:
    """A matrix of linear elements of which each worker has the rows of a block in memory of the host, and so b."""
    import dask.array as da

    with open_client(ClusterOptions(workers=workers, device="cuda")) as client:
        there = list(client.nthreads())
        cuts = np.linspace(0, points**3, workers + 1).astype(int)
        parts = list(zip(pairwise(cuts), there, strict=True))
        blocks = [client.submit(rows_of_elements, points, *span, workers=[at]) for span, at in parts]
        b = [client.submit(drawn, j - i, seed, workers=[at]) for seed, ((i, j), at) in enumerate(parts)]
        arrays = [da.from_delayed(f, (j - i,), np.float64) for f, ((i, j), _) in zip(b, parts, strict=True)]
        client.gather([client.submit(len, future) for future in b] + [client.submit(np.shape, f) for f in blocks])
        what = f"{points**3} rows of elements, {workers} workers"
        solved_anew(client, what, lambda: dsolver.matrix_from_blocks(blocks), "amg", da.concatenate(arrays), runs)


def rows_of_elements(points: int, first: int, last: int) -> Any:
    """Rows first .. last of a Laplacian of linear elements between points³ nodes, as a CSR matrix of SciPy."""
    import cupy

    sys.path.append(str(Path(__file__).parent))
    from amg_csr import linear

    rows = linear(cupy, points + 1).rows[first:last].get()
    cupy.get_default_memory_pool().free_all_blocks()
    return rows


def drawn(count: int, seed: int) -> Any:
    """Random numbers, float64 (count,)."""
    return np.random.default_rng(seed).standard_normal(count)


def solved_anew(client: Any, what: str, make: Callable[[], Any], m: str, b: Any, runs: int) -> None:
    """Print seconds of the best of some runs, the first of which is not counted."""
    found = []
    for _ in range(1 + runs):
        began = time.perf_counter()
        with dsolver.Solver(make(), M=m, client=client, device="cuda") as solver:
            first = solver.solve(b, rtol=1e-8)
            done = time.perf_counter()
            solver.solve(b, rtol=1e-8)
            found.append((first.timings["setup"], done - began, time.perf_counter() - done, first.iterations))
        del solver, first  # of which the cluster would reuse what was found of the same blocks
    setup, first_solve, later = (min(run[place] for run in found[1:]) for place in range(3))
    print(
        f"{what}: set-up {setup:.4f} s, first solve {first_solve:.4f}, later {later:.4f}, {found[-1][3]} iterations",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chunks", type=int, nargs="+")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--workers", type=int, nargs="+", default=())
    options.add_argument("--grid", type=int, nargs=3)
    options.add_argument("--kappa", choices=KAPPA, default="smooth")
    options.add_argument("--M", nargs="+", default=("amg", "mg"))
    options.add_argument("--weak", type=int, nargs=3)
    options.add_argument("--csr", type=int)
    options.add_argument("--elements", type=int)
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    if arguments.chunks:
        in_chunks(arguments.chunks, arguments.size, arguments.runs)
    rng, runs = np.random.default_rng(0), arguments.runs
    for workers in arguments.workers:
        if arguments.grid:
            grid = tuple(arguments.grid)
            b = rng.standard_normal(grid)
            for m in arguments.M:
                problem = dsolver.problems.diffusion(grid, KAPPA[arguments.kappa])
                on_workers(workers, "x".join(map(str, grid)), lambda of=problem: of, m, b, runs)
        if arguments.weak:
            nx, ny, nz = arguments.weak
            grid = (nx, ny, nz * workers)
            problem = dsolver.problems.diffusion(grid, KAPPA[arguments.kappa])
            for m in arguments.M:
                on_workers(workers, "x".join(map(str, grid)), lambda of=problem: of, m, rng.standard_normal(grid), runs)
        if arguments.elements:
            from_blocks(workers, arguments.elements, runs)
        if arguments.csr:
            a = seven_points(arguments.csr)
            b = rng.standard_normal(a.shape[0])
            on_workers(workers, f"CSR {arguments.csr}³", lambda of=a: of, "amg", b, runs)


if __name__ == "__main__":
    main()
