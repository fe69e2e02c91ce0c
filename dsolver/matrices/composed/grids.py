"""Problems on grids as matrices, where coefficients are complex or something flows: a row for each cell.

Rows have the order of ``numpy.ravel``, and are made in this process.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dsolver.grid.partition import Cut
from dsolver.matrices.complex.parts import complex_parts
from dsolver.matrices.complex.problem import problem_of_complex
from dsolver.matrices.matrix import matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.matrices.row_block import FED
from dsolver.problems.fluxes.rows import flux_rows, is_by_fluxes
from dsolver.problems.problem import Problem


def as_matrix(problem: Any) -> Any:
    """A problem on a grid with complex coefficients, or a flow, as one of a matrix; anything else as it is.

    Raises:
        InputError: a coefficient makes no sense.
    """
    if not (isinstance(problem, Problem) and is_by_fluxes(problem)):
        return problem
    made_of = flux_rows(problem)
    if problem.complex:
        made = problem_of_complex(complex_parts(problem.name, made_of.matrix), problem.name)
    else:
        found = matrix(made_of.matrix, name=problem.name, symmetric=False)
        assert isinstance(found, MatrixProblem)
        made = found
    right = made_of.right
    parts = (made_of.volumes, *(() if right is None else (right.real, right.imag) if problem.complex else (right,)))
    made = replace(
        made,
        of_grid=problem,
        dimensions=problem.dimensions,
        fed=dict(zip(FED, (np.ascontiguousarray(part, dtype=np.float64) for part in parts), strict=False)),
    )
    return made if problem.chunks is None else replace(made, chunks=_cut(made, problem.chunks))


def _cut(made: MatrixProblem, chunks: Cut) -> Cut:
    """As many chunks of rows as there are of the grid."""
    count = math.prod(each if isinstance(each, int) else len(each) for each in chunks)
    return made.by_entries(count).sizes
