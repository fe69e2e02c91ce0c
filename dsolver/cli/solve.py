"""`dsolver solve`, and solutions as it shows them."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import click

import dsolver
import dsolver.benchmarks.hpcg  # whose V-cycle is one of the names of --precond
from dsolver.cli import files, progress
from dsolver.cli.options import Command, Where, dtype_option, file_option, precond_dtype_option, where_options
from dsolver.cli.outputs import Outputs, output_options
from dsolver.cli.system.choice import SystemOptions, system_of, system_options
from dsolver.cluster import host_memory
from dsolver.cost.forecast import Estimate
from dsolver.cost.room import SMALL
from dsolver.errors import DeviceMemoryError, InputError
from dsolver.krylov.methods import METHODS, MethodName
from dsolver.matrices.problem import MatrixProblem
from dsolver.monitor.spans import Span, exposed_text
from dsolver.preconditioners.registry import AUTO, NAMED
from dsolver.problems import Problem
from dsolver.program.spec import SolveSpec
from dsolver.session.arguments import FMG, check_guess
from dsolver.session.checkpoints.checkpoint import EVERY
from dsolver.session.options import Options, PrecondDtype, Setup, ValueType
from dsolver.session.user_arrays.several import are_several
from dsolver.solution import Solution
from dsolver.status import Status
from dsolver.units import amount, counted

TOLD: Final = (
    *("converged", "iterations", "closed_regions", "timings", "engine", "solved_by", "exposed_percent", "notes"),
)
"""Attributes of a solution that JSON has as they are."""


def facts_of(problem: Problem, solution: Solution) -> dict[str, Any]:
    """A solution but for x, as JSON has it; numbers that are not finite are null."""
    return {
        "problem": problem.name,
        "shape": problem.shape,
        "status": str(solution.status),
        "residuals": [_finite(value) for value in solution.residuals],
        **{name: _finite(getattr(solution, name)) for name in ("true_residual", "relative_residual", "b_norm")},
        **{name: getattr(solution, name) for name in TOLD},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def show(solutions: Sequence[Solution], out: Path | None) -> None:
    """Print solutions, and where x was written."""
    for number, solution in enumerate(solutions):
        _show_one(solution, f"right-hand side {number}, " if len(solutions) > 1 else "")
    if out is not None:
        click.echo(f"x written to {out}")


def _show_one(solution: Solution, of: str) -> None:
    first, last = solution.residuals[0], solution.residuals[-1]
    count = solution.iterations
    each = f" (x {(last / first) ** (1 / count):.3f} each)" if count and first else ""
    after = counted(count, "iteration")
    click.echo(f"{of}residual ‖b - A x‖: {first:.6e} at the start, {last:.6e} after {after}{each}")
    click.echo(f"true residual: {solution.true_residual:.6e}, {solution.relative_residual:.3e} of ‖b‖")
    click.echo("seconds: " + ", ".join(f"{name} {value:.3f}" for name, value in solution.timings.items()))
    click.echo(f"engine: {solution.engine}")
    click.echo(f"solved by: {solution.solved_by}")
    for note in solution.notes:
        click.echo(f"note: {note}")
    if solution.exposure is not None and solution.exposure.total.ms:
        click.echo(exposed_text(solution.exposure.to_dict()))


ADVICE: Final = {
    Status.MAX_ITERATIONS: ("The tolerance was not reached: raise --maxiter, loosen --rtol, or use --precond auto."),
    Status.STAGNATED: (
        "The residual no longer falls. If it is small, --rtol is below what rounding lets this system reach: loosen "
        "it. If it is large, use --precond auto if it was off."
    ),
    Status.NOT_FINITE: "NaN or infinity appeared: check the right-hand side (--rhs) for such values and for overflow.",
    Status.DIVERGED: "The residual grew without bound: check that the right-hand side (--rhs) is scaled sensibly.",
}
"""Advice on a solve that has ended so, by options of this command; else `Status.advice` fits."""

EPILOG = """
\b
Examples:
  dsolver solve --problem poisson7 --grid 64 64 64
  dsolver solve --problem poisson7 --grid 64 64 64 --rhs b.npy --out x.npy --rtol 1e-6
  dsolver solve --problem hpcg --grid 128 64 64 --workers 2 --rhs b.zarr --out x.zarr
  dsolver solve --problem poisson7 --grid 64 64 64 --rhs data.nc:source --out x.nc
  dsolver solve --kappa k.npy --bc x-=dirichlet:1 x+=dirichlet:0 --out u.npy
  dsolver solve --problem case.toml --checkpoint saves --resume --json -
  dsolver solve --matrix A.mtx.gz --rhs b.npy --out x.npy --precond jacobi
