"""Forecast of a solve: what `estimate` returns, and how it is made for a system on workers."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from dsolver.cluster import host_memory
from dsolver.cluster.host_memory import Supply
from dsolver.cluster.runtime import Runtime
from dsolver.cost import memory, traffic
from dsolver.cost.memory import Bytes
from dsolver.cost.scaling import Scaling
from dsolver.grid.box import Triple
from dsolver.grid.cut import owners_of
from dsolver.monitor.pages.notebook import facts, table, view
from dsolver.preconditioners import Preconditioner
from dsolver.problems import Problem
from dsolver.program.spec import SolveSpec
from dsolver.units import amount

SHOWN: Final = 8  # most workers that a notebook lists
LATENCY: Final = {"cpu": 0.01, "cuda": 0.04}
"""Seconds of a set-up that do not depend on the number of rows; twice as many on several workers."""
COMPILATION: Final = {"cpu": 8.0, "cuda": 6.0}
"""Seconds in which kernels are compiled where that has not been done: on two cores, and for a GPU."""


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
        scaling: an iteration and set-up on one GPU and more, where `per_host` was given; see `dsolver.cost.scaling`.
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


def of_spec(
    spec: SolveSpec,
    runtime: Runtime,
    *,
    available: Sequence[int] = (),  # bytes that each GPU has free
    supplies: Sequence[Sequence[Supply]] = (),  # of each worker's memory, on CPUs
    held: Sequence[int] = (),  # bytes that each of these workers has of it already
    together: int = 0,  # right-hand sides with room of their own beside that of one
    rtol: float = 1e-8,
    bandwidth: float | None = None,  # of each device's memory, bytes per second
) -> Estimate:
    """The estimate for a system on the workers of a runtime."""
    owners = owners_of(spec.partition, runtime.workers, spec.problem.places)
    rank_of = {owner: rank for rank, owner in enumerate(dict.fromkeys(owners))}
    ranks = tuple(rank_of[owner] for owner in owners) if owners else (0,) * len(spec.partition)
    each = memory.of_workers(spec, ranks, cuda=runtime.device == "cuda", together=together)
    iterations = iterations_for(spec.preconditioner, spec.problem, rtol, spec.traits.worth)
    seconds, setup = None, None
    if bandwidth is not None:
        busiest = Counter(ranks).most_common(1)[0][1]
        moved = traffic.of_iteration(spec) * busiest / len(spec.partition)
        seconds = iterations * moved / bandwidth
        setup = spec.preconditioner.setup_seconds(spec.problem, moved / spec.traits.products / bandwidth)
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


def iterations_for(preconditioner: Preconditioner, problem: Problem, rtol: float, worth: float = 1.0) -> int:
    """About how many iterations reach rtol for the Laplacian with 7 or 27 points on a problem's grid.

    Conjugate gradients need a number in proportion to the points along the longest axis; the factors were measured at
    64³. A matrix is taken for one of a mesh in space with as many points. `worth`: as of `Traits`.
    """
    factor = 3.65 if len(problem.offsets) <= 7 else 2.1
    longest = max(problem.grid) if problem.lattice else problem.grid[0] ** (1 / 3)
    alone = longest * factor * math.log(max(rtol, 1e-16)) / math.log(1e-8)
    return max(1, math.ceil(preconditioner.iterations(alone, rtol) / worth))
