"""A Dask cluster for one run: one of our own on this machine, another's, or none."""

import importlib
import json
import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Final

from dsolver.cluster.devices import INSTALL, Gpu, find_gpu
from dsolver.cluster.nannies import set_timeout, with_heap
from dsolver.dask_types import Client
from dsolver.errors import ClusterError, DeviceError, InputError
from dsolver.kernels import usable_cpus

CONNECT_SECONDS: Final = 10
WAIT_SECONDS: Final = 600
"""Seconds that workers may take to come where they are waited for: pods and batch jobs with GPUs take minutes."""
OF_A_CLIENT: Final = ("distributed.deploy", "distributed.comm", "distributed.client", "distributed.core")
"""Loggers that print a traceback, beside our message, when a scheduler is lost or was never there."""
MOST_PER_CPU: Final = 8
MOST_ON_FEW_CPUS: Final = 64
"""Workers that are started on a machine at most: each is a process of 100 MB that takes a second of a CPU to start."""
DASHBOARD: Final = "127.0.0.1:8787"
PRELOAD: Final = """
import logging, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
late = "Failed to communicate with scheduler during heartbeat"
logging.getLogger("distributed.worker").addFilter(lambda record: not record.getMessage().startswith(late))
"""
"""Python code that our own workers run first. A terminal sends Ctrl-C to them too, and this process is the one to end
them. Its scheduler goes first; a worker whose heartbeat is on its way then would show a traceback."""

_DEFAULTS: Final[dict[str, Any]] = {
    "threads_per_worker": 1,
    "memory_limit": None,  # solver memory cannot be spilled, so a limit could only kill
    "dashboard_address": DASHBOARD,
    "silence_logs": logging.ERROR,
}
"""Options of our own clusters, on CPUs and GPUs."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The choice of a cluster. InputError: the choices exclude each other or are out of range."""

    workers: int | None = None  # start so many workers on this machine; None for no cluster of our own
    # address of a running scheduler, such as "tcp://10.0.0.1:8786", or the file that it wrote its address to, ending in
    # ".json"; None for none.
    scheduler: str | None = None
    wait: int | None = None  # begin only when that scheduler has so many workers; None to take those that are there
    device: str = "auto"  # "cpu", "cuda", or "auto" for GPU workers where this machine has a GPU for each
    engine: str = "auto"

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"{self.workers} workers: start at least 1")
        if self.workers is not None and self.scheduler is not None:
            raise InputError("--workers starts a cluster and --scheduler uses a running one: give only one of them")
        if self.wait is not None and self.scheduler is None:
            raise InputError("--wait-workers waits for the workers of a running scheduler: give --scheduler, too")
        if self.wait is not None and self.wait < 1:
            raise InputError(f"--wait-workers {self.wait}: wait for at least 1")
        given = self.workers is not None or self.scheduler is not None
        if self.engine == "reference" and given:
            raise InputError("the reference engine runs here: drop --workers or --scheduler, or choose another engine")
        if self.engine == "graph" and not given:
            raise InputError(
                "the graph engine makes Dask tasks and needs a cluster: add --workers 2 to start one on this machine, "
                "or --scheduler tcp://HOST:8786 to use a running one"
            )


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client | None]:
    """A client of the cluster named, closed at the end with what was started. ClusterError, DeviceError: no such."""
    if options.scheduler is not None:
        # Current, so that a Dask array is computed there and not in this process.
        with _silent(*OF_A_CLIENT), _connected(options.scheduler) as client, client.as_current():
            if options.wait is not None:
                _await_workers(client, options.wait)
            yield client
    elif options.workers is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Port .* is already in use")
            cluster = start_local(options.workers, options.device)
        with ExitStack() as closed, cluster, cluster.get_client() as client:
            try:
                yield client
            except BaseException:
                # The scheduler would tell of each call that is cut off as of an error of its own.
                closed.enter_context(_silent("distributed.scheduler"))
                raise
    else:
        yield None


def _connected(address: str) -> Client:
    from distributed import Client
    from distributed.comm.addressing import get_address_host_port

    written = _written(Path(address)) if address.endswith(".json") else address
    try:
        if not written.startswith("inproc://"):
            get_address_host_port(written)
    except ValueError as error:
        raise InputError(f"{written!r} is no scheduler address: write it like tcp://10.0.0.1:8786") from error
    try:
        with _silent(*OF_A_CLIENT):
            return Client(written, timeout=CONNECT_SECONDS, set_as_default=False)
    except OSError as error:
        raise ClusterError(
            f"no scheduler answers at {address} within {CONNECT_SECONDS} s: check the address and that "
            f"`dask scheduler` runs there ({type(error).__name__})"
        ) from error


