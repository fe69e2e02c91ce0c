"""Solutions as the command shows them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from dsolver.monitor.spans import exposed_text
from dsolver.problems import Problem
from dsolver.solution import Solution

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
    click.echo(f"{of}residual ‖b - A x‖: {first:.6e} at the start, {last:.6e} after {count} iterations{each}")
    click.echo(f"true residual: {solution.true_residual:.6e}, {solution.relative_residual:.3e} of ‖b‖")
    click.echo("seconds: " + ", ".join(f"{name} {value:.3f}" for name, value in solution.timings.items()))
    click.echo(f"engine: {solution.engine}")
    click.echo(f"solved by: {solution.solved_by}")
    for note in solution.notes:
        click.echo(f"note: {note}")
    if solution.exposure is not None and solution.exposure.total.ms:
        click.echo(exposed_text(solution.exposure.to_dict()))
