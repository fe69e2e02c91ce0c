"""Compile the CPU's kernels by small solves of each kind, for the cache from which every later process takes them.

Without it the processes that run the tests side by side, and those that they start, would each compile the same.
"""

from __future__ import annotations

import numpy as np

import dsolver
from dsolver import problems
from dsolver.options import PrecondDtype
from dsolver.problems import Problem

GRID = (16, 16, 16)
CUT = (2, 1, 1)


def main() -> None:
    rng, b = np.random.default_rng(0), np.ones(GRID)
    smooth, rough = 1.0 + rng.random(GRID), np.where(rng.random(GRID) < 0.5, 1.0, 1e4)
    cases: list[tuple[Problem, str, PrecondDtype]] = [
        (problems.poisson7(GRID), "mg", "float64"),
        (problems.poisson7(GRID), "mg", "float32"),
        (problems.poisson27(GRID, chunks=CUT), "mg", "float64"),
        (problems.hpcg(GRID, chunks=CUT), "hpcg", "float64"),
        (problems.diffusion(GRID, smooth, chunks=CUT), "mg", "float64"),
        (problems.diffusion(GRID, smooth, chunks=CUT), "mg", "float32"),
        (problems.diffusion(GRID, rough), "mg", "float64"),  # coarsened by couplings
    ]
    for problem, m, dtype in cases:
        with dsolver.Solver(problem, device="cpu", M=m, precond_dtype=dtype) as solver:
            assert solver.solve(b).converged
            assert solver.solve([b, 2.0 * b]).converged


if __name__ == "__main__":
    main()
