"""`dsolver submit`, `status`, `logs`, `cancel` and `fetch`: commands that run on a cluster without their client."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from dsolver.cli.options import file_option
from dsolver.cli.progress import announced
from dsolver.cluster import jobs
from dsolver.cluster.local import ClusterOptions, open_client
from dsolver.dask_types import Client
from dsolver.errors import InputError
from dsolver.monitor.job import shown

RUNS: Final = ("hpcg", "solve")  # commands that can be submitted
OUTPUTS: Final = ("--out", "--json", "--spans", "--trace", "--checkpoint")  # options whose files are written, not read
WIDEST: Final = 10_000  # most characters of a line of `dsolver status`

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
    with announced(f"asking {scheduler} ..."), open_client(ClusterOptions(scheduler=scheduler)) as client:
        assert client is not None
        yield client


@click.command(
    "submit",
    context_settings={"ignore_unknown_options": True},
    epilog="""
\b
Examples:
  dsolver submit --scheduler tcp://10.0.0.1:8786 -- hpcg --grid 512 256 256 --json result.json
  dsolver submit --scheduler tcp://10.0.0.1:8786 -- solve --problem case.toml --checkpoint saves --resume --out u.npy
  dsolver submit --scheduler tcp://10.0.0.1:8786 --send model.py -- python script.py --steps 10
  dsolver status --scheduler tcp://10.0.0.1:8786
""",
)
@scheduler_option
@file_option(
    "--send",
    multiple=True,
    help="A file of this folder that COMMAND needs and does not name, such as a module; may be given several times.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(*, scheduler: str, send: tuple[Path, ...], command: tuple[str, ...]) -> None:
    """Start COMMAND on a running cluster and print the job's ID; this process need not stay.

    COMMAND is hpcg or solve with its options, or python with a script and its arguments; write -- before it. In a
    script distributed.Client() is a client of the cluster. It runs beside one of the workers, in a folder of its own
    there. Files of this folder that it names travel with it, and those that it writes there can be fetched when it has
    ended. Files with a whole path are those of the worker's machine.

    If that worker is lost, the job begins again beside another one: give it --checkpoint FOLDER --resume, so that it
    goes on where it was. FOLDER is found again on the same machine, or with a whole path wherever machines share it.
    """
    check(command)
    files = sent(send, command)
    with _client(scheduler) as client:
        click.echo(jobs.submit(client, command, files))


def sent(send: Sequence[Path], command: Sequence[str]) -> list[Path]:
    """Files of this folder that travel with a command: those named, also by its cases. InputError: one is not there."""
    for path in send:
        if not path.exists() or not _here(path):
            raise InputError(f"--send {path}: name a file of this folder")
    found = list(send)
    for before, word in pairwise(("", *command)):
        if before not in OUTPUTS:
            found += _named(word, Path())
    from dsolver.cli.system.case import SUFFIX, case_text  # all that solves: commands that look at jobs need it not

    for case in [path for path in found if path.suffix == SUFFIX]:
        found += [path for text in _texts(case_text(case)) for path in _named(text, case.parent)]
    return list(dict.fromkeys(found))


def _named(text: str, folder: Path) -> list[Path]:
    """Files of this folder in a text such as x-=dirichlet:warm.npy."""
    parts = [folder / part for part in (text, *re.split("[=:]", text)) if part]
    return [path for path in parts if _here(path) and _there(path)]


def _there(path: Path) -> bool:
    """Whether it is a file, or an array of zarr's; what is too long for a name is none."""
    with suppress(OSError):
        return path.is_file() or (path.suffix == ".zarr" and path.is_dir())
    return False


def _here(path: Path) -> bool:
    return not path.is_absolute() and ".." not in path.parts


def _texts(value: Any) -> Iterator[str]:
    """The texts in a table of TOML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def check(command: tuple[str, ...]) -> None:
    """Refuse (InputError, click.UsageError) a command that could only fail there, or chooses a cluster."""
    if command[0] == jobs.PYTHON:
        script = Path(command[1]) if len(command) > 1 else None
        if script is None or not (command[1].startswith("-") or script.is_absolute() or script.is_file()):
            raise InputError(
                f"python {script or 'SCRIPT'}: there is no such file here; name a script of this folder, or with its "
                f"whole path one that the workers' machines have"
            )
        return
    if command[0] not in RUNS:
        raise InputError(f"{command[0]!r} cannot be submitted: use one of {', '.join(RUNS)}, or python SCRIPT")
    called: click.Command = import_module(f"dsolver.cli.{command[0]}").command  # for the same reason
    context = called.make_context(f"dsolver {command[0]}", list(command[1:]))
    for option in ("workers", "scheduler"):
        if context.params.get(option) is not None:
            raise InputError(f"a submitted command runs on the cluster that it is submitted to: leave out --{option}")


@click.command("status")
@scheduler_option
@click.argument("name", metavar="[ID]", required=False)
def status(*, scheduler: str, name: str | None) -> None:
    """Show one submitted job, or all that the cluster knows."""
    with _client(scheduler) as client:
        found = jobs.jobs(client) if name is None else [jobs.find(client, name)]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("ID", "state", "submitted", "seconds", "exit", "progress", "command"):
        table.add_column(title, no_wrap=True)
    for job in found:
        seconds = "" if job.started is None else f"{(job.ended or time.time()) - job.started:.0f}"
        submitted = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted))
        code = "" if job.code is None else str(job.code)
        again = "" if job.begun < 2 else f"begun {job.begun} times, "
        progress = again + ("" if job.progress is None else shown(job.progress))
        table.add_row(job.name, job.state, submitted, seconds, code, progress, " ".join(job.command))
    console = Console(highlight=False, markup=False, width=WIDEST)  # a line a job, which narrow terminals break
    console.print(table)


@click.command("logs")
@scheduler_option
@name_argument
def logs(*, scheduler: str, name: str) -> None:
    """Print the output of a submitted job: its last 64 KiB while it runs, all of it afterwards."""
    with _client(scheduler) as client:
        click.echo(jobs.log_of(client, name), nl=False)


@click.command("cancel")
@scheduler_option
@name_argument
def cancel(*, scheduler: str, name: str) -> None:
    """Ask a submitted job to end, as Ctrl-C would, and after 10 s by force; wait for that, and say how it has ended."""
    with _client(scheduler) as client:
        job = jobs.cancel(client, name)
    if job.state in jobs.UNDER_WAY:
        click.echo(f"{name} is {job.state}, and has not ended yet: `dsolver status` tells when it has")
    elif job.state == "cancelled":
        click.echo(f"{name} is cancelled")
    else:
        click.echo(f"{name} was not cancelled: it is {job.state}")


@click.command("fetch")
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
    """Write the files that a submitted job has made, and its log, into a folder; links and pipes are left behind."""
    with _client(scheduler) as client:
        for path in jobs.fetch(client, name, folder or Path(name)):
            click.echo(path)