\b
Exit status: 0 converged, 1 not converged (x is written all the same), 2 refused or out of memory, 3 the cluster cannot
be reached or has failed, 130 interrupted.
"""


@click.command("solve", cls=Command, epilog=EPILOG)
@system_options
@file_option(
    "--rhs",
    "--b",
    help="Right-hand side b of shape (NX, NY, NZ): a .npy, .zarr, .nc (NetCDF) or .h5 (HDF5) file, FILE.nc:NAME for one"
    " of several variables; of a matrix (n,), also a Matrix Market file. With one axis more, the last, it is several "
    "right-hand sides. Default: b = A 1, so that x is 1 everywhere.",
)
@click.option(
    "--x0",
    "guess",
    metavar="FILE|fmg",
    help="First guess, a file like --rhs; or fmg, for what full multigrid makes of b. Default: zero.",
)
@file_option(
    "--out",
    help="Write the solution x there, as .npy, .zarr, .nc or .h5, of b's shape; .nc and .h5 keep b's coordinates. Of a "
    "matrix also as a Matrix Market file, .mtx. Default: x is not written.",
)
@click.option(
    "--rtol", type=float, default=1e-8, help="Finished when ‖b - A x‖ is at most this times ‖b‖.  Example: --rtol 1e-6"
)
@click.option("--atol", type=float, default=0.0, help="Or at most this, in the units of b.  Example: --atol 1e-3")
@click.option("--maxiter", type=int, metavar="K", help="Iterations at most.  [default: 1000]")
@click.option(
    "--precond",
    "--M",
    type=click.Choice(tuple(NAMED)),
    default=AUTO,
    help="The preconditioner. auto: what suits the system. mg: multigrid on a grid. amg: algebraic multigrid, for "
    "grids and matrices. hpcg: the HPCG benchmark's V-cycle, for chunks whose sides are divisible by 8.",
)
@click.option(
    "--method",
    type=click.Choice(tuple(METHODS)),
    help="The Krylov method.  [default: what suits the system]",
)
@where_options
@dtype_option
@precond_dtype_option
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Save the iterate there now and then, so that a later run can go on from it.",
)
@click.option("--every", type=float, metavar="SECONDS", help=f"Time between two saves.  [default: {EVERY:g}]")
@click.option("--resume", is_flag=True, help="Begin at the newest save of --checkpoint; at --x0 without one.")
@output_options("status, iterations, residuals and times", "-")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    asked: SystemOptions,
    rhs: Path | None,
    guess: str | None,
    out: Path | None,
    rtol: float,
    atol: float,
    maxiter: int | None,
    chunks: tuple[int, ...],
    order: str,
    precond: str,
    method: MethodName | None,
    dtype: ValueType,
    precond_dtype: PrecondDtype,
    checkpoint: Path | None,
    every: float | None,
    resume: bool,
    place: Where,
    outputs: Outputs,
) -> None:
    """Solve A x = b on a grid of up to three dimensions, or with a matrix from a file, by a preconditioned method.

    A is a stencil (--problem), diffusion with coefficients from files (--kappa and the options after it, or a case
    file), or a matrix (--matrix). Coefficients that are functions need Python: call dsolver.solve there.
    """
    outputs.begin(out)
    store = saves(checkpoint, every, resume=resume)
    saved = {"checkpoint": store, "resume": store if resume else None}
    ends: dict[str, Any] = {"rtol": rtol, "atol": atol, "maxiter": maxiter, **saved}
    types = {"dtype": dtype, "precond_dtype": precond_dtype}
    how: dict[str, Any] = {"order": order, "M": precond, "method": method, **types}
    options = Options(**ends)
    files.check_output(out, force=outputs.force, suffixes=(*files.ARRAYS, *files.VECTORS))
    by_workers = asked.file is not None and place.scheduler is not None and not asked.grid and asked.partition == "rows"
    with ExitStack() as open_:
        client = open_.enter_context(place.client()) if by_workers else None
        chosen = system_of(asked, chunks=chunks or None, rhs=rhs, client=client, gpu=place.gpu_here)
        problem, start = chosen.problem, None if guess in (None, FMG) else Path(str(guess))
        files.check_kind(out, problem.shape)
        check_setup(problem, Setup(**how), guess, gpu=place.gpu_here)
        if store is not None and resume:
            store.check(problem.grid)
        for given in (chosen.file, start):
            if given is not None:
                files.check_input(given, problem.shape)
        client = client or open_.enter_context(place.client())
        report = open_.enter_context(progress.shown(quiet=outputs.quiet))
        open_.enter_context(progress.announced(f"solving {title(problem)} ...", unless=report))
        if chosen.file is None:
            kind = "cpu" if place.kernels == "numpy" else place.device
            check_room(problem, partial(dsolver.estimate, problem, client=client, device=kind, **how))
        b = chosen.right() if chosen.file is None else files.read_array(chosen.file, client)
        one = not are_several(problem, b)
        found: Any = dsolver.solve(
            problem,
            b,
            x0=guess if start is None else files.read_array(start, client),
            client=client,
            engine=place.engine,
            device=place.device,
            kernels=place.kernels,
            progress=progress.reporter(report, options.iterations) if report and one else None,
            spans=_nowhere if outputs.spans_file is None and outputs.trace_file is not None else outputs.spans_file,
            **how,
            **ends,
        )
        if out is not None:
            files.write_array(out, found.x, len(problem.shape))
    tell(problem, found, outputs, out)
    if not found.converged:
        ctx.exit(1)


def tell(problem: Problem, found: Solution | Sequence[Solution], outputs: Outputs, out: Path | None) -> None:
    """Write the files that tell of one solution or several, and show them; out: the file of x."""
    solutions = [found] if isinstance(found, Solution) else found
    files.write_spans((span for solution in solutions for span in solution.spans), None, outputs.trace_file)
    if outputs.json_file is not None:
        facts = [facts_of(problem, solution) for solution in solutions]
        files.write_json(outputs.json_file, json.dumps(facts[0] if isinstance(found, Solution) else facts, indent=1))
    if not (outputs.quiet or outputs.alone):  # last, for a reader of stdout may go
        show(solutions, out)
    worst = next((solution.status for solution in solutions if not solution.converged), solutions[0].status)
    click.echo(f"{worst}: {ADVICE.get(worst, worst.advice)}", err=outputs.alone)


def title(problem: Problem) -> str:
    """The name and the size of a problem, for people."""
    return f"{problem.name}, {' x '.join(map(str, problem.shape))}{' rows' * problem.flat}"


def check_setup(problem: Problem, setup: Setup, guess: str | None, *, gpu: bool) -> None:
    """Refuse choices that exclude each other, before anything is read. Raises InputError."""
    wishes = setup.wishes(problem, "cuda" if gpu else "cpu")
    if not (isinstance(problem, MatrixProblem) and problem.split):  # fields are looked at once they are cut
        SolveSpec.plan(problem, problem.chunks or (1, 1, 1), setup.order, wishes.m, setup.method)
    check_guess(wishes.m, guess if guess == FMG else None)


def check_room(problem: Problem, plan: Callable[..., Estimate]) -> None:
    """Refuse a system that memory will not hold, before its right-hand side is made; raises DeviceMemoryError."""
    size = 8 * prod(problem.grid)
    if size <= SMALL:
        return
    shortage = plan(bandwidth=1.0).shortage  # of which nothing is asked
    (own,) = host_memory.shares([host_memory.supplies()], [size])
    if shortage is None and own.free < size:
        shortage = (
            f"{amount(own.free)} are {own.what}, but b needs {amount(size)} in this process: give --rhs b.zarr, which "
            f"workers read themselves, or a smaller grid"
        )
    if shortage is not None:
        raise DeviceMemoryError(shortage)


def saves(folder: Path | None, every: float | None, *, resume: bool) -> dsolver.Checkpoint | None:
    """The store of --checkpoint. InputError: another option needs one, or it cannot be one."""
    if folder is None:
        if resume or every is not None:
            raise InputError(f"--{'resume' if resume else 'every'} needs --checkpoint FOLDER, the folder of the saves")
        return None
    return dsolver.Checkpoint(folder, every=EVERY if every is None else every)


def _nowhere(_: Sequence[Span]) -> None:
    """Spans that are asked for, but not as they come."""
