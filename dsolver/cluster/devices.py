"""Devices of this process and of a cluster's workers."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dsolver.cluster import versions
from dsolver.dask_types import Client
from dsolver.engines.dask.connection import ANSWER, wait_for
from dsolver.engines.dask.health import TIMEOUT, ask_each
from dsolver.engines.out_of_memory import free_unused
from dsolver.errors import ClusterError, DeviceError, WorkerLostError, installing

INSTALL = f"{installing('cuda13')} (or [cuda12]) installs what is needed beside an NVIDIA driver"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The GPU that a process uses by default."""

    name: str
    bus: str  # its PCI address, which is equal where two processes share it
    memory: int
    bandwidth: float = 0.0  # of the memory by the driver's clock and width, bytes per second; 0 where not known


def find_gpu() -> Gpu | str:
    """The GPU of this process, or the reason why there is none."""
    if reason := "" if "cupy" in sys.modules else _why_not_installed(tuple(sys.path)):
        return f"CuPy is not installed ({reason}); {INSTALL}"
    try:
        cupy: Any = importlib.import_module("cupy")
    except ImportError as error:
        return f"CuPy is not installed ({error}); {INSTALL}"
    runtime = cupy.cuda.runtime
    try:
        if runtime.getDeviceCount() == 0:
            return "the driver shows no GPU"
        number = runtime.getDevice()
        properties = _properties(runtime.getDeviceProperties, number)
    except runtime.CUDARuntimeError as error:
        return f"CuPy finds no usable GPU ({error}); {INSTALL}"
    return Gpu(
        name=properties["name"].decode(),
        bus=runtime.deviceGetPCIBusId(number),
        memory=int(properties["totalGlobalMem"]),
        bandwidth=_bandwidth(runtime, number),
    )


def planned(device: str, gpu: Gpu | str) -> str:
    """The device that "auto" stands for in plans, whose workers are taken to have the GPU of this machine, or none."""
    return device if device != "auto" else "cuda" if isinstance(gpu, Gpu) else "cpu"


@cache
def _why_not_installed(_: tuple[str, ...]) -> str:
    """Reason why CuPy cannot be imported, looked for once on each path; "" where it can."""
    try:
        importlib.import_module("cupy")
    except ImportError as error:
        return str(error)
    return ""


def free_memory() -> int:
    """Bytes that this process can still get of its GPU: free ones, and those that CuPy keeps unused.

    A limit that the user has set for CuPy's pool counts.
    """
    cupy: Any = importlib.import_module("cupy")
    pool = cupy.get_default_memory_pool()
    free = int(cupy.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())
    limit = int(pool.get_limit())
    return min(free, limit - int(pool.used_bytes())) if limit else free


def reclaimed_memory() -> int:
    """`free_memory` once this process has given back all that nothing uses any more. Takes some 0.1 s."""
    free_unused()
    return free_memory()


def copy_bandwidth() -> float:
    """Bytes a second that the GPU of this process reads and writes in a copy of its memory. DeviceError: there is none.

    Measured once for each model of device and driver, in about 30 ms, and kept in the user's folder for caches
    (`dsolver.kernels.device_cache`). To be called while the GPU is idle.
    """
    gpu = find_gpu()
    if isinstance(gpu, str):
        raise DeviceError(f"no copy can be measured: {gpu}")
    cupy: Any = importlib.import_module("cupy")
    probe: Any = importlib.import_module("dsolver.kernels.cuda.launch.probe")
    return float(probe.copy_bandwidth(int(cupy.cuda.runtime.getDevice())))


def free_memory_of(client: Client | None, workers: Sequence[str], *, reclaim: bool = False) -> tuple[int, ...]:
    """`free_memory` of each worker's GPU, or of this process's; with `reclaim`, `reclaimed_memory`."""
    question = reclaimed_memory if reclaim else free_memory
    if client is None:
        return (question(),)
    found = ask_all(client, question, workers)
    return tuple(found[worker] for worker in workers)


@cache
def _properties(ask: Callable[..., Any], *about: int) -> Any:
    """Properties of a device, asked once: they never change, and to ask takes 0.3 to 2 ms."""
    return ask(*about)


def _bandwidth(runtime: Any, device: int) -> float:
    try:
        kilohertz = _properties(runtime.deviceGetAttribute, runtime.cudaDevAttrMemoryClockRate, device)
        bits = _properties(runtime.deviceGetAttribute, runtime.cudaDevAttrGlobalMemoryBusWidth, device)
    except (AttributeError, runtime.CUDARuntimeError):
        return 0.0
    return 2.0 * 1e3 * int(kilohertz) * int(bits) / 8  # two transfers a clock


def of_process(wanted: str) -> str:
    """The device of this process: "cpu" or "cuda". DeviceError: "cuda" was asked for and there is no GPU."""
    if wanted == "cpu":
        return "cpu"
    gpu = find_gpu()
    if isinstance(gpu, Gpu):
        return "cuda"
    if wanted == "cuda":
        raise DeviceError(f"device 'cuda' was asked for, but {gpu}")
    return "cpu"


@dataclass(frozen=True, kw_only=True)
class WorkerFacts:
    """Facts that a worker tells of itself: what is installed, its GPU, and the bytes that it can get of that."""

    installed: Mapping[str, str | None]
    gpu: Gpu | str = ""
    free: int = 0


