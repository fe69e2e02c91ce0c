"""Colors and iterations of Gauss-Seidel sweeps in different orders, for HPCG's 27-point matrix.

    python bench/colorings.py --sizes 32 64
    python bench/colorings.py --sizes 128 --device cuda --colorings color8 greedy jpl cc levels

For each order: the number of colors; iterations of conjugate gradients to 1e-9 with M="symgs" and M="ic0", where the
matrix is given in compressed rows, and with HPCG's V-cycle (M="hpcg") on the grid, for a uniformly random right-hand
side; milliseconds of an iteration with M="symgs", and seconds of its set-up. color8 is HPCG's order of the eight parity
classes; levels is the order of the rows.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.grid.coloring import Order
from dsolver.kernels.colorings import COLORINGS
from dsolver.preconditioners import IC0, SymGS

RTOL = 1e-9


def hpcg_matrix(n: int) -> sp.csr_array:
    """26 on the diagonal and -1 for each of the 26 neighbors, in lattice order."""
    line = sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])
    rows = sp.kron(sp.kron(line, line), line).tocsr() * -1.0
    rows.setdiag(26.0)
    rows.sort_indices()
    return rows


def eight_colors(n: int, _: Any, __: int, xp: Any) -> Any:
    """HPCG's order as a coloring of the matrix."""
    return Order.parse("color8").colors(xp, (n, n, n))


def solved(problem: Any, b: Any, m: Any, device: str, **options: Any) -> tuple[int, float, float]:
    """Iterations, milliseconds of one in a second solve, and seconds of set-up."""
    began = time.perf_counter()
    with dsolver.Solver(problem, M=m, device=device, **options) as solver:
        setup = time.perf_counter() - began
        solver.solve(b, rtol=RTOL, maxiter=3)
        began = time.perf_counter()
        solution = solver.solve(b, rtol=RTOL)
        seconds = time.perf_counter() - began
    assert solution.converged, solution.status
    return solution.iterations, 1e3 * seconds / solution.iterations, setup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--colorings", nargs="+", default=["color8", *COLORINGS])
    parser.add_argument("--no-grid", action="store_true", help="leave the V-cycle out: its colors are made on the host")
    parser.add_argument("--no-ic0", action="store_true", help="leave the incomplete factors out")
    given = parser.parse_args()
    for n in given.sizes:
        rows, grid = dsolver.matrix(hpcg_matrix(n)), problems.hpcg((n, n, n))
        b = np.random.default_rng(0).uniform(-1.0, 1.0, grid.grid)
        COLORINGS["color8"] = partial(eight_colors, n)
        plain, *_ = solved(rows, b.ravel(), "jacobi", given.device)
        print(f"{n}³: Jacobi {plain} iterations")
        for name in given.colorings:
            iterations, ms, setup = solved(rows, b.ravel(), SymGS(coloring=name), given.device)
            colors = Order.parse(name).count(grid.grid) if not given.no_grid else "?"
            ic0 = "" if given.no_ic0 else solved(rows, b.ravel(), IC0(coloring=name), given.device)[0]
            cycle = "" if given.no_grid else solved(grid, b, "hpcg", given.device, order=name)[0]
            print(
                f"  {name:13} {colors:>5} colors  symgs {iterations:>4}  ic0 {ic0:>4}  V-cycle {cycle:>4}  "
                f"{ms:8.2f} ms an iteration, set-up {setup:.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
