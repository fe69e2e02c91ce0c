"""`dsolver hpcg`, and its report for people."""

from math import prod
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dsolver.benchmarks import hpcg as benchmark
from dsolver.benchmarks.hpcg.result import (
    CG_EXPECTED,
    DEPARTURE_LIMIT,
    ITERATIONS_LIMIT,
    VARIANCE_LIMIT,
    CgTest,
    HpcgResult,
    IterationsTest,
    SymmetryTest,
    VarianceTest,
)
from dsolver.cli import files, progress
from dsolver.cli.options import Command, Where, where_options
from dsolver.cli.outputs import Outputs, output_options
from dsolver.grid.box import Triple, three
from dsolver.grid.coloring import Order
from dsolver.kernels import DTYPES
from dsolver.monitor.spans import SUMS, Exposure

PHASES: Final = {
    "warm_up": "load kernels",
    "setup": "set-up",
    "reference": "reference CG",
    "test_cg": "TestCG",
    "setup_optimized": "set-up, wanted order",
    "optimize": "counted as optimizing",
    "test_symmetry": "TestSymmetry",
    "optimized": "optimized CG",
    "sets": "timed sets",
    "measured": "measured iterations",
    "operations": "single operations",
    "total": "total",
}
SPEEDS: Final = {
    "ddot": "dot product *",
    "waxpby": "vector update *",
    "spmv": "SpMV *",
    "mg": "multigrid *",
    "raw": "timed sets, raw",
    "rating": "rating",
}
STYLE_NOTE: Final = "HPCG-style results: HPCG's problem, checks and counting, but no official HPCG submission."
LOOP_NOTE: Final = "* each operation alone, in a timed loop of its own that ends when its last result is there"
FIRST_SHOWN: Final = 5
NUMBERS: Final = ("seconds", "GF/s", "ms", "mean ms", "%")  # columns that are set to the right


def show(result: HpcgResult, workers: str, *, quiet: bool = False) -> None:
    """Print the report, or its last line alone; workers: how many took part, or empty without a cluster."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if quiet:
        console.print(verdict(result))
        return
    console.print(_facts(result, workers))
    console.print(_phases(result))
    if result.tests.made:
        console.print(_tests(result))
    else:
        console.print(_residuals(result))
    console.print(_speeds(result))
    if result.gflops.rating is not None:
        console.print(LOOP_NOTE)
    if result.exposure is not None and result.exposure.total.ms:  # a process of its own exchanges nothing
        console.print(_exposed(result.exposure))
    console.print(STYLE_NOTE)
    console.print(verdict(result))


def verdict(result: HpcgResult) -> Text:
    """The last line: the rating and whether it counts, or the residual."""
    if result.valid is None:
        return Text(f"{result.iterations} iterations, scaled residual {result.scaled_residual:.12e}")
    rating = f"{result.gflops.rating:.3f} GF/s" if result.gflops.rating is not None else "no rating"
    if result.valid:
        return Text.assemble(("VALID", "bold green"), f": rating {rating}")
    reasons = "; ".join(result.problems)
    return Text.assemble(("INVALID", "bold red"), f": rating {rating} does not count, because {reasons}")


def _facts(result: HpcgResult, workers: str) -> Table:
    grid, chunks = result.grid, result.chunks
    sides = [f"{n // p}" if n % p == 0 else f"{n / p:.1f}" for n, p in zip(grid, chunks, strict=True)]
    table = _table("HPCG-style benchmark", "", "")
    rows = grid[0] * grid[1] * grid[2]
    table.add_row("problem", f"{_by(grid)} grid, {rows:,} rows, 27-point, 4 multigrid levels")
    table.add_row("partition", f"{_by(chunks)} chunks of {' x '.join(sides)} points")
    table.add_row("engine", f"{result.engine}, {workers or 'in this process'}")
    table.add_row("kernels", "NumPy text-book" if result.kernels == "numpy" else result.kernels)
    table.add_row("device", result.device)
    table.add_row("order", result.order)
    if result.precond_dtype != "float64":
        table.add_row("preconditioner", f"{result.precond_dtype}, which HPCG's rules do not allow: not comparable")
    return table


def _phases(result: HpcgResult) -> Table:
    table = _table("Phases", "phase", "seconds")
    for key, label in PHASES.items():
        seconds = result.seconds.get(key)
        if seconds is not None:
            table.add_row(label, f"{seconds:.3f}")
    return table


def _tests(result: HpcgResult) -> Table:
    table = _table("Checks", "check", "passed", "found", "allowed")
    for name, test in result.tests.made.items():
        passed = Text("pass", "green") if test.problem is None else Text("FAIL", "red")
        table.add_row(name, passed, *_found(test))
    return table


def _found(test: CgTest | SymmetryTest | IterationsTest | VarianceTest) -> tuple[str, str]:
    """The finding of a check, and the limit that it allows."""
    match test:
        case CgTest():
            allowed = f"{CG_EXPECTED['plain']} and {CG_EXPECTED['preconditioned']}"
            return f"{test.plain} iterations, {test.preconditioned} preconditioned", allowed
        case SymmetryTest():
            return f"matrix {test.spmv:.1e}, preconditioner {test.mg:.1e}", f"{DEPARTURE_LIMIT:g}"
        case IterationsTest():
            return f"{test.needed} iterations to {test.tolerance:.6e}", f"{ITERATIONS_LIMIT}"
        case VarianceTest():
            return f"variance {test.variance:.1e} over {test.sets} sets", f"{VARIANCE_LIMIT:g}"


def _residuals(result: HpcgResult) -> Table:
    table = _table("Residuals", "iteration", "‖r‖/‖r0‖")
    last = len(result.residuals) - 1
    for k in sorted({*range(min(FIRST_SHOWN, last + 1)), *range(0, last + 1, max(1, last // FIRST_SHOWN)), last}):
        table.add_row(str(k), f"{result.residuals[k]:.12e}")
    return table


def _speeds(result: HpcgResult) -> Table:
    table = _table("Speed", "operation", "GF/s")
    for key, label in SPEEDS.items():
        speed = getattr(result.gflops, key)
        if speed is not None:
            table.add_row(label, f"{speed:.3f}")
    return table


def _exposed(exposure: Exposure) -> Table:
    table = _table("Exposed communication of an iteration", "level", "ms", "mean ms", "%")
    named = {SUMS: "sums over ranks"}
    for name, part in (("total", exposure.total), *exposure.levels.items()):
        table.add_row(named.get(name, name), f"{part.ms:.4f}", f"{part.mean_ms:.4f}", f"{part.percent:.2f}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", show_header=any(columns), box=None, padding=(0, 2, 0, 0), title_style="bold"
    )
    for column in columns:
        table.add_column(column, justify="right" if column in NUMBERS else "left")
    return table


def _by(sides: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sides))


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
