"""The choice of engine, device and owners, and the start of programs there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from dsolver.cluster import crew, devices, versions
from dsolver.cluster.default_client import left_by_fork
from dsolver.cluster.nannies import bear_with_nannies
from dsolver.dask_types import Client
from dsolver.engines.base import Engine
from dsolver.engines.running_program import LocalProgram, RunningProgram, S
from dsolver.errors import ClusterError, InputError, check_compiler, in_a_line
from dsolver.grid.box import DIRECTIONS, Offsets, Triple
from dsolver.grid.cut import chunks_for, owners_of
from dsolver.grid.partition import Partition
from dsolver.kernels import usable_cpus

P = TypeVar("P")

EngineName = Literal["auto", "reference", "graph", "resident"]
DeviceName = Literal["auto", "cpu", "cuda"]
KernelsName = Literal["auto", "numpy"]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A choice of engine, device and workers, checked against what is there. Make it with `connect`."""

    engine: str  # "reference", "graph" or "resident"
    device: str
    kernels: str  # the backend's name, "numpy", "cpu" or "cuda"
    client: Client | None  # the Dask cluster, or None to stay in this process
    workers: tuple[str, ...]
    free: tuple[int, ...] = ()  # bytes that each worker could get of its GPU at the beginning; empty without any

    def chunks_for(self, grid: Triple, divisor: int = 1, *, slabs: bool = False) -> Triple:
        """A cut with one chunk for each worker: see `dsolver.grid.cut.chunks_for`."""
        return chunks_for(grid, max(1, len(self.workers)), divisor, slabs=slabs)

    def workers_used(self, chunks: int) -> str:
        """The number of workers that own a chunk, of how many, for people; empty without a cluster."""
        used, there = min(chunks, len(self.workers)), len(self.workers)
        if not there:
            return ""
        workers = "worker" if there == 1 else "workers"
        return f"{there} {workers}" if used == there else f"{used} of {there} {workers}"

    def describe(self, chunks: int, link: str = "") -> str:
        """The engine, the kernels, the workers that own one of so many chunks, and their link, for people."""
        workers = self.workers_used(chunks)
        described = f"{self.engine}/{self.kernels}" + (f" with {workers}" if workers else "")
        return f"{described}, {link}" if link else described

    def launch(
        self,
        program: Callable[[Engine, S], P],
        spec: S,
        partition: Partition,
        offsets: Offsets = DIRECTIONS,  # what the rows read; a task graph then links only those chunks that exchange
        places: Sequence[str] = (),  # workers that have the chunks' data; empty where that is to be brought
    ) -> RunningProgram[P]:
        """Start a program for a partition: program(engine, spec), in this process or on every rank."""
        owners = owners_of(partition, self.workers, places)
        if self.engine == "graph":
            from dsolver.engines.graph.engine import GraphEngine

            assert self.client is not None
            graph = GraphEngine(
                partition,
                self.client,
                owners,
                kernels=self.kernels,
                neighbors=lambda chunk: partition.neighbors(chunk, offsets),
            )
            return LocalProgram(graph, program, spec)
        if self.engine == "resident" and self.client is not None:
            from dsolver.engines.spmd.client import SpmdProgram

            return SpmdProgram(self.client, partition, owners, self.kernels, program, spec)
        if self.engine == "resident":
            from dsolver.engines.eager.resident import ResidentEngine

            return LocalProgram(ResidentEngine(partition, self.kernels, threads=usable_cpus()), program, spec)
        from dsolver.engines.eager.engine import EagerEngine
        from dsolver.kernels import load

        return LocalProgram(EagerEngine(partition, load(self.kernels)), program, spec)


def connect(
    client: Client | None = None,  # a Dask cluster's client, or None for this process alone
    *,
    engine: EngineName = "auto",  # "auto" is "resident", with or without a client; "graph" needs a client
    device: DeviceName = "auto",  # "auto" is "cuda" where every worker (or this process) has a GPU and CuPy, else "cpu"
    kernels: KernelsName = "auto",  # "auto" for the device's own, "numpy" for the text-book kernels on a CPU
) -> Runtime:
    """Choose where to run.

    InputError: a name is unknown, or the choices exclude each other. DeviceError: "cuda" where there is no GPU, or
    fewer GPUs than workers; "cpu" where numba may not compile. ClusterError: the cluster cannot be reached, has no
    workers, or has other versions of what must agree.
    """
    _check("engine", engine, ("auto", "reference", "graph", "resident"))
    check_device(device)
    _check("kernels", kernels, ("auto", "numpy"))
    check_client(client)
    if engine == "graph" and client is None:
        raise InputError("the graph engine makes Dask tasks: pass client=Client(...), or --workers or --scheduler")
    if kernels == "numpy" and device == "cuda":
        raise InputError("the NumPy kernels run on a CPU: drop device='cuda' or kernels='numpy'")
    if engine == "reference":
        client = None
    chosen = "resident" if engine == "auto" else engine
    wanted = "cpu" if kernels == "numpy" else device
    if client is None:
        found = devices.Devices(workers=(), device=devices.of_process(wanted), facts={})
    else:
        found = crew.chosen(client, partial(_agreeing, client, wanted))
        bear_with_nannies(getattr(client, "cluster", None))
    if found.device == "cpu" and kernels != "numpy":
        check_compiler()
    return Runtime(
        engine=chosen,
        device=found.device,
        kernels="numpy" if kernels == "numpy" else found.device,
        client=client,
        workers=found.workers,
        free=found.free,
    )


def check_device(device: str) -> None:
    """Refuse a device with an unknown name; raises InputError."""
    _check("device", device, ("auto", "cpu", "cuda"))


def check_client(client: Any) -> None:
    """Refuse what is no client that waits for answers; None stands for no cluster. Raises InputError."""
    if client is None:
        return
    if not hasattr(client, "submit"):
        raise InputError(f"client must be a dask.distributed Client, as of Client(address_or_cluster), not {client!r}")
    if client.asynchronous:
        raise InputError("the client is asynchronous: pass one that is not, as Client(address) makes")
    if left_by_fork(client):
        raise InputError(
            "the client is that of the process that this one was forked from: make one here, as Client(address)"
        )


def _agreeing(client: Client, wanted: str, workers: tuple[str, ...]) -> devices.Devices:
    """Devices of the workers, if what must agree on all of them does."""
    found = devices.of_cluster(client, wanted, workers)
    there = {worker: found.facts[worker].installed for worker in found.workers}
    reason = versions.disagreement(versions.installed(), there, gpus=found.device == "cuda")
    if reason is not None:
        raise ClusterError(reason)
    return found


def _check(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"unknown {what} {in_a_line(value)}: choose one of {', '.join(allowed)}")
