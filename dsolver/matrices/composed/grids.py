"""Problems on grids as matrices, where coefficients are complex or something flows: a row for each cell.

Rows have the order of ``numpy.ravel``, and are made in this process.
"""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dsolver.grid.partition import Cut
from dsolver.matrices.chunks.plan import by_entries
from dsolver.matrices.chunks.row_block import FED
from dsolver.matrices.complex.problem import problem_of_complex
from dsolver.matrices.matrix import matrix
from dsolver.matrices.problem import MatrixProblem
from dsolver.problems.finite_volumes import Diffusion
from dsolver.problems.fluxes.rows import flux_rows
from dsolver.problems.fluxes.slabs import slabs
from dsolver.problems.problem import Problem
from dsolver.problems.rows import rows_of
from dsolver.units import counted

ALONE: Final = "nothing fixes u in"
"""Begin of the note on cells by themselves, in whose rows there is nothing of A."""


def as_matrix(problem: Any, *, gpu: bool = False) -> Any:
    """A problem on a grid with complex coefficients, a flow or an unsymmetric stencil as one of a matrix.

    Anything else stays as it is.

    Args:
        problem: any.
        gpu: whether its rows go to the GPU of this process, and are looked at there: of 64³ cells a core takes three
            times as long for that as for making them.

    Raises:
        InputError: a coefficient makes no sense.
    """
    if not (isinstance(problem, Problem) and problem.by_rows):
        return problem
    if problem.by_fluxes:
        return _of_fluxes(problem, gpu=gpu)
    return _on_grid(_of(rows_of(problem), problem, gpu=gpu), problem)


def _of_fluxes(problem: Problem, *, gpu: bool) -> MatrixProblem:
    made_of = flux_rows(problem)
    if problem.complex:
        made = problem_of_complex(made_of.matrix, problem.name, problem.name, gpu=gpu)
    else:
        made = _of(made_of.matrix, problem, gpu=gpu)
    right = made_of.right
    parts = (made_of.volumes, *(() if right is None else (right.real, right.imag) if problem.complex else (right,)))
    fed = dict(zip(FED, (np.ascontiguousarray(part, dtype=np.float64) for part in parts), strict=False))
    notes = (*made.notes, *alone_cells(int(made_of.alone.sum())))
    pieces = problem.masked and not (made.singular or made.asymmetry) and made_of.has_closed_pieces
    singular = None if pieces else made.singular
    return _on_grid(replace(made, fed=fed, notes=notes, known=made.known or problem.masked, singular=singular), problem)


def alone_cells(count: int) -> tuple[str, ...]:
    """A note on cells that have no neighbor and nothing that fixes u."""
    if not count:
        return ()
    cells = counted(count, "cell")
    return (f"{ALONE} {cells} without a neighbor: it is 0 there, and sources there play no part",)


def _of(rows: Any, problem: Problem, *, gpu: bool) -> MatrixProblem:
    tensor = isinstance(problem.rule, Diffusion) and bool(problem.rule.cross)
    found = matrix(rows, name=problem.name, symmetric=tensor, device="cuda" if gpu else "cpu")
    assert isinstance(found, MatrixProblem)
    return replace(found, elliptic=True) if tensor else found


def _on_grid(made: MatrixProblem, problem: Problem) -> MatrixProblem:
    """The problem with vectors of the grid's shape, in as many chunks."""
    made = replace(made, of_grid=problem, dimensions=problem.dimensions)
    return made if problem.chunks is None else replace(made, chunks=_cut(made, problem.chunks))


def _cut(made: MatrixProblem, chunks: Cut) -> Cut:
    """As many chunks of rows as there are of the grid: slabs where workers of a cluster would make them."""
    count = math.prod(each if isinstance(each, int) else len(each) for each in chunks)
    problem = made.of_grid
    assert problem is not None
    if problem.by_fluxes and not problem.complex:
        return tuple(slab.rows for slab in slabs(problem, count)), (1,), (1,)
    return by_entries(made, count).sizes
