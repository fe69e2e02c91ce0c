"""The 7-point Poisson problem from nothing to 1e-8: seconds of set-up and solve, iterations, memory.

    python bench/poisson.py [--grid 512 512 512] [--bc dirichlet] [--precond-dtype float64]
    python bench/poisson.py --kappa smooth [--M amg]
    python bench/poisson.py --grid 256 256 256 --spacing 1 1 0.1
    python bench/poisson.py --grid 512 512 512 --grid 1024 1024 1024 --workers 4
    python bench/poisson.py --grid 64 64 64 --workers 2 --device cpu
    python bench/poisson.py --memory

In this process, or with --workers through Dask on so many GPUs (or CPU workers) of this machine. A solve of a small
grid before compiles the kernels. b is random; b and kappa are made where they are used, chunk by chunk, before the
clock runs. kappa: smooth, between e^-1 and e; jumps, 1 or 10^4 in eight large blocks. The residual is ‖b - A x‖ / ‖b‖,
computed anew from x. Memory is of the GPU that needs most, b and kappa apart: what `dsolver.estimate` says, and with
--memory, which costs time, what arrays took at most from the beginning of the set-up to the end of the first solve, x
included, and what CuPy's pool held for them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dsolver
from dsolver import problems
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.cluster.runtime import Runtime, connect
from dsolver.grid.cut import owners_of
from dsolver.grid.partition import Chunk, Partition
from dsolver.preconditioners.registry import preconditioner_of
from dsolver.session.user_arrays import dask_array

SMALL = (64, 64, 64)
SINGULAR = ("neumann", "periodic")


def random_block(xp: Any, chunk: Chunk, _: Any) -> Any:
    """Standard normal numbers, float64, of a chunk's shape."""
    return xp.random.default_rng(chunk.number).standard_normal(chunk.box.shape)


def smooth_block(xp: Any, chunk: Chunk, grid: Any) -> Any:
    """Between e^-1 and e."""
    x, y, z = places(xp, chunk, grid)
    return xp.exp(xp.sin(6.0 * x) * xp.cos(5.0 * y) * xp.sin(4.0 * z + 1.0))


def jumps_block(xp: Any, chunk: Chunk, grid: Any) -> Any:
    """1 or 10^4."""
    x, y, z = places(xp, chunk, grid)
    return 1.0 + (1e4 - 1.0) * ((x < 0.4) ^ (y < 0.55) ^ (z < 0.3))


def places(xp: Any, chunk: Chunk, grid: Any) -> list[Any]:
    """x, y and z of a chunk's cells, from 0 to 1 over the grid."""
    lines = (xp.linspace(0.0, 1.0, n)[part] for n, part in zip(grid, chunk.box.slices, strict=True))
    return [line.reshape([-1 if a == b else 1 for b in range(3)]) for a, line in enumerate(lines)]


UNIT = (1.0, 1.0, 1.0)
KAPPAS = {"smooth": smooth_block, "jumps": jumps_block}


@dataclass(frozen=True, kw_only=True)
class Site:
    """Devices on which all runs: their arrays and memory."""

    runtime: Runtime

    @property
    def module(self) -> str:
        """Name of the module of its arrays."""
        return "cupy" if self.runtime.device == "cuda" else "numpy"

    def array(self, grid: Any, make: Callable[[Any, Chunk, Any], Any], m: Any = None) -> Any:
        """An array of the grid from what makes a chunk's block, each made by its owner in a solve with this M."""
        client = self.runtime.client
        if client is None:
            return block(make, self.module, Partition(grid)[0], grid)
        partition = Partition(grid, self.runtime.chunks_for(grid, slabs=preconditioner_of(m).slabs))
        owners = owners_of(partition, self.runtime.workers)
        blocks = {
            chunk.number: client.submit(block, make, self.module, chunk, grid, workers=[owner], pure=False)
            for chunk, owner in zip(partition, owners, strict=True)
        }
        whole = dask_array(partition, blocks, importlib.import_module(self.module).empty((0, 0, 0)))
        return self.there(whole)

    def there(self, values: Any) -> Any:
        """The values, computed and on their owners."""
        client = self.runtime.client
        if client is None:
            return values
        from distributed import wait

        values = client.persist(values)
        wait(values)
        return values

    def everywhere(self, question: Callable[[], Any]) -> list[Any]:
        """Answers of each device's process."""
        client = self.runtime.client
        return [question()] if client is None else [*client.run(question).values()]

    def settle(self) -> None:
        """Wait until no device works."""
        if self.runtime.device == "cuda":
            self.everywhere(settle)


def block(make: Callable[[Any, Chunk, Any], Any], module: str, chunk: Chunk, grid: Any) -> Any:
    """A chunk's block, where it is called."""
    made = make(importlib.import_module(module), chunk, grid)
    if module == "cupy":
        settle()  # others read it on other streams
    return made


def settle() -> None:
    """Wait until the GPU of this process does not work."""
    importlib.import_module("cupy").cuda.Device().synchronize()


