"""What can be refused of a system and its right-hand side before any device or cluster is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from dsolver.containers import Container, check_agreement, container_of
from dsolver.errors import InputError
from dsolver.options import Setup
from dsolver.partition import Partition
from dsolver.preconditioners import Multigrid, Recipe
from dsolver.problems import Problem
from dsolver.problems.problem import check_problem

FMG: Final = "fmg"
"""The x0 that stands for a guess of full multigrid."""
Guess = Container | str | None
"""Where a solve begins: values, `FMG`, or zero."""


def prepared(problem: Any, b: Any, x0: Any, setup: Setup) -> Setup:
    """Look at all that needs no device and no cluster; returns the set-up with the recipe that its M stands for.

    Raises:
        InputError: an argument cannot be right.
    """
    check_problem(problem)
    recipe = setup.recipe(problem.grid)
    check_guess(recipe, x0)
    check_shapes(problem, b, x0)
    return replace(setup, M=recipe)


def check_guess(recipe: Recipe, x0: Any) -> None:
    """Refuse a name of a first guess that is none, or that this preconditioner cannot make."""
    if not isinstance(x0, str):
        return
    if x0 != FMG:
        raise InputError(f"x0 must be an array like b or {FMG!r}, for a guess of full multigrid, not {x0!r}")
    if not isinstance(recipe, Multigrid):
        raise InputError(f"x0={FMG!r} is a guess of full multigrid, which needs M='mg', not {recipe}")


def check_shapes(problem: Problem, b: Any, x0: Any) -> None:
    """Refuse arrays that do not fit the grid or each other; values of Dask arrays are looked at once computed."""
    whole = Partition(problem.grid)
    for name, values in (("b", b), ("x0", None if isinstance(x0, str) else x0)):  # a name is `check_guess`'s
        if values is not None or name == "b":
            container = container_of(name, values, whole, None)
            if not problem.masked:  # at masked cells there may be anything
                container.check()
    check_agreement({**problem.coefficients, "b": b, "x0": x0})
