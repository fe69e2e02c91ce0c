"""Time of whole solves from arrays of the host to x there, beside the same from arrays of the GPU and CuPy's own CG.

python bench/from_host.py                        all cases
python bench/from_host.py diffusion csr --grid 128 256
python bench/from_host.py formats --grid 256     COO, CSC, int64 indices, float32 values, blocks, diagonals
python bench/from_host.py dask --grid 512        blocks of NumPy on GPU workers, a later solve
python bench/from_host.py copies                 the link: 134 MB either way
python bench/from_host.py csr --grid 128 --profile
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import dsolver
from dsolver.problems import diffusion


def timed(call: Callable[[], Any], rounds: int = 4) -> float:
    """Seconds of the fastest call but the first."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return min(took[1:])


def host_loop() -> float:
    """Seconds of a loop in Python, which tells how fast the host is."""
    began, total = time.perf_counter(), 0
    for number in range(10_000_000):
        total += number
    return time.perf_counter() - began


def smooth(n: int) -> Any:
    """κ on n³ cells, float64."""
    x = (np.arange(n) + 0.5) / n
    return np.exp(np.sin(7.0 * x)[:, None, None] + np.cos(5.0 * x)[None, :, None] + np.sin(3.0 * x)[None, None, :])


def lattice(n: int) -> Any:
    """The 7-point Laplacian on n³ points with zeros around, a CSR array of SciPy with int32 indices."""
    ends = np.full(n, 2, dtype=np.int32)
    ends[[0, -1]] = 1
    lengths = 1 + ends[:, None, None] + ends[None, :, None] + ends[None, None, :]
    start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths.ravel(), dtype=np.int64)])
    columns, values = np.empty(start[-1], np.int32), np.full(start[-1], -1.0)
    row = np.arange(n**3, dtype=np.int32)
    i, j, k = row // (n * n), row // n % n, row % n
    at = start[:-1].copy()
    for there, step in (
        (i > 0, -n * n),
        (j > 0, -n),
        (k > 0, -1),
        (None, 0),
        (k < n - 1, 1),
        (j < n - 1, n),
        (i < n - 1, n * n),
    ):
        rows = row if there is None else row[there]
        columns[at[rows]] = rows + step
        if step == 0:
            values[at] = 6.0
        at[rows] += 1
    return sp.csr_array((values, columns, start.astype(np.int32)), shape=(n**3, n**3))


