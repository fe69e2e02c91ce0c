"""Ten lowest eigenvalues: seconds of dsolver's eigsh beside those of CuPy, or of SciPy and PyAMG.

    python bench/eigsh.py --points 64 128 --device cuda --rivals
    python bench/eigsh.py --points 24 48 --device cpu --rivals --without sigma
    python bench/eigsh.py --points 128 --gpus 1 2

"jumps" is a diffusion whose κ is log-normal (σ = 2, four decades) in blocks of eight cells along an edge, "elastic" a
clamped block of cubes of trilinear elements with the masses of its nodes, of half as many points along an edge. Times
are of whole calls with set-up, the least of --runs after a first one that compiles; on CPUs in processor seconds.
Rivals are asked for residuals of the same size: CuPy's eigsh (Lanczos) and lobpcg with the diagonal for M; on CPUs
SciPy's eigsh with sigma=0 (factors of SuperLU), and its lobpcg with PyAMG's smoothed aggregation. One that has not
converged within --most iterations shows the largest error of a value in place of "ok".
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dsolver

WANTED = 10
TOL = 1e-6
BLOCK = 8


class Case(NamedTuple):
    """A pencil: K x = λ m x with a diagonal m; what dsolver is given for K, and near-null vectors for PyAMG."""

    matrix: sp.csr_array
    mass: Any
    problem: Any
    near: Any


# -- pencils -----------------------------------------------------------------------------------------------------------


def jumps(n: int) -> Case:
    """A diffusion on cells, u = 0 around."""
    blocks = -(-n // BLOCK)
    values = np.exp(2.0 * np.random.default_rng(1).standard_normal((blocks,) * 3))
    kappa = np.kron(values, np.ones((BLOCK,) * 3))[:n, :n, :n]
    problem = dsolver.problems.diffusion(kappa.shape, kappa, spacing=1.0 / n)
    matrix = sp.csr_array(problem.to_scipy())
    return Case(matrix, np.full(n**3, 1.0 / n**3), problem, None)


def stiffness(poisson: float = 0.3) -> Any:
    """Stiffness (24, 24) of a cube with edge 1 and E = 1, trilinear, by 2 x 2 x 2 points of Gauss."""
    lame, shear = poisson / ((1 + poisson) * (1 - 2 * poisson)), 0.5 / (1 + poisson)
    elastic = np.zeros((6, 6))
    elastic[:3, :3] = lame
    elastic[range(6), range(6)] += [2 * shear] * 3 + [shear] * 3
    corners = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=float)
    made = np.zeros((24, 24))
    for point in np.array(np.meshgrid(*[[0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5]] * 3)).reshape(3, -1).T:
        factors = np.where(corners == 1.0, point, 1.0 - point)
        slopes = [
            np.where(corners[:, a] == 1.0, 1.0, -1.0) * np.delete(factors, a, axis=1).prod(axis=1) for a in range(3)
        ]
        strain = np.zeros((6, 24))
        for row, pairs in enumerate(
            [((0, 0),), ((1, 1),), ((2, 2),), ((0, 1), (1, 0)), ((1, 2), (2, 1)), ((2, 0), (0, 2))]
        ):
            for axis, unknown in pairs:
                strain[row, unknown::3] += slopes[axis]
        made += strain.T @ elastic @ strain / 8.0
    return made


def elastic(n: int) -> Case:
    """n³ nodes, those of one face clamped."""
    n //= 2
    number = np.arange(n**3).reshape(n, n, n)
    corners = [
        number[i : n - 1 + i, j : n - 1 + j, k : n - 1 + k].ravel() for i in (0, 1) for j in (0, 1) for k in (0, 1)
    ]
    unknowns = (3 * np.stack(corners, axis=1)[:, :, None] + np.arange(3)).reshape(-1, 24)
    rows, columns = np.repeat(unknowns, 24, axis=1).ravel(), np.tile(unknowns, 24).ravel()
    whole = sp.csr_array((np.tile(stiffness().ravel(), len(unknowns)), (rows, columns)), shape=(3 * n**3,) * 2)
    mass = np.bincount(unknowns.ravel(), minlength=3 * n**3) / 8.0
    free = slice(3 * n * n, None)
    matrix, points = sp.csr_array(whole[free, free]), np.argwhere(number >= n * n).astype(float)
    near = dsolver.rigid_body_modes(points)
    return Case(matrix, mass[free], dsolver.matrix(matrix, near_nullspace=near, block_size=3), near)


CASES: dict[str, Callable[[int], Case]] = {"jumps": jumps, "elastic": elastic}

# -- solvers -----------------------------------------------------------------------------------------------------------


def clock(device: str) -> float:
    return time.perf_counter() if device == "cuda" else time.process_time()


def timed(run: Callable[[], Any], device: str, runs: int) -> tuple[float, Any]:
    """Least seconds of a call whose kernels have run before, and its last result."""
    seconds = []
    for _ in range(runs + 1):
        began = clock(device)
        found = run()
        seconds.append(clock(device) - began)
    return min(seconds[1:]), found


def scaled(case: Case) -> tuple[sp.csr_array, Any]:
    """D K D with D = m^-1/2, an ordinary problem with the same values; and D."""
    d = 1.0 / np.sqrt(case.mass)
    return sp.csr_array(sp.diags_array(d) @ case.matrix @ sp.diags_array(d)), d


def on_gpu(case: Case, most: int) -> dict[str, Callable[[], Any]]:
    """CuPy's two, of the ordinary problem."""
    import cupy
    import cupyx.scipy.sparse as sparse
    from cupyx.scipy.sparse.linalg import eigsh, lobpcg

    matrix, _ = scaled(case)
    a = sparse.csr_matrix(sp.csr_matrix(matrix))
    diagonal = sparse.diags(1.0 / a.diagonal())
    x = cupy.asarray(np.random.default_rng(0).standard_normal((a.shape[0], WANTED + 2)))
    limit = TOL * float(abs(a.diagonal()).min())

    def by_lobpcg() -> Any:
        return lobpcg(a, x.copy(), M=diagonal, tol=limit, maxiter=most, largest=False)[0].get()

    return {
        "CuPy eigsh": lambda: eigsh(a, WANTED, which="SA", maxiter=most, tol=TOL, return_eigenvectors=False).get(),
        "CuPy lobpcg + diagonal": by_lobpcg,
    }


