"""Coefficients of a diffusion problem as arrays in this process."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dsolver.grid.partition import Partition
from dsolver.problems.discretization import evaluated
from dsolver.problems.finite_volumes import Diffusion

if TYPE_CHECKING:
    from dsolver.problems.problem import Problem


def kappa_of(problem: "Problem") -> list[complex | npt.NDArray[Any]]:
    """κ of a diffusion problem along x, y, z: numbers, or arrays of the grid's shape, in this process."""
    rule = problem.rule
    assert isinstance(rule, Diffusion)
    numbers = zip(rule.fields, rule.kappa, strict=True)
    return [field_of(problem, name) if number is None else number for name, number in numbers]


def field_of(problem: "Problem", name: str) -> npt.NDArray[Any]:
    """A coefficient that is no number, of the grid's shape, in this process: float64, or complex128 if it came so."""
    rule = problem.rule
    assert isinstance(rule, Diffusion)
    if name in rule.functions:
        box = Partition(rule.grid, (1, 1, 1))[0].box
        values = evaluated(np, name, rule.functions[name], rule.centers(np, box), rule.grid)
    else:
        values = problem.coefficients[name]
        values = values.get() if hasattr(values, "get") else values
    return np.asarray(values, dtype=np.complex128 if np.dtype(values.dtype).kind == "c" else np.float64)