@dataclass(frozen=True, kw_only=True)
class Devices:
    """Devices of a cluster: the workers in rank order, "cpu" or "cuda" for all of them, and the facts of each one."""

    workers: tuple[str, ...]
    device: str
    facts: Mapping[str, WorkerFacts]

    @property
    def free(self) -> tuple[int, ...]:
        """Bytes that each worker could get of its GPU when it was asked; empty without GPUs."""
        return tuple(self.facts[worker].free for worker in self.workers if self.device == "cuda")


def facts() -> WorkerFacts:
    """Facts of this process, but for its GPU."""
    return WorkerFacts(installed=versions.installed())


def facts_with_gpu() -> WorkerFacts:
    """Facts of this process."""
    gpu = find_gpu()
    free = free_memory() if isinstance(gpu, Gpu) else 0
    return WorkerFacts(installed=versions.installed(), gpu=gpu, free=free)


def of_cluster(client: Client, wanted: str, workers: Sequence[str] = ()) -> Devices:
    """Devices of a cluster, whose workers are asked all at once.

    Args:
        workers: which to take; all by default.

    Ranks are ordered by host, then GPU, then address, so that neighbors in rank share the fastest links.

    Raises:
        DeviceError: "cuda" was asked for, and a worker has no GPU or two workers share one.
        WorkerLostError: a worker was lost meanwhile.
        ClusterError: the cluster does not answer, has no workers, or has one that cannot run this package.
    """
    workers = sorted(workers or workers_of(client))
    found: dict[str, WorkerFacts] = ask_all(client, facts if wanted == "cpu" else facts_with_gpu, workers)
    gpus = {address: each.gpu for address, each in found.items()}
    reason = None if wanted == "cpu" else _why_not(gpus)
    if wanted == "cuda" and reason is not None:
        raise DeviceError(f"device 'cuda' was asked for, but {reason}")
    if wanted == "cpu" or reason is not None:
        return Devices(workers=tuple(sorted(workers, key=_by_host)), device="cpu", facts=found)
    bus = {address: gpu.bus for address, gpu in gpus.items() if isinstance(gpu, Gpu)}
    order = sorted(workers, key=lambda address: (_host(address), bus[address]))
    return Devices(workers=tuple(order), device="cuda", facts=found)


def workers_of(client: Client) -> tuple[str, ...]:
    """The addresses of the cluster's workers. ClusterError: it does not answer, or has none."""
    if client.status != "running":
        raise ClusterError(f"the client is {client.status}: connect a new one with Client(address)")
    try:
        # Not scheduler_info: it reads its answer from a cache that the client's own periodic question overwrites.
        found = present(client)
    except OSError as error:
        raise ClusterError(f"the cluster of {client} does not answer: {error}") from error
    if not found:
        raise ClusterError(
            "the cluster has no workers: start some, of an adaptive one with adapt(minimum=n), or call "
            "client.wait_for_workers(n) first"
        )
    return found


def present(client: Client) -> tuple[str, ...]:
    """The addresses of the cluster's workers. OSError: the scheduler does not answer."""
    scheduler: Any = client.scheduler

    async def asked() -> Any:
        return await wait_for(client, scheduler.ncores(), ANSWER)

    return tuple(client.sync(asked))


def ask_all(client: Client, question: Callable[[], Any], workers: Sequence[str]) -> dict[str, Any]:
    """The answer of each worker, by address. WorkerLostError: one left; ClusterError: one cannot answer."""
    try:
        heard = ask_each(client, question, workers, TIMEOUT)
    except OSError as error:
        raise ClusterError(f"the cluster of {client} does not answer: {error}") from error
    except Exception as error:  # whatever a worker without this package makes of the call
        raise ClusterError(
            f"a worker cannot run dsolver: {error}; install the same versions of it and of its dependencies there"
        ) from error
    if heard.lost:
        raise WorkerLostError(f"worker {', '.join(heard.lost)} left the cluster before it had answered")
    if heard.silent:
        raise ClusterError(
            f"worker {', '.join(heard.silent)} does not answer within {TIMEOUT:g} s: it hangs, or its host is cut off; "
            f"end it, or wait until the scheduler has dropped it"
        )
    return heard.answers


def _why_not(gpus: dict[str, Gpu | str]) -> str | None:
    """Why these workers cannot all use a GPU of their own; None when they can."""
    for address, gpu in gpus.items():
        if isinstance(gpu, str):
            return f"on worker {address} {gpu}"
    users: dict[tuple[str, str], str] = {}
    for address, gpu in gpus.items():
        other = users.setdefault((_host(address), gpu.bus), address) if isinstance(gpu, Gpu) else address
        if isinstance(gpu, Gpu) and other != address:
            return (
                f"workers {other} and {address} share one GPU ({gpu.name}, {gpu.bus}): there are fewer GPUs than "
                f"workers; start one worker for each GPU, as dask-cuda's LocalCUDACluster does"
            )
    return None


def _host(address: str) -> str:
    """The machine of tcp://host:port, or of inproc://host/process/number."""
    return address.rsplit("://", 1)[-1].partition("/")[0].rsplit(":", 1)[0]


def _by_host(address: str) -> tuple[str, str]:
    return _host(address), address
