"""The 7-point Poisson problem on one GPU, from nothing to 1e-8: seconds of set-up and solve, iterations.

    python bench/poisson.py [--grid 512 512 512] [--bc dirichlet] [--precond-dtype float64]
    python bench/poisson.py --kappa smooth

A solve of a small grid before compiles the kernels. b and kappa are on the GPU, b is random. kappa: smooth, between
e^-1 and e; jumps, 1 or 10^4 in eight large blocks.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import cupy

import dsolver
from dsolver import problems


def kappa_of(grid: Any, kind: str) -> Any:
    """A coefficient for each cell, or 1.0."""
    if kind == "one":
        return 1.0
    x, y, z = (cupy.linspace(0.0, 1.0, n).reshape([-1 if a == b else 1 for b in range(3)]) for a, n in enumerate(grid))
    if kind == "smooth":
        return cupy.exp(cupy.sin(6.0 * x) * cupy.cos(5.0 * y) * cupy.sin(4.0 * z + 1.0))
    return 1.0 + (1e4 - 1.0) * ((x < 0.4) ^ (y < 0.55) ^ (z < 0.3))


def problem_of(grid: Any, bc: str, kappa: Any) -> problems.Problem:
    """-div kappa grad on cells of a box, or with bc="points" on points with zeros around them."""
    return problems.poisson7(grid) if bc == "points" else problems.diffusion(grid, kappa, bc=bc)


def run(grid: Any, bc: str, kind: str, dtype: Any, rtol: float) -> tuple[float, float, dsolver.Solution]:
    """Seconds of set-up and of the solve, and the solution."""
    kappa = kappa_of(grid, kind)
    b = cupy.random.default_rng(0).standard_normal(grid)
    b -= b.mean()
    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    with dsolver.Solver(problem_of(grid, bc, kappa), device="cuda", precond_dtype=dtype) as solver:
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
    options.add_argument("--bc", help="points (without kappa), dirichlet, neumann or periodic")
    options.add_argument("--kappa", default="one", choices=("one", "smooth", "jumps"))
    options.add_argument("--precond-dtype", default="float64")
    options.add_argument("--rtol", type=float, default=1e-8)
    arguments = options.parse_args()
    bc = arguments.bc or ("points" if arguments.kappa == "one" else "dirichlet")
    for grid in ((64, 64, 64), tuple(arguments.grid)):
        setup, solve, solution = run(grid, bc, arguments.kappa, arguments.precond_dtype, arguments.rtol)
        residual = solution.true_residual / solution.b_norm
        print(
            f"{grid} {bc}, kappa {arguments.kappa}, {arguments.precond_dtype}: set-up {setup:.3f} s + "
            f"solve {solve:.3f} s = {setup + solve:.3f} s, "
            f"{solution.iterations} iterations, {solution.status}, residual {residual:.1e}"
        )


if __name__ == "__main__":
    main()
