"""Set-up and solve against `cupyx.scipy.sparse.linalg.cg` with Jacobi, on one GPU.

    python bench/rivals/against_cupy.py [--size 256] [--kappas smooth blocks lognormal]

7-point finite volumes, zero Dirichlet values, random right-hand side. Both sides begin with kappa and b on the GPU and
end with x there: set-up is the CSR matrix and its diagonal there, and the levels here. Both solve to the same relative
residual; what is printed is that of x by the CSR matrix. The second run of each counts, when kernels
have been compiled. A limit is tightened until the true residual is reached.
"""

from __future__ import annotations

import argparse
import inspect
import time
from typing import Any

import cupy
from cupyx.scipy.sparse import csr_matrix
from cupyx.scipy.sparse.linalg import LinearOperator, cg

import dsolver
from dsolver import problems
from dsolver.preconditioners import Multigrid

EDGE = 8
"""Edge of the blocks, in cells."""
LIMIT = "rtol" if "rtol" in inspect.signature(cg).parameters else "tol"


def smooth(n: int) -> Any:
    """Between e^-1 and e."""
    x, y, z = cupy.ogrid[0 : 1 : 1j * n, 0 : 1 : 1j * n, 0 : 1 : 1j * n]
    return cupy.exp(cupy.sin(6.0 * x) * cupy.cos(5.0 * y) * cupy.sin(4.0 * z + 1.0))


def blocks(n: int) -> Any:
    """1 or 10⁴ at random in blocks of cells."""
    count = -(-n // EDGE)
    cubes = cupy.where(cupy.random.default_rng(0).random((count, count, count)) < 0.5, 1.0, 1e4)
    for axis in range(3):
        cubes = cupy.repeat(cubes, EDGE, axis=axis)
    return cupy.ascontiguousarray(cubes[:n, :n, :n])


def lognormal(n: int) -> Any:
    """exp(2 g), g a standard normal number for each cell."""
    return cupy.exp(2.0 * cupy.random.default_rng(0).standard_normal((n, n, n)))


KAPPAS = {"smooth": smooth, "blocks": blocks, "lognormal": lognormal}


def matrix(kappa: Any) -> Any:
    """CSR with int32 columns: harmonic averages at the faces between cells, twice kappa at the domain's."""
    n = kappa.shape[0]
    stride = (n * n, n, 1)
    values = cupy.zeros((*kappa.shape, 7))
    columns = cupy.zeros((*kappa.shape, 7), dtype=cupy.int32)
    number = cupy.arange(kappa.size, dtype=cupy.int32).reshape(kappa.shape)
    there = cupy.zeros((*kappa.shape, 7), dtype=cupy.bool_)
    there[..., 3] = True
    columns[..., 3] = number
    places = (0, 1, 2), (6, 5, 4)  # ascending columns
    for axis in range(3):
        k, v, c, t, i = (cupy.moveaxis(a, axis, 0) for a in (kappa, values, columns, there, number))
        face = 2.0 * k[:-1] * k[1:] / (k[:-1] + k[1:])
        below, above = places[0][axis], places[1][axis]
        v[1:, ..., below], c[1:, ..., below], t[1:, ..., below] = -face, i[1:] - stride[axis], True
        v[:-1, ..., above], c[:-1, ..., above], t[:-1, ..., above] = -face, i[:-1] + stride[axis], True
        v[1:, ..., 3] += face
        v[:-1, ..., 3] += face
        v[0, ..., 3] += 2.0 * k[0]
        v[-1, ..., 3] += 2.0 * k[-1]
    starts = cupy.zeros(kappa.size + 1, dtype=cupy.int32)
    cupy.cumsum(there.reshape(-1, 7).sum(axis=1, dtype=cupy.int32), out=starts[1:])
    kept = there.reshape(-1)
    made = csr_matrix((values.reshape(-1)[kept], columns.reshape(-1)[kept], starts), shape=(kappa.size, kappa.size))
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def now() -> float:
    cupy.cuda.Device().synchronize()
    return time.perf_counter()


def theirs(kappa: Any, b: Any, limit: float) -> tuple[float, float, int, Any]:
    """Seconds of set-up and solve, iterations, x."""
    began = now()
    a = matrix(kappa)
    scale = 1.0 / a.diagonal()
    m = LinearOperator(a.shape, matvec=lambda r: scale * r)
    ready = now()
    steps = 0

    def count(_: Any) -> None:
        nonlocal steps
        steps += 1

    x, info = cg(a, b.ravel(), M=m, maxiter=100_000, callback=count, **{LIMIT: limit})
    done = now()
    if info != 0:
        print(f"    cg ended with info {info}")
    return ready - began, done - ready, steps, x


def ours(kappa: Any, b: Any, limit: float, dtype: Any) -> tuple[float, float, int, Any]:
    """Seconds and iterations of dsolver."""
    began = now()
    with dsolver.Solver(
        problems.diffusion(kappa.shape, kappa), device="cuda", M=Multigrid(), precond_dtype=dtype
    ) as solver:
        ready = now()
        solution = solver.solve(b, rtol=limit)
        done = now()
    return ready - began, done - ready, solution.iterations, solution.x.ravel()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=256)
    options.add_argument("--kappas", nargs="+", default=tuple(KAPPAS), choices=tuple(KAPPAS))
    options.add_argument("--rtol", type=float, default=1e-8)
    chosen = options.parse_args()
    print(f"{'':10} {'solver':24} {'iterations':>10} {'set-up s':>9} {'solve s':>8} {'residual':>9} {'ratio':>6}")
    for name in chosen.kappas:
        kappa = KAPPAS[name](chosen.size)
        b = cupy.random.default_rng(1).standard_normal(kappa.shape)
        first = 0.0
        for solver, run in (
            ("cupyx cg, Jacobi", theirs),
            ("dsolver", lambda k, b, limit: ours(k, b, limit, "float64")),
            ("dsolver, float32 M", lambda k, b, limit: ours(k, b, limit, "float32")),
        ):
            limit = chosen.rtol
            if run is not theirs:
                run(kappa, b, limit)
            else:
                run(kappa, b, 1e-1)
            while True:
                set_up, solve, steps, x = run(kappa, b, limit)
                a = matrix(kappa)
                residual = float(cupy.linalg.norm(b.ravel() - a @ x) / cupy.linalg.norm(b))
                del a, x
                cupy.get_default_memory_pool().free_all_blocks()
                if residual <= chosen.rtol:
                    break
                limit *= 0.9 * chosen.rtol / residual
            first = first or set_up + solve
            print(
                f"{name:10} {solver:24} {steps:10} {set_up:9.3f} {solve:8.3f} {residual:9.1e} "
                f"{first / (set_up + solve):6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
