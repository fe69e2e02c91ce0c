"""`dsolver solve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import numpy.typing as npt

import dsolver
from dsolver import problems
from dsolver.cli import files, progress
from dsolver.cli.options import (
    Where,
    force_option,
    precond_dtype_option,
    set_volume,
    spans_option,
    trace_option,
    volume_options,
    where_options,
)
from dsolver.iteration import Tolerances
from dsolver.levels import Hierarchy
from dsolver.monitor.spans import Span
from dsolver.options import PrecondDtype, Setup
from dsolver.ordering import Order
from dsolver.partition import Box, Triple
from dsolver.problems import Problem
from dsolver.solution import Solution

PROBLEMS: Final = {"hpcg": problems.hpcg, "poisson7": problems.poisson7, "poisson27": problems.poisson27}

PRECONDITIONERS: Final = ("mg", "hpcg", "chebyshev", "jacobi", "none")

EPILOG = """
\b
Examples:
  dsolver solve --problem poisson7 --grid 64 64 64
  dsolver solve --problem poisson7 --grid 64 64 64 --rhs b.npy --out x.npy --rtol 1e-6
  dsolver solve --problem hpcg --grid 128 64 64 --workers 2 --rhs b.zarr --out x.zarr
\b
Exit status: 0 converged, 1 not converged (x is written all the same), 2 bad input.
"""


@click.command("solve", epilog=EPILOG, short_help="Solve a linear system on a grid.")
@click.option(
    "--problem",
    "kind",
    type=click.Choice(sorted(PROBLEMS)),
    default="hpcg",
    show_default=True,
    help="Which matrix A. poisson7: diagonal 6, the six nearest points -1. hpcg and poisson27: diagonal 26, the 26 "
    "nearest -1. Values outside the grid are zero.",
)
@click.option(
    "--grid",
    nargs=3,
    type=int,
    required=True,
    metavar="NX NY NZ",
    help="Points along x, y and z.  Example: --grid 64 64 64",
)
@click.option(
    "--rhs",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Right-hand side b, a .npy file or .zarr array of shape (NX, NY, NZ). Default: b = A 1, so that x is 1 "
    "everywhere.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the solution x there, as .npy or .zarr, shape (NX, NY, NZ). Default: x is not written.",
)
@click.option(
    "--rtol",
    type=float,
    default=1e-8,
    show_default=True,
    help="Finished when ‖b - A x‖ is at most this times ‖b‖.  Example: --rtol 1e-6",
)
@click.option("--maxiter", type=int, metavar="K", help="Iterations at most.  [default: 1000]")
@click.option(
    "--precond",
    type=click.Choice(PRECONDITIONERS),
    default="mg",
    show_default=True,
    help="The preconditioner. mg: general multigrid, for any grid. hpcg: the HPCG benchmark's V-cycle, for chunks "
    "whose sides are divisible by 8.",
)
@where_options
@precond_dtype_option
@spans_option
@trace_option
@force_option
@volume_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    kind: str,
    grid: Triple,
    rhs: Path | None,
    out: Path | None,
    rtol: float,
    maxiter: int | None,
    chunks: Triple | None,
    order: str,
    precond: str,
    precond_dtype: PrecondDtype,
    spans_file: Path | None,
    trace_file: Path | None,
    force: bool,
    quiet: bool,
    verbose: bool,
    **where: Any,
) -> None:
    """Solve A x = b on a 3D grid by preconditioned conjugate gradients.

    For coefficients, boundary conditions and masks of your own call dsolver.solve from Python.
    """
    set_volume(quiet=quiet, verbose=verbose)
    place = Where(**where)
    problem = PROBLEMS[kind](grid, chunks=chunks)
    tolerances = Tolerances(rtol=rtol) if maxiter is None else Tolerances(rtol=rtol, maxiter=maxiter)
    recipe = Setup(order=order, M=precond, precond_dtype=precond_dtype).recipe(grid)
    Hierarchy.plan(problem, chunks or (1, 1, 1), Order.parse(order), recipe.levels)
    files.check_output(out, force=force, suffixes=files.ARRAYS)
    for file in (spans_file, trace_file):
        files.check_output(file, force=force)
    files.check_apart(out, spans_file, trace_file)
    if rhs is not None:
        files.check_input(rhs, grid)
    with place.client() as client, progress.shown(quiet=quiet) as report:
        b = row_sums(problem) if rhs is None else files.read_array(rhs, client)
        solution = dsolver.solve(
            problem,
            b,
            client=client,
            engine=place.engine,
            device=place.device,
            kernels=place.kernels,
            order=order,
            M=recipe,
            precond_dtype=precond_dtype,
            rtol=rtol,
            maxiter=tolerances.maxiter,
            progress=progress.reporter(report, tolerances.maxiter) if report else None,
            spans=_nowhere if spans_file is None and trace_file is not None else spans_file,
        )
        if out is not None:
            files.write_array(out, solution.x)
    files.write_spans(solution.spans, None, trace_file)
    if not quiet:
        _show(solution, out)
    click.echo(f"{solution.status}: {solution.status.advice}")
    if not solution.converged:
        ctx.exit(1)


def row_sums(problem: Problem) -> npt.NDArray[np.float64]:
    """A 1: for each row the sum of its entries, shape of the grid."""
    domain = Box(lo=(0, 0, 0), hi=problem.grid)
    out = np.zeros(problem.grid)
    for (i, j, k), weight in zip(problem.offsets, problem.weights, strict=True):
        inside = domain.intersect(domain.shifted((-i, -j, -k)))
        if inside is not None:
            out[inside.slices] += weight
    return out


def _nowhere(_: Sequence[Span]) -> None:
    """Spans that are asked for, but not as they come."""


def _show(solution: Solution, out: Path | None) -> None:
    first, last = solution.residuals[0], solution.residuals[-1]
    count = solution.iterations
    each = f" (x {(last / first) ** (1 / count):.3f} each)" if count and first else ""
    click.echo(f"residual ‖b - A x‖: {first:.6e} at the start, {last:.6e} after {count} iterations{each}")
    click.echo(f"true residual: {solution.true_residual:.6e}, {solution.relative_residual:.3e} of ‖b‖")
    click.echo("seconds: " + ", ".join(f"{name} {value:.3f}" for name, value in solution.timings.items()))
    click.echo(f"engine: {solution.engine}")
    for note in solution.notes:
        click.echo(f"note: {note}")
    if solution.exposure is not None:
        total, took = solution.exposure.total, solution.exposure.iteration_ms
        click.echo(f"exposed communication: {total.ms:.3f} ms of {took:.3f} ms an iteration, {total.percent:.1f} %")
    if out is not None:
        click.echo(f"x written to {out}")
