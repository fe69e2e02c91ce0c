"""Compile the CPU's kernels by small solves of each kind, for the cache from which every later process takes them.

Without it the processes that run the tests side by side, and those that they start, would each compile the same.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

import dsolver
from dsolver import problems
from dsolver.benchmarks.hpcg import Hpcg
from dsolver.preconditioners import Algebraic
from dsolver.problems import Problem
from dsolver.session.options import PrecondDtype

GRID = (16, 16, 16)
CUT = (2, 1, 1)
METHODS = (
    *("chebyshev", "jacobi", "block-jacobi", "symgs", "ic0", "ilu0"),
    Algebraic(coarse_rows=20, gathered_rows=40),
    Algebraic(coarsening="aggregation", coarse_rows=20, gathered_rows=40),
)
FORMATS: tuple[Any, ...] = ("slices", "octets", "chunks", "rows")
DTYPES: tuple[PrecondDtype, ...] = ("float64", "float32")


def main() -> None:
    rng, b = np.random.default_rng(0), np.ones(GRID)
    smooth, rough = 1.0 + rng.random(GRID), np.where(rng.random(GRID) < 0.5, 1.0, 1e4)
    of_grids: list[tuple[Problem, Any]] = [
        (problems.poisson7(GRID), "mg"),
        (problems.poisson27(GRID, chunks=CUT), "mg"),
        (problems.hpcg(GRID, chunks=CUT), Hpcg()),
        (problems.diffusion(GRID, smooth, chunks=CUT), "mg"),
        (problems.diffusion(GRID, rough), "mg"),  # coarsened by couplings
        (problems.diffusion(GRID, mask=smooth > 1.4, bc="neumann", chunks=CUT), "mg"),  # closed regions
    ]
    for problem, m in of_grids:
        for dtype in DTYPES:
            solved(problem, b, m, dtype)
    block = np.array([[4.0, 1.0], [1.0, 5.0]])
    line = sp.diags_array([-np.ones(31), 2.0 * np.ones(32), -np.ones(31)], offsets=[-1, 0, 1])
    lattice = sp.kron(line, sp.eye_array(32)) + sp.kron(sp.eye_array(32), line)
    matrix = sp.csr_array(sp.kron(lattice, block))
    for formats in FORMATS:
        solved(dsolver.matrix(matrix, chunks=2, formats=formats), np.ones(matrix.shape[0]), "jacobi", "float64")
    for m in METHODS:
        solved(dsolver.matrix(matrix, chunks=2), np.ones(matrix.shape[0]), m, "float64")


def solved(problem: Problem, b: Any, m: Any, dtype: PrecondDtype) -> None:
    """With one right-hand side and with two. How well is for the tests to say."""
    with (
        warnings.catch_warnings(category=dsolver.InconsistentWarning, action="ignore"),
        dsolver.Solver(problem, device="cpu", M=m, precond_dtype=dtype) as solver,
    ):
        solver.solve(b, maxiter=5)
        solver.solve([b, 2.0 * b], maxiter=5)


if __name__ == "__main__":
    main()
