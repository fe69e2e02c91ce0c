"""Porous media: the open cells of a grid beside the same rows given as a matrix, and on a GPU memory of both.

python bench/open_cells.py                                   rock (35 % open) and spheres (65 %), 128³ and 256³
python bench/open_cells.py --media 0.8 0.9 0.95 --grid 128   other parts of the cells, open between random bodies
python bench/open_cells.py --device cpu --grid 96            processor time, which hardly depends on other programs

The ways take turns, and each time is the best of its turns. Rows of the matrix are in the order of the grid.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

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


class Machine:
    """A CPU, or a GPU with CuPy's pool."""

    def __init__(self, device: str) -> None:
        self.gpu: Any = None
        if device == "cuda":
            import cupy

            self.gpu = cupy

    def there(self, array: Any) -> Any:
        """An array, or a matrix in compressed rows, on the device."""
        if self.gpu is None:
            return array
        if not sp.issparse(array):
            return self.gpu.asarray(array)
        import cupyx.scipy.sparse

        return cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(array))

    def clock(self) -> float:
        """Seconds, on a CPU of its cores."""
        if self.gpu is None:
            return time.process_time()
        self.gpu.cuda.Device().synchronize()
        return time.perf_counter()

    def held(self) -> float:
        """MB in CuPy's pool, from which what is not in use has gone."""
        if self.gpu is None:
            return 0.0
        pool = self.gpu.get_default_memory_pool()
        pool.free_all_blocks()
        return pool.total_bytes() / 1e6

    def most(self) -> float:
        """MB that CuPy's pool has taken."""
        return 0.0 if self.gpu is None else self.gpu.get_default_memory_pool().total_bytes() / 1e6


class Seconds(NamedTuple):
    """Seconds of a set-up with its first solve, and of a later solve."""

    first: float
    later: float


def solved(machine: Machine, make: Callable[[], Any], b: Any, m: str) -> tuple[Seconds, Any, float]:
    """Seconds, the solution, and the largest use of CuPy's pool above the start, MB."""
    before, began = machine.held(), machine.clock()
    with dsolver.Solver(make(), M=m, device="cpu" if machine.gpu is None else "cuda") as solver:
        solver.solve(b, rtol=1e-8)
        ready, used = machine.clock(), machine.most() - before
        solution = solver.solve(b, rtol=1e-8)
        return Seconds(ready - began, machine.clock() - ready), solution, used


def compare(machine: Machine, n: int, part: float, runs: int) -> None:
    """A row for each way."""
    opened = medium(n, part)
    pockets = int(ndimage.label(opened)[1])
    rng, reach = np.random.default_rng(0), reached(opened)
    b = rng.standard_normal(opened.shape) * reach
    number = np.full(opened.shape, -1)
    number[reach] = np.arange(reach.sum())
    order = number.T[reach.T]
    matrix = machine.there(rows_of(reach)[order][:, order].sorted_indices())
    kappa, mask, source, right = (machine.there(a) for a in (np.ones(opened.shape), ~opened, b, b[reach][order]))
    print(f"{n}³, {100 * opened.mean():.0f} % open, {pockets} regions, {len(order):,} cells reached from a face")

    def grid() -> Any:
        return diffusion(opened.shape, kappa, mask=mask, bc=FIXED)

    ways: dict[str, tuple[Callable[[], Any], Any, str]] = {
        "by itself": (grid, source, "auto"),
        "mg": (grid, source, "mg"),
        "amg": (grid, source, "amg"),
        "rows as CSR, amg": (lambda: matrix, right, "amg"),
    }
    found: dict[str, list[tuple[Seconds, Any, float]]] = {name: [] for name in ways}
    for _ in range(1 + runs):
        for name, way in ways.items():
            found[name].append(solved(machine, *way))
    for name, (_, *rest) in found.items():  # kernels are compiled in the first turn
        best = Seconds(*map(min, zip(*(seconds for seconds, _, _ in rest), strict=True)))
        _, solution, used = rest[-1]
        print(
            f"  {name:18s} first {1e3 * best.first:8.2f} ms, later {1e3 * best.later:8.2f} ms, "
            f"{solution.iterations:3d} iterations, {used:8.0f} MB, {solution.status}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--media", type=float, nargs="+", default=[0.35, 0.65], help="part of the cells that is open")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    machine = Machine(options.device)
    for n in options.grid:
        for part in options.media:
            compare(machine, n, part, options.runs)


if __name__ == "__main__":
    main()
