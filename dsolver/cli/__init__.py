"""The `dsolver` command: a module for each of its commands, or for several of one kind.

`options`, `files` and `progress` are what commands share, `hpcg_report` prints the benchmark's results. Nothing imports
this package.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, final

import click

import dsolver
from dsolver.cli import cluster, estimate, hpcg, info, jobs, kernels, report, solve
from dsolver.errors import ClusterError, DsolverError, in_a_line

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a standard output that is a file on a disk."""
INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status of a command that Ctrl-C has ended, by the shells' rule."""

EXAMPLES = """
\b
The two most useful commands:
  dsolver hpcg --grid 64 64 64                       benchmark this machine
  dsolver solve --problem poisson7 --grid 64 64 64   solve a Poisson problem
\b
Both run in this process, on a GPU if there is one. Add --workers 2 to run on a Dask cluster started for it, or
--scheduler tcp://HOST:8786 to use a running one. `dsolver COMMAND --help` explains every option.

\b
Exit status: 0 done, 1 not converged or not valid, 2 refused (nothing was started) or out of memory, 3 the cluster
cannot be reached or has failed, 130 interrupted (Ctrl-C).
"""


class Failure(click.ClickException):
    """An error of this package, shown as one red line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.secho(f"error: {' '.join(self.message.split())}", fg="red", err=file is None, file=file)


@final
class ClusterFailure(Failure):
    """A cluster that cannot be reached, or has failed, as one line."""

    exit_code = 3


@final
class Interrupted(Failure):
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
        raise Failure(str(error)) from error
    except OSError as error:
        if error.filename is not None:  # a file of the user's that nothing has looked at before
            raise Failure(f"cannot use {in_a_line(str(error.filename))}: {error.strerror}") from error
        if error.errno not in NO_ROOM:
            raise
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # or Python would end with this error once more
        raise Failure(f"cannot write to standard output: {error.strerror}") from error
    except MemoryError as error:
        raise Failure(f"memory does not suffice: {error}; take a smaller grid, or workers on more machines") from error


@final
class Commands(click.Group):
    """Commands whose expected errors become a message."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Look at the options of all commands."""
        with told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with told():
            return super().invoke(ctx)


@click.group(
    cls=Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(dsolver.__version__, prog_name="dsolver")
def main() -> None:
    """Solve sparse systems on 2D and 3D grids by multigrid-preconditioned conjugate gradients, on CPUs and GPUs."""


main.add_command(hpcg.command)
main.add_command(solve.command)
main.add_command(estimate.command)
main.add_command(info.command)
main.add_command(kernels.tune)
main.add_command(kernels.warm)
main.add_command(cluster.group)
main.add_command(report.command)
for job_command in jobs.commands:
    main.add_command(job_command)
