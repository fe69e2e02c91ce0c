"""Forecast of a solve: memory of each worker and a rough time, told before anything is allocated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, Literal, final

import numpy as np

from dsolver.cluster import default_client, devices, host_memory
from dsolver.cluster.host_memory import Supply
from dsolver.cluster.runtime import DeviceName, Runtime, check_device, connect
from dsolver.cost import bandwidth as copies
from dsolver.cost import memory, scaling, traffic
from dsolver.cost.links import Fabric
from dsolver.cost.memory import Bytes
from dsolver.cost.scaling import Scaling
from dsolver.errors import DeviceMemoryError, InputError, check_tolerance, float_of, in_a_line
from dsolver.grid.coloring import Order
from dsolver.grid.cut import owners_of
from dsolver.grid.partition import Triple
from dsolver.matrices.composed.grids import as_matrix
from dsolver.matrices.matrix import is_matrix, matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.monitor.notebook import facts, table, view
from dsolver.preconditioners import Preconditioner
from dsolver.preconditioners.registry import AUTO, check_dtype, chosen_for
from dsolver.problems import Problem
from dsolver.problems.problem import check_problem
from dsolver.program.batch import AT_ONCE, most_columns
from dsolver.program.plan import Wishes
from dsolver.program.spec import SolveSpec
from dsolver.units import amount

if TYPE_CHECKING:
    from distributed import Client

REACHED: Final = 0.85
"""The part of a GPU's nominal bandwidth that these kernels reach."""
H200: Final = 4.8e12
"""Nominal bytes per second of an NVIDIA H200, for plans where no GPU is there."""
SMALL: Final = 1 << 28
"""Bytes of a system for whose sake no CPU is asked what memory it has."""
ROW_BYTES: Final = 1024
"""Bytes of a row of a grid: with 27 points 600 to 1100, set-up included, where chunks are not tiny."""
ENTRY_BYTES: Final = 128
"""Bytes of an entry of a matrix beside `ROW_BYTES` of its row: with algebraic multigrid 0.6 to 0.8 of both are counted,
and on several GPUs up to 1.5 times as much where chunks are tiny."""
SHOWN: Final = 8
"""Most workers that a notebook lists."""
LATENCY: Final = {"cpu": 0.01, "cuda": 0.04}
"""Seconds of a set-up that do not depend on the number of rows; twice as many on several workers."""
COMPILATION: Final = {"cpu": 8.0, "cuda": 6.0}
"""Seconds in which kernels are compiled where that has not been done: on two cores, and for a GPU."""
PLENTY: Final = 4
"""Times as much that a GPU must have free, to be asked no more."""


