"""`dsolver submit`, `status`, `logs`, `cancel` and `fetch`: commands that run on a cluster without their client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import Console
from rich.table import Table

from dsolver import submission
from dsolver.cli import hpcg, solve
from dsolver.cluster import ClusterOptions, open_client
from dsolver.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

F = TypeVar("F", bound=Callable[..., Any])

RUNS: Final = {"hpcg": hpcg.command, "solve": solve.command}
"""What can be submitted."""
WIDEST: Final = 10_000
"""Characters of a line of `dsolver status` at most."""

scheduler_option = click.option(
    "--scheduler",
    required=True,
    envvar="DASK_SCHEDULER_ADDRESS",
    show_envvar=True,
    metavar="ADDRESS",
    help="The cluster: its scheduler's address, or the file (.json) that it wrote it to.",
)
name_argument = click.argument("name", metavar="ID")


@contextmanager
def _client(scheduler: str) -> Iterator[Client]:
    with open_client(ClusterOptions(scheduler=scheduler)) as client:
        assert client is not None
        yield client


@click.command(
    "submit",
    short_help="Run a command on a cluster, without staying.",
    context_settings={"ignore_unknown_options": True},
    epilog="""
\b
Example:
  dsolver submit --scheduler tcp://10.0.0.1:8786 -- hpcg --grid 512 256 256 --json result.json
  dsolver status --scheduler tcp://10.0.0.1:8786
""",
)
@scheduler_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(*, scheduler: str, command: tuple[str, ...]) -> None:
    """Start `dsolver COMMAND` on a running cluster and print the job's ID; this process need not stay.

    COMMAND is hpcg or solve with its options; write -- before it. It runs beside one of the workers, in a folder of its
    own there: files that it names without a folder can be fetched when it has ended.
    """
    check(command)
    with _client(scheduler) as client:
        click.echo(submission.submit(client, command))


def check(command: tuple[str, ...]) -> None:
    """Refuse a command that could only fail there.

    Raises:
        InputError: it cannot be submitted, or chooses a cluster.
        click.UsageError: an option is wrong.
    """
    if command[0] not in RUNS:
        raise InputError(f"{command[0]!r} cannot be submitted: use one of {', '.join(RUNS)}")
    context = RUNS[command[0]].make_context(f"dsolver {command[0]}", list(command[1:]))
    for option in ("workers", "scheduler"):
        if context.params.get(option) is not None:
            raise InputError(f"a submitted command runs on the cluster that it is submitted to: leave out --{option}")


@click.command("status", short_help="What submitted jobs are doing.")
@scheduler_option
@click.argument("name", metavar="[ID]", required=False)
def status(*, scheduler: str, name: str | None) -> None:
    """Show one submitted job, or all that the cluster knows."""
    with _client(scheduler) as client:
        found = submission.jobs(client) if name is None else [submission.find(client, name)]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("ID", "state", "submitted", "seconds", "exit", "command"):
        table.add_column(title, no_wrap=True)
    for job in found:
        seconds = "" if job.started is None else f"{(job.ended or time.time()) - job.started:.0f}"
        submitted = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted))
        code = "" if job.code is None else str(job.code)
        table.add_row(job.name, job.state, submitted, seconds, code, " ".join(job.command))
    Console(highlight=False, width=WIDEST).print(table)  # a line a job, which a narrow terminal breaks by itself


@click.command("logs", short_help="What a submitted job has printed.")
@scheduler_option
@name_argument
def logs(*, scheduler: str, name: str) -> None:
    """Print the output of a submitted job: its last 64 KiB while it runs, all of it afterwards."""
    with _client(scheduler) as client:
        click.echo(submission.log_of(client, name), nl=False)


@click.command("cancel", short_help="End a submitted job.")
@scheduler_option
@name_argument
def cancel(*, scheduler: str, name: str) -> None:
    """Ask a submitted job to end, as Ctrl-C would, and after 10 s by force."""
    with _client(scheduler) as client:
        submission.cancel(client, name)


@click.command("fetch", short_help="Get the files of a submitted job.")
@scheduler_option
@click.option(
    "-o",
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to; made if missing, must be empty. Default: a folder with the job's ID.",
)
@name_argument
def fetch(*, scheduler: str, folder: Path | None, name: str) -> None:
    """Write the files that a submitted job has made, and its log, into a folder."""
    with _client(scheduler) as client:
        for path in submission.fetch(client, name, folder or Path(name)):
            click.echo(path)


commands: Final = (submit, status, logs, cancel, fetch)
