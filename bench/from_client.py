"""Seconds from the arrays of a client to x there, on workers of its host, beside the same in one process.

python bench/from_client.py                            CSR 160³, NumPy 256×256×512, Dask 512³; one and two GPUs
python bench/from_client.py csr --workers 2 --grid 160
python bench/from_client.py csr numpy --device cpu --grid 64 --cells 96

For each it prints the clock, the processor seconds of the client and of its workers, and where the client's went.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from from_host import host_loop, lattice

import dsolver
from dsolver.engines.dask.lending import reach_of
from dsolver.problems import diffusion

ROUNDS = 4
STEPS = (
    ("checked.py", "checked", "look"),
    ("runtime.py", "connect", "connect"),
    ("sent_rows.py", "told", "send and cut"),
    ("runtime.py", "launch", "start ranks"),
    ("client.py", "bring", "bring"),
    ("client.py", "call", "calls"),
    ("client.py", "exchange", "b, solve, x"),
    ("blocks.py", "gather_blocks", "gather x"),
    ("containers.py", "like", "x as an array"),
)
"""Functions of the client by file and name, and words for them."""


def steps(call: Callable[[], Any]) -> str:
    """Milliseconds of the client's steps in one call."""
    profile = cProfile.Profile()
    profile.runcall(call)
    rows: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found = []
    for file, name, words in STEPS:
        took = max((row[3] for key, row in rows.items() if key[2] == name and key[0].endswith("/" + file)), default=0.0)
        if took > 5e-4:
            found.append(f"{words} {1e3 * took:.0f}")
    return ", ".join(found)


class Meter:
    """Prints the fastest of some calls with the processor seconds that it took."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, name: str, call: Callable[[], Any]) -> None:
        """Time a call, whose result has `timings` or is None."""
        best: tuple[float, float, float, Any] | None = None
        for round_ in range(ROUNDS):
            before = self._processors()
            began = time.perf_counter()
            result = call()
            took = time.perf_counter() - began
            here, there = (b - a for a, b in zip(before, self._processors(), strict=True))
            if round_ and (best is None or took < best[0]):
                best = took, here, there, result
        assert best is not None
        took, here, there, result = best
        parts = {} if result is None else {k: round(1e3 * v) for k, v in result.timings.items() if k != "total"}
        print(f"{name:44s} {1e3 * took:8.1f} ms   processors {here:5.2f} {there:5.2f} s   {parts or ''}", flush=True)
        print(f"{'':44s} {steps(call)}", flush=True)

    def _processors(self) -> tuple[float, float]:
        there = sum(self._client.run(_processor_seconds).values()) if self._client else 0.0
        return _processor_seconds(), there


def _processor_seconds() -> float:
    return sum(os.times()[:2])


def csr_case(meter: Meter, where: str, options: argparse.Namespace, given: dict[str, Any]) -> None:
    """Set-up and first solve of a matrix of SciPy."""
    n = options.grid
    a, b = lattice(n), np.random.default_rng(0).standard_normal(n**3)

    def set_up() -> None:
        dsolver.Solver(a, M="amg", **given).close()

    meter(f"CSR {n}³, {where}: set-up", set_up)
    meter(f"CSR {n}³, {where}: first solve", lambda: dsolver.solve(a, b, M="amg", rtol=1e-8, **given))


def numpy_case(meter: Meter, where: str, options: argparse.Namespace, given: dict[str, Any]) -> None:
    """First and later solves with κ and b of NumPy."""
    n = options.cells
    grid = (n // 2, n // 2, n)
    rng = np.random.default_rng(0)
    kappa, b = rng.uniform(0.5, 2.0, grid), rng.standard_normal(grid)
    problem = diffusion(grid, kappa)
    size = f"{b.nbytes >> 20} MiB"
    meter(f"NumPy {size}, {where}: first solve", lambda: dsolver.solve(problem, b, M="mg", rtol=1e-8, **given))
    with dsolver.Solver(problem, M="mg", **given) as solver:
        meter(f"NumPy {size}, {where}: later solve", lambda: solver.solve(b, rtol=1e-8))


def dask_case(meter: Meter, where: str, options: argparse.Namespace, given: dict[str, Any]) -> None:
    """Later solves with b a Dask array of NumPy blocks, which stay on their workers."""
    import dask.array as da
    from distributed import wait

    client, n = given["client"], options.cells
    if not client:
        return
    workers = len(client.nthreads())
    b = da.random.default_rng(0).standard_normal((n, n, n), chunks=(n // workers, n, n)).persist()
    wait(b)
    with dsolver.Solver(diffusion((n, n, n), np.pi), M="mg", **given) as solver:

        def later() -> Any:
            found = solver.solve(b, rtol=1e-8)
            wait(found.x.persist())
            return found

        meter(f"Dask {n}³, {where}: later solve", later)


CASES = {"csr": csr_case, "numpy": numpy_case, "dask": dask_case}


@contextmanager
def cluster_of(workers: int, device: str) -> Iterator[Any]:
    """A client of so many workers on this host; False without any."""
    if not workers:
        yield False
        return
    from distributed import Client, LocalCluster

    if device == "cuda":
        from dask_cuda import LocalCUDACluster

        gpus = list(range(workers))
        made = LocalCUDACluster(CUDA_VISIBLE_DEVICES=gpus, device_memory_limit=None, memory_limit=None)
    else:
        made = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=None)
    with made, Client(made) as client:
        yield client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="0 for this process alone")
    parser.add_argument("--grid", type=int, default=160, help="points along an axis of the matrix's lattice")
    parser.add_argument("--cells", type=int, default=512, help="cells along the longest axis of grids")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    print(f"host: {len(os.sched_getaffinity(0))} cores, a loop in Python takes {host_loop():.2f} s")
    for workers in options.workers:
        with cluster_of(workers, options.device) as client:
            where = f"{workers} workers" if workers else "no cluster"
            if client:
                asked = tuple(client.nthreads())
                reach = client.sync(reach_of, client, asked)
                there = f"{len(reach.readers)} of {len(asked)} workers"
                print(f"{there} read arrays of this process where they lie, which reads those of {len(reach.lenders)}")
            for case in options.cases or CASES:
                CASES[case](Meter(client), where, options, {"client": client, "device": options.device})


if __name__ == "__main__":
    main()
