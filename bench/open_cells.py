"""Porous media on one GPU: the open cells of a grid beside the same rows given as a matrix, and memory of both.

python bench/open_cells.py                                   rock (35 % open) and spheres (65 %), 128³ and 256³
python bench/open_cells.py --media 0.8 0.9 0.95 --grid 128   other parts of the cells, open between random bodies
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import scipy.sparse as sp
from scipy import ndimage

import dsolver
from dsolver.problems import Dirichlet, diffusion

FIXED = {"x-": Dirichlet(1.0), "x+": Dirichlet(0.0)}


def medium(n: int, part: float) -> Any:
    """Open cells of n³, bool: where smooth noise is high; what is not connected stays as closed pockets."""
    noise = ndimage.gaussian_filter(np.random.default_rng(11).standard_normal((n, n, n)), 1.5, mode="wrap")
    return noise > np.quantile(noise, 1.0 - part)


def reached(opened: Any) -> Any:
    """Open cells that are connected with a face at which u is fixed."""
    label, _ = ndimage.label(opened)
    there = np.union1d(np.unique(label[0]), np.unique(label[-1]))
    return np.isin(label, there[there > 0])


def rows_of(opened: Any) -> Any:
    """The Laplacian on the open cells between the fixed faces, a CSR matrix of SciPy."""
    numbers = np.full(opened.shape, -1)
    numbers[opened] = np.arange(opened.sum())
    pairs = []
    for axis in range(3):
        low, high = (np.take(numbers, range(a, numbers.shape[axis] - 1 + a), axis) for a in (0, 1))
        both = (low >= 0) & (high >= 0)
        pairs.append((low[both], high[both]))
    i, j = (np.concatenate([pair[end] for pair in pairs]) for end in (0, 1))
    count = int(opened.sum())
    links = sp.coo_array((np.ones(len(i)), (i, j)), shape=(count, count)).tocsr()
    links = links + links.T
    fixed = np.zeros(opened.shape)
    fixed[[0, -1]] = 2.0  # half a cell from the face
    return sp.csr_array(sp.diags_array(links.sum(axis=1) + fixed[opened]) - links)


def timed(call: Callable[[], Any], rounds: int = 4) -> tuple[float, Any, float]:
    """Seconds of the fastest call but the first, its result, and the largest use of CuPy's pool above the start, MB."""
    best, result, pool = np.inf, None, cupy.get_default_memory_pool()
    for number in range(rounds):
        result = None
        pool.free_all_blocks()
        before = pool.total_bytes()
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        result = call()
        cupy.cuda.Device().synchronize()
        if number:
            best = min(best, time.perf_counter() - began)
        used = (pool.total_bytes() - before) / 1e6
    return best, result, used


def compare(n: int, part: float) -> None:
    """A row for each way."""
    import cupyx.scipy.sparse

    opened = medium(n, part)
    pockets = int(ndimage.label(opened)[1])
    rng = np.random.default_rng(0)
    b = rng.standard_normal(opened.shape) * reached(opened)
    kappa, source = cupy.ones(opened.shape), cupy.asarray(b)
    there = reached(opened)
    matrix, right = cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(rows_of(there))), cupy.asarray(b[there])
    print(f"{n}³, {100 * opened.mean():.0f} % open, {pockets} regions, {there.sum():,} cells reached from a face")
    ways: dict[str, tuple[Any, Any, Any]] = {
        "by itself": (diffusion(opened.shape, kappa, mask=cupy.asarray(~opened), bc=FIXED), source, "auto"),
        "mg": (diffusion(opened.shape, kappa, mask=cupy.asarray(~opened), bc=FIXED), source, "mg"),
        "amg": (diffusion(opened.shape, kappa, mask=cupy.asarray(~opened), bc=FIXED), source, "amg"),
        "rows as CSR, amg": (matrix, right, "amg"),
    }
    for name, (problem, values, m) in ways.items():

        def first(problem: Any = problem, values: Any = values, m: Any = m) -> Any:
            return dsolver.solve(problem, values, M=m, rtol=1e-8)

        seconds, solution, used = timed(first)
        with dsolver.Solver(problem, M=m) as solver:
            later, _, _ = timed(lambda values=values, solver=solver: solver.solve(values, rtol=1e-8))
        print(
            f"  {name:18s} first {1e3 * seconds:8.2f} ms, later {1e3 * later:8.2f} ms, "
            f"{solution.iterations:3d} iterations, {used:8.0f} MB, {solution.status}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--media", type=float, nargs="+", default=[0.35, 0.65], help="part of the cells that is open")
    options = parser.parse_args()
    for n in options.grid:
        for part in options.media:
            compare(n, part)


if __name__ == "__main__":
    main()
