"""The 7-point Poisson problem on one GPU, from nothing to 1e-8: set-up, solve, iterations, and where an iteration goes.

    python bench/poisson.py [--grid 512 512 512] [--bc dirichlet] [--precond-dtype float64]

A solve of a small grid before compiles the kernels. b is on the GPU and random.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import cupy

import dsolver
from dsolver import problems


def problem_of(grid: Any, bc: str) -> problems.Problem:
    """-Laplacian on cells of a box, or with bc="points" on points with zeros around them."""
    return problems.poisson7(grid) if bc == "points" else problems.diffusion(grid, 1.0, bc=bc)


def run(grid: Any, bc: str, dtype: Any, rtol: float) -> tuple[float, float, dsolver.Solution]:
    """Seconds of set-up and of the solve, and the solution."""
    b = cupy.random.default_rng(0).standard_normal(grid)
    b -= b.mean()
    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    with dsolver.Solver(problem_of(grid, bc), device="cuda", precond_dtype=dtype) as solver:
        cupy.cuda.Device().synchronize()
        made = time.perf_counter()
        solution = solver.solve(b, rtol=rtol)
        cupy.cuda.Device().synchronize()
        done = time.perf_counter()
        again = solver.solve(b, rtol=rtol)
        cupy.cuda.Device().synchronize()
        print(f"    the same solver again: {time.perf_counter() - done:.3f} s, {again.iterations} iterations")
    return made - began, done - made, solution


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--grid", type=int, nargs=3, default=(512, 512, 512))
    options.add_argument("--bc", default="points", help="points, dirichlet, neumann or periodic")
    options.add_argument("--precond-dtype", default="float64")
    options.add_argument("--rtol", type=float, default=1e-8)
    arguments = options.parse_args()
    for grid in ((64, 64, 64), tuple(arguments.grid)):
        setup, solve, solution = run(grid, arguments.bc, arguments.precond_dtype, arguments.rtol)
        residual = solution.true_residual / solution.b_norm
        print(
            f"{grid} {arguments.bc} {arguments.precond_dtype}: set-up {setup:.3f} s + solve {solve:.3f} s = "
            f"{setup + solve:.3f} s, {solution.iterations} iterations, {solution.status}, residual {residual:.1e}"
        )


if __name__ == "__main__":
    main()