def on_cpu(case: Case, most: int) -> dict[str, Callable[[], Any]]:
    """SciPy's two."""
    import pyamg
    from scipy.sparse.linalg import eigsh, lobpcg

    mass = sp.diags_array(case.mass).tocsc()
    x = np.random.default_rng(0).standard_normal((case.matrix.shape[0], WANTED + 2))

    def by_lobpcg() -> Any:
        m = pyamg.smoothed_aggregation_solver(sp.csr_matrix(case.matrix), B=case.near).aspreconditioner()
        d = sp.diags_array(case.mass)
        return lobpcg(case.matrix, x.copy(), B=d, M=m, tol=TOL * case.mass.max(), maxiter=most, largest=False)[0]

    return {
        "SciPy eigsh, sigma=0": lambda: eigsh(sp.csc_array(case.matrix), WANTED, M=mass, sigma=0.0, tol=TOL)[0],
        "SciPy lobpcg + PyAMG": by_lobpcg,
    }


def against(name: str, case: Case, device: str, runs: int, rivals: bool, most: int, without: list[str]) -> None:
    """Print the times of a case."""
    mass = None if name == "jumps" else case.mass  # a grid has its volumes
    seconds, found = timed(lambda: dsolver.eigsh(case.problem, WANTED, B=mass, tol=TOL, device=device), device, runs)
    searched = found.timings["search"]
    print(
        f"  dsolver {found.status} {found.iterations:4d} it {seconds:8.3f} s (search {searched:.3f} s) "
        f"with {found.solved_by}",
        flush=True,
    )
    if not rivals:
        return
    for what, run in (on_gpu if device == "cuda" else on_cpu)(case, most).items():
        if any(word in what for word in without):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, values = timed(run, device, 1)
        except Exception as error:  # a rival's memory, or its own end
            print(f"  {what}: {type(error).__name__}: {error}", flush=True)
            continue
        values = np.sort(np.asarray(values))[:WANTED]
        error = float(abs(values / found.values - 1.0).max()) if len(values) == WANTED else np.nan
        told = "ok" if error < 1e-6 else f"values are off by {error:.0e}"
        print(f"  {what}: {seconds:8.3f} s, {told}", flush=True)


def over_gpus(name: str, points: int, gpus: list[int], runs: int) -> None:
    """Print the times of a case on clusters of several GPUs of this machine."""
    from distributed import Client

    from dsolver.cluster.local import start_local

    case = CASES[name](points)
    mass = None if name == "jumps" else case.mass
    for count in gpus:
        with start_local(count, "cuda") as made, Client(made) as client:
            run: Callable[[], Any] = lambda: dsolver.eigsh(case.problem, WANTED, B=mass, tol=TOL, client=client)  # noqa: E731
            seconds, found = timed(run, "cuda", runs)
            print(
                f"  {count} GPUs {found.iterations:4d} it {seconds:8.3f} s, search {found.timings['search']:.3f} s",
                flush=True,
            )


def main() -> None:
    """Run what the command asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--points", nargs="+", type=int, default=[32])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--gpus", nargs="+", type=int, help="numbers of GPUs, each a cluster of its own")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--without", nargs="+", default=[], help="rivals to leave out, by words of their names")
    options = parser.parse_args()
    for points in options.points:
        for name in options.cases:
            print(f"{name} {points}", flush=True)
            if options.gpus:
                over_gpus(name, points, options.gpus, options.runs)
            else:
                against(
                    name,
                    CASES[name](points),
                    options.device,
                    options.runs,
                    options.rivals,
                    options.most,
                    options.without,
                )


if __name__ == "__main__":
    main()
