"""Time of a matrix on a GPU from `dsolver.matrix` to a set-up, phase by phase, over the bytes that must be read.

python bench/device_matrix.py                      7 points, 128³ and 256³
python bench/device_matrix.py --grid 192 --rounds 9
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import cupy
import cupyx.scipy.sparse
import numpy as np

import dsolver
from dsolver.kernels import load
from dsolver.matrices.checked import ASYMMETRY, checked, csr_of
from dsolver.matrices.chunks.row_block import ROWS

FILL = cupy.RawKernel(
    r"""
    extern "C" __global__ void fill(int n, const long long* start, int* columns, double* values) {
        const long long row = blockIdx.x * 256ll + threadIdx.x;
        if (row >= static_cast<long long>(n) * n * n) return;
        const int k = row % n, j = row / n % n, i = row / n / n;
        long long at = start[row];
        auto put = [&](bool there, long long column, double value) {
            if (there) { columns[at] = static_cast<int>(column); values[at++] = value; }
        };
        put(i > 0, row - static_cast<long long>(n) * n, -1.0);
        put(j > 0, row - n, -1.0);
        put(k > 0, row - 1, -1.0);
        put(true, row, 6.0);
        put(k + 1 < n, row + 1, -1.0);
        put(j + 1 < n, row + n, -1.0);
        put(i + 1 < n, row + static_cast<long long>(n) * n, -1.0);
    }
    """,
    "fill",
    options=("--std=c++17",),
)


def lattice(n: int) -> Any:
    """The 7-point Laplacian on n³ points with zeros around, a CSR matrix of CuPy."""
    ends = cupy.full(n, 2, dtype=np.int32)
    ends[[0, -1]] = 1 if n > 1 else 0
    lengths = 1 + ends[:, None, None] + ends[None, :, None] + ends[None, None, :]
    start = cupy.concatenate([cupy.zeros(1, dtype=np.int64), cupy.cumsum(lengths.ravel(), dtype=np.int64)])
    entries = int(start[-1])
    columns, values = cupy.empty(entries, dtype=np.int32), cupy.empty(entries)
    FILL((-(-(n**3) // 256),), (256,), (np.int32(n), start, columns, values))
    return cupyx.scipy.sparse.csr_matrix((values, columns, start.astype(np.int32)), shape=(n**3, n**3))


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Milliseconds of the fastest call, and its result."""
    best, result = np.inf, None
    for _ in range(rounds):
        result = None
        cupy.cuda.Device().synchronize()
        began = time.perf_counter()
        result = call()
        cupy.cuda.Device().synchronize()
        best = min(best, time.perf_counter() - began)
    return 1e3 * best, result


def phases(a: Any, rounds: int) -> None:
    """A table of phases."""
    general, size = load("cuda").general, a.nnz * 12 + a.shape[0] * 8

    def told(name: str, call: Callable[[], Any]) -> Any:
        took, result = timed(call, rounds)
        print(f"  {name:44s} {took:9.3f} ms {size / took / 1e6:8.0f} GB/s of 12 bytes an entry and 8 a row")
        return result

    def cut() -> Any:
        return problem.planned(1)

    def set_up() -> None:
        with dsolver.Solver(planned, M="jacobi", device="cuda"):
            pass

    def first() -> None:
        with dsolver.Solver(a, M="jacobi", device="cuda"):
            pass

    rows = csr_of(checked("A", a)[0])
    told("look at all entries", lambda: general.look(rows, ASYMMETRY))
    told("dsolver.matrix", lambda: dsolver.matrix(a))
    problem = dsolver.matrix(a)
    planned = told("one chunk, with statistics", cut)
    block = planned.coefficients[ROWS].blocks(_partition(planned), host=False)[0]
    choice = general.choice(block.csr, None)
    print(f"  {choice}")
    told("diagonal", lambda: general.diagonal(block.csr))
    told("format", lambda: general.product(block.csr, block.csr.size, choice))
    layouts = load("cuda").layouts
    layout = told("layout", lambda: layouts.plain((a.shape[0], 1, 1)))
    told("format with its diagonal", lambda: general.matrix(block.csr, layout, known=block.known, borrowed=True))
    told("Solver of what was cut, M='jacobi'", set_up)
    told("Solver of the matrix itself, M='jacobi'", first)


def _partition(problem: Any) -> Any:
    from dsolver.grid.partition import Partition

    return Partition(problem.grid, problem.chunks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, nargs="+", default=[128, 256], metavar="N")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    phases(lattice(24), 1)  # compiles
    for n in arguments.grid:
        a = lattice(n)
        print(f"{n}³, 7 points: {a.nnz:,} entries")
        phases(a, arguments.rounds)
        a = None
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()