class Meter:
    """CuPy's allocator, which notices what its pool has in use and holds at most, above what there is now."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.used = self.held = 0
        self.before = pool.used_bytes()

    def __call__(self, size: int) -> Any:
        memory = self.pool.malloc(size)
        self.used = max(self.used, self.pool.used_bytes() - self.before)
        self.held = max(self.held, self.pool.total_bytes() - self.before)
        return memory


def meter() -> None:
    """Begin to look."""
    cupy = importlib.import_module("cupy")
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    cupy.cuda.set_allocator(Meter(pool))


def metered() -> tuple[int, int]:
    """Bytes in use and held at most since then."""
    found = importlib.import_module("cupy").cuda.get_allocator()
    return found.used, found.held


def problem_of(grid: Any, bc: str, kappa: Any, spacing: Any) -> problems.Problem:
    """-div kappa grad on cells of a box, or with bc="points" on points with zeros around them."""
    return problems.poisson7(grid) if bc == "points" else problems.diffusion(grid, kappa, bc=bc, spacing=spacing)


def run(site: Site, grid: Any, options: argparse.Namespace) -> None:
    """Set a system up and solve it, and tell of it."""
    runtime, spacing = site.runtime, tuple(options.spacing)
    bc = options.bc or ("points" if options.kappa == "one" and spacing == UNIT else "dirichlet")
    kappa = 1.0 if options.kappa == "one" else site.array(grid, KAPPAS[options.kappa], options.M)
    b = site.array(grid, random_block, options.M)
    if bc in SINGULAR:
        b = site.there(b - b.mean())
    problem = problem_of(grid, bc, kappa, spacing)
    where = {"client": runtime.client, "device": runtime.device, "precond_dtype": options.precond_dtype, "M": options.M}
    expected = dsolver.estimate(problem, bandwidth=1.0, **where)
    print(
        f"{'x'.join(map(str, grid))} {bc}, kappa {options.kappa}, M {options.M}, {options.precond_dtype}, "
        f"{len(runtime.workers) or 'no'} workers, {runtime.device}: {expected.bytes / 1e9:.2f} GB each at most, "
        f"of which {max(worker.resident for worker in expected.workers) / 1e9:.2f} GB stay",
        flush=True,
    )
    metering = options.memory and runtime.device == "cuda"
    if metering:
        site.everywhere(meter)
    gc.collect()  # or Python's collector, which takes 50 ms, may look through all objects while the clock runs
    began = time.perf_counter()
    with dsolver.Solver(problem, **where) as solver:
        site.settle()
        made = time.perf_counter()
        solution = solver.solve(b, rtol=options.rtol)
        done = time.perf_counter()  # devices have x whole by then, and through Dask to ask them takes 1 to 2 ms
        taken = max(site.everywhere(metered)) if metering else ()
        print(
            f"    set-up {made - began:.3f} s + solve {done - made:.3f} s = {done - began:.3f} s, "
            f"{solution.iterations} iterations, {solution.status}, residual {solution.relative_residual:.1e}"
            + (", {:.2f} GB in use, {:.2f} held".format(*(size / 1e9 for size in taken)) if metering else ""),
            flush=True,
        )
        del solution
        best = math.inf
        for _ in range(options.again):
            again = time.perf_counter()
            solution = solver.solve(b, rtol=options.rtol)
            best = min(best, time.perf_counter() - again)
        print(f"    again: {best:.4f} s, {solution.iterations} iterations", flush=True)
        if len(runtime.workers) > 1:
            del solution
            told(solver.solve(b, rtol=options.rtol, spans=lambda _: None))


def told(solution: dsolver.Solution) -> None:
    """Communication that a measured iteration left exposed, in words."""
    found = solution.exposure
    if found is None:
        return
    each = ", ".join(f"{name}: {level.ms:.3f}" for name, level in found.levels.items())
    print(f"    exposed of {found.iteration_ms:.3f} ms: {found.total.ms:.3f} ms ({each})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, nargs=3, action="append", help="may be given several times")
    parser.add_argument("--bc", help="points (without kappa), dirichlet, neumann or periodic")
    parser.add_argument("--kappa", default="one", choices=("one", *KAPPAS))
    parser.add_argument("--spacing", type=float, nargs=3, default=UNIT, help="edges of cells")
    parser.add_argument("--precond-dtype", default="float64")
    parser.add_argument("--M", default="auto")
    parser.add_argument("--rtol", type=float, default=1e-8)
    parser.add_argument("--again", type=int, default=1, help="later solves, of which the best is told")
    parser.add_argument("--workers", type=int, help="through Dask")
    parser.add_argument("--memory", action="store_true", help="look at what is taken of the GPU")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    if options.bc == "points" and tuple(options.spacing) != UNIT:
        parser.error("--spacing is of cells: give --bc dirichlet with it")
    with open_client(ClusterOptions(workers=options.workers, device=options.device)) as client:
        site = Site(runtime=connect(client, device=options.device))
        for grid in (SMALL, *map(tuple, options.grid or [(512, 512, 512)])):
            run(site, grid, options)


if __name__ == "__main__":
    main()
