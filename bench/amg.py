"""Algebraic multigrid: iterations, complexity and seconds of dsolver, on CPUs beside hypre's on as many cores.

    python bench/amg.py --size 64 --hypre /usr/bin/python3 --petsc FOLDER_THAT_HAS_PETSC4PY
    python bench/amg.py --size 128 --device cuda

Matrices of 7 points in compressed rows, as a user brings them, of the fields of `lib.coefficients` on n³ cells.
b is A times a random vector, the tolerance 1e-8. dsolver runs in this process, in one chunk on two threads; its first
solve begins with the compressed rows. hypre runs on one rank and on two of MPI through petsc4py (Debian:
python3-petsc4py, openmpi-bin); its first solve begins with PETSc's matrix. The best of several that take turns, in
seconds of the clock, and of all processors beside them: ranks of MPI that wait for each other are busy, so that two of
them say little on a machine that has other work. On a GPU the compressed rows and b lie there when the clock starts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from lib.coefficients import FIELDS, made

import dsolver
from dsolver.preconditioners import Algebraic

F64 = npt.NDArray[np.float64]
USUAL = ("constant", "channels", "chip", "pores", "membranes", "fractal", "blocks")


class Run(NamedTuple):
    """Times of a set-up and two solves: seconds of the clock, and of all processors; `setup` is a part of `first`."""

    first: float
    later: float
    first_busy: float
    later_busy: float
    iterations: int
    complexity: float = 0.0
    setup: float = 0.0

    def best(self, other: Run | None) -> Run:
        """The least of both in every place."""
        return self if other is None else Run(*map(min, self, other))


def ours(a: Any, b: Any, aggressive: int, device: str) -> Run:
    """One run of dsolver."""
    if device == "cuda":
        a, b = on_gpu(a, b)
    began, busy = time.perf_counter(), time.process_time()
    m = Algebraic(aggressive_levels=aggressive)
    with dsolver.Solver(dsolver.matrix(a, chunks=1), M=m, device=device) as solver:
        setup = time.perf_counter() - began
        solution = solver.solve(b, rtol=1e-8)
        if not solution.converged:
            raise SystemExit(f"{solution}: {solution.status.advice}")
        ready, ready_busy = time.perf_counter(), time.process_time()
        solver.solve(b, rtol=1e-8)
        later, later_busy = time.perf_counter() - ready, time.process_time() - ready_busy
        complexity = solver.hierarchy.operator_complexity
    return Run(ready - began, later, ready_busy - busy, later_busy, solution.iterations, complexity, setup)


def on_gpu(a: Any, b: Any) -> tuple[Any, Any]:
    """Compressed rows and a vector in memory of the GPU, which has nothing left to do."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    found = csr_matrix(tuple(map(cupy.asarray, (a.data, a.indices, a.indptr))), shape=a.shape), cupy.asarray(b)
    cupy.cuda.Device().synchronize()
    return found


def theirs(python: str, petsc: str, ranks: int, a: Any, b: F64) -> Run:
    """hypre's best of three."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.npz"
        np.savez(path, start=a.indptr, columns=a.indices, values=a.data, b=b)
        script = Path(__file__).with_name("rivals") / "hypre_ranks.py"
        command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), python, str(script)]
        found = subprocess.run(
            [*command, str(path)], env={**os.environ, "PYTHONPATH": petsc}, capture_output=True, text=True, check=True
        )
    *seconds, iterations = found.stdout.split()
    first, later, first_busy, later_busy = map(float, seconds)
    return Run(first, later, first_busy, later_busy, int(iterations))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--fields", nargs="+", default=USUAL, choices=list(FIELDS))
    parser.add_argument("--hypre", help="a Python that has petsc4py; without it hypre is left out")
    parser.add_argument("--petsc", default="", help="where that one finds petsc4py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    for _ in range(2):
        ours(made("constant", 24).matrix(), np.ones(24**3), 1, options.device)  # compiles
    for name in options.fields:
        a: sp.csr_array = made(name, options.size).matrix()
        b = a @ np.random.default_rng(1).standard_normal(a.shape[0])
        print(f"{name}, {a.shape[0]} rows, {a.nnz} entries", flush=True)
        cases: dict[str, Callable[[], Run]] = {
            "aggressive_levels=1": partial(ours, a, b, 1, options.device),
            "aggressive_levels=0": partial(ours, a, b, 0, options.device),
        }
        for ranks in (1, 2) if options.hypre else ():
            cases[f"hypre, {ranks} ranks"] = partial(theirs, options.hypre, options.petsc, ranks, a, b)
        best: dict[str, Run] = {}
        for _ in range(options.rounds):
            for key, run in cases.items():
                best[key] = run().best(best.get(key))
        for key, found in best.items():
            more = f"   complexity {found.complexity:.2f}, set-up {found.setup:.3f} s" if found.complexity else ""
            print(
                f"  {key:20} first {found.first:7.3f} s ({found.first_busy:5.2f} busy)   later {found.later:7.3f} s "
                f"({found.later_busy:5.2f} busy)   {found.iterations:3} iterations{more}",
                flush=True,
            )


if __name__ == "__main__":
    main()
