"""`dsolver hpcg`."""

from math import prod

import click

from dsolver.benchmarks import hpcg as benchmark
from dsolver.cli import files, progress
from dsolver.cli.hpcg.report import show
from dsolver.cli.options import Command, Where, where_options
from dsolver.cli.outputs import Outputs, output_options
from dsolver.grid.box import Triple, three
from dsolver.grid.coloring import Order
from dsolver.kernels import DTYPES

EPILOG = """
\b
Examples:
  dsolver hpcg --grid 64 64 64                                the whole procedure in this process
  dsolver hpcg --grid 64 64 64 --order natural --iterations 50 --json out.json
  dsolver hpcg --grid 128 64 64 --workers 2 --engine graph --time 5
  dsolver hpcg --grid 512 256 256 --workers 2 --device cuda
\b
With --precond-dtype float32 a run is never valid: the benchmark's rules want float64.

\b
Exit status: 0 valid (or --iterations done), 1 the run is not valid, 2 refused or out of memory, 3 the cluster cannot be
reached or has failed, 130 interrupted.
"""


@click.command("hpcg", cls=Command, epilog=EPILOG)
@click.option(
    "--grid",
    nargs=3,
    type=int,
    default=(104, 104, 104),
    show_default="104 104 104",
    metavar="NX NY NZ",
    help="Points of the whole grid along x, y and z, each divisible by 8.  Example: --grid 64 64 64",
)
@where_options
@click.option(
    "--precond-dtype",
    type=click.Choice(DTYPES),
    default="float64",
    help="Value type of the V-cycle. float32 moves half the bytes; the system stays in float64.",
)
@click.option(
    "--time",
    "seconds",
    type=float,
    default=10.0,
    metavar="SECONDS",
    help="How long the timed sets run together; at least one set is run.  Example: --time 60",
)
@click.option(
    "--iterations",
    type=int,
    metavar="K",
    help="Run exactly K iterations and report the residuals, without checks and rating. Default: the whole procedure.",
)
@output_options("the results", "out.json")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    grid: Triple,
    chunks: tuple[int, ...],
    order: str,
    precond_dtype: str,
    seconds: float,
    iterations: int | None,
    place: Where,
    outputs: Outputs,
) -> None:
    """Run the HPCG benchmark's problem and procedure, and rate this machine or cluster.

    Solves a 27-point system by conjugate gradients with a multigrid preconditioner, checks the result as the HPCG
    benchmark does, and tells the speed in GF/s (1e9 floating-point operations a second). No official HPCG submission.
    """
    outputs.begin()
    options = benchmark.HpcgOptions(
        grid=grid,
        chunks=three("chunks", chunks) if chunks else None,
        order=Order.parse(order),
        seconds=seconds,
        iterations=iterations,
        precond_dtype=precond_dtype,
    )
    begun = f"benchmark of {' x '.join(map(str, grid))} points ..."
    shown = progress.shown(quiet=outputs.quiet)
    with place.runtime() as runtime, shown as report, progress.announced(begun, unless=report):
        result = benchmark.run(runtime, options, report or progress.Phases())
        workers = runtime.workers_used(prod(result.chunks))
    if outputs.json_file is not None:
        files.write_json(outputs.json_file, result.to_json())
    files.write_spans(result.spans, outputs.spans_file, outputs.trace_file)
    if not outputs.alone:  # last, for a reader of stdout may go
        show(result, workers, quiet=outputs.quiet)
    if result.valid is False:
        ctx.exit(1)
