"""One solve by conjugate gradients with hypre's BoomerAMG, on the ranks of MPI (petsc4py): for `amg.py`.

    mpiexec -n 2 python bench/rivals/hypre_ranks.py matrix.npz

The file has arrays start, columns, values and b. Prints seconds of set-up with solve and of the solve, both in seconds
of all ranks' processors, and iterations: the best of three. HMIS coarsening, interpolation ext+i with 4 entries a row,
strong threshold 0.5, one aggressive level.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import petsc4py

petsc4py.init()
from petsc4py import PETSc  # noqa: E402  # it reads what `init` has set

OPTIONS = {
    "type": "boomeramg",
    "boomeramg_strong_threshold": "0.5",
    "boomeramg_coarsen_type": "HMIS",
    "boomeramg_interp_type": "ext+i",
    "boomeramg_P_max": "4",
    "boomeramg_agg_nl": "1",
}


def main() -> None:
    arrays, comm = np.load(sys.argv[1]), PETSc.COMM_WORLD
    start = arrays["start"]
    rows = len(start) - 1
    low, high = (rows * (comm.getRank() + more) // comm.getSize() for more in (0, 1))
    own = start[low : high + 1]
    csr = tuple(arrays[name][own[0] : own[-1]] for name in ("columns", "values"))
    a = PETSc.Mat().createAIJ(
        ((high - low, rows), (high - low, rows)),
        csr=((own - own[0]).astype("i4"), csr[0].astype("i4"), csr[1]),
        comm=comm,
    )
    a.assemble()
    b = a.createVecLeft()
    b.setArray(arrays["b"][low:high])
    for name, value in OPTIONS.items():
        PETSc.Options()["pc_hypre_" + name] = value
    runs = []
    for _ in range(3):
        solver, x = PETSc.KSP().create(comm), b.duplicate()
        solver.setOperators(a)
        solver.setType("cg")
        solver.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        solver.setTolerances(rtol=1e-8, max_it=1000)
        solver.getPC().setType("hypre")
        solver.setFromOptions()
        comm.barrier()
        began, busy = time.perf_counter(), time.process_time()
        solver.setUp()
        ready, ready_busy = time.perf_counter(), time.process_time()
        solver.solve(b, x)
        ended, ended_busy = time.perf_counter(), time.process_time()
        every = [of_all(comm, ended_busy - since) for since in (busy, ready_busy)]
        runs.append((ended - began, ended - ready, *every))
        iterations = solver.getIterationNumber()
        solver.destroy()
    if comm.getRank() == 0:
        print(*map(min, zip(*runs, strict=True)), iterations)


def of_all(comm: Any, value: float) -> float:
    """The sum of a number of each rank."""
    numbers = PETSc.Vec().createMPI((1, comm.getSize()), comm=comm)
    numbers.setArray([value])
    return float(numbers.sum())


if __name__ == "__main__":
    main()
