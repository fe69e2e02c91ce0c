"""Solves in planes and on lines, as solves on grids of three axes: the shapes of what goes in and comes out."""

from __future__ import annotations

from typing import Any

from dsolver.errors import InputError
from dsolver.problems import Problem
from dsolver.session.user_arrays.several import with_first_axis_last
from dsolver.units import counted


def in_space(problem: Any, b: Any, kappa: Any, sigma: Any) -> tuple[Any, Any, Any, Any]:
    """The problem, b, κ and σ with three axes; as they are where they have them, or of a matrix; or InputError."""
    if not isinstance(problem, Problem) or problem.flat or problem.dimensions == 3:
        return problem, b, kappa, sigma
    count, shape, grid = problem.dimensions, problem.shape, problem.grid
    if tuple(b.shape[:count]) != shape or b.ndim > count + 1:
        turn = f"; several have their axis last: pass {with_first_axis_last('b', b)}" if b.shape[1:] == shape else ""
        raise InputError(f"b has shape {tuple(b.shape)}, but the grid is {shape}: they must be equal{turn}")

    def embedded(values: Any) -> Any:
        return values.reshape(grid) if tuple(getattr(values, "shape", ())) == shape else values

    if isinstance(kappa, list | tuple):
        if len(kappa) not in (1, count):
            given = counted(len(kappa), "entry", "entries")
            raise InputError(f"kappa has {given}: give one for all axes, or one for each of {count}")
        kappa = [*map(embedded, kappa), *[1.0] * (3 - count)] if len(kappa) == count else embedded(kappa[0])
    return problem.in_space, b.reshape((*grid, *b.shape[count:])), embedded(kappa), embedded(sigma)
