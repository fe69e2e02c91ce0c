"""Complex systems on a lattice: iterations and seconds of dsolver, beside those of a real system of the same lattice.

    python bench/complex_systems.py [conduction shifted far schroedinger waves hermitian carried] --points 64 128
    python bench/complex_systems.py --points 32 --rivals
    python bench/complex_systems.py conduction shifted far schroedinger --M presb

AC conduction with both parts log-normal (σ = 2, four decades) in blocks of eight cells along an edge;
L + (0.01 + 0.2i) I; L + 5i I; I + 2i L; three damped waves along an edge (30 %); a magnetic Laplacian (Hermitian); and
L + (0.01 + 0.2i) I with a flow, which is neither. L is the 7-point Laplacian without h². b is standard normal in both
parts, to 1e-8, M="amg". The real system beside each has κ = |κ| in blocks for the first one, and L for all others.
Times are of a first solve with its set-up, and of a later one, the least of --runs; those of CPUs in processor seconds,
or by the clock with --quiet, on a machine that does nothing else.
--rivals adds PyAMG (smoothed aggregation of the complex matrix under GMRES) and SciPy's GMRES without M, on CPUs, on
one core each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dsolver

RTOL = 1e-8
BLOCK = 8


class Timed(NamedTuple):
    """Seconds of a first solve and of a later one, and iterations."""

    first: float
    later: float
    iterations: int

    def __str__(self) -> str:
        return f"{self.iterations:4d} it {self.first:8.3f} {self.later:8.3f} s"


# -- matrices ----------------------------------------------------------------------------------------------------------


def faces(kappa: Any) -> sp.csr_array:
    """Rows of finite volumes of cells with a conductivity, fixed values around."""
    n, numbers = kappa.shape[0], np.arange(kappa.size).reshape(kappa.shape)
    diagonal = np.zeros(kappa.shape, kappa.dtype)
    rows, columns, values = [], [], []
    for axis in range(3):
        cells, places = np.moveaxis(kappa, axis, 0), np.moveaxis(numbers, axis, 0)
        face = 2.0 * cells[1:] * cells[:-1] / (cells[1:] + cells[:-1])
        along = np.moveaxis(diagonal, axis, 0)
        along[1:] += face
        along[:-1] += face
        along[0] += 2.0 * cells[0]
        along[-1] += 2.0 * cells[-1]
        for here, there in ((places[1:], places[:-1]), (places[:-1], places[1:])):
            rows.append(here.ravel())
            columns.append(there.ravel())
            values.append(-face.ravel())
    rows.append(numbers.ravel())
    columns.append(numbers.ravel())
    values.append(diagonal.ravel())
    return sp.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n**3, n**3))


def in_blocks(n: int, seed: int) -> Any:
    """Log-normal values (n, n, n), σ = 2, each for a block of cells."""
    blocks = -(-n // BLOCK)
    values = np.exp(2.0 * np.random.default_rng(seed).standard_normal((blocks,) * 3))
    return np.kron(values, np.ones((BLOCK,) * 3))[:n, :n, :n]


def laplacian(n: int, step: complex = -1.0) -> sp.csr_array:
    """7 points; step: the coupling along the first axis."""
    lines = [sp.diags_array([np.conj(s), 2.0, s], offsets=[-1, 0, 1], shape=(n, n)) for s in (step, -1.0, -1.0)]
    unit = sp.eye_array(n)
    first, second = sp.kron(lines[0], sp.kron(unit, unit)), sp.kron(unit, sp.kron(lines[1], unit))
    return sp.csr_array(first + second + sp.kron(unit, sp.kron(unit, lines[2])))


def unit(n: int) -> Any:
    return sp.eye_array(n**3)


CASES: dict[str, Callable[[int], Any]] = {
    "conduction": lambda n: faces(in_blocks(n, 1) + 1j * in_blocks(n, 2)),
    "shifted": lambda n: laplacian(n) + (0.01 + 0.2j) * unit(n),
    "far": lambda n: laplacian(n) + 5j * unit(n),
    "schroedinger": lambda n: unit(n) + 2j * laplacian(n),
    "waves": lambda n: laplacian(n) - (6.0 * np.pi / (n + 1)) ** 2 * (1.0 - 0.3j) * unit(n),
    "hermitian": lambda n: laplacian(n, -np.exp(0.3j)),
    "carried": lambda n: (
        laplacian(n) + (0.01 + 0.2j) * unit(n) + sp.diags_array([-0.3, 0.3], offsets=[-1, 0], shape=(n**3, n**3))
    ),
}


def real_one(name: str, n: int) -> sp.csr_array:
    """The real matrix to compare with."""
    return faces(np.abs(in_blocks(n, 1) + 1j * in_blocks(n, 2))) if name == "conduction" else laplacian(n)


# -- solvers -----------------------------------------------------------------------------------------------------------


Clock = Callable[[], float]


def timed(a: Any, b: Any, device: str, runs: int, clock: Clock, m: Any = "amg") -> Timed:
    """dsolver, whose kernels have run before."""
    first, later, iterations, other = [], [], 0, b[::-1].copy()
    for _ in range(runs + 1):
        began = clock()
        with dsolver.Solver(a, M=m, device=device) as solver:
            solution = solver.solve(b, rtol=RTOL)
            between = clock()
            solver.solve(other, rtol=RTOL)
            ended = clock()
        assert solution.converged, solution
        first.append(between - began)
        later.append(ended - between)
        iterations = solution.iterations
    return Timed(min(first[1:]), min(later[1:]), iterations)


def of_scipy(a: Any, b: Any, m: Any, clock: Clock) -> Timed:
    """SciPy's GMRES."""
    from scipy.sparse.linalg import gmres

    counted: list[float] = []
    began = clock()
    made = m() if m else None
    between = clock()
    gmres(a, b, rtol=RTOL, M=made, restart=60, maxiter=10, callback=counted.append, callback_type="pr_norm")
    ended = clock()
    return Timed(ended - began, ended - between, len(counted))


