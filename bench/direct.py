"""First solves by the default, by M="direct" and by direct solvers of others, in processor time of one process.

    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 MKL_NUM_THREADS=1 python bench/direct.py [ROWS ...]

Poisson's equation in a plane (5 points) and a clamped elastic body in one (bilinear elements, two unknowns a node),
with about so many rows, b random, rtol 1e-8. Times are the least of three, and ratios to SciPy's `spsolve`; pypardiso
and PyAMG count where they are installed.
"""

from __future__ import annotations

import sys
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
    found: dict[str, Callable[[Any, Any], Any]] = {"spsolve": lambda a, b: spsolve(a.tocsc(), b)}
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


def main() -> None:
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "default": dsolver.solve,
        'M="direct"': lambda a, b: dsolver.solve(a, b, M="direct"),
        **others(),
    }
    for name, make in (("Poisson", poisson), ("elasticity", elasticity)):
        for rows in map(int, sys.argv[1:] or ("10000", "100000")):
            a = make(rows)
            b = np.random.default_rng(0).standard_normal(a.shape[0])
            took = {}
            for way, solve in ways.items():
                solve(a, b)  # loops are compiled
                times = []
                for _ in range(3):
                    began = time.process_time()
                    solve(a, b)
                    times.append(time.process_time() - began)
                took[way] = min(times)
            base = took["spsolve"]
            print(
                name,
                a.shape[0],
                *(f"{way} {t:.3f} s ({t / base:.2f})" for way, t in took.items()),
                sep="  ",
                flush=True,
            )


if __name__ == "__main__":
    main()
