"""Problems on grids with complex coefficients as complex matrices: a row for each cell, in the order of numpy.ravel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dsolver.errors import InputError
from dsolver.grid.partition import Cut
from dsolver.matrices.complex.parts import complex_parts
from dsolver.matrices.complex.problem import problem_of_complex
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.row_block import FED
from dsolver.problems.flux_form import FluxForm, kappa_of
from dsolver.problems.problem import Problem
from dsolver.problems.rows import rows_of_fluxes


def as_matrix(problem: Any) -> Any:
    """A problem on a grid with complex coefficients as one of a matrix; anything else as it is.

    Raises:
        InputError: a coefficient makes no sense.
    """
    if not (isinstance(problem, Problem) and problem.complex and problem.lattice):
        return problem
    form, kappa = FluxForm(problem, np, np.asarray), kappa_of(problem)
    with np.errstate(all="ignore"):
        rows = rows_of_fluxes(problem, form, kappa)
        right = form.right_hand_side(kappa, np.zeros(problem.grid, dtype=np.complex128)) if form.fed else None
    if not np.isfinite(rows.data).all() or (right is not None and not np.isfinite(right).all()):
        raise InputError(
            "kappa and sigma must be finite, and kappa such that none of it, nor the sum of two neighbors, is 0: mend "
            "their values, or leave such cells out with mask="
        )
    made = problem_of_complex(complex_parts(problem.name, rows), problem.name)
    volumes = np.broadcast_to(form.volumes(), problem.grid)
    parts = (volumes, *((right.real, right.imag) if right is not None else ()))
    made = replace(
        made,
        of_grid=problem,
        dimensions=problem.dimensions,
        fed=dict(zip(FED, (np.ascontiguousarray(part, dtype=np.float64).ravel() for part in parts), strict=False)),
    )
    return made if problem.chunks is None else replace(made, chunks=_cut(made, problem.chunks))


def _cut(made: MatrixProblem, chunks: Cut) -> Cut:
    """As many chunks of rows as there are of the grid."""
    count = math.prod(each if isinstance(each, int) else len(each) for each in chunks)
    return made.by_entries(count).sizes
