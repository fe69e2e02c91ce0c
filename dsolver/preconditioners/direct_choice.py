"""The choice of factors where no preconditioner was asked for: at once, or as the last attempt."""

from __future__ import annotations

from typing import Final

from dsolver.kernels.direct.fill import Fill
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems import Problem

SURE: Final = Fill(entries=5e6, products=2e9)
"""Fill of factors that are made at once: a second or two, which a few hundred iterations without an end take."""
LAST: Final = Fill(entries=1e9, products=2e11)
"""The same of a last attempt: a few minutes."""


def suit_at_once(problem: Problem, method: str | None) -> bool:
    """Whether factors are the only sure way to solve with a matrix that is here, and affordable.

    Symmetric matrices with a positive diagonal, elliptic ones, and methods that are asked for are left to iterations.

    Args:
        problem: the system.
        method: of the solve; None for the usual one.
    """
    if method is not None or not isinstance(problem, MatrixProblem) or problem.elimination is None:
        return False
    if problem.null_vectors or not (problem.indefinite or (problem.asymmetry and not problem.elliptic)):
        return False
    return _within(problem, SURE)


def may_be_last(problem: Problem) -> bool:
    """Whether factors of a matrix that is here may be made where nothing else has led to an end; memory aside."""
    return isinstance(problem, MatrixProblem) and problem.elimination is not None and _within(problem, LAST)


def _within(problem: MatrixProblem, most: Fill) -> bool:
    assert problem.elimination is not None
    found = problem.elimination.within(most.entries)
    return found is not None and found.products <= most.products
