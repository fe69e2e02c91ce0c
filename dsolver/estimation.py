"""What a solve will take: memory of each worker and a rough time, told before anything is allocated."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from dsolver import bandwidth as copies
from dsolver import devices, memory, traffic
from dsolver.batch import AT_ONCE, numbered
from dsolver.errors import DeviceMemoryError, InputError, float_of, in_a_line
from dsolver.iteration import Tolerances
from dsolver.levels import Hierarchy
from dsolver.memory import Bytes, amount
from dsolver.ordering import Order
from dsolver.partition import Triple
from dsolver.placement import chunks_for, owners_of
from dsolver.preconditioners import Chebyshev, Hpcg, Recipe, check_dtype, recipe_of
from dsolver.problems import Problem
from dsolver.problems.problem import check_problem
from dsolver.programs import SolveSpec
from dsolver.runtime import DeviceName, Runtime, check_device, connect

if TYPE_CHECKING:
    from distributed import Client

REACHED: Final = 0.85
"""The part of a GPU's nominal bandwidth that these kernels reach."""


@final
@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a solve will take.

    Attributes:
        chunks: how many along x, y, z.
        device: "cpu" or "cuda".
        workers: bytes of each worker, in rank order; see `dsolver.memory.Bytes`.
        available: bytes that each GPU has free; empty on CPUs, and where no GPU was looked at.
        iterations: about how many, for a constant stencil; coefficients that vary much take more without multigrid.
        seconds: about how long the iterations take, or None where the bandwidth is not known. Right within a factor of
            two or three: a warning against minutes taken for seconds, no measurement.
    """

    chunks: Triple
    device: str
    workers: tuple[Bytes, ...]
    available: tuple[int, ...]
    iterations: int
    seconds: float | None

    @property
    def bytes(self) -> int:
        """Of the worker that needs most."""
        return max(worker.total for worker in self.workers)

    @property
    def fits(self) -> bool | None:
        """Whether every GPU has enough memory; None where that is not known."""
        if not self.available:
            return None
        return all(worker.total <= free for worker, free in zip(self.workers, self.available, strict=False))

    @property
    def shortage(self) -> str | None:
        """Where the memory of a GPU will not suffice: which, with the numbers, and what to do."""
        for rank, (worker, free) in enumerate(zip(self.workers, self.available, strict=False)):
            if worker.total > free:
                needed = math.ceil(len(self.workers) * self.bytes / min(self.available))
                return (
                    f"GPU {rank} of {len(self.workers)} has {amount(free)} free, but its part of the system "
                    f"needs {amount(worker.total)} ({worker}): use about {needed} such GPUs, a smaller grid, or "
                    f"a preconditioner that takes less"
                )
        return None

    def __repr__(self) -> str:
        largest = max(self.workers, key=lambda worker: worker.total)
        crew = f"{len(self.workers)} " + ("GPU" if self.device == "cuda" else "worker") + "s" * (len(self.workers) > 1)
        lines = [f"{crew}, {amount(largest.total)} each at most: {largest}"]
        if self.available:
            lines.append(f"free: {amount(min(self.available))}" + ("" if self.fits else ", which is not enough"))
        about = "" if self.seconds is None else f", about {self.seconds:.2g} s"
        lines.append(f"about {self.iterations} iterations{about}")
        return "\n".join(lines)


def estimate(
    problem: Problem,
    *,
    client: Client | None = None,
    device: DeviceName = "auto",
    workers: int | None = None,
    order: str = "color8",
    M: Any = "mg",
    precond_dtype: str = "float64",
    together: int = 1,
    rtol: float = 1e-8,
    bandwidth: float | None = None,
) -> Estimate:
    """What `dsolver.solve` would take, on the devices that are there or on a number of workers that are not.

    Nothing is allocated but a few megabytes to measure a CPU. Masks are not looked at: a medium that is coarsened along
    its pores takes up to half as much again in one chunk, and in several 600 bytes a cell on each worker.

    Args:
        problem: the system; see `dsolver.problems`.
        client: a Dask cluster's client; by default this process.
        device: "cuda", "cpu", or "auto" for "cuda" where every worker has a GPU.
        workers: to plan for a cluster that is not there: how many workers it would have. With device="cuda" its GPUs
            are taken to be like this machine's, if it has one.
        order: of the smoother.
        M: the preconditioner.
        precond_dtype: its value type.
        together: right-hand sides that are given together. The memory of as many is counted as `dsolver.Solver` solves
            at once: up to `dsolver.batch.AT_ONCE`, and one with a function for M. Solutions of others that stay on GPUs
            are not; the time is that of one by itself.
        rtol: the tolerance of the solve.
        bandwidth: of each device's memory, bytes per second; by default what the GPU's driver says, less what is never
            reached, or a copy measured on this machine's CPU.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none.
        ClusterError: the cluster cannot be reached.
    """
    check_problem(problem)
    recipe, chosen = recipe_of(M, problem.grid), Order.parse(order)
    if client is not None and workers is not None:
        raise InputError("workers plans for a cluster that is not there, and a client is one: give only one of them")
    counts: dict[str, Any] = {"workers": 1 if workers is None else workers, "together": together}
    for name, count in counts.items():
        if not (isinstance(count, Integral) and int(count) >= 1):
            raise InputError(f"{name} must be an integer >= 1, not {count!r}")
    check_device(device)
    check_dtype(recipe, precond_dtype)
    Tolerances(rtol=rtol)
    measured: object = bandwidth  # mypy believes the annotation
    real = isinstance(measured, float | int | np.number)
    if measured is not None and not (real and 0.0 < float_of(measured) < math.inf):
        raise InputError(f"bandwidth must be bytes per second, more than 0, not {in_a_line(bandwidth)}")
    divisor = 2 ** (recipe.levels - 1)
    gpu = devices.find_gpu()
    if workers is None:
        runtime = connect(client, device=device)
        chunks, found, crew = (
            problem.chunks or runtime.chunks_for(problem.grid, divisor),
            runtime.device,
            runtime.workers,
        )
        free = devices.free_memory_of(client, crew) if found == "cuda" else ()
    else:
        found = device if device != "auto" else "cuda" if isinstance(gpu, devices.Gpu) else "cpu"
        chunks, crew = problem.chunks or chunks_for(problem.grid, workers, divisor), tuple(map(str, range(workers)))
        free = (gpu.memory,) * workers if found == "cuda" and isinstance(gpu, devices.Gpu) else ()
    hierarchy = Hierarchy.plan(problem, chunks, chosen, recipe.levels)
    at_once = min(int(together), AT_ONCE, numbered(hierarchy.partitions[0])) if recipe.batchable else 1
    if bandwidth is None:
        bandwidth = _nominal(gpu) if found == "cuda" else copies.of_cpu()
    return planned(
        hierarchy,
        recipe,
        crew,
        device=found,
        available=free,
        precond_dtype=precond_dtype,
        together=at_once if at_once > 1 else 0,
        rtol=rtol,
        bandwidth=bandwidth,
    )


def planned(
    hierarchy: Hierarchy,
    recipe: Recipe,
    workers: tuple[str, ...],
    *,
    device: str,
    available: tuple[int, ...],
    precond_dtype: str = "float64",
    together: int = 0,
    rtol: float = 1e-8,
    bandwidth: float | None = None,
) -> Estimate:
    """The estimate for a hierarchy on workers in rank order; none of them for this process alone.

    With room for so many right-hand sides `together` beside that of one.
    """
    partition = hierarchy.partitions[0]
    owners = owners_of(partition, workers)
    rank_of = {owner: rank for rank, owner in enumerate(dict.fromkeys(owners))}
    ranks = tuple(rank_of[owner] for owner in owners) if owners else (0,) * len(partition)
    size = np.dtype(precond_dtype).itemsize
    each = memory.of_workers(hierarchy, recipe, ranks, cuda=device == "cuda", dtype_bytes=size, together=together)
    grid = hierarchy.problem.grid
    iterations, seconds = iterations_for(recipe, grid, len(hierarchy.problem.offsets), rtol), None
    if bandwidth is not None:
        busiest = Counter(ranks).most_common(1)[0][1]
        moved = traffic.of_iteration(hierarchy, recipe, dtype_bytes=size) * busiest / len(partition)
        seconds = iterations * moved / bandwidth
    return Estimate(
        chunks=partition.counts,
        device=device,
        workers=each,
        available=tuple(available[: len(each)]),
        iterations=iterations,
        seconds=seconds,
    )


def of_spec(spec: SolveSpec, runtime: Runtime, free: tuple[int, ...] = (), together: int = 0) -> Estimate:
    """The estimate for what a `Solve` is told, on the GPUs of a runtime.

    Args:
        spec: it.
        runtime: whose workers they are.
        free: bytes that each GPU has free.
        together: right-hand sides with room of their own.
    """
    return planned(
        spec.hierarchy,
        spec.preconditioner,
        runtime.workers,
        device="cuda",
        available=free,
        precond_dtype=spec.precond_dtype,
        together=together,
    )


def check_memory(spec: SolveSpec, runtime: Runtime, old: SolveSpec | None = None) -> None:
    """Refuse what no GPU could hold before anything is started, or given up of the old system whose place it takes.

    What an old system that needed as much has been given is not asked for again.

    Raises:
        DeviceMemoryError: the memory of a GPU will not suffice.
    """
    if runtime.device != "cuda":
        return
    held = None if old is None else of_spec(old, runtime)
    if held is not None and of_spec(spec, runtime).bytes <= held.bytes:
        return
    shortage: str | None = None
    for reclaim in (False, True):  # before it is refused, all that nothing uses any more is given back
        free = devices.free_memory_of(runtime.client, runtime.workers, reclaim=reclaim)
        if held is not None:
            free = tuple(left + worker.resident for left, worker in zip(free, held.workers, strict=False))
        shortage = of_spec(spec, runtime, free).shortage
        if shortage is None:
            return
    raise DeviceMemoryError(shortage)


def iterations_for(recipe: Recipe, grid: Triple, points: int, rtol: float) -> int:
    """About how many iterations reach rtol for the Laplacian with 7 or 27 points.

    Conjugate gradients need a number in proportion to the points along the longest axis; the factors were measured at
    64³ (docs/performance.md).
    """
    plain = max(grid) * (3.65 if points <= 7 else 2.1) * math.log(max(rtol, 1e-16)) / math.log(1e-8)
    if isinstance(recipe, Hpcg):
        return max(1, math.ceil(plain * 0.29))
    if recipe.galerkin:  # hardly depends on the grid
        return max(1, math.ceil(10 * math.log(max(rtol, 1e-16)) / math.log(1e-8)))
    if isinstance(recipe, Chebyshev):
        return max(1, math.ceil(plain / (0.9 * recipe.degree)))
    return max(1, math.ceil(plain))


def _nominal(gpu: devices.Gpu | str) -> float | None:
    return gpu.bandwidth * REACHED if isinstance(gpu, devices.Gpu) and gpu.bandwidth else None
