"""First and later solves of hard coefficients on one GPU: seconds and iterations of every preconditioner.

    python bench/first_solve.py --size 128 [--M auto mg amg] [--fields channels chip] [--matrices FOLDER]

Fields of `lib.coefficients` on n³ cells, b standard normal, relative residual 1e-8, in this process. The clock of a
first solve runs from κ on the GPU, or with --csr from compressed rows there, to x on the GPU; a later solve has another
b. The best of --runs, each set up anew; the kernels are compiled before. A solve that went on with another
preconditioner, or another value type, has a *. --matrices writes A of each field as FOLDER/NAME.npz, for other solvers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import cupy
import cupyx.scipy.sparse as device_sparse
import numpy as np
from lib.coefficients import FIELDS, HARD, Field, made

import dsolver


def clock() -> float:
    """Seconds, when the GPU has nothing left to do."""
    cupy.cuda.Device().synchronize()
    return time.perf_counter()


def system_of(field: Field, a: Any = None) -> tuple[Any, Any]:
    """A function without arguments that makes the system for `Solver`, and two right-hand sides on the GPU.

    Compressed rows `a` are on the GPU.
    """
    rng = np.random.default_rng(1)
    if a is not None:
        return (lambda: a), [cupy.asarray(rng.standard_normal(a.shape[0])) for _ in range(2)]
    kappa = cupy.asarray(field.kappa)
    x, y, z = (cupy.asarray(s) for s in field.sizes)
    volumes = x[:, None, None] * y[None, :, None] * z[None, None, :]  # rows are multiplied by them
    sides = [cupy.asarray(rng.standard_normal(field.kappa.shape)) / volumes for _ in range(2)]
    solid = None if field.solid is None else cupy.asarray(field.solid)
    if solid is not None:
        sides = [cupy.where(solid, 0.0, b) for b in sides]
    problem = dsolver.problems.diffusion
    grid: Any = field.kappa.shape
    return (lambda: problem(grid, kappa, spacing=field.sizes, mask=solid)), sides


def solved(system: Any, sides: list[Any], rtol: float, **setup: Any) -> tuple[float, float, float, Any, bool]:
    """Seconds of set-up, first solve and a later one; the last solution, and whether the first one tells something."""
    began = clock()
    with dsolver.Solver(system(), device="cuda", **setup) as solver:
        ready = clock()
        told = bool(solver.solve(sides[0], rtol=rtol).notes)
        first = clock()
        solution = solver.solve(sides[1], rtol=rtol)
        return ready - began, first - ready, clock() - first, solution, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--fields", nargs="+", default=list(HARD), choices=list(FIELDS))
    parser.add_argument("--M", nargs="+", default=["auto", "mg", "amg"])
    parser.add_argument("--precond-dtype", nargs="+", default=["auto"], dest="dtypes")
    parser.add_argument("--rtol", type=float, default=1e-8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--csr", action="store_true", help="bring compressed rows in place of κ")
    parser.add_argument("--matrices", type=Path, help="write A of each field there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with ProcessPoolExecutor() as pool:  # before the GPU is touched
        fields = dict(
            zip(options.fields, pool.map(partial(made, n=options.size, seed=options.seed), options.fields), strict=True)
        )
    for name, field in fields.items():
        a: Any = field.matrix(cupy, device_sparse) if options.csr or options.matrices is not None else None
        if options.matrices is not None:
            options.matrices.mkdir(parents=True, exist_ok=True)
            arrays = {"data": a.data, "indices": a.indices, "indptr": a.indptr}
            np.savez(options.matrices / f"{name}.npz", **{key: array.get() for key, array in arrays.items()})
        system, sides = system_of(field, a if options.csr else None)
        found = []
        for m, dtype in product(options.M, options.dtypes):
            given = {"M": m, "precond_dtype": dtype}
            runs = [solved(system, sides, options.rtol, **given) for _ in range(1 + options.runs)][1:]
            setup, first, later, solution, told = min(runs, key=lambda run: run[0] + run[1])
            later = min(run[2] for run in runs)
            found.append(
                f"{m} {dtype if len(options.dtypes) > 1 else ''} {solution.iterations:3}"
                f"{'' if solution.converged else '!'}{'*' if told else ''} "
                f"{setup + first:.4f} ({setup:.4f} + {first:.4f}), {later:.4f}"
            )
        print(f"{name:10} {'   '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
