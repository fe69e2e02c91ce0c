"""First solves by the default, by M="direct" and by direct solvers of others.

    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 MKL_NUM_THREADS=1 python bench/direct.py [ROWS ...] [--repeat 3]
    python bench/direct.py [ROWS ...] --gpu

Poisson's equation in a plane (5 points), and in space (7), and a clamped elastic body in a plane (bilinear elements,
two unknowns a node), with about so many rows, b random, rtol 1e-8. On CPUs the least processor time of one process, in
turns, and ratios to SciPy's `spsolve`; pypardiso and PyAMG count where they are installed. With --gpu the least time by
the clock from CuPy's matrix to CuPy's x, and ratios to nvmath-python's cuDSS.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import dsolver


def poisson(rows: int) -> sp.csr_array:
    n = round(rows**0.5)
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


def space(rows: int) -> sp.csr_array:
    n = round(rows ** (1 / 3))
    line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    plane = sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line)
    return sp.csr_array(sp.kron(plane, sp.eye_array(n)) + sp.kron(sp.eye_array(n * n), line))


def elasticity(rows: int) -> sp.csr_array:
    """Squares of linear elements, plane strain with Poisson's ratio 0.3, clamped at one side."""
    n = round((rows / 2) ** 0.5)
    lam, mu, gauss = 0.3 / (1.3 * 0.4), 1.0 / 2.6, 0.5 + np.array([-1.0, 1.0]) / 12**0.5
    stiff = np.array([[lam + 2 * mu, lam, 0.0], [lam, lam + 2 * mu, 0.0], [0.0, 0.0, mu]])
    element = np.zeros((8, 8))
    for x in gauss:
        for y in gauss:
            dx, dy = np.array([y - 1, 1 - y, -y, y]), np.array([x - 1, -x, 1 - x, x])
            b = np.zeros((3, 8))
            b[0, ::2], b[1, 1::2], b[2, ::2], b[2, 1::2] = dx, dy, dy, dx
            element += b.T @ stiff @ b / 4
    corner = (np.arange(n)[:, None] + (n + 1) * np.arange(n)[None, :]).ravel()
    nodes = corner[:, None] + np.array([0, 1, n + 1, n + 2])
    unknowns = (2 * nodes[:, :, None] + np.arange(2)).reshape(len(nodes), 8)
    i, j = np.repeat(unknowns, 8, axis=1).ravel(), np.tile(unknowns, (1, 8)).ravel()
    whole = sp.coo_array((np.tile(element.ravel(), len(nodes)), (i, j))).tocsr()
    free = np.flatnonzero(np.arange(whole.shape[0]) // 2 % (n + 1))
    return sp.csr_array(whole[free][:, free])


def others() -> dict[str, Callable[[Any, Any], Any]]:
    found: dict[str, Callable[[Any, Any], Any]] = {}
    try:
        import pypardiso
    except ImportError:
        pass
    else:
        found["pypardiso"] = lambda a, b: pypardiso.spsolve(sp.csr_matrix(a), b, factorize=False)
    try:
        import pyamg
    except ImportError:
        pass
    else:
        found["PyAMG"] = lambda a, b: pyamg.smoothed_aggregation_solver(a).solve(b, tol=1e-8, accel="cg")
    return found


def on_gpu() -> dict[str, Callable[[Any, Any], Any]]:
    """Solvers for a matrix and a vector of CuPy."""
    found: dict[str, Callable[[Any, Any], Any]] = {
        "default": lambda a, b: dsolver.solve(a, b).x,
        'M="direct"': lambda a, b: dsolver.solve(a, b, M="direct").x,
    }
    try:
        from nvmath.sparse import advanced
    except ImportError:
        return found
    definite = {
        "sparse_system_type": advanced.DirectSolverMatrixType.SPD,
        "sparse_system_view": advanced.DirectSolverMatrixViewType.UPPER,
    }
    return {"cuDSS": lambda a, b: advanced.direct_solver(a, b, options=definite), **found}


def seconds(solve: Callable[[Any, Any], Any], a: Any, b: Any, *, gpu: bool) -> float:
    if not gpu:
        began = time.process_time()
        solve(a, b)
        return time.process_time() - began
    import cupy

    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    solve(a, b)
    cupy.cuda.Device().synchronize()
    return time.perf_counter() - began


def solves(way: str, solve: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """Whether a solver answers; loops are compiled by this call."""
    try:
        return float(abs(b - a @ solve(a, b)).max()) <= 1e-6 * float(abs(b).max())
    except Exception as error:  # each library has its own for memory that runs out
        print(f"{way}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=["Poisson", "space", "elasticity"])
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    cpu: dict[str, Callable[[Any, Any], Any]] = {
        "spsolve": lambda a, b: spsolve(a.tocsc(), b),
        "default": lambda a, b: dsolver.solve(a, b).x,
        'M="direct"': lambda a, b: dsolver.solve(a, b, M="direct").x,
        **others(),
    }
    ways = on_gpu() if options.gpu else cpu
    for name, make in (("Poisson", poisson), ("space", space), ("elasticity", elasticity)):
        for rows in options.rows if name in options.only else ():
            a: Any = make(rows)
            b: Any = np.random.default_rng(0).standard_normal(a.shape[0])
            if options.gpu:
                import cupy
                import cupyx.scipy.sparse

                a, b = cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(a)), cupy.asarray(b)
            solved = {way: solve for way, solve in ways.items() if solves(way, solve, a, b)}
            took = {way: float("inf") for way in ways}  # without a solution
            for _ in range(options.repeat):
                for way, solve in solved.items():
                    took[way] = min(took[way], seconds(solve, a, b, gpu=options.gpu))
            base = next(iter(took.values()))
            print(
                name,
                a.shape[0],
                *(f"{way} {t:.4f} s ({t / base:.2f})" for way, t in took.items()),
                sep="  ",
                flush=True,
            )


if __name__ == "__main__":
    main()
