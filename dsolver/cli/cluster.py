"""`dsolver cluster`."""

import signal
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from dsolver.cli import files
from dsolver.cli.options import file_option
from dsolver.cluster.local import count_gpus, start_local
from dsolver.errors import ClusterError, DeviceError, DsolverError, InputError
from dsolver.kernels import usable_cpus

EPILOG = """
\b
Examples:
  dsolver cluster local --gpus all                       one worker for each GPU of this machine
  dsolver cluster local --workers 4 --port 8786          four CPU workers, the scheduler at tcp://127.0.0.1:8786
  dsolver hpcg --grid 64 64 64 --scheduler tcp://127.0.0.1:8786
\b
Anyone who reaches the scheduler's port can run programs as you: it listens on 127.0.0.1 unless --host says otherwise,
and then belongs behind a firewall or TLS (see deploy/README.md).
"""


@click.group("cluster")
def group() -> None:
    """Start Dask clusters that suit the solver."""


@group.command("local", epilog=EPILOG, short_help="One worker for each GPU, or CPU workers.")
@click.option("--gpus", metavar="N|all", help="One worker for each of N GPUs, or of all.  Example: --gpus all")
@click.option(
    "--workers", type=int, metavar="N", help="N CPU workers. Default: one for each CPU, if --gpus is not given."
)
@click.option("--host", default="127.0.0.1", help="Address that the scheduler listens on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8786, help="The scheduler's; 0: any.")
@click.option("--dashboard", default="127.0.0.1:8787", metavar="HOST:PORT", help="Dask's dashboard.")
@click.option(
    "--protocol",
    default="tcp",
    help="How Dask's messages travel: tcp, tls, ucxx. Halos between GPUs take NVLink or NCCL whatever it is.",
)
@file_option(
    "--scheduler-file",
    help="Write the scheduler's address there, for Client(scheduler_file=FILE); removed at the end.",
)
def local(
    *,
    gpus: str | None,
    workers: int | None,
    host: str,
    port: int,
    dashboard: str,
    protocol: str,
    scheduler_file: Path | None,
) -> None:
    """Start a cluster on this machine and keep it until Ctrl-C or SIGTERM.

    Workers have one task thread each; the solver's ranks bring a thread of their own. Memory is not limited and not
    spilled: the solver knows what it holds and needs it all.
    """
    count, device = _count_and_device(gpus, workers)
    files.check_output(scheduler_file, force=True)
    ended = threading.Event()
    with ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.signal(number, lambda *_: ended.set()))
        cluster = stack.enter_context(_started(count, device, host, port, dashboard, protocol))
        if scheduler_file is not None:
            with cluster.get_client() as client:
                client.write_scheduler_file(str(scheduler_file))
            stack.callback(scheduler_file.unlink, missing_ok=True)
        click.echo(f"scheduler: {cluster.scheduler_address}")
        with suppress(KeyError, AttributeError):  # a scheduler without dashboard
            click.echo(f"dashboard: {cluster.dashboard_link}")
        click.echo(f"{count} {'GPU' if device == 'cuda' else 'CPU'} workers. Ctrl-C ends the cluster.")
        while not ended.wait(0.5):
            if cluster.status.name != "running":
                raise ClusterError(f"the cluster is {cluster.status.name}: see its messages above")


def _count_and_device(gpus: str | None, workers: int | None) -> tuple[int, str]:
    """The number of workers, and their device."""
    if gpus is None:
        count = usable_cpus() if workers is None else workers
        if count < 1:
            raise InputError(f"{count} workers: start at least 1")
        return count, "cpu"
    if workers is not None:
        raise InputError("--gpus starts one worker for each GPU and --workers CPU workers: give only one of them")
    present = count_gpus()
    if gpus == "all":
        if present == 0:
            raise DeviceError("--gpus all, but no GPU is usable here; `dsolver info` says what is missing")
        return present, "cuda"
    if not gpus.isdecimal() or int(gpus) < 1:
        raise InputError(f"--gpus must be all or a number from 1 on, not {gpus!r}")
    return int(gpus), "cuda"


def _started(count: int, device: str, host: str, port: int, dashboard: str, protocol: str) -> Any:
    try:
        return start_local(
            count, device, host=host, scheduler_port=port, dashboard_address=dashboard, protocol=f"{protocol}://"
        )
    except DsolverError:  # some of which are RuntimeErrors
        raise
    except (OSError, RuntimeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # distributed wraps the OSError of a port in use
            cause = cause.__cause__
        raise ClusterError(
            f"no scheduler can listen on {host}:{port}: {cause}; choose another --port, --host or --protocol"
        ) from error
