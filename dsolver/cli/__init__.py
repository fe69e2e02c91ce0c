"""The `dsolver` command: a module for each of its commands, or for several of one kind.

`options`, `files` and `progress` are what commands share. Nothing imports this package. A command's module is loaded
when it is called, so that no command waits for what others need.
"""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

import click

import dsolver
from dsolver.errors import ClusterError, DsolverError, in_a_line

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # errors of a standard output that is a file on a disk
INTERRUPTED: Final = 128 + signal.SIGINT  # the exit status of a command that Ctrl-C has ended, by the shells' rule
UNREAD: Final = 128 + signal.SIGPIPE  # and of one whose reader has gone, as `| head -1` does

COMMANDS: Final = {
    "hpcg": ("hpcg", "command", "Run the HPCG benchmark's procedure."),
    "solve": ("solve", "command", "Solve a linear system on a grid, or with a matrix from a file."),
    "estimate": ("estimate", "command", "Forecast memory, time and scaling; nothing is started."),
    "info": ("info", "command", "Show versions and devices, or what there is to know of a matrix."),
    "warm": ("kernels", "warm", "Compile the kernels of solves before they are needed."),
    "cluster": ("cluster", "group", "Start a Dask cluster on this machine."),
    "report": ("report", "command", "Make a page or a picture of runs."),
    "submit": ("jobs", "submit", "Run a command on a cluster, without staying."),
    "status": ("jobs", "status", "What submitted jobs are doing."),
    "logs": ("jobs", "logs", "What a submitted job has printed."),
    "cancel": ("jobs", "cancel", "End a submitted job."),
    "fetch": ("jobs", "fetch", "Get the files of a submitted job."),
}
"""Commands by name: the module and the object there, and what `dsolver --help` says of it."""

EXAMPLES = """
\b
The two most useful commands:
  dsolver hpcg --grid 64 64 64                       benchmark this machine
  dsolver solve --problem poisson7 --grid 64 64 64   solve a Poisson problem
\b
Both run in this process, on a GPU if there is one. Add --workers 2 to run on a Dask cluster started for it, or
--scheduler tcp://HOST:8786 to use a running one. `dsolver COMMAND --help` explains every option.

\b
Exit status: 0 done, 1 not converged or not valid, 2 refused or out of memory, 3 the cluster
cannot be reached or has failed, 130 interrupted (Ctrl-C).
"""

SHOWN: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120, "show_default": True}


class CommandFailure(click.ClickException):
    """An error of this package, shown as one red line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.secho(f"error: {' '.join(self.message.split())}", fg="red", err=file is None, file=file)


class ClusterFailure(CommandFailure):
    """A cluster that cannot be reached, or has failed, as one line."""

    exit_code = 3


class Interrupted(CommandFailure):
    """Ctrl-C, as one line."""

    exit_code = INTERRUPTED


@contextmanager
def told() -> Iterator[None]:
    """Context in which expected errors become a message. Any other keeps its traceback: it is a fault of ours."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # so that what does not fit there is told
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted") from error
    except ClusterError as error:
        raise ClusterFailure(str(error)) from error
    except DsolverError as error:
        raise CommandFailure(str(error)) from error
    except BrokenPipeError as error:
        _close_stdout()
        raise click.exceptions.Exit(UNREAD) from error
    except OSError as error:
        if error.filename is not None:  # a file of the user's that nothing has looked at before
            raise CommandFailure(f"cannot use {in_a_line(str(error.filename))}: {error.strerror}") from error
        if error.errno not in NO_ROOM:
            raise
        _close_stdout()
        raise CommandFailure(f"cannot write to standard output: {error.strerror}") from error
    except MemoryError as error:
        raise CommandFailure(f"memory does not suffice: {error}; take a smaller grid, or more machines") from error


def _close_stdout() -> None:
    """Write to nowhere from now on, or Python would end with the error of this one once more."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


class Commands(click.Group):
    """Commands, loaded when they are called, whose expected errors become a message."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context | None, name: str) -> click.Command | None:  # noqa: ARG002
        """A command by name."""
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        return getattr(import_module(f"dsolver.cli.{module}"), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """A line for each."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, _, said) in COMMANDS.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Look at the options of all commands."""
        with told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with told():
            return super().invoke(ctx)


@click.group(cls=Commands, epilog=EXAMPLES, context_settings=SHOWN)
@click.version_option(dsolver.__version__, prog_name="dsolver")
def main() -> None:
    """Solve sparse systems, on grids or with any matrix, by preconditioned methods, on CPUs and GPUs."""