@final
@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Forecast of a solve.

    Attributes:
        chunks: how many along x, y, z.
        device: "cpu" or "cuda".
        workers: bytes of each worker, in rank order; see `dsolver.cost.memory.Bytes`.
        available: bytes that each GPU has free, or that each worker on CPUs may take: of its machine's free memory, of
            what the limits of its cgroups leave, shared with the other workers there, and below Dask's memory_limit.
            Empty where it was not looked for.
        limits: what `available` comes from, for messages; empty for GPUs.
        iterations: about how many, for a constant stencil; coefficients that vary much take more without multigrid.
        seconds: about how long the iterations take, or None where the bandwidth is not known. Right within a factor of
            two or three: a warning against minutes taken for seconds, no measurement.
        setup_seconds: about how long set-up takes, or None; as right as that.
        compilation: seconds that the first solve on a machine takes to compile kernels, beside both.
        scaling: an iteration's time on one GPU and more, where `per_host` was given; see `dsolver.cost.scaling`.
    """

    chunks: Triple
    device: str
    workers: tuple[Bytes, ...]
    available: tuple[int, ...]
    iterations: int
    seconds: float | None
    setup_seconds: float | None
    compilation: float
    limits: tuple[str, ...] = ()
    scaling: Scaling | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the worker that needs most."""
        return max(worker.total for worker in self.workers)

    @property
    def fits(self) -> bool | None:
        """Whether every worker, or its GPU, has enough memory; None where that is not known."""
        if not self.available:
            return None
        return all(worker.total <= free for worker, free in zip(self.workers, self.available, strict=False))

    @property
    def shortage(self) -> str | None:
        """Message where the memory of a worker or its GPU will not suffice: the numbers, and what to do; else None."""
        for rank, (worker, free) in enumerate(zip(self.workers, self.available, strict=False)):
            if worker.total > free:
                needed = math.ceil(len(self.workers) * self.bytes / max(1, min(self.available)))
                part, more = "its part of the system", f"{needed} such GPUs"
                if self.device == "cuda":
                    place = f"GPU {rank} of {len(self.workers)} has {amount(free)} free"
                else:
                    place, more = f"{amount(free)} are {self.limits[rank]}", f"{needed} such workers on more machines"
                    if len(self.workers) == 1:
                        part = "the system"
                    else:
                        place = f"worker {rank} of {len(self.workers)} may take {amount(free)}"
                        place += f" of what is {self.limits[rank]}"
                return (
                    f"{place}, but {part} needs {amount(worker.total)} ({worker}): use about {more}, a smaller grid, "
                    f"or a preconditioner that takes less"
                )
        return None

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: bytes of each worker by what they are for, and the curves where there are any."""
        return {
            "chunks": self.chunks,
            "device": self.device,
            "workers": [{"total": worker.total, **worker.parts} for worker in self.workers],
            "available": self.available,
            "shortage": self.shortage,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "setup_seconds": self.setup_seconds,
            "compilation": self.compilation,
            "scaling": self.scaling and self.scaling.to_dict(),
        }

    def _repr_html_(self) -> str:
        count = len(self.workers)
        head = (
            "GPU" if self.device == "cuda" else "worker",
            *self.workers[0].parts,
            "together",
            *(["free"] if self.available else []),
        )
        rows = [
            (rank, *map(amount, [*worker.parts.values(), worker.total, *self.available[rank : rank + 1]]))
            for rank, worker in enumerate(self.workers[:SHOWN])
        ]
        more = [("…", f"{count - SHOWN} more")] if count > SHOWN else []
        about = {
            "chunks": " × ".join(map(str, self.chunks)),
            "iterations": f"about {self.iterations}",
            "seconds of set-up": None if self.setup_seconds is None else f"about {self.setup_seconds:.2g}",
            "seconds of iterations": None if self.seconds is None else f"about {self.seconds:.2g}",
            "seconds of compilation": f"about {self.compilation:.2g}, once on a machine",
            "memory": self.shortage or ("enough" if self.available else "it is not known what is free"),
        }
        crew = ("GPU" if self.device == "cuda" else "CPU worker") + "s" * (count > 1)
        return view(f"Estimate for {count} {crew}", facts(about), table(head, [*rows, *more]))

    def __repr__(self) -> str:
        largest = max(self.workers, key=lambda worker: worker.total)
        crew = f"{len(self.workers)} " + ("GPU" if self.device == "cuda" else "worker") + "s" * (len(self.workers) > 1)
        lines = [f"{crew}, {amount(largest.total)} each at most: {largest}"]
        if self.available:
            lines.append(f"free: {amount(min(self.available))}" + ("" if self.fits else ", which is not enough"))
        if self.seconds is None or self.setup_seconds is None:
            lines.append(f"about {self.iterations} iterations")
        else:
            lines.append(
                f"set-up about {self.setup_seconds:.2g} s, {self.iterations} iterations about {self.seconds:.2g} s; "
                f"once on a machine, kernels are compiled: about {self.compilation:.2g} s"
            )
        if self.scaling is not None:
            lines += ["", str(self.scaling)]
        return "\n".join(lines)


def estimate(
    problem: Problem | Any,
    *,
    client: Client | Literal[False] | None = None,
    device: DeviceName = "auto",
    workers: int | None = None,
    order: str = "color8",
    M: Any = AUTO,
    precond_dtype: str = AUTO,
    method: str | None = None,
    restart: int | None = None,
    together: int = 1,
    rtol: float = 1e-8,
    bandwidth: float | None = None,
    per_host: int | None = None,
) -> Estimate:
    """Forecast of `dsolver.solve`, on the devices that are there or on a number of workers that are not.

    Nothing is allocated but a few megabytes to measure a CPU. Masks and coefficients are not looked at. Where "auto"
    takes "amg", ask with M="amg": it keeps a quarter more than "mg", up to twice as much where couplings differ most,
    and its set-up takes up to twice as much as that of "mg", with several chunks on GPUs up to five times. So does "mg"
    where it leaves the lattice. Cells that are left out take less than is counted, and so do coefficients that vary but
    not roughly, on GPUs two thirds of it: ``M=Multigrid(sweeps=1, visits=1)`` says that they do.

    Args:
        problem: the system; see `dsolver.problems`; or a sparse matrix, as in `dsolver.solve`.
        client: as of `dsolver.solve`: a Dask cluster's, by default the one that is open; False for this process.
        device: "cuda", "cpu", or "auto" for "cuda" where every worker has a GPU.
        workers: to plan for a cluster that is not there: how many workers it would have. With device="cuda" its GPUs
            are taken to be like this machine's, if it has one.
        order: of the smoother.
        M: the preconditioner; by default what `dsolver.solve` takes.
        precond_dtype: its value type, as of `dsolver.solve`.
        method: of the solve, by default what `dsolver.solve` takes.
        restart: vectors of its basis, where it has one.
        together: right-hand sides that are given together. The memory of as many is counted as `dsolver.Solver` solves
            at once: up to `dsolver.program.batch.AT_ONCE`, and one with a function for M. Solutions of others that
            stay on GPUs are not; the time is that of one by itself.
        rtol: the tolerance of the solve.
        bandwidth: of each device's memory, bytes per second; by default what the GPU's driver says, less what is never
            reached, or a copy measured on this machine's CPU.
        per_host: for a plan on GPUs, how many of them a host has. The estimate then has curves of weak and strong
            scaling up to `workers`, as ``estimate(...).scaling``. Without `bandwidth` and a GPU here, H200s are meant.

    Returns:
        An `Estimate`, to be printed: bytes of each worker, iterations, and seconds of set-up and of the iterations.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none.
        ClusterError: the cluster cannot be reached.
    """
    problem = as_matrix(problem) if isinstance(problem, Problem) or not is_matrix(problem) else matrix(problem)
    check_problem(problem)
    m, chosen = chosen_for(M, problem, method, "cpu"), Order.parse(order)  # refused here
    if client and workers is not None:
        raise InputError("workers plans for a cluster that is not there, and a client is one: give only one of them")
    counts: dict[str, Any] = {"workers": 1 if workers is None else workers, "together": together}
    if per_host is not None:
        counts["per_host"] = per_host
    for name, count in counts.items():
        if not (isinstance(count, Integral) and int(count) >= 1):
            raise InputError(f"{name} must be an integer >= 1, not {in_a_line(count)}")
    check_device(device)
    check_dtype(m, m.precision or precond_dtype)
    check_tolerance("rtol", rtol)
    measured: object = bandwidth  # mypy believes the annotation
    real = isinstance(measured, float | int | np.number)
    if measured is not None and not (real and 0.0 < float_of(measured) < math.inf):
        raise InputError(f"bandwidth must be bytes per second, more than 0, not {in_a_line(bandwidth)}")
    if per_host is not None and (workers is None or device != "cuda"):
        raise InputError("per_host is for plans of GPUs: give workers= and device='cuda', too")
    gpu = devices.find_gpu()
    client = default_client.meant(client)
    runtime = connect(client, device=device) if workers is None else _planned_runtime(device, workers, gpu)
    m = chosen_for(M, problem, method, runtime.device)
    precond_dtype = m.precision or precond_dtype
    on_gpus, there = runtime.device == "cuda", workers is None
    available: Sequence[int] = (gpu.memory,) * len(runtime.workers) if on_gpus and isinstance(gpu, devices.Gpu) else ()
    if on_gpus and there:
        available = devices.free_memory_of(client, runtime.workers)
    wishes = Wishes(m=m, method=method, restart=restart, order=chosen, precond_dtype=precond_dtype)
    spec = wishes.plan(problem, max(1, len(runtime.workers)), cuda=on_gpus).spec
    batched = m.can.batched and spec.traits.batched
    at_once = min(int(together), AT_ONCE, most_columns(spec.partition)) if batched else 1
    bandwidth = bandwidth or (_nominal(gpu) if on_gpus else copies.of_cpu())
    if bandwidth is None and per_host is not None:
        bandwidth = REACHED * H200
    found = of_spec(
        spec,
        runtime,
        available=available,
        supplies=host_memory.supplies_of(client, runtime.workers) if there and not on_gpus else (),
        together=at_once if at_once > 1 else 0,
        rtol=rtol,
        bandwidth=bandwidth,
    )
    if per_host is None or bandwidth is None:
        return found
    fabric = Fabric(per_host=int(per_host))
    return replace(found, scaling=scaling.of_spec(spec, len(runtime.workers), fabric, bandwidth))


def of_spec(
    spec: SolveSpec,
    runtime: Runtime,
    *,
    available: Sequence[int] = (),
    supplies: Sequence[Sequence[Supply]] = (),
    held: Sequence[int] = (),
    together: int = 0,
    rtol: float = 1e-8,
    bandwidth: float | None = None,
) -> Estimate:
    """The estimate for a system on the workers of a runtime.

    Args:
        spec: the system.
        runtime: whose workers they are.
        available: bytes that each GPU has free.
        supplies: of each worker's memory, on CPUs.
        held: bytes that each of these workers has of it already.
        together: right-hand sides with room of their own beside that of one.
        rtol: the tolerance of the solve.
        bandwidth: of each device's memory, bytes per second.
    """
    owners = owners_of(spec.partition, runtime.workers, spec.problem.places)
    rank_of = {owner: rank for rank, owner in enumerate(dict.fromkeys(owners))}
    ranks = tuple(rank_of[owner] for owner in owners) if owners else (0,) * len(spec.partition)
    each = memory.of_workers(spec, ranks, cuda=runtime.device == "cuda", together=together)
    iterations, seconds, setup = iterations_for(spec.preconditioner, spec.problem, rtol), None, None
    if bandwidth is not None:
        busiest = Counter(ranks).most_common(1)[0][1]
        moved = traffic.of_iteration(spec) * busiest / len(spec.partition)
        seconds = iterations * moved / bandwidth
        setup = spec.preconditioner.setup_seconds(spec.problem, moved / bandwidth)
        setup += LATENCY[runtime.device] * (1 + (len(each) > 1))
    shares = host_memory.shares(supplies[: len(each)], [worker.total for worker in each], held) if supplies else []
    return Estimate(
        chunks=spec.partition.counts,
        device=runtime.device,
        workers=each,
        available=tuple(available[: len(each)]) or tuple(share.free for share in shares),
        limits=tuple(share.what for share in shares),
        iterations=iterations,
        seconds=seconds,
        setup_seconds=setup,
        compilation=COMPILATION[runtime.device],
    )


def check_memory(spec: SolveSpec, runtime: Runtime, old: SolveSpec | None = None) -> None:
    """Refuse what GPUs or workers could not hold before anything is started, or given up of the system it replaces.

    What an old system that needed as much has been given is not asked for again. A system of few rows is not looked at
    more closely.

    Raises:
        DeviceMemoryError: the memory of a GPU, or of a worker, will not suffice.
    """
    problem = spec.problem
    entries = problem.entries if isinstance(problem, MatrixProblem) else 0
    rough = ROW_BYTES * math.prod(problem.grid) + ENTRY_BYTES * entries + spec.preconditioner.beside(problem)
    on_gpus = runtime.device == "cuda"
    if rough <= SMALL and not on_gpus:
        return
    held: Sequence[int] = ()
    if old is not None:
        there = of_spec(old, runtime)
        if of_spec(spec, runtime).bytes <= there.bytes:
            return
        held = [worker.resident for worker in there.workers]
    if on_gpus:
        for reclaim in (False, True):  # what nothing uses any more is given back first
            free = devices.free_memory_of(runtime.client, runtime.workers, reclaim=reclaim)
            if SMALL + PLENTY * rough <= min(free):
                return
            free = tuple(left + own for left, own in zip_longest(free, held, fillvalue=0))
            wanted = of_spec(spec, runtime, available=free)
            if wanted.fits:
                return
    else:
        if sum(worker.total for worker in of_spec(spec, runtime).workers) <= SMALL:  # with less a row than is usual
            return
        wanted = of_spec(spec, runtime, supplies=host_memory.supplies_of(runtime.client, runtime.workers), held=held)
    if wanted.shortage is not None:
        raise DeviceMemoryError(wanted.shortage)


def iterations_for(preconditioner: Preconditioner, problem: Problem, rtol: float) -> int:
    """About how many iterations reach rtol for the Laplacian with 7 or 27 points on a problem's grid.

    Conjugate gradients need a number in proportion to the points along the longest axis; the factors were measured at
    64³ (docs/performance.md). A matrix is taken for one of a mesh in space with as many points.
    """
    factor = 3.65 if len(problem.offsets) <= 7 else 2.1
    longest = max(problem.grid) if problem.lattice else problem.grid[0] ** (1 / 3)
    alone = longest * factor * math.log(max(rtol, 1e-16)) / math.log(1e-8)
    return max(1, math.ceil(preconditioner.iterations(alone, rtol)))


def _planned_runtime(device: DeviceName, workers: int, gpu: devices.Gpu | str) -> Runtime:
    """A cluster that is not there."""
    found = devices.planned(device, gpu)
    crew = tuple(map(str, range(workers)))
    return Runtime(engine="resident", device=found, kernels=found, client=None, workers=crew)


def _nominal(gpu: devices.Gpu | str) -> float | None:
    return gpu.bandwidth * REACHED if isinstance(gpu, devices.Gpu) and gpu.bandwidth else None
