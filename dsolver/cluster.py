"""Opens a Dask cluster for one run: one of our own on this machine, somebody else's, or none."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from dsolver.devices import INSTALL, Gpu, find_gpu
from dsolver.errors import ClusterError, DeviceError, InputError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS: Final = 10
WAIT_SECONDS: Final = 600
"""How long workers that are waited for may take to come: pods and batch jobs with GPUs take minutes."""
DASHBOARD: Final = "127.0.0.1:8787"
DEAF: Final = """
import logging, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
late = "Failed to communicate with scheduler during heartbeat"
logging.getLogger("distributed.worker").addFilter(lambda record: not record.getMessage().startswith(late))
"""
"""What workers of our own begin with: a terminal sends Ctrl-C to them too, and this process is the one to end them. Its
scheduler goes first; a worker whose heartbeat is on its way then would show a traceback."""

ABSENT: Final = "10 minutes"
"""How long a worker of our own may be away while its nanny brings another one: Dask gives up such a nanny after 15 s,
which a worker on a GPU or on a busy machine takes to start."""

_EITHER: Final[dict[str, Any]] = {
    "threads_per_worker": 1,
    "memory_limit": None,  # solver memory cannot be spilled, so a limit could only kill
    "dashboard_address": DASHBOARD,
    "silence_logs": logging.ERROR,
}
"""What workers of our own have in common, on CPUs and GPUs."""


@final
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which cluster to use.

    Attributes:
        workers: start so many workers on this machine; None for no cluster of our own.
        scheduler: address of a running scheduler, such as "tcp://10.0.0.1:8786", or the file that it wrote its address
            to, ending in ".json"; None for none.
        wait: begin only when that scheduler has so many workers; None to take those that are there.
        device: "cpu", "cuda", or "auto" for GPU workers where this machine has a GPU for each.
        engine: that will run there.

    Raises:
        InputError: the choices exclude each other or are out of range.
    """

    workers: int | None = None
    scheduler: str | None = None
    wait: int | None = None
    device: str = "auto"
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
            raise InputError(
                "the reference engine runs in this process: drop --workers or --scheduler, or choose another engine"
            )
        if self.engine == "graph" and not given:
            raise InputError(
                "the graph engine makes Dask tasks and needs a cluster: add --workers 2 to start one on this machine, "
                "or --scheduler tcp://HOST:8786 to use a running one"
            )


@contextmanager
def open_client(options: ClusterOptions) -> Iterator[Client | None]:
    """A client of the cluster that the options name, closed at the end together with what was started for it.

    Raises:
        ClusterError: the scheduler cannot be reached.
        DeviceError: GPU workers were asked for and cannot be started here.
    """
    if options.scheduler is not None:
        # Current, so that a Dask array is computed there and not in this process.
        with _connected(options.scheduler) as client, client.as_current():
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

    written = address.endswith(".json")
    if written and not Path(address).is_file():
        raise ClusterError(f"there is no scheduler file {address}: is the scheduler running?")
    try:
        if not written and not address.startswith("inproc://"):
            get_address_host_port(address)
    except ValueError as error:
        raise ClusterError(f"{address!r} is no scheduler address: write it like tcp://10.0.0.1:8786") from error
    try:
        # The client's own log would print a traceback beside our message.
        with _silent("distributed.deploy", "distributed.comm", "distributed.client"):
            where = {"scheduler_file": address} if written else {"address": address}
            return Client(**where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"no scheduler answers at {address} within {CONNECT_SECONDS} s: check the address and that "
            f"`dask scheduler` runs there ({type(error).__name__})"
        ) from error


def _await_workers(client: Client, count: int) -> None:
    try:
        client.wait_for_workers(count, timeout=WAIT_SECONDS)
    except TimeoutError as error:
        raise ClusterError(
            f"{len(client.nthreads())} of {count} workers came within {WAIT_SECONDS} s: look at the logs of the others "
            f"or ask --wait-workers for fewer"
        ) from error


def start_local(workers: int, device: str, **scheduler: Any) -> Any:
    """A cluster on this machine: one worker a GPU, or so many CPU workers.

    Args:
        workers: how many.
        device: "cpu", "cuda", or "auto" for GPU workers where this machine has a GPU for each.
        scheduler: further arguments of `distributed.LocalCluster`, such as host, scheduler_port, dashboard_address.

    Raises:
        DeviceError: GPU workers were asked for and cannot be started here.
    """
    import dask

    options = _EITHER | scheduler
    dask.config.update_defaults({"distributed": {"deploy": {"lost-worker-timeout": ABSENT}}})  # not what users have set
    if device == "cuda" or (device == "auto" and count_gpus() >= workers):
        return _start_gpus(workers, options)
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        processes=True,
        **options,
        preload=[*dask.config.get("distributed.worker.preload"), DEAF],
    )


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
        raise DeviceError(
            f"{workers} GPU workers were asked for, but this machine shows {present} GPU(s): use --workers {present}"
        )
    return dask_cuda.LocalCUDACluster(
        n_workers=workers,
        device_memory_limit=None,
        **options,
    )


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
    """Mute loggers of other packages for a while."""
    found = [logging.getLogger(name) for name in loggers]
    before = [logger.level for logger in found]
    try:
        for logger in found:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(found, before, strict=True):
            logger.setLevel(level)
