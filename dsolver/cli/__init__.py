"""The `dsolver` command."""

from __future__ import annotations

from typing import IO, Any, final

import click

import dsolver
from dsolver.cli import cluster, hpcg, info, jobs, reports, solve, tune
from dsolver.errors import DsolverError

EXAMPLES = """
\b
The two most useful commands:
  dsolver hpcg --grid 64 64 64                       benchmark this machine
  dsolver solve --problem poisson7 --grid 64 64 64   solve a Poisson problem
\b
Both run in this process, on a GPU if there is one. Add --workers 2 to run on a Dask cluster started for it, or
--scheduler tcp://HOST:8786 to use a running one. `dsolver COMMAND --help` explains every option.
"""


@final
class Failure(click.ClickException):
    """An error of this package, shown as one red line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.secho(f"error: {' '.join(self.message.split())}", fg="red", err=file is None, file=file)


@final
class Commands(click.Group):
    """Commands whose expected errors become a message. Any other error keeps its traceback: it is a fault of ours."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except DsolverError as error:
            raise Failure(str(error)) from error
        except MemoryError as error:
            raise Failure(
                f"memory does not suffice: {error}; take a smaller grid, or workers on more machines"
            ) from error


@click.group(
    cls=Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(dsolver.__version__, prog_name="dsolver")
def main() -> None:
    """Solve large sparse systems on 3D grids by multigrid-preconditioned conjugate gradients, on CPUs and GPUs."""


main.add_command(hpcg.command)
main.add_command(solve.command)
main.add_command(info.command)
main.add_command(tune.command)
main.add_command(cluster.group)
main.add_command(reports.command)
for job_command in jobs.commands:
    main.add_command(job_command)
