"""A rotating flow at cell Péclet numbers from 0.1 to 10,000, upwind, to 1e-8: iterations/milliseconds of a later solve.

python bench/flow.py                                 processor time; 64², 128² and 32³ cells, on CPUs
python bench/flow.py --grid 256 256 --device cuda    another grid
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import dsolver
from dsolver.preconditioners import Algebraic
from dsolver.problems import diffusion

PECLET = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
SETTINGS = {
    "default": Algebraic(),
    "aggregation": Algebraic(coarsening="aggregation"),
    "theta 0.08": Algebraic(coarsening="aggregation", theta=0.08),
    "jacobi": Algebraic(coarsening="aggregation", smoother="jacobi", sweeps=2),
}


def along_x(x: Any, y: Any, z: Any = 0.0) -> Any:
    """Around the middle of a box of size 1, with the speed 1 at the middle of its faces."""
    return 1.0 - 2.0 * y + 0.0 * (x + z)


def along_y(x: Any, y: Any, z: Any = 0.0) -> Any:
    """Velocity along y of a cavity's flow."""
    return 2.0 * x - 1.0 + 0.0 * (y + z)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, nargs="+")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    clock = time.process_time if asked.device == "cpu" else time.perf_counter
    grids = [tuple(asked.grid)] if asked.grid else [(64, 64), (128, 128), (32, 32, 32)]
    print(f"{'cells':14s}{'settings':22s}{'method':10s}" + "".join(f"{peclet:>9g}" for peclet in PECLET))
    for grid in grids:
        for name, m in SETTINGS.items():
            for method in (None, "gmres"):
                found: list[str] = []
                for peclet in PECLET:
                    velocity = (along_x, along_y, 0.0)[: len(grid)]
                    flow = diffusion(grid, 1.0 / (grid[0] * peclet), velocity=velocity, spacing=1.0 / grid[0])
                    with dsolver.Solver(flow, M=m, method=method, device=asked.device) as solver:
                        solution = solver.solve(np.ones(grid), maxiter=150)
                        began = clock()
                        solver.solve(np.ones(grid), maxiter=150)
                        seconds = clock() - began
                    found.append(f"{solution.iterations}{'' if solution.converged else '!'}/{1e3 * seconds:.0f}")
                cells = "x".join(map(str, grid))
                taken = method or "usual"
                print(f"{cells:14s}{name:22s}{taken:10s}" + "".join(f"{each:>9s}" for each in found), flush=True)


if __name__ == "__main__":
    main()