def diffusion_cases(n: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """First and later solves with κ and b of the host, and of the GPU."""
    import cupy

    host = smooth(n), np.random.default_rng(0).standard_normal((n, n, n))
    for name, (kappa, b) in (("NumPy", host), ("CuPy", tuple(map(cupy.asarray, host)))):
        yield (
            f"diffusion {n}³, {name}, first",
            lambda kappa=kappa, b=b: dsolver.solve(diffusion(b.shape, kappa), b, rtol=1e-8),
        )
        with dsolver.Solver(diffusion(b.shape, kappa)) as solver:
            yield f"diffusion {n}³, {name}, later", lambda b=b, solver=solver: solver.solve(b, rtol=1e-8)


def csr_cases(n: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """First solves with rows of the host, and of the GPU; CuPy's CG from the host to the host."""
    import cupy
    import cupyx.scipy.sparse
    import cupyx.scipy.sparse.linalg

    a, b = lattice(n), np.random.default_rng(0).standard_normal(n**3)
    yield f"CSR {n}³, SciPy, M='amg', first", lambda: dsolver.solve(a, b, M="amg", rtol=1e-8)
    yield f"CSR {n}³, SciPy, by itself, first", lambda: dsolver.solve(a, b, rtol=1e-8)
    there, c = cupyx.scipy.sparse.csr_matrix(a), cupy.asarray(b)
    yield f"CSR {n}³, CuPy, M='amg', first", lambda: dsolver.solve(there, c, M="amg", rtol=1e-8)

    def plain() -> Any:
        return cupyx.scipy.sparse.linalg.cg(cupyx.scipy.sparse.csr_matrix(a), cupy.asarray(b), rtol=1e-8)[0].get()

    yield f"CSR {n}³, CuPy's CG from SciPy to NumPy", plain


def format_cases(n: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """First solves with a matrix of the host in several formats."""
    a, b = lattice(n), np.random.default_rng(0).standard_normal(n**3)
    wide = sp.csr_array((a.data, a.indices.astype(np.int64), a.indptr.astype(np.int64)), shape=a.shape)
    mixed = a.tocoo()
    order = np.random.default_rng(1).permutation(mixed.nnz)
    shuffled = sp.coo_array((mixed.data[order], tuple(c[order] for c in mixed.coords)), shape=a.shape)
    twice = sp.coo_array(
        (np.concatenate([mixed.data, mixed.data]) / 2, tuple(np.concatenate([c, c]) for c in mixed.coords)),
        shape=a.shape,
    )
    kinds = {
        "COO": a.tocoo(),
        "COO, any order": shuffled,
        "COO, each entry twice": twice,
        "CSC": a.tocsc(),
        "int64 indices": wide,
        "float32 values": a.astype(np.float32),
        "DIA": a.todia(),
        "BSR": a.tobsr((2, 2)),
    }
    for name, matrix in kinds.items():
        yield f"{name} {n}³, SciPy, M='amg', first", lambda matrix=matrix: dsolver.solve(matrix, b, M="amg", rtol=1e-8)


def dask_cases(n: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Later solves with b a Dask array of NumPy blocks on workers with a GPU each."""
    import dask.array as da
    from dask_cuda import LocalCUDACluster
    from distributed import Client, wait

    with LocalCUDACluster(device_memory_limit=None, memory_limit=None) as cluster, Client(cluster) as client:
        workers = len(client.nthreads())
        b = da.random.default_rng(0).standard_normal((n, n, n), chunks=(n // workers, n, n)).persist()
        wait(b)
        with dsolver.Solver(diffusion((n, n, n), np.pi), client=client, M="mg") as solver:

            def later() -> None:
                wait(solver.solve(b, rtol=1e-8).x.persist())

            yield f"Dask {n}³, NumPy blocks, M='mg', {workers} workers, later", later


def copy_cases(_: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """134 MB to the GPU and back: by pieces and by the driver."""
    import cupy

    from dsolver.kernels import load

    backend, host = load("cuda"), np.random.default_rng(0).standard_normal(1 << 24)
    there = cupy.asarray(host)

    def up(copy: Callable[[Any], Any], values: Any) -> None:
        copy(values)
        cupy.cuda.Device().synchronize()

    yield "to the GPU, in pieces", lambda: up(backend.asarray, host)
    yield "to the GPU, by the driver", lambda: up(cupy.asarray, host)
    strided = np.random.default_rng(0).standard_normal((1 << 12, 1 << 13))[:, ::2]
    yield "to the GPU, in pieces, every other value", lambda: up(backend.asarray, strided)
    yield "to the host, in pieces", lambda: backend.to_host(there)
    yield "to the host, by the driver", there.get


CASES = {
    "diffusion": diffusion_cases,
    "csr": csr_cases,
    "formats": format_cases,
    "dask": dask_cases,
    "copies": copy_cases,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--grid", type=int, nargs="+", default=[128, 256])
    parser.add_argument(
        "--profile", action="store_true", help="also the functions in which a last call spends its time"
    )
    options = parser.parse_args()
    print(f"host: a loop in Python takes {host_loop():.2f} s")
    for case in options.cases or ("copies", "diffusion", "csr"):
        for n in options.grid[: 1 if case == "copies" else None]:
            for name, call in CASES[case](n):
                print(f"{name:58s} {1e3 * timed(call):9.2f} ms", flush=True)
                if options.profile:
                    profile = cProfile.Profile()
                    profile.runcall(call)
                    pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
