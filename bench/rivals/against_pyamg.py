"""Set-up and solve against PyAMG's smoothed aggregation with conjugate gradients (`pip install pyamg`), on CPUs.

    python bench/rivals/against_pyamg.py --sizes 64 96

7-point finite volumes, zero Dirichlet values, random right-hand side; kappa log-normal (sigma = 1, without correlation)
or 1 and 10⁴ in blocks of 8 cells. Processor seconds of all threads, which a busy machine changes less than wall time;
dsolver's second run, when its kernels have been compiled.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt
import pyamg
import scipy.sparse as sp

import dsolver
from dsolver import problems

F64 = npt.NDArray[np.float64]


def coefficients(n: int, kind: str) -> F64:
    rng = np.random.default_rng(0)
    if kind == "lognormal":
        return np.exp(rng.standard_normal((n, n, n)))
    cubes = np.where(rng.random((-(-n // 8),) * 3) < 0.5, 1.0, 1e4)
    return np.kron(cubes, np.ones((8, 8, 8)))[:n, :n, :n]


def matrix(kappa: F64) -> sp.csr_matrix:
    """Harmonic averages at the faces between cells, twice kappa at the domain's."""
    number = np.arange(kappa.size).reshape(kappa.shape)
    diagonal = np.zeros_like(kappa)
    rows, columns, values = [number.ravel()], [number.ravel()], [diagonal.ravel()]
    for axis in range(3):
        k, d, i = (np.moveaxis(a, axis, 0) for a in (kappa, diagonal, number))
        face = 2.0 * k[:-1] * k[1:] / (k[:-1] + k[1:])
        d[:-1] += face
        d[1:] += face
        d[0] += 2.0 * k[0]
        d[-1] += 2.0 * k[-1]
        rows += [i[:-1].ravel(), i[1:].ravel()]
        columns += [i[1:].ravel(), i[:-1].ravel()]
        values += [-face.ravel(), -face.ravel()]
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_matrix(entries, shape=(kappa.size, kappa.size))


def report(name: str, a: sp.csr_matrix, b: F64, x: F64, times: tuple[float, float, float], iterations: int) -> None:
    residual = np.linalg.norm(b.ravel() - a @ x.ravel()) / np.linalg.norm(b)
    set_up, solve = times[1] - times[0], times[2] - times[1]
    print(
        f"  {name:8} {iterations:3} iterations   residual {residual:.1e}   {set_up:6.2f} + {solve:6.2f} s", flush=True
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=(64, 96))
    options.add_argument("--rtol", type=float, default=1e-8)
    chosen = options.parse_args()
    clock = time.process_time
    for n in chosen.sizes:
        for kind in ("lognormal", "blocks"):
            kappa = coefficients(n, kind)
            a, b = matrix(kappa), np.random.default_rng(1).standard_normal(kappa.shape)
            print(f"{n}³ {kind}")
            history: list[float] = []
            began = clock()
            levels = pyamg.smoothed_aggregation_solver(a, max_coarse=500)
            ready = clock()
            x = levels.solve(b.ravel(), tol=chosen.rtol, accel="cg", residuals=history, maxiter=200)
            report("PyAMG", a, b, x, (began, ready, clock()), len(history) - 1)
            for _ in range(2):
                began = clock()
                solver = dsolver.Solver(problems.diffusion(kappa.shape, kappa), device="cpu")
                ready = clock()
                solution = solver.solve(b, rtol=chosen.rtol)
                done = clock()
            report("dsolver", a, b, np.asarray(solution.x), (began, ready, done), solution.iterations)


if __name__ == "__main__":
    main()