def _written(file: Path) -> str:
    """The address in a scheduler's file. ClusterError: there is no such file; InputError: no scheduler wrote it."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["address"])
    except OSError as error:
        raise ClusterError(f"no scheduler file {file}: is the scheduler running? ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is not what `dask scheduler --scheduler-file` writes: it has no address") from error


def _await_workers(client: Client, count: int) -> None:
    try:
        client.wait_for_workers(count, timeout=WAIT_SECONDS)
    except TimeoutError as error:
        raise ClusterError(
            f"{len(client.nthreads())} of {count} workers came within {WAIT_SECONDS} s: look at the logs of the others "
            f"or ask --wait-workers for fewer"
        ) from error
    except OSError as error:
        raise ClusterError(f"the scheduler does not answer any more: {error}") from error


def start_local(workers: int, device: str, **scheduler: Any) -> Any:
    """A cluster on this machine: one worker a GPU, or so many CPU workers.

    Args:
        device: "cpu", "cuda", or "auto" for GPU workers where this machine has a GPU for each.
        scheduler: further arguments of `distributed.LocalCluster`, such as host, scheduler_port, dashboard_address.

    Raises:
        DeviceError: GPU workers were asked for and cannot be started here.
        InputError: this machine has far too few CPUs for so many.
    """
    import dask
    from distributed import LocalCluster  # its defaults come with it, and would take the place of ours

    cpus = usable_cpus()
    most = max(MOST_ON_FEW_CPUS, MOST_PER_CPU * cpus)
    if workers > most:
        raise InputError(f"{workers} workers on this machine of {cpus} CPUs: start at most {most}, or use more")

    options = _DEFAULTS | scheduler
    set_timeout()
    if device == "cuda" or (device == "auto" and count_gpus() >= workers):
        return _start_gpus(workers, options)

    made: Any = None
    try:
        with _held_back(signal.SIGINT), with_heap():
            made = LocalCluster(
                n_workers=workers,
                processes=True,
                **options,
                preload=[*dask.config.get("distributed.worker.preload"), PRELOAD],
            )
    except KeyboardInterrupt:
        if made is not None:
            made.close()
        raise
    return made


@contextmanager
def _held_back(kind: signal.Signals) -> Iterator[None]:
    """Context at whose end a signal is heard that came meanwhile, by this process alone.

    Dask cannot end workers that have half started, and a worker that a terminal interrupts before it has run `PRELOAD`
    shows a traceback. Threads that are started here block the signal, and so do the processes that they start.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    resource_tracker.ensure_running()  # the thread in which multiprocessing starts it would block the signal no more
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {kind})
    before = signal.signal(kind, lambda number, _: heard.append(number))  # another thread may not block it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(kind, before)
    if heard and before is not signal.SIG_IGN:
        raise KeyboardInterrupt


def _start_gpus(workers: int, options: dict[str, Any]) -> Any:
    try:
        dask_cuda: Any = importlib.import_module("dask_cuda")
    except ImportError as error:
        raise DeviceError(f"GPU workers need dask-cuda, which is not installed ({error}); {INSTALL}") from error
    gpu = find_gpu()
    if not isinstance(gpu, Gpu):
        raise DeviceError(f"device 'cuda' was asked for, but {gpu}")
    present = count_gpus()
    if workers > present:
        raise DeviceError(f"{workers} GPU workers on a machine that shows {present} GPU(s): use --workers {present}")
    return dask_cuda.LocalCUDACluster(n_workers=workers, device_memory_limit=None, **options)


def count_gpus() -> int:
    """GPUs that dask-cuda could give a worker each and that CuPy can use."""
    if not isinstance(find_gpu(), Gpu):
        return 0
    try:
        return int(importlib.import_module("dask_cuda.utils").get_n_gpus())
    except ImportError:
        return 0


@contextmanager
def _silent(*loggers: str) -> Iterator[None]:
    """Mute Dask's loggers for a while."""
    importlib.import_module("distributed")  # which sets their levels when it is imported
    found = [logging.getLogger(name) for name in loggers]
    before = [logger.level for logger in found]
    try:
        for logger in found:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(found, before, strict=True):
            logger.setLevel(level)