def aggregates(a: Any) -> Any:
    """PyAMG's smoothed aggregation of a complex matrix."""
    import pyamg

    hermitian = abs(a - a.conj().T).max() < 1e-12
    matrix = sp.csr_matrix(a)
    symmetry = "hermitian" if hermitian else "symmetric"
    return pyamg.smoothed_aggregation_solver(matrix, symmetry=symmetry).aspreconditioner()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--points", nargs="+", type=int, default=[64])
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--M", default="amg", help="of complex systems")
    options = parser.parse_args()
    device = options.device
    if device == "auto":
        from dsolver.cluster.devices import Gpu, find_gpu

        device = "cuda" if isinstance(find_gpu(), Gpu) else "cpu"
    clock = time.perf_counter if options.quiet or device == "cuda" else time.process_time
    for n in options.points:
        random = np.random.default_rng(0)
        b = random.standard_normal(n**3) + 1j * random.standard_normal(n**3)
        print(f"{n}³ on {device}: iterations, seconds of a first and of a later solve; over those of the real system")
        known: dict[str, Timed] = {}
        for name in options.cases or CASES:
            kind = "blocks" if name == "conduction" else "lattice"
            if kind not in known:
                known[kind] = timed(real_one(name, n), b.real.copy(), device, options.runs, clock)
                print(f"  {'real, ' + kind:14} {known[kind]}")
            a = sp.csr_array(CASES[name](n))
            found, real = timed(a, b, device, options.runs, clock, options.M), known[kind]
            print(f"  {name:14} {found}   {found.first / real.first:5.2f} {found.later / real.later:5.2f}", flush=True)
            if options.rivals:
                for rival, m in (("PyAMG, GMRES", lambda a=a: aggregates(a)), ("SciPy, GMRES", None)):
                    try:
                        print(f"    {rival:14} {of_scipy(a, b, m, clock)}", flush=True)
                    except (ImportError, ValueError) as error:
                        print(f"    {rival:14} {error}")


if __name__ == "__main__":
    main()
